//! What happens by itself: jobs that become due wake those who wait for work, what time has overtaken
//! is swept, types that other nodes set are heard of, and the pace of the queues is looked at while somebody
//! asks for it.
//!
//! One thread, which sleeps until something is due. It decides nothing: a wake-up is a hint, and every
//! sweep goes through the engine.

use crate::{Batcher, Error, Platform, bell::Bell};
use engine::Timestamp;
use pollster::block_on;
use std::{
    io,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use tracing::{debug, warn};

/// The clockwork of one node. Dropped, it stops.
pub struct Clockwork {
    bell: Arc<Bell>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// How often the sweeper looks.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// A sweep deals with so many pages; what is left waits for the next, so that nobody else does.
const SWEEP_PAGES_MAX: usize = 20;
/// One round of the clockwork numbers at most so many pages of announcements.
const NUMBER_PAGES_MAX: usize = 20;
/// However often it rings: looks are at least this far apart.
const LOOKS_APART: Duration = Duration::from_millis(5);
/// A job may be put off and committed so much later. Whoever rings is looked for this far back.
const COMMIT_LAG_MS: i64 = 1_000;
/// Everybody who waits is asked to look again this often, should a wake-up ever get lost between nodes.
const WAKE_ALL_EVERY: Duration = Duration::from_secs(30);

impl Clockwork {
    /// Starts the thread.
    pub fn start(platform: Arc<Platform>, batcher: Arc<Batcher>) -> io::Result<Self> {
        let bell = platform.bell.clone();
        let works = Works {
            next_sweep: Duration::ZERO,
            next_wake: WAKE_ALL_EVERY,
            looked: Timestamp::default(),
            failing: false,
            platform,
            batcher,
        };
        let builder = thread::Builder::new().name("consign-clockwork".into());
        let thread = builder.spawn(move || works.run())?;
        Ok(Clockwork { bell, thread: Mutex::new(Some(thread)) })
    }

    /// Stops it, and returns when it stands still. Blocks for as long as one page takes.
    pub fn stop(&self) {
        self.bell.stop();
        let thread = self.thread.lock().expect("nothing panics here").take();
        if let Some(thread) = thread {
            drop(thread.join()); // a panic of the store was told where it happened
        }
    }
}

impl Drop for Clockwork {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Works {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    /// By the monotonic clock.
    next_sweep: Duration,
    next_wake: Duration,
    /// Up to here, by the store's clock, whatever became due has been called out.
    looked: Timestamp,
    failing: bool,
}

impl Works {
    fn run(mut self) {
        let mut longest = Duration::ZERO;
        loop {
            let heard = self.platform.bell.wait(longest);
            if heard.stop {
                return;
            }
            let done = block_on(self.round(heard.rung));
            longest = self.note(done).min(SWEEP_EVERY).max(LOOKS_APART);
            if heard.rung {
                thread::sleep(LOOKS_APART);
            }
        }
    }

    /// Does what is to be done now, and says how long nothing will be.
    async fn round(&mut self, rung: bool) -> Result<Duration, Error> {
        let now = self.monotonic();
        let mut done = Ok(());
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_EVERY;
            // One that fails keeps none of the others from being done.
            done = self.sweep().await.and(self.number_events().await);
            done = done.and(self.platform.watch_pace().await);
            done = done.and(self.platform.look_at_types().await.map(drop));
        }
        if now >= self.next_wake {
            self.next_wake = now + WAKE_ALL_EVERY;
            self.batcher.wake(None);
        }
        let due_in = self.call_out(rung).await?;
        done?;
        Ok(due_in.min(self.next_sweep.saturating_sub(self.monotonic())))
    }

    async fn sweep(&self) -> Result<(), Error> {
        for _ in 0..SWEEP_PAGES_MAX {
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
    async fn call_out(&mut self, rung: bool) -> Result<Duration, Error> {
        let lag_ms = if rung { COMMIT_LAG_MS } else { 0 };
        let after = Timestamp::from_unix_ms(self.looked.unix_ms() - lag_ms);
        let found = self.platform.next_due(after).await?;
        let Some(due_at) = found.due_at else {
            self.looked = found.now;
            return Ok(Duration::MAX);
        };
        if due_at > found.now {
            return Ok(due_at.since(found.now));
        }
        self.batcher.wake(None);
        self.looked = found.now;
        let next = self.platform.next_due(found.now).await?;
        Ok(next.due_at.map_or(Duration::MAX, |due_at| due_at.since(next.now)))
    }

    /// A store that fails is asked again at the next sweep; it is said once, not every second.
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
                SWEEP_EVERY
            }
        }
    }

    fn monotonic(&self) -> Duration {
        self.platform.clock.read().monotonic
    }
}
