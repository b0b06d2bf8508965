//! What happens by itself: the node gives a sign of life, jobs that become due wake those who wait
//! for work, settings are looked at, and the pace of the queues is looked at while somebody asks
//! for it. Of the nodes that share a store, the one that leads also sweeps what time has overtaken,
//! and numbers announcements.
//!
//! One thread, which sleeps until something is due. It decides nothing: a wake-up is a hint, and every
//! sweep goes through the engine.

use crate::{
    Batcher, Error, Platform,
    membership::{Membership, has_company},
    notifier::BellThread,
};
use engine::Timestamp;
use pollster::block_on;
use std::{io, sync::Arc, thread, time::Duration};
use store::{NODE_HEARTBEAT_EVERY, Notification};
use tracing::{debug, info, warn};

const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// A sweep deals with so many pages; what is left waits for the next, so that nobody else does.
const SWEEP_PAGES_MAX: usize = 20;
/// One round of the clockwork numbers at most so many pages of announcements.
const NUMBER_PAGES_MAX: usize = 20;
/// However often it rings: looks are at least this far apart.
const LOOKS_APART: Duration = Duration::from_millis(5);
/// A job may be put off and committed so much later. Whoever rings is looked for this far back.
const COMMIT_LAG_MS: i64 = 1_000;
/// Everybody who waits is asked to look again this often, should a wake-up ever get lost.
const WAKE_ALL_EVERY: Duration = Duration::from_secs(30);
/// The same where other nodes bring work: hints between nodes do get lost.
const WAKE_ALL_EVERY_SHARED: Duration = Duration::from_secs(1);
/// What becomes due later than this is seen by every node in time, without a word from us.
const SEEN_BY_ALL_AFTER: Duration = Duration::from_millis(1_500);
/// However much is put off here: others are told at most this often.
const CALLS_APART: Duration = Duration::from_millis(50);

/// Starts the clockwork of one node. To stop it takes as long as one page, and a last sign of life.
pub(crate) fn start(
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    membership: Arc<Membership>,
) -> io::Result<BellThread> {
    let notifier = platform.notifier.clone();
    let shared = platform.store.is_shared();
    let mut works = MaintenanceLoop {
        next_sweep: Duration::ZERO,
        next_attend: Duration::ZERO,
        next_wake: Duration::ZERO,
        next_call: Duration::ZERO,
        looked: Timestamp::default(),
        sudden: false,
        leads: false,
        ending: false,
        failing: false,
        shared,
        platform,
        batcher,
        membership,
    };
    works.next_wake = works.monotonic() + works.wake_after();
    BellThread::start("consign-clockwork", notifier, move || works.run())
}

struct MaintenanceLoop {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    membership: Arc<Membership>,
    /// Whether other nodes may serve the same store.
    shared: bool,
    /// By the monotonic clock.
    next_sweep: Duration,
    next_attend: Duration,
    next_wake: Duration,
    next_call: Duration,
    /// Up to here, by the store's clock, whatever became due has been called out.
    looked: Timestamp,
    /// What becomes due next was put off here a moment ago, and other nodes may not have seen it yet.
    sudden: bool,
    leads: bool,
    /// The store was told that this node ends.
    ending: bool,
    failing: bool,
}

impl MaintenanceLoop {
    fn run(mut self) {
        let mut longest = Duration::ZERO;
        loop {
            let heard = self.platform.notifier.wait(longest);
            if heard.stop {
                return self.leave();
            }
            let done = block_on(self.round(heard.notified));
            longest = self.note(done).min(SWEEP_EVERY).max(LOOKS_APART);
            if heard.notified {
                thread::sleep(LOOKS_APART);
            }
        }
    }

    /// Does what is to be done now, and says how long nothing will be.
    async fn round(&mut self, notified: bool) -> Result<Duration, Error> {
        let now = self.monotonic();
        let mut done = Ok(());
        // Whoever begins to end says so at once: another node may lead.
        if now >= self.next_sweep || self.membership.is_draining() != self.ending {
            self.next_sweep = now + SWEEP_EVERY;
            done = self.chores().await;
        }
        if now >= self.next_wake {
            self.next_wake = now + self.wake_after();
            self.batcher.wake(None);
        }
        let due_in = self.call_out(notified).await?;
        done?;
        let next = self.next_sweep.min(self.next_wake);
        Ok(due_in.min(next.saturating_sub(self.monotonic())))
    }

