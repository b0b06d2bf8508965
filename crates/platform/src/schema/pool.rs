//! Threads for checks that take long, so that these checks never delay the threads that answer
//! requests.
//!
//! There are few threads, and each task is bounded by its own budget, so nothing accumulates.
//! Tenants take turns, so that many costly payloads of one tenant delay that tenant before others.

use engine::Tenant;
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};
use store::{OneshotReceiver, oneshot};
use tracing::error;

/// More threads would take the cores from the threads that answer requests.
const THREADS_MAX: usize = 2;
/// The validator recurses with the payload and with the schema.
pub(super) const STACK_BYTES: usize = 16 << 20;

/// Runs tasks on threads of its own, which start when they are first needed.
#[derive(Default)]
pub(crate) struct CheckPool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified for each new task, and when the pool is closed.
    wakeup: Condvar,
}

#[derive(Default)]
struct State {
    /// The tenants with tasks that wait, in the order of their turns.
    tenants: VecDeque<(Tenant, VecDeque<Task>)>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

type Task = Box<dyn FnOnce() + Send>;

impl CheckPool {
    /// Runs `work` when it is the tenant's turn. If the caller stops waiting, its work is dropped.
    /// The receiver fails when `work` panics or when no thread can be started.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> OneshotReceiver<T> {
        let (sender, receiver) = oneshot();
        let task = Box::new(move || {
            if sender.is_awaited() {
                // The sender returns the result if the caller stopped waiting.
                drop(sender.send(work()));
            }
        });
        let mut state = self.0.state();
        state.push(tenant, task);
        if state.idle == 0 && state.threads < THREADS_MAX {
            match start_thread(&self.0, state.threads) {
                Ok(()) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    error!(%error, "no thread could be started to check payloads");
                    state.tenants.clear();
                }
                Err(_) => {} // running threads will take it
            }
        }
        drop(state);
        self.0.wakeup.notify_one();
        receiver
    }
}

impl Drop for CheckPool {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.wakeup.notify_all();
    }
}

fn start_thread(shared: &Arc<Shared>, number: usize) -> io::Result<()> {
    let shared = shared.clone();
    let builder = thread::Builder::new().name(format!("consign-check-{number}"));
    builder.stack_size(STACK_BYTES).spawn(move || shared.work()).map(drop)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no task runs with the queue locked")
    }

    fn work(&self) {
        while let Some(task) = self.next() {
            // A panic was reported where it happened, and the dropped sender informs the caller.
            drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(task)));
        }
    }

    fn next(&self) -> Option<Task> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(task) = state.pop() {
                return Some(task);
            }
            state.idle += 1;
            state = self.wakeup.wait(state).expect("no task runs with the queue locked");
            state.idle -= 1;
        }
    }
}

impl State {
    fn push(&mut self, tenant: &Tenant, task: Task) {
        match self.tenants.iter_mut().find(|(waiting, _)| waiting == tenant) {
            Some((_, tasks)) => tasks.push_back(task),
            None => self.tenants.push_back((tenant.clone(), VecDeque::from([task]))),
        }
    }

    fn pop(&mut self) -> Option<Task> {
        let (tenant, mut tasks) = self.tenants.pop_front()?;
        let task = tasks.pop_front();
        if !tasks.is_empty() {
            self.tenants.push_back((tenant, tasks));
        }
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollster::block_on;
    use std::sync::mpsc;

    fn tenant(name: &str) -> Tenant {
        Tenant::parse(name).unwrap()
    }

    /// Keeps every thread of `pool` busy until the senders are dropped.
    fn occupied(pool: &CheckPool) -> Vec<(mpsc::Sender<()>, OneshotReceiver<()>)> {
        let occupy = |_| {
            let (release, released) = mpsc::channel::<()>();
            let (started, has_started) = mpsc::channel();
            let receiver = pool.run(&tenant("busy"), move || {
                started.send(()).unwrap();
                assert!(released.recv().is_err());
            });
            has_started.recv().unwrap();
            (release, receiver)
        };
        (0..THREADS_MAX).map(occupy).collect()
    }

    #[test]
    fn tenants_take_turns() {
        let pool = CheckPool::default();
        let busy = occupied(&pool);
        let (order, ran) = mpsc::channel();
        let waiting: Vec<OneshotReceiver<()>> = ["a", "a", "a", "b"]
            .map(|name| {
                let order = order.clone();
                pool.run(&tenant(name), move || order.send(name).unwrap())
            })
            .into();
        drop(busy);
        waiting.into_iter().for_each(|receiver| block_on(receiver).unwrap());
        let ran: Vec<&str> = ran.try_iter().collect();
        assert!(ran[..3].contains(&"b"), "b waits for one turn of a: {ran:?}");
    }

    #[test]
    fn work_that_no_caller_waits_for_is_not_done_and_a_panic_breaks_its_own_promise() {
        let pool = CheckPool::default();
        let busy = occupied(&pool);
        let (touched, touches) = mpsc::channel();
        drop(pool.run(&tenant("a"), move || touched.send(()).unwrap()));
        let panics = pool.run(&tenant("a"), || std::panic::resume_unwind(Box::new("on purpose")));
        let after = pool.run(&tenant("a"), || 7);
        drop(busy);
        assert!(block_on(panics).is_err());
        assert_eq!(block_on(after), Ok(7));
        assert!(touches.try_recv().is_err());
    }
}
