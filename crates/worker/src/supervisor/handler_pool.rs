//! The threads that handlers run on.
//!
//! A handler may block its thread, for a moment or for ever, and must not keep others from running.
//! So the pool has as many threads as the machine has cores. It grows when handlers wait and no
//! thread has taken one for a few milliseconds. A thread that has been inside one handler for long
//! does not count any more, and another takes its place. Idle threads end after a second, as long
//! as enough are left.

use crate::system;
use async_task::{Runnable, Task};
use std::{
    collections::VecDeque,
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

pub(crate) struct HandlerPool(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    wakeup: Condvar,
    /// The runtime whose timers and sockets handlers use.
    runtime: Handle,
    started: Instant,
    /// How many threads there are, without stuck ones, when there is work.
    unstuck_threads_min: usize,
    /// How many threads there are at most, with stuck ones.
    threads_max: usize,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Runnable>,
    threads: Vec<Arc<Thread>>,
    idle: usize,
    closing: bool,
    /// Whether the log says that no thread can be added.
    logged_full: bool,
    /// When a thread last took a handler, in milliseconds.
    last_taken_ms: u64,
}

#[derive(Default)]
struct Thread {
    /// Since when it has been inside one handler, in milliseconds; 0 while it is not.
    inside_since_ms: AtomicU64,
}

impl Thread {
    fn is_stuck(&self, now_ms: u64) -> bool {
        let since = self.inside_since_ms.load(Ordering::Acquire);
        since > 0 && now_ms.saturating_sub(since) >= STUCK_MS
    }
}

/// A thread that has been inside one handler for longer counts as stuck.
const STUCK_MS: u64 = 50;
/// The longest time that a ready handler should wait without any thread taking one.
const STALL_MS: u64 = 4;
/// How long a thread idles when there are enough others.
const IDLE_MAX: Duration = Duration::from_secs(1);

impl HandlerPool {
    /// A pool of at most `threads_max` threads, for handlers that use `runtime`.
    pub(crate) fn new(runtime: Handle, threads_max: usize) -> Self {
        let unstuck_threads_min = thread::available_parallelism().map_or(2, usize::from).max(2);
        HandlerPool(Arc::new(Shared {
            state: Mutex::default(),
            wakeup: Condvar::new(),
            runtime,
            started: system::now(),
            unstuck_threads_min,
            threads_max: threads_max.max(unstuck_threads_min),
        }))
    }

    /// Lets the pool run `work`. Dropping the handle ends it at its next await.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Task<()> {
        let shared = Arc::downgrade(&self.0);
        let schedule = move |runnable| {
            if let Some(shared) = shared.upgrade() {
                shared.enqueue(runnable);
            }
        };
        let (runnable, task) = async_task::spawn(work, schedule);
        runnable.schedule();
        task
    }

    /// Replaces threads that are stuck. The supervisor calls it regularly, from outside the pool.
    pub(super) fn replace_stuck(&self) {
        let shared = &self.0;
        let mut state = shared.lock();
        if state.ready.is_empty() || state.idle > 0 {
            return;
        }
        let mut new_threads =
            shared.unstuck_threads_min.saturating_sub(shared.unstuck_count(&state));
        if shared.now_ms().saturating_sub(state.last_taken_ms) >= STALL_MS {
            // All threads are inside a handler. Doubling soon gives each waiting handler a thread.
            new_threads = new_threads.max(state.threads.len().min(state.ready.len()));
        }
        for _ in 0..new_threads {
            shared.spawn_thread(&mut state);
        }
    }

    pub(super) fn stuck_count(&self) -> usize {
        let state = self.0.lock();
        state.threads.len() - self.0.unstuck_count(&state)
    }
}

impl Drop for HandlerPool {
    /// Ends all threads; a stuck one ends when its handler returns, and nothing waits for it.
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closing = true;
        let ready = std::mem::take(&mut state.ready);
        drop(state);
        drop(ready);
        self.0.wakeup.notify_all();
    }
}

impl Shared {
    fn enqueue(self: &Arc<Self>, runnable: Runnable) {
        let mut state = self.lock();
        if state.closing {
            drop(state);
            return; // this drops the handler with all that it holds
        }
        state.ready.push_back(runnable);
        if state.idle == 0 && state.threads.len() < self.unstuck_threads_min {
            self.spawn_thread(&mut state);
        }
        drop(state);
        self.wakeup.notify_one();
    }

