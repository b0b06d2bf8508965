//! What other nodes do to the same store: what they let know, and what became of the jobs that somebody watches
//! here.
//!
//! The same thread looks at what other nodes set, once a second and whenever one of them says so.
//!
//! One thread, only where the store is shared. News is a hint that may get lost, so watched jobs are looked at
//! now and then besides: all of them with one question, and none while nobody watches.

use crate::{
    Batcher, Error, Platform,
    notifier::BellThread,
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

/// How often watched jobs are looked at, news or not.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// However much news there is: looks are at least this far apart.
const LOOKS_APART: Duration = Duration::from_millis(20);
/// And so many times as far as the last one took: thousands of watched jobs must not keep the store busy.
const LOOKS_APART_FACTOR: u32 = 4;
/// And what is heard within this is heeded together.
const NEWS_APART: Duration = Duration::from_millis(1);
/// While nobody watches and nobody says anything there is nothing to do.
const IDLE: Duration = Duration::from_secs(3_600);

pub(crate) fn start(platform: Arc<Platform>, batcher: Arc<Batcher>) -> io::Result<BellThread> {
    let watchers = batcher.watchers().clone();
    let notifier = watchers.notifier.clone();
    let post = PeerLoop {
        measured: BTreeMap::new(),
        look_began: Duration::ZERO,
        next_hasty_look: Duration::ZERO,
        hurry: false,
        next_look: None,
        next_settings: Duration::ZERO,
        settings_hint: false,
        failing: false,
        settings_failing: false,
        platform,
        batcher,
        watchers,
    };
    // A greeting: those who believe that they are alone have told nobody anything.
    post.batcher.notify_peers(Notification { touched: true, ..Notification::default() });
    BellThread::start("consign-lookout", notifier, move || post.run())
}

struct PeerLoop {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    watchers: Arc<Watchers>,
    /// The versions that the watched jobs had at the last look; nothing for one that was not there.
    measured: BTreeMap<JobId, Option<u64>>,
    /// By the monotonic clock.
    look_began: Duration,
    /// News is looked after from here on and not before.
    next_hasty_look: Duration,
    /// There was news since the last look began.
    hurry: bool,
    /// Nothing while nobody watches.
    next_look: Option<Duration>,
    /// When the settings are looked at again, hint or not.
    next_settings: Duration,
    /// Another node has set something since the last look at the settings began.
    settings_hint: bool,
    failing: bool,
    settings_failing: bool,
}

/// What a look is to bring: the jobs that were asked for, and what was said of them.
type VersionCheck = (Vec<JobId>, Result<BTreeMap<JobId, u64>, StoreError>);
type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl PeerLoop {
    fn run(mut self) {
        let (platform, notifier) = (self.platform.clone(), self.watchers.notifier.clone());
        let waker = Waker::from(notifier.clone());
        let mut cx = Context::from_waker(&waker);
        let mut notification: Pending<'_, Notification> = platform.store.notification();
        // Beside the news and not before it: work that is called out does not wait for a look.
        let mut look: Option<Pending<'_, VersionCheck>> = None;
        let mut settings: Option<Pending<'_, Result<(), Error>>> = None;
        let mut longest = Duration::ZERO;
        loop {
            if notifier.wait(longest).stop {
                return self.leave();
            }
            if let Poll::Ready(told) = notification.as_mut().poll(&mut cx) {
                self.heed(told);
                notification = platform.store.notification();
                notifier.notify(); // it was not asked whether there is more
                thread::sleep(NEWS_APART);
            }
            if look.is_none() && self.is_time_to_look() {
                // Whatever is heard from now on, this look may have been too early for it.
                (self.look_began, self.hurry) = (self.now(), false);
                look = Some(look_at(&*platform.store, self.watchers.ids()));
            }
            if let Some(Poll::Ready(seen)) = look.as_mut().map(|look| look.as_mut().poll(&mut cx)) {
                self.note(seen);
                look = None;
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
            let idle = if look.is_some() { IDLE } else { self.idle() };
            longest = if settings.is_some() { idle } else { idle.min(self.settings_idle()) };
        }
    }

    fn heed(&mut self, notification: Notification) {
        let Notification { work, any_work, touched, settings } = notification;
        // Whoever speaks is there, whether or not we have met.
        self.batcher.be_in_company(true);
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

    /// A failure is said once. The cache grows too old to be acted by, and requests look for
    /// themselves.
    fn note_settings(&mut self, done: Result<(), Error>) {
        match done {
            Ok(()) if std::mem::replace(&mut self.settings_failing, false) => {
                warn!("settings can be looked at again");
            }
            Ok(()) => {}
            Err(error) => {
                if !std::mem::replace(&mut self.settings_failing, true) {
                    let error: &dyn std::error::Error = &error;
                    warn!(error, "settings cannot be looked at");
                }
            }
        }
    }

    /// The node serves nothing any more.
    fn leave(&self) {
        if let Err(error) = block_on(self.platform.leave_settings()) {
            let error: &dyn std::error::Error = &error;
            debug!(error, "the store was not told that this node needs no settings any more");
        }
    }

    /// Whether to look at the watched jobs now. Begins to count when somebody begins to watch.
    fn is_time_to_look(&mut self) -> bool {
        if !self.watchers.are_there() {
            (self.next_look, self.hurry) = (None, false);
            self.measured.clear();
            return false;
        }
        let now = self.now();
        self.next_look.get_or_insert(now + self.platform.random.entropy().around(LOOK_EVERY));
        self.next_look().is_some_and(|next| now >= next)
    }

    fn next_look(&self) -> Option<Duration> {
        let hasty = if self.hurry { self.next_hasty_look } else { Duration::MAX };
        self.next_look.map(|next| next.min(hasty))
    }

    /// Tells those whose job is not as it was at the last look. Whoever began to watch since then is told in any
    /// case: its job may have changed between its reading and this look.
    fn note(&mut self, (ids, seen): VersionCheck) {
        let now = self.now();
        let took = now.saturating_sub(self.look_began);
        let apart = (took * LOOKS_APART_FACTOR).clamp(LOOKS_APART, LOOK_EVERY);
        self.next_hasty_look = now + apart;
        self.next_look = Some(now + self.platform.random.entropy().around(LOOK_EVERY));
        let versions = match seen {
            Ok(versions) => versions,
            Err(error) => return self.complain(&error),
        };
        if std::mem::replace(&mut self.failing, false) {
            warn!("watched jobs can be looked at again");
        }
        let seen = ids.into_iter().map(|id| (id, versions.get(&id).copied()));
        let before = std::mem::replace(&mut self.measured, seen.collect());
        let changed = self.measured.iter().filter(|(id, version)| before.get(id) != Some(version));
        let changed: Vec<JobId> = changed.map(|(id, _)| *id).collect();
        self.watchers.tell(&Touched::Jobs(changed));
    }

    /// Said once, not four times a second. What was measured stays: nothing that happens meanwhile is lost.
    fn complain(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.failing, true) {
            let error: &dyn std::error::Error = error;
            warn!(error, "watched jobs cannot be looked at");
        }
    }

    fn idle(&self) -> Duration {
        self.next_look().map_or(IDLE, |next| next.saturating_sub(self.now()))
    }

    fn now(&self) -> Duration {
        self.platform.clock.read().monotonic
    }
}

fn look_at(store: &dyn Store, ids: Vec<JobId>) -> Pending<'_, VersionCheck> {
    Box::pin(async move {
        let versions = store.versions(&ids).await;
        (ids, versions)
    })
}
