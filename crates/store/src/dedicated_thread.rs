//! A thread that owns a value and runs closures on it, one after another.
//!
//! For a value that only one thread may use, such as a connection that may block for long. The
//! queue is not bounded: a caller that waits for its answer cannot flood it, and a caller that
//! sends many closures has limits of its own.

use crate::{
    oneshot::{OneshotReceiver, oneshot},
    sync::{mpsc, thread},
};
use std::io;

/// Owns a `T` in a thread of its own.
///
/// On drop, the thread finishes the queued closures and drops the `T`; the drop returns after that.
pub struct DedicatedThread<T> {
    /// Closed first, which ends the thread.
    sender: Option<mpsc::Sender<Work<T>>>,
    thread: Option<thread::JoinHandle<()>>,
}

type Work<T> = Box<dyn FnOnce(&mut T) + Send>;

impl<T: Send + 'static> DedicatedThread<T> {
    /// Moves `owned` to a new thread of this name.
    pub fn start(name: &str, mut owned: T) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Work<T>>();
        let run_all = move || {
            // In a panic the receiver is dropped before `owned`, and with it all queued closures.
            for work in receiver {
                work(&mut owned);
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run_all)?;
        Ok(DedicatedThread { sender: Some(sender), thread: Some(thread) })
    }

    /// Queues `work` behind all earlier closures. It runs whether or not the caller awaits the
    /// answer.
    ///
    /// If the closure panics, its answer and all later ones are
    /// [`SenderDropped`](crate::SenderDropped): the owned value can no longer be trusted.
    pub fn run<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> OneshotReceiver<R> {
        let (sender, receiver) = oneshot();
        let answer = move |owned: &mut T| drop(sender.send(work(owned))); // the caller may be gone
        let queue = self.sender.as_ref().expect("taken only by the drop");
        drop(queue.send(Box::new(answer))); // fails after a panic: the receiver learns it
        receiver
    }
}

impl<T> Drop for DedicatedThread<T> {
    fn drop(&mut self) {
        drop(self.sender.take());
        let thread = self.thread.take().expect("taken only here");
        // A closure may own its `DedicatedThread`. This thread then runs the drop and cannot join
        // itself.
        if thread.thread().id() != thread::current().id() {
            drop(thread.join()); // its caller has learnt of a panic
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::oneshot::SenderDropped;
    use pollster::block_on;
    use std::{mem, sync::Arc};

    /// A list that sends its lines when it is dropped.
    struct DropLog {
        lines: Vec<&'static str>,
        ended: mpsc::Sender<Vec<&'static str>>,
    }

    impl Drop for DropLog {
        fn drop(&mut self) {
            drop(self.ended.send(mem::take(&mut self.lines)));
        }
    }

    fn start() -> (DedicatedThread<DropLog>, mpsc::Receiver<Vec<&'static str>>) {
        let (ended, lines) = mpsc::channel();
        let log = DropLog { lines: Vec::new(), ended };
        (DedicatedThread::start("log", log).expect("it starts"), lines)
    }

    #[test]
    fn work_is_done_in_order_by_the_named_thread() {
        let (dedicated_thread, _) = start();
        let first = dedicated_thread.run(|log| log.lines.push("first"));
        let second = dedicated_thread.run(|log| {
            log.lines.push("second");
            (thread::current().name().map(str::to_owned), log.lines.clone())
        });
        assert_eq!(block_on(first), Ok(()));
        let (name, lines) = block_on(second).unwrap();
        assert_eq!(name.as_deref(), Some("log"));
        assert_eq!(lines, ["first", "second"]);
    }

    #[test]
    fn work_is_done_even_if_its_answer_is_dropped() {
        let (dedicated_thread, _) = start();
        drop(dedicated_thread.run(|log| log.lines.push("unheard")));
        assert_eq!(block_on(dedicated_thread.run(|log| log.lines.clone())), Ok(vec!["unheard"]));
    }

    #[test]
    fn dropping_a_dedicated_thread_runs_queued_work_and_drops_the_owned_value() {
        let (dedicated_thread, lines) = start();
        let (go, gate) = mpsc::channel::<()>();
        let blocked = dedicated_thread.run(move |_| gate.recv().unwrap());
        let waiting = dedicated_thread.run(|log| log.lines.push("waiting"));
        go.send(()).unwrap();
        drop(dedicated_thread);
        assert_eq!(lines.try_recv(), Ok(vec!["waiting"]), "it was dropped before we came back");
        assert_eq!((block_on(blocked), block_on(waiting)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_panic_drops_its_own_answer_and_all_later_ones() {
        let (dedicated_thread, lines) = start();
        let (go, gate) = mpsc::channel::<()>();
        let panicking = dedicated_thread.run(move |_| {
            gate.recv().unwrap();
            panic!("of a piece of work");
        });
        let waiting = dedicated_thread.run(|log| log.lines.push("never"));
        go.send(()).unwrap();
        assert_eq!(block_on(panicking), Err::<(), _>(SenderDropped));
        assert_eq!(block_on(waiting), Err(SenderDropped));
        assert_eq!(
            block_on(dedicated_thread.run(|log| log.lines.push("never"))),
            Err(SenderDropped)
        );
        assert_eq!(lines.recv(), Ok(vec![]));
    }

    #[test]
    fn a_dedicated_thread_may_be_dropped_by_its_own_work() {
        let (dedicated_thread, lines) = start();
        let dedicated_thread = Arc::new(dedicated_thread);
        let (go, gate) = mpsc::channel::<()>();
        let last = dedicated_thread.clone();
        let done = dedicated_thread.run(move |log| {
            gate.recv().unwrap();
            drop(last);
            log.lines.push("alone");
        });
        drop(dedicated_thread);
        go.send(()).unwrap();
        assert_eq!(block_on(done), Ok(()));
        assert_eq!(lines.recv(), Ok(vec!["alone"]));
    }
}