    fn spawn_thread(self: &Arc<Self>, state: &mut State) {
        let threads = state.threads.len();
        if threads >= self.threads_max {
            if !std::mem::replace(&mut state.logged_full, true) {
                error!(
                    threads,
                    "all threads are in handlers; if they stay there, restart this process"
                );
            }
            return;
        }
        let thread = Arc::new(Thread::default());
        let (shared, own_thread) = (self.clone(), thread.clone());
        let builder = thread::Builder::new().name("consign-handler".into());
        match builder.spawn(move || shared.run(&own_thread)) {
            Ok(_) => {
                state.threads.push(thread);
                state.logged_full = false;
            }
            Err(error) if !std::mem::replace(&mut state.logged_full, true) => {
                let error: &dyn std::error::Error = &error;
                warn!(
                    error,
                    "a thread for handlers could not be started; handlers wait for the others"
                );
            }
            Err(_) => {}
        }
    }

    fn run(&self, thread: &Arc<Thread>) {
        let _runtime = self.runtime.enter();
        while let Some(runnable) = self.next(thread) {
            // The attempt catches panics of its handler, but not those while a handler is dropped.
            drop(catch_unwind(AssertUnwindSafe(|| runnable.run())));
            thread.inside_since_ms.store(0, Ordering::Release);
        }
    }

    /// What to run next; none when this thread was idle for long or all threads should end.
    fn next(&self, thread: &Arc<Thread>) -> Option<Runnable> {
        let mut state = self.lock();
        let mut timed_out = false;
        loop {
            if let Some(runnable) = state.ready.pop_front() {
                state.last_taken_ms = self.now_ms();
                thread.inside_since_ms.store(state.last_taken_ms.max(1), Ordering::Release);
                return Some(runnable);
            }
            if state.closing || timed_out && self.unstuck_count(&state) > self.unstuck_threads_min {
                state.threads.retain(|other| !Arc::ptr_eq(other, thread));
                return None;
            }
            state.idle += 1;
            let (guard, wait_result) = self.wakeup.wait_timeout(state, IDLE_MAX).expect(UNPOISONED);
            (state, timed_out) = (guard, wait_result.timed_out());
            state.idle -= 1;
        }
    }

    fn unstuck_count(&self, state: &State) -> usize {
        let now = self.now_ms();
        state.threads.iter().filter(|thread| !thread.is_stuck(now)).count()
    }

    fn now_ms(&self) -> u64 {
        let elapsed = system::now().duration_since(self.started);
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "no code of ours panics while it holds the pool's lock";

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    fn pool() -> (tokio::runtime::Runtime, HandlerPool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let pool = HandlerPool::new(runtime.handle().clone(), 100);
        (runtime, pool)
    }

    fn wait_until(pool: &HandlerPool, what: &str, condition: impl Fn() -> bool) {
        let started = system::now();
        while !condition() {
            assert!(started.elapsed() < Duration::from_secs(60), "timed out: {what}");
            pool.replace_stuck();
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Yields once, so that the task has to be polled again.
    async fn yield_once() {
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
    fn no_task_is_lost_while_pool_threads_come_and_go() {
        let (_runtime, pool) = pool();
        let done = Arc::new(AtomicUsize::new(0));
        let spawn = |number: usize| {
            let done = done.clone();
            pool.spawn(async move {
                if number.is_multiple_of(500) {
                    thread::sleep(Duration::from_millis(60)); // stuck for a moment
                }
                for _ in 0..number % 7 {
                    yield_once().await;
                }
                done.fetch_add(1, Ordering::SeqCst);
            })
        };
        let tasks: Vec<_> = (0..5_000).map(spawn).collect();
        wait_until(&pool, "all are done", || done.load(Ordering::SeqCst) == 5_000);
        drop(tasks);
    }

    #[test]
    fn threads_that_are_stuck_are_replaced_and_not_without_end() {
        let (_runtime, pool) = pool();
        let (release, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let blocked = |_| {
            let (release, done) = (release.clone(), done.clone());
            pool.spawn(async move {
                while !release.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
                done.fetch_add(1, Ordering::SeqCst);
            })
        };
        let _tasks: Vec<_> = (0..150).map(blocked).collect();
        wait_until(&pool, "the pool is as large as it may be", || pool.stuck_count() == 100);
        assert_eq!(pool.0.lock().threads.len(), 100);
        release.store(true, Ordering::SeqCst);
        wait_until(&pool, "every handler had a turn", || done.load(Ordering::SeqCst) == 150);
        let has_shrunk = || pool.0.lock().threads.len() <= pool.0.unstuck_threads_min;
        wait_until(&pool, "those too many are gone", has_shrunk);
    }

    #[test]
    fn dropping_a_task_handle_ends_its_task() {
        struct SetOnDrop(Arc<AtomicBool>);
        impl Drop for SetOnDrop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let (_runtime, pool) = pool();
        let ended = Arc::new(AtomicBool::new(false));
        let set_on_drop = SetOnDrop(ended.clone());
        let task = pool.spawn(async move {
            let _dropped_with_task = set_on_drop;
            std::future::pending::<()>().await;
        });
        drop(task);
        wait_until(&pool, "it was dropped", || ended.load(Ordering::SeqCst));
    }
}
