//! Watches what other nodes do to the same store: it receives their notifications, and finds
//! changes of the jobs that are watched on this node.
//!
//! The same thread reads the settings of other nodes, once a second and whenever one of them
//! notifies.
//!
//! It is one thread, which runs only where the store is shared. Notifications may get lost, so it
//! also polls watched jobs: all of them with one query, and none while there are no watches.

use crate::{
    Batcher, Error, Platform,
    notifier::NotifiedThread,
    watch::{Touched, Watchers},
};
use engine::{JobId, JobType};
use pollster::block_on;
use std::{
    collections::BTreeMap,
    io, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};
use store::{NODE_HEARTBEAT_EVERY, Notification, Store, StoreError};
use tracing::{debug, warn};

/// How often watched jobs are read, with or without notifications.
const READ_EVERY: Duration = Duration::from_millis(250);
/// The minimum distance between two reads, however many notifications arrive.
const READ_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// The distance is also at least so many times the duration of the last read: thousands of watched
/// jobs must not keep the store busy.
const READ_INTERVAL_FACTOR: u32 = 4;
/// Notifications that arrive within this time are handled together.
const NOTIFICATION_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// The sleep while there are no watches and no notifications.
const IDLE: Duration = Duration::from_secs(3_600);

pub(crate) fn start(platform: Arc<Platform>, batcher: Arc<Batcher>) -> io::Result<NotifiedThread> {
    let watchers = batcher.watchers().clone();
    let notifier = watchers.notifier.clone();
    let peer_loop = PeerLoop {
        last_versions: BTreeMap::new(),
        read_began: Duration::ZERO,
        next_read_on_notification: Duration::ZERO,
        has_notification: false,
        next_read: None,
        next_settings: Duration::ZERO,
        has_settings_notification: false,
        is_failing: false,
        is_settings_failing: false,
        platform,
        batcher,
        watchers,
    };
    // Announces this node: a node that had no peers has sent no notifications.
    peer_loop.batcher.notify_peers(Notification { touched: true, ..Notification::default() });
    NotifiedThread::start("consign-peers", notifier, move || peer_loop.run())
}

struct PeerLoop {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    watchers: Arc<Watchers>,
    /// The versions of the watched jobs at the last read; `None` for a job that did not exist.
    last_versions: BTreeMap<JobId, Option<u64>>,
    /// By the monotonic clock.
    read_began: Duration,
    /// A notification causes no read before this time.
    next_read_on_notification: Duration,
    /// Whether a notification arrived since the last read began.
    has_notification: bool,
    /// `None` while there are no watches.
    next_read: Option<Duration>,
    /// When the settings are read next, even without a notification.
    next_settings: Duration,
    /// Whether another node changed settings since the last read of the settings began.
    has_settings_notification: bool,
    is_failing: bool,
    is_settings_failing: bool,
}

