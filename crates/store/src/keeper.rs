//! A thread that owns something and works on it for others, one piece after another.
//!
//! For what must stay in one hand, such as the only writing connection to a file. Nothing is bounded
//! here: whoever asks waits for an answer, and whoever sends many has limits of their own.

use crate::{
    promise::{Awaited, promise},
    sync::{Condvar, Mutex, MutexGuard, thread},
};
use std::{collections::VecDeque, io, mem, sync::Arc};

/// Owns a `T` in a thread of its own.
///
/// Dropped, it finishes what was asked of it, drops the `T` in the thread, and returns when that is
/// done.
pub struct Keeper<T: Tended> {
    desk: Arc<Desk<T>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What a keeper may own.
pub trait Tended: Send + 'static {
    /// Does a little of what can wait; says whether there is more.
    ///
    /// Asked after work, when nobody wants anything, until it says no; work that comes goes first.
    fn tend(&mut self) -> bool {
        false
    }
}

/// A thread for work that brings along what it needs.
impl Tended for () {}

/// Where work is left and found.
struct Desk<T> {
    pile: Mutex<Pile<T>>,
    rung: Condvar,
}

struct Pile<T> {
    work: VecDeque<Work<T>>,
    closed: bool,
}

type Work<T> = Box<dyn FnOnce(&mut T) + Send>;

/// What there is to do.
enum Turn<T> {
    Work(Work<T>),
    Tend,
    Leave,
}

impl<T: Tended> Keeper<T> {
    /// Gives `owned` to a new thread of this name.
    pub fn start(name: &str, owned: T) -> io::Result<Self> {
        let pile = Pile { work: VecDeque::new(), closed: false };
        let desk = Arc::new(Desk { pile: Mutex::new(pile), rung: Condvar::new() });
        let run = {
            let desk = desk.clone();
            move || keep(&desk, owned)
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Keeper { desk, thread: Some(thread) })
    }

    /// Has `work` done, after all that was asked before, whether or not anybody waits for the answer.
    ///
    /// The answer is broken if the work panics, and so is everything that was asked after it: what the
    /// keeper owns can no longer be trusted.
    pub fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Awaited<R> {
        let (promise, awaited) = promise();
        self.desk.leave(Box::new(move |owned| {
            drop(promise.keep(work(owned))); // it was done, heard or not
        }));
        awaited
    }
}

impl<T: Tended> Drop for Keeper<T> {
    fn drop(&mut self) {
        self.desk.pile().closed = true;
        self.desk.rung.notify_one();
        let thread = self.thread.take().expect("taken only here");
        // Work may own its keeper. Then this is the keeper's own thread, which cannot wait for itself.
        if thread.thread().id() != thread::current().id() {
            drop(thread.join()); // a panic was told to whoever asked for the work
        }
    }
}

fn keep<T: Tended>(desk: &Desk<T>, mut owned: T) {
    let _closing = Closing(desk); // goes before `owned`, in a panic too
    let mut more = false;
    loop {
        match desk.next(more) {
            Turn::Work(work) => {
                work(&mut owned);
                more = true;
            }
            Turn::Tend => more = owned.tend(),
            Turn::Leave => return,
        }
    }
}

impl<T> Desk<T> {
    fn leave(&self, work: Work<T>) {
        let mut pile = self.pile();
        if pile.closed {
            drop(pile); // what is dropped with the work may be code of others
            return;
        }
        pile.work.push_back(work);
        drop(pile);
        self.rung.notify_one();
    }

    fn next(&self, more: bool) -> Turn<T> {
        let mut pile = self.pile();
        loop {
            if let Some(work) = pile.work.pop_front() {
                return Turn::Work(work);
            }
            if pile.closed {
                return Turn::Leave;
            }
            if more {
                return Turn::Tend;
            }
            pile = self.rung.wait(pile).expect(UNPOISONED);
        }
    }