    /// What is to be done every second. One that fails keeps none of the others from being done.
    async fn chores(&mut self) -> Result<(), Error> {
        let mut done = self.heartbeat_node().await;
        if self.leads {
            done = done.and(self.sweep().await).and(self.number_events().await);
        }
        done = done.and(self.platform.update_retry_after().await);
        // Where there are other nodes, the lookout does it.
        if !self.shared {
            done = done.and(self.platform.look_at_settings().await);
        }
        done
    }

    /// Gives a sign of life, and learns whether this node leads. Whoever is not heard does not.
    async fn heartbeat_node(&mut self) -> Result<(), Error> {
        self.next_attend = self.monotonic() + NODE_HEARTBEAT_EVERY;
        let led = std::mem::replace(&mut self.leads, false);
        let info = self.membership.info();
        let told = match self.platform.store.heartbeat_node(&info).await {
            Ok(told) => told,
            Err(error) => {
                self.membership.unheard();
                self.batcher.be_in_company(true);
                return Err(error.into());
            }
        };
        (self.leads, self.ending) = (told.leads, info.draining);
        if self.shared && led != self.leads {
            info!(leads = self.leads, "the lead changed");
        }
        self.batcher.be_in_company(has_company(&told, &info.id));
        self.membership.note(told);
        Ok(())
    }

    /// Leaves with a word, so that another node need not wait until this one is missed.
    fn leave(&mut self) {
        self.membership.drain();
        if let Err(error) = block_on(self.heartbeat_node()) {
            let error: &dyn std::error::Error = &error;
            debug!(error, "the store was not told that this node ends");
        }
    }

    async fn sweep(&mut self) -> Result<(), Error> {
        for _ in 0..SWEEP_PAGES_MAX {
            // A page may take long, and whoever is silent for long does not lead.
            if self.monotonic() >= self.next_attend {
                self.heartbeat_node().await?;
            }
            if !self.leads {
                break;
            }
            let swept = self.platform.sweep().await?;
            if !swept.jobs.is_empty() || swept.rows > 0 {
                debug!(jobs = swept.jobs.len(), rows = swept.rows, "swept");
            }
            if !swept.more {
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

    /// Wakes those who wait for work if something has become due since the last look, and says how long
    /// it is until something will.
    async fn call_out(&mut self, notified: bool) -> Result<Duration, Error> {
        let lag_ms = if notified { COMMIT_LAG_MS } else { 0 };
        let after = Timestamp::from_unix_ms(self.looked.unix_ms() - lag_ms);
        let found = self.platform.next_due(after).await?;
        let Some(due_at) = found.due_at else {
            self.looked = found.now;
            return Ok(Duration::MAX);
        };
        if due_at > found.now {
            return Ok(self.expect_in(due_at.since(found.now), notified));
        }
        self.batcher.wake(None);
        if notified || self.sudden {
            self.call_others();
        }
        self.looked = found.now;
        let next = self.platform.next_due(found.now).await?;
        let due_in = next.due_at.map_or(Duration::MAX, |due_at| due_at.since(next.now));
        Ok(self.expect_in(due_in, notified))
    }

    /// Notes how soon something becomes due. All nodes look for themselves and find it in time, unless it was put
    /// off here a moment ago, and for no more than a moment.
    fn expect_in(&mut self, due_in: Duration, notified: bool) -> Duration {
        self.sudden = (notified || self.sudden) && due_in < SEEN_BY_ALL_AFTER;
        due_in
    }

    /// Lets other nodes know that something became due of which they may not have known.
    fn call_others(&mut self) {
        let now = self.monotonic();
        if now >= self.next_call {
            self.next_call = now + CALLS_APART;
            self.batcher.notify_peers(Notification { any_work: true, ..Notification::default() });
        }
    }

    fn wake_after(&self) -> Duration {
        let every = if self.shared { WAKE_ALL_EVERY_SHARED } else { WAKE_ALL_EVERY };
        self.platform.random.entropy().around(every)
    }

    /// A store that fails is asked again about a second later; it is said once, not every second.
    fn note(&mut self, done: Result<Duration, Error>) -> Duration {
        match done {
            Ok(idle) => {
                if std::mem::replace(&mut self.failing, false) {
                    warn!("the clockwork goes on");
                }
                idle
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    let error: &dyn std::error::Error = &error;
                    warn!(error, "the clockwork is held up by the store");
                }
                self.platform.random.entropy().around(SWEEP_EVERY)
            }
        }
    }

    fn monotonic(&self) -> Duration {
        self.platform.clock.read().monotonic
    }
}
