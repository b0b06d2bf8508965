//! The maintenance thread of a node. It sends the node's heartbeat, wakes waiting claims when jobs
//! become due, reads settings, stores when keys were used, and measures the queues while clients
//! ask for `Retry-After`. The leader also sweeps overdue jobs and numbers announcements.
//!
//! It is one thread, which sleeps until something is due. It decides nothing: a wake-up is a hint,
//! and every sweep goes through the engine.

use crate::{
    Batcher, Error, Platform,
    membership::{Membership, has_live_peers},
    notifier::NotifiedThread,
};
use engine::{Timestamp, WORKER_SIGN_EVERY};
use pollster::block_on;
use std::{io, mem, sync::Arc, thread, time::Duration};
use store::{NODE_HEARTBEAT_EVERY, Notification};
use tracing::{debug, info, warn};

const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The most pages of one sweep. The rest waits for the next sweep, so that other maintenance is not
/// delayed.
const SWEEP_PAGES_MAX: usize = 20;
/// The most pages of announcements that one round numbers.
const NUMBER_PAGES_MAX: usize = 20;
/// The minimum distance between two reads of due jobs, however often the notifier fires.
const READ_INTERVAL_MIN: Duration = Duration::from_millis(5);
/// A postponed job may be committed this much later than its due time was computed. So after a
/// notification the thread reads this far back.
const COMMIT_LAG_MS: i64 = 1_000;
/// How often every waiting claim runs: as a sign of life of its worker, and in case a wake-up got
/// lost.
const WAKE_ALL_EVERY: Duration = WORKER_SIGN_EVERY;
/// The same where other nodes submit jobs: hints between nodes do get lost.
const WAKE_ALL_EVERY_SHARED: Duration = Duration::from_secs(1);
/// A job that becomes due later than this is found in time by every node, without a notification.
const SEEN_BY_ALL_AFTER: Duration = Duration::from_millis(1_500);
/// The minimum distance between two notifications of peers, however many jobs are postponed here.
const PEER_NOTIFICATION_INTERVAL: Duration = Duration::from_millis(50);

/// Starts the maintenance thread of one node. Stopping it takes as long as one page, and a last
/// heartbeat.
pub(crate) fn start(
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    membership: Arc<Membership>,
) -> io::Result<NotifiedThread> {
    let notifier = platform.notifier.clone();
    let shared = platform.store.is_shared();
    let mut maintenance = MaintenanceLoop {
        next_sweep: Duration::ZERO,
        next_heartbeat: Duration::ZERO,
        next_wake: Duration::ZERO,
        next_peer_notification: Duration::ZERO,
        woken_until: Timestamp::default(),
        postponed_here: false,
        leads: false,
        is_drain_stored: false,
        is_failing: false,
        shared,
        platform,
        batcher,
        membership,
    };
    maintenance.next_wake = maintenance.monotonic() + maintenance.wake_after();
    NotifiedThread::start("consign-maintenance", notifier, move || maintenance.run())
}

struct MaintenanceLoop {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    membership: Arc<Membership>,
    /// Whether other nodes may serve the same store.
    shared: bool,
    /// By the monotonic clock.
    next_sweep: Duration,
    next_heartbeat: Duration,
    next_wake: Duration,
    next_peer_notification: Duration,
    /// For all jobs that became due before this time, by the store's clock, claims have been woken.
    woken_until: Timestamp,
    /// Whether the next due job was postponed here a moment ago, so that other nodes may not have
    /// seen it yet.
    postponed_here: bool,
    leads: bool,
    /// Whether the store has recorded that this node drains.
    is_drain_stored: bool,
    is_failing: bool,
}

impl MaintenanceLoop {
    fn run(mut self) {
        let mut timeout = Duration::ZERO;
        loop {
            let state = self.platform.notifier.wait(timeout);
            if state.should_stop {
                return self.sign_off();
            }
            let result = block_on(self.round(state.was_notified));
            timeout = self.next_wait(result).min(SWEEP_EVERY).max(READ_INTERVAL_MIN);
            if state.was_notified {
                thread::sleep(READ_INTERVAL_MIN);
            }
        }
    }

    /// Does the work that is due now, and returns how long it is until more will be.
    async fn round(&mut self, notified: bool) -> Result<Duration, Error> {
        let now = self.monotonic();
        let mut result = Ok(());
        // A node that begins to drain tells the store at once, so that another node can lead.
        if now >= self.next_sweep || self.membership.is_draining() != self.is_drain_stored {
            self.next_sweep = now + SWEEP_EVERY;
            result = self.run_every_second().await;
        }
        if now >= self.next_wake {
            self.next_wake = now + self.wake_after();
            self.batcher.wake(None);
        }
        let due_in = self.wake_due_claims(notified).await?;
        result?;
        let next = self.next_sweep.min(self.next_wake);
        Ok(due_in.min(next.saturating_sub(self.monotonic())))
    }

    /// The maintenance of every second. A step that fails does not stop the others.
    async fn run_every_second(&mut self) -> Result<(), Error> {
        let mut result = self.heartbeat_node().await;
        if self.leads {
            result = result.and(self.sweep().await).and(self.number_events().await);
        }
        result = result.and(self.platform.update_retry_after().await);
        result = result.and(self.platform.store_key_uses().await);
        // Where there are other nodes, the peer watcher does this.
        if !self.shared {
            result = result.and(self.platform.refresh_settings().await);
        }
        result
    }