    fn pile(&self) -> MutexGuard<'_, Pile<T>> {
        self.pile.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "no work is done with the pile in hand";

/// Breaks the promises of all that is left when the thread ends.
struct Closing<'a, T>(&'a Desk<T>);

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        let mut pile = self.0.pile();
        pile.closed = true;
        let left = mem::take(&mut pile.work);
        drop(pile);
        drop(left);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::promise::Broken;
    use pollster::block_on;
    use std::sync::mpsc;

    /// A list with chores: each time it is tended it writes one down. Its end shows what it says.
    struct Diary {
        lines: Vec<&'static str>,
        chores: usize,
        ended: mpsc::Sender<Vec<&'static str>>,
    }

    impl Tended for Diary {
        fn tend(&mut self) -> bool {
            if self.chores > 0 {
                self.chores -= 1;
                self.lines.push("chore");
            }
            self.chores > 0
        }
    }

    impl Drop for Diary {
        fn drop(&mut self) {
            drop(self.ended.send(mem::take(&mut self.lines)));
        }
    }

    fn start(chores: usize) -> (Keeper<Diary>, mpsc::Receiver<Vec<&'static str>>) {
        let (ended, lines) = mpsc::channel();
        let diary = Diary { lines: Vec::new(), chores, ended };
        (Keeper::start("diary", diary).expect("it starts"), lines)
    }

    #[test]
    fn work_is_done_in_order_by_the_named_thread() {
        let (keeper, _) = start(0);
        let first = keeper.ask(|diary| diary.lines.push("first"));
        let second = keeper.ask(|diary| {
            diary.lines.push("second");
            (thread::current().name().map(str::to_owned), diary.lines.clone())
        });
        assert_eq!(block_on(first), Ok(()));
        let (name, lines) = block_on(second).unwrap();
        assert_eq!(name.as_deref(), Some("diary"));
        assert_eq!(lines, ["first", "second"]);
    }

    #[test]
    fn work_is_done_even_if_nobody_waits_for_it() {
        let (keeper, _) = start(0);
        drop(keeper.ask(|diary| diary.lines.push("unheard")));
        assert_eq!(block_on(keeper.ask(|diary| diary.lines.clone())), Ok(vec!["unheard"]));
    }

    #[test]
    fn chores_come_after_work_until_there_are_none() {
        let (keeper, lines) = start(3);
        let (go, gate) = mpsc::channel::<()>();
        let held = keeper.ask(move |_| gate.recv().unwrap());
        let late = keeper.ask(|diary| diary.lines.push("work"));
        go.send(()).unwrap();
        block_on(held).unwrap();
        block_on(late).unwrap();
        // Chores that were not done in time are not done at all: they could wait.
        drop(keeper);
        let lines = lines.recv().unwrap();
        assert_eq!(lines[0], "work");
        assert!(lines[1..].iter().all(|line| *line == "chore") && lines.len() <= 4);
    }

    #[test]
    fn dropping_the_keeper_finishes_what_was_asked_and_drops_what_it_owns() {
        let (keeper, lines) = start(0);
        let (go, gate) = mpsc::channel::<()>();
        let held = keeper.ask(move |_| gate.recv().unwrap());
        let waiting = keeper.ask(|diary| diary.lines.push("waiting"));
        go.send(()).unwrap();
        drop(keeper);
        assert_eq!(lines.try_recv(), Ok(vec!["waiting"]), "it was dropped before we came back");
        assert_eq!((block_on(held), block_on(waiting)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_panic_breaks_its_own_promise_and_all_later_ones() {
        let (keeper, lines) = start(0);
        let (go, gate) = mpsc::channel::<()>();
        let panicking = keeper.ask(move |_| {
            gate.recv().unwrap();
            panic!("of a piece of work");
        });
        let waiting = keeper.ask(|diary| diary.lines.push("never"));
        go.send(()).unwrap();
        assert_eq!(block_on(panicking), Err::<(), _>(Broken));
        assert_eq!(block_on(waiting), Err(Broken));
        assert_eq!(block_on(keeper.ask(|diary| diary.lines.push("never"))), Err(Broken));
        assert_eq!(lines.recv(), Ok(vec![]));
    }

    #[test]
    fn a_keeper_may_be_dropped_by_its_own_work() {
        let (keeper, lines) = start(0);
        let keeper = Arc::new(keeper);
        let (go, gate) = mpsc::channel::<()>();
        let last = keeper.clone();
        let done = keeper.ask(move |diary| {
            gate.recv().unwrap();
            drop(last);
            diary.lines.push("alone");
        });
        drop(keeper);
        go.send(()).unwrap();
        assert_eq!(block_on(done), Ok(()));
        assert_eq!(lines.recv(), Ok(vec!["alone"]));
    }
}
