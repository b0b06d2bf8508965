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
    io,
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
    let post = PeerLoop {
        measured: BTreeMap::new(),
        read_began: Duration::ZERO,
        next_read_on_notification: Duration::ZERO,
        hurry: false,
        next_read: None,
        next_settings: Duration::ZERO,
        settings_hint: false,
        failing: false,
        settings_failing: false,
        platform,
        batcher,
        watchers,
    };
    // A greeting: a node that believed to be alone has sent no notifications.
    post.batcher.notify_peers(Notification { touched: true, ..Notification::default() });
    NotifiedThread::start("consign-peers", notifier, move || post.run())
}

struct PeerLoop {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    watchers: Arc<Watchers>,
    /// The versions of the watched jobs at the last read; `None` for a job that did not exist.
    measured: BTreeMap<JobId, Option<u64>>,
    /// By the monotonic clock.
    read_began: Duration,
    /// A notification causes no read before this time.
    next_read_on_notification: Duration,
    /// Whether a notification arrived since the last read began.
    hurry: bool,
    /// `None` while there are no watches.
    next_read: Option<Duration>,
    /// When the settings are read next, even without a notification.
    next_settings: Duration,
    /// Whether another node changed settings since the last read of the settings began.
    settings_hint: bool,
    failing: bool,
    settings_failing: bool,
}

/// The result of a read: the ids that were asked for, and their versions.
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
        let mut settings: Option<Pending<'_, Result<(), Error>>> = None;
        let mut longest = Duration::ZERO;
        loop {
            if notifier.wait(longest).stop {
                return self.leave();
            }
            if let Poll::Ready(notified) = notification.as_mut().poll(&mut cx) {
                self.apply_notification(notified);
                notification = platform.store.notification();
                notifier.notify(); // the queue may hold more notifications
                thread::sleep(NOTIFICATION_INTERVAL_MIN);
            }
            if pending_read.is_none() && self.is_time_to_read() {
                // This read may be too early for notifications that arrive from now on.
                (self.read_began, self.hurry) = (self.now(), false);
                pending_read = Some(read_versions(&*platform.store, self.watchers.ids()));
            }
            if let Some(Poll::Ready(seen)) =
                pending_read.as_mut().map(|pending_read| pending_read.as_mut().poll(&mut cx))
            {
                self.note(seen);
                pending_read = None;
            }
            if settings.is_none() && (self.settings_hint || self.now() >= self.next_settings) {
                (self.settings_hint, self.next_settings) =
                    (false, self.now() + NODE_HEARTBEAT_EVERY);
                settings = Some(Box::pin(platform.look_at_settings()));
            }
            if let Some(Poll::Ready(done)) =
                settings.as_mut().map(|settings| settings.as_mut().poll(&mut cx))
            {
                self.note_settings(done);
                settings = None;
            }
            let idle = if pending_read.is_some() { IDLE } else { self.idle() };
            longest = if settings.is_some() { idle } else { idle.min(self.settings_idle()) };
        }
    }

    fn apply_notification(&mut self, notification: Notification) {
        let Notification { work, any_work, touched, settings } = notification;
        // A notification proves that there is another node, even if its heartbeat is not known yet.
        self.batcher.set_has_peers(true);
        if any_work {
            self.batcher.wake(None);
        } else if !work.is_empty() {
            let types: Vec<JobType> = work.into_iter().collect();
            self.batcher.wake(Some(&types));
        }
        self.hurry |= touched;
        self.settings_hint |= settings;
    }

    fn settings_idle(&self) -> Duration {
        if self.settings_hint {
            return Duration::ZERO;
        }
        self.next_settings.saturating_sub(self.now())
    }

    /// Logs a failure once. The cache becomes too old to act by, and requests read the settings
    /// themselves.
    fn note_settings(&mut self, done: Result<(), Error>) {
        match done {
            Ok(()) if std::mem::replace(&mut self.settings_failing, false) => {
                warn!("settings are read again");
            }
            Ok(()) => {}
            Err(error) => {
                if !std::mem::replace(&mut self.settings_failing, true) {
                    let error: &dyn std::error::Error = &error;
                    warn!(error, "settings cannot be read: each request reads them itself");
                }
            }
        }
    }

    /// The node serves nothing any more.
    fn leave(&self) {
        if let Err(error) = block_on(self.platform.leave_settings()) {
            let error: &dyn std::error::Error = &error;
            debug!(error, "the store did not record that this node needs no more settings");
        }
    }

    /// Whether to read the watched jobs now. The timer starts with the first watch.
    fn is_time_to_read(&mut self) -> bool {
        if !self.watchers.has_watches() {
            (self.next_read, self.hurry) = (None, false);
            self.measured.clear();
            return false;
        }
        let now = self.now();
        self.next_read.get_or_insert(now + self.platform.random.entropy().jittered(READ_EVERY));
        self.next_read().is_some_and(|next| now >= next)
    }

    fn next_read(&self) -> Option<Duration> {
        let hasty = if self.hurry { self.next_read_on_notification } else { Duration::MAX };
        self.next_read.map(|next| next.min(hasty))
    }

    /// Notifies the watches of jobs that changed since the last read. A watch that is newer than
    /// that is notified in any case: its job may have changed between the watcher's read and this
    /// one.
    fn note(&mut self, (ids, seen): VersionCheck) {
        let now = self.now();
        let took = now.saturating_sub(self.read_began);
        let apart = (took * READ_INTERVAL_FACTOR).clamp(READ_INTERVAL_MIN, READ_EVERY);
        self.next_read_on_notification = now + apart;
        self.next_read = Some(now + self.platform.random.entropy().jittered(READ_EVERY));
        let versions = match seen {
            Ok(versions) => versions,
            Err(error) => return self.log_failure(&error),
        };
        if std::mem::replace(&mut self.failing, false) {
            warn!("versions of watched jobs are read again");
        }
        let seen = ids.into_iter().map(|id| (id, versions.get(&id).copied()));
        let before = std::mem::replace(&mut self.measured, seen.collect());
        let changed = self.measured.iter().filter(|(id, version)| before.get(id) != Some(version));
        let changed: Vec<JobId> = changed.map(|(id, _)| *id).collect();
        self.watchers.tell(&Touched::Jobs(changed));
    }

    /// Logs a failure once, not four times a second. The measured versions stay, so no change in
    /// between is lost.
    fn log_failure(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.failing, true) {
            let error: &dyn std::error::Error = error;
            warn!(error, "versions of watched jobs cannot be read: waiting clients hear late");
        }
    }

    fn idle(&self) -> Duration {
        self.next_read().map_or(IDLE, |next| next.saturating_sub(self.now()))
    }

    fn now(&self) -> Duration {
        self.platform.clock.read().monotonic
    }
}

fn read_versions(store: &dyn Store, ids: Vec<JobId>) -> Pending<'_, VersionCheck> {
    Box::pin(async move {
        let versions = store.versions(&ids).await;
        (ids, versions)
    })
}
