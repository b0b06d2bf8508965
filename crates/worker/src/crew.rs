//! The threads that handlers run on.
//!
//! A handler may block its thread, for a moment or for ever: it must not keep others from running. So the crew
//! is as large as the machine has cores, and grows whenever handlers wait and no thread has taken one for a
//! few milliseconds; a thread that has been inside one handler for long does not count any more, and another
//! takes its place. Threads for which there is nothing to do for a second go, as long as enough are left.

use crate::system;
use async_task::{Runnable, Task};
use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;
use tracing::{error, warn};

pub(crate) struct Crew(Arc<Shared>);

struct Shared {
    room: Mutex<Room>,
    called: Condvar,
    /// Where handlers find timers and sockets.
    runtime: Handle,
    started: Instant,
    /// So many threads that are not stuck, when there is work.
    able: usize,
    /// And never more than this in all.
    threads_max: usize,
}

#[derive(Default)]
struct Room {
    ready: VecDeque<Runnable>,
    threads: Vec<Arc<Member>>,
    idle: usize,
    closing: bool,
    /// Whether it was said that there cannot be more threads.
    said: bool,
    /// When a thread last took something, in milliseconds.
    taken_at: u64,
}

/// One thread.
#[derive(Default)]
struct Member {
    /// Since when it has been inside one handler, in milliseconds; 0 while it is not.
    inside_since: AtomicU64,
}

impl Member {
    fn is_stuck(&self, now_ms: u64) -> bool {
        let since = self.inside_since.load(Ordering::Acquire);
        since > 0 && now_ms.saturating_sub(since) >= STUCK_MS
    }
}

/// A thread that has been inside a handler for so long is taken to be stuck.
const STUCK_MS: u64 = 50;
/// Nobody who waits should see the threads do nothing else for longer.
const STALL_MS: u64 = 4;
/// How long a thread waits for something to do when there are enough others.
const IDLE_MAX: Duration = Duration::from_secs(1);

impl Crew {
    /// A crew for handlers that live in `runtime`, of at most `threads_max`.
    pub(crate) fn new(runtime: Handle, threads_max: usize) -> Self {
        let able = thread::available_parallelism().map_or(2, usize::from).max(2);
        Crew(Arc::new(Shared {
            room: Mutex::default(),
            called: Condvar::new(),
            runtime,
            started: system::now(),
            able,
            threads_max: threads_max.max(able),
        }))
    }

    /// Lets the crew run `work`. Whoever drops the handle ends it at its next await.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Task<()> {
        let shared = Arc::downgrade(&self.0);
        let schedule = move |runnable| {
            if let Some(shared) = shared.upgrade() {
                shared.call(runnable);
            }
        };
        let (runnable, task) = async_task::spawn(work, schedule);
        runnable.schedule();
        task
    }

    /// Replaces threads that are stuck. To be called now and then, by somebody who is not of the crew.
    pub(crate) fn relieve(&self) {
        self.0.relieve();
    }

    /// How many threads are stuck in a handler.
    pub(crate) fn stuck(&self) -> usize {
        let room = self.0.room();
        room.threads.len() - self.0.able(&room)
    }
}

impl Drop for Crew {
    /// Sends everybody home. A thread that is stuck goes when it comes back: nobody can wait for it.
    fn drop(&mut self) {
        let mut room = self.0.room();
        room.closing = true;
        let ready = std::mem::take(&mut room.ready);
        drop(room);
        drop(ready);
        self.0.called.notify_all();
    }
}

impl Shared {
    fn call(self: &Arc<Self>, runnable: Runnable) {
        let mut room = self.room();
        if room.closing {
            drop(room);
            return; // and so is the handler: whatever it holds goes with it
        }
        room.ready.push_back(runnable);
        if room.idle == 0 && room.threads.len() < self.able {
            self.hire(&mut room);
        }
        drop(room);
        self.called.notify_one();
    }

    fn relieve(self: &Arc<Self>) {
        let mut room = self.room();
        if room.ready.is_empty() || room.idle > 0 {
            return;
        }
        let mut wanted = self.able.saturating_sub(self.able(&room));
        if self.now_ms().saturating_sub(room.taken_at) >= STALL_MS {
            // All are inside a handler. Twice as many at a time: soon there is one for each that waits.
            wanted = wanted.max(room.threads.len().min(room.ready.len()));
        }
        for _ in 0..wanted {
            self.hire(&mut room);
        }
    }