/// The result of a read: the ids that were read, and their versions.
type VersionCheck = (Vec<JobId>, Result<BTreeMap<JobId, u64>, StoreError>);
type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl PeerLoop {
    fn run(mut self) {
        let (platform, notifier) = (self.platform.clone(), self.watchers.notifier.clone());
        let waker = Waker::from(notifier.clone());
        let mut cx = Context::from_waker(&waker);
        let mut notification: Pending<'_, Notification> = platform.store.notification();
        // The read runs beside the notifications, not before them: due work does not wait for a
        // read.
        let mut pending_read: Option<Pending<'_, VersionCheck>> = None;
        let mut pending_settings: Option<Pending<'_, Result<(), Error>>> = None;
        let mut timeout = Duration::ZERO;
        loop {
            if notifier.wait(timeout).should_stop {
                return self.stop_confirming();
            }
            if let Poll::Ready(notified) = notification.as_mut().poll(&mut cx) {
                self.apply_notification(notified);
                notification = platform.store.notification();
                notifier.notify(); // the queue may hold more notifications
                thread::sleep(NOTIFICATION_INTERVAL_MIN);
            }
            if pending_read.is_none() && self.is_time_to_read() {
                // This read may be too early for notifications that arrive from now on.
                (self.read_began, self.has_notification) = (self.now(), false);
                pending_read = Some(read_versions(&*platform.store, self.watchers.ids()));
            }
            if let Some(result) = poll_pending(&mut pending_read, &mut cx) {
                self.handle_versions(result);
            }
            if pending_settings.is_none() && self.until_settings_read().is_zero() {
                (self.has_settings_notification, self.next_settings) =
                    (false, self.now() + NODE_HEARTBEAT_EVERY);
                pending_settings = Some(Box::pin(platform.refresh_settings()));
            }
            if let Some(result) = poll_pending(&mut pending_settings, &mut cx) {
                self.handle_settings(result);
            }
            let read_wait = if pending_read.is_some() { IDLE } else { self.until_next_read() };
            let settings_wait =
                if pending_settings.is_some() { IDLE } else { self.until_settings_read() };
            timeout = read_wait.min(settings_wait);
        }
    }

    fn apply_notification(&mut self, notification: Notification) {
        let Notification { work, any_work, touched, settings } = notification;
        // A notification proves that there is another node, even if this node has not seen its
        // heartbeat yet.
        self.batcher.set_has_peers(true);
        if any_work {
            self.batcher.wake(None);
        } else if !work.is_empty() {
            let types: Vec<JobType> = work.into_iter().collect();
            self.batcher.wake(Some(&types));
        }
        self.has_notification |= touched;
        self.has_settings_notification |= settings;
    }

    fn until_settings_read(&self) -> Duration {
        if self.has_settings_notification {
            return Duration::ZERO;
        }
        self.next_settings.saturating_sub(self.now())
    }

    /// Logs a failure once. While it lasts, the settings cache becomes too old to be trusted, and
    /// each request reads the settings itself.
    fn handle_settings(&mut self, result: Result<(), Error>) {
        let was_failing = mem::replace(&mut self.is_settings_failing, result.is_err());
        match result {
            Ok(()) if was_failing => warn!("settings are read again"),
            Err(error) if !was_failing => {
                let error: &dyn std::error::Error = &error;
                warn!(error, "settings cannot be read: each request reads them itself");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Tells other nodes not to wait for this node, which serves nothing any more.
    fn stop_confirming(&self) {
        if let Err(error) = block_on(self.platform.leave_settings()) {
            let error: &dyn std::error::Error = &error;
            debug!(
                error,
                "this node did not sign off: changes of settings wait until its heartbeat lapses"
            );
        }
    }

    /// Whether to read the watched jobs now. The timer starts with the first watch.
    fn is_time_to_read(&mut self) -> bool {
        if !self.watchers.has_watches() {
            (self.next_read, self.has_notification) = (None, false);
            self.last_versions.clear();
            return false;
        }
        let now = self.now();
        self.next_read.get_or_insert(now + self.platform.random.entropy().jittered(READ_EVERY));
        self.next_read().is_some_and(|next| now >= next)
    }

    fn next_read(&self) -> Option<Duration> {
        let early_read_at =
            if self.has_notification { self.next_read_on_notification } else { Duration::MAX };
        self.next_read.map(|next| next.min(early_read_at))
    }

    /// Notifies the watches of jobs that changed since the last read. A watch that is newer than
    /// that is notified in any case: its job may have changed between the watcher's read and this
    /// one.
    fn handle_versions(&mut self, (ids, result): VersionCheck) {
        let now = self.now();
        let read_duration = now.saturating_sub(self.read_began);
        let interval = (read_duration * READ_INTERVAL_FACTOR).clamp(READ_INTERVAL_MIN, READ_EVERY);
        self.next_read_on_notification = now + interval;
        self.next_read = Some(now + self.platform.random.entropy().jittered(READ_EVERY));
        // The failure is logged once, not four times a second. The last versions stay, so no change
        // in between is lost.
        let was_failing = mem::replace(&mut self.is_failing, result.is_err());
        let versions = match result {
            Ok(versions) => versions,
            Err(_) if was_failing => return,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                return warn!(
                    error,
                    "versions of watched jobs cannot be read: waiting clients learn of changes late"
                );
            }
        };
        if was_failing {
            warn!("versions of watched jobs are read again");
        }
        let versions = ids.into_iter().map(|id| (id, versions.get(&id).copied()));
        let previous = mem::replace(&mut self.last_versions, versions.collect());
        let changed =
            self.last_versions.iter().filter(|(id, version)| previous.get(id) != Some(version));
        let changed: Vec<JobId> = changed.map(|(id, _)| *id).collect();
        self.watchers.notify(&Touched::Jobs(changed));
    }

    fn until_next_read(&self) -> Duration {
        self.next_read().map_or(IDLE, |next| next.saturating_sub(self.now()))
    }

    fn now(&self) -> Duration {
        self.platform.clock.read().monotonic
    }
}

/// The result of the future, which is then removed.
fn poll_pending<T>(pending: &mut Option<Pending<'_, T>>, cx: &mut Context<'_>) -> Option<T> {
    let Poll::Ready(result) = pending.as_mut()?.as_mut().poll(cx) else { return None };
    *pending = None;
    Some(result)
}

fn read_versions(store: &dyn Store, ids: Vec<JobId>) -> Pending<'_, VersionCheck> {
    Box::pin(async move {
        let versions = store.versions(&ids).await;
        (ids, versions)
    })
}