    /// Sends the node's heartbeat, and learns whether this node leads. A node whose heartbeat
    /// failed does not lead.
    async fn heartbeat_node(&mut self) -> Result<(), Error> {
        self.next_heartbeat = self.monotonic() + NODE_HEARTBEAT_EVERY;
        let was_leader = mem::replace(&mut self.leads, false);
        let info = self.membership.info();
        let view = match self.platform.store.heartbeat_node(&info).await {
            Ok(view) => view,
            Err(error) => {
                self.membership.note_failed_heartbeat();
                self.batcher.set_has_peers(true);
                return Err(error.into());
            }
        };
        (self.leads, self.is_drain_stored) = (view.leads, info.draining);
        if self.shared && was_leader != self.leads {
            info!(leads = self.leads, "leader changed");
        }
        self.batcher.set_has_peers(has_live_peers(&view, &info.id));
        self.membership.set_view(view);
        Ok(())
    }

    /// Signs the node off, so that other nodes need not wait for its heartbeat to lapse.
    fn sign_off(&mut self) {
        self.membership.drain();
        if let Err(error) = block_on(self.platform.store_key_uses()) {
            let error: &dyn std::error::Error = &error;
            debug!(error, "the last uses of keys were not stored");
        }
        if let Err(error) = block_on(self.heartbeat_node()) {
            let error: &dyn std::error::Error = &error;
            debug!(
                error,
                "this node did not sign off: other nodes count it as live until its heartbeat lapses"
            );
        }
    }

    async fn sweep(&mut self) -> Result<(), Error> {
        for _ in 0..SWEEP_PAGES_MAX {
            // A page may take long, and a node without a recent heartbeat does not lead.
            if self.monotonic() >= self.next_heartbeat {
                self.heartbeat_node().await?;
            }
            if !self.leads {
                break;
            }
            let sweep_result = self.platform.sweep().await?;
            if !sweep_result.jobs.is_empty() || sweep_result.rows > 0 {
                debug!(jobs = sweep_result.jobs.len(), rows = sweep_result.rows, "swept");
            }
            if !sweep_result.more {
                break;
            }
        }
        Ok(())
    }

    async fn number_events(&self) -> Result<(), Error> {
        for _ in 0..NUMBER_PAGES_MAX {
            if !self.platform.number_events().await? {
                break;
            }
        }
        Ok(())
    }

    /// Wakes waiting claims if a job became due since the last read, and returns how long it is
    /// until the next job becomes due.
    async fn wake_due_claims(&mut self, notified: bool) -> Result<Duration, Error> {
        let lag_ms = if notified { COMMIT_LAG_MS } else { 0 };
        let after = Timestamp::from_unix_ms(self.woken_until.unix_ms() - lag_ms);
        let upcoming = self.platform.next_due(after).await?;
        let Some(due_at) = upcoming.due_at else {
            self.woken_until = upcoming.now;
            return Ok(Duration::MAX);
        };
        if due_at > upcoming.now {
            return Ok(self.note_due_in(due_at.since(upcoming.now), notified));
        }
        self.batcher.wake(None);
        if notified || self.postponed_here {
            self.notify_peers_of_work();
        }
        self.woken_until = upcoming.now;
        let next = self.platform.next_due(upcoming.now).await?;
        let due_in = next.due_at.map_or(Duration::MAX, |due_at| due_at.since(next.now));
        Ok(self.note_due_in(due_in, notified))
    }

    /// Notes how soon the next job becomes due. All nodes poll, so they find the job in time,
    /// unless it was postponed on this node a moment ago and is due in a moment.
    fn note_due_in(&mut self, due_in: Duration, notified: bool) -> Duration {
        self.postponed_here = (notified || self.postponed_here) && due_in < SEEN_BY_ALL_AFTER;
        due_in
    }

    /// Notifies other nodes of a due job that they may not have seen.
    fn notify_peers_of_work(&mut self) {
        let now = self.monotonic();
        if now >= self.next_peer_notification {
            self.next_peer_notification = now + PEER_NOTIFICATION_INTERVAL;
            self.batcher.notify_peers(Notification { any_work: true, ..Notification::default() });
        }
    }

    fn wake_after(&self) -> Duration {
        let every = if self.shared { WAKE_ALL_EVERY_SHARED } else { WAKE_ALL_EVERY };
        self.platform.random.entropy().jittered(every)
    }

    /// Returns how long to wait: about a second after a failure. Logs a failure once, not every
    /// second.
    fn next_wait(&mut self, result: Result<Duration, Error>) -> Duration {
        let was_failing = mem::replace(&mut self.is_failing, result.is_err());
        match &result {
            Ok(_) if was_failing => warn!("maintenance works again"),
            Err(error) if !was_failing => {
                let error: &dyn std::error::Error = error;
                warn!(error, "maintenance failed, and retries every second: jobs may start late");
            }
            Ok(_) | Err(_) => {}
        }
        result.unwrap_or_else(|_| self.platform.random.entropy().jittered(SWEEP_EVERY))
    }

    fn monotonic(&self) -> Duration {
        self.platform.clock.read().monotonic
    }
}