    fn hire(self: &Arc<Self>, room: &mut Room) {
        if room.threads.len() >= self.threads_max {
            if !std::mem::replace(&mut room.said, true) {
                let threads = room.threads.len();
                error!(
                    threads,
                    "all threads are in handlers; if they stay there, restart this process"
                );
            }
            return;
        }
        let member = Arc::new(Member::default());
        let (shared, own) = (self.clone(), member.clone());
        let builder = thread::Builder::new().name("consign-handler".into());
        match builder.spawn(move || shared.work(&own)) {
            Ok(_) => {
                room.threads.push(member);
                room.said = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut room.said, true) {
                    told(&error);
                }
            }
        }
    }

    /// A thread's life.
    fn work(&self, member: &Arc<Member>) {
        let _runtime = self.runtime.enter();
        while let Some(runnable) = self.next(member) {
            // The handler's own panics are caught where they can be reported; this is for what a handler
            // does while it is dropped.
            drop(catch_unwind(AssertUnwindSafe(|| runnable.run())));
            member.inside_since.store(0, Ordering::Release);
        }
    }

    /// What to run next; nothing when this thread has had nothing to do for long, or everybody goes.
    fn next(&self, member: &Arc<Member>) -> Option<Runnable> {
        let mut room = self.room();
        let mut bored = false;
        loop {
            if let Some(runnable) = room.ready.pop_front() {
                room.taken_at = self.now_ms();
                member.inside_since.store(room.taken_at.max(1), Ordering::Release);
                return Some(runnable);
            }
            if room.closing || bored && self.able(&room) > self.able {
                room.threads.retain(|other| !Arc::ptr_eq(other, member));
                return None;
            }
            room.idle += 1;
            let (back, waited) = self.called.wait_timeout(room, IDLE_MAX).expect(UNPOISONED);
            (room, bored) = (back, waited.timed_out());
            room.idle -= 1;
        }
    }

    /// How many threads are not stuck.
    fn able(&self, room: &Room) -> usize {
        let now = self.now_ms();
        room.threads.iter().filter(|member| !member.is_stuck(now)).count()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(system::now().duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().expect(UNPOISONED)
    }
}

fn told(error: &io::Error) {
    let error: &dyn std::error::Error = error;
    warn!(error, "a thread for handlers could not be started");
}

const UNPOISONED: &str = "no code of ours panics with the crew's lock in hand";

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    fn crew() -> (tokio::runtime::Runtime, Crew) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let crew = Crew::new(runtime.handle().clone(), 100);
        (runtime, crew)
    }

    fn wait_until(crew: &Crew, what: &str, it: impl Fn() -> bool) {
        let begun = system::now();
        while !it() {
            assert!(begun.elapsed() < Duration::from_secs(60), "in vain: {what}");
            crew.relieve();
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Comes back once before it is done, so that it has to be called again.
    async fn wait_a_turn() {
        let mut waited = false;
        std::future::poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            if std::mem::replace(&mut waited, true) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }

    #[test]
    fn nobody_is_forgotten_while_threads_come_and_go() {
        let (_runtime, crew) = crew();
        let done = Arc::new(AtomicUsize::new(0));
        let spawn = |number: usize| {
            let done = done.clone();
            crew.spawn(async move {
                if number.is_multiple_of(500) {
                    thread::sleep(Duration::from_millis(60)); // stuck for a moment
                }
                for _ in 0..number % 7 {
                    wait_a_turn().await;
                }
                done.fetch_add(1, Ordering::SeqCst);
            })
        };
        let tasks: Vec<_> = (0..5_000).map(spawn).collect();
        wait_until(&crew, "all are done", || done.load(Ordering::SeqCst) == 5_000);
        drop(tasks);
    }

    #[test]
    fn threads_that_are_stuck_are_replaced_and_not_without_end() {
        let (_runtime, crew) = crew();
        let (go_on, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let blocked = |_| {
            let (go_on, done) = (go_on.clone(), done.clone());
            crew.spawn(async move {
                while !go_on.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
                done.fetch_add(1, Ordering::SeqCst);
            })
        };
        let _tasks: Vec<_> = (0..150).map(blocked).collect();
        wait_until(&crew, "the crew is as large as it may be", || crew.stuck() == 100);
        assert_eq!(crew.0.room().threads.len(), 100);
        go_on.store(true, Ordering::SeqCst);
        wait_until(&crew, "everybody had a turn", || done.load(Ordering::SeqCst) == 150);
        let as_before = || crew.0.room().threads.len() <= crew.0.able;
        wait_until(&crew, "those too many are gone", as_before);
    }

    #[test]
    fn whoever_drops_the_handle_ends_the_work() {
        struct Ends(Arc<AtomicBool>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let (_runtime, crew) = crew();
        let ended = Arc::new(AtomicBool::new(false));
        let ends = Ends(ended.clone());
        let task = crew.spawn(async move {
            let _ends = ends;
            std::future::pending::<()>().await;
        });
        drop(task);
        wait_until(&crew, "it was dropped", || ended.load(Ordering::SeqCst));
    }
}
