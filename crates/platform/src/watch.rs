//! Learn that something has happened to a job, without asking again and again.
//!
//! Every write of a node goes through its batcher, and the batcher says here which jobs each batch touched.
//! Nothing is told of what happened, only that a look is worth it, so however much happens between two
//! looks costs one. What other nodes do with the same store is looked for by [`crate::peer_watcher`], which tells it here.

use crate::notifier::Notifier;
use engine::JobId;
use std::{
    collections::BTreeMap,
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use store::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

/// Somebody who wants to know when a job is touched. Dropped, it does not any more.
///
/// Begin to watch *before* you read the job: what happens after the reading is then told, and what happened
/// before it was read. A watch is a hint: it may be told of a touch that changed nothing, so read the job. What
/// another node does with the same store is told a little later.
#[must_use = "a watch that nobody waits for says nothing"]
pub struct Watch {
    watchers: Arc<Watchers>,
    place: WatchKey,
}

/// What a [`Watch`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The job may have changed since it was last told so.
    Touched,
    /// The node is closed: nothing will happen any more.
    Closed,
}

impl Watch {
    /// Waits until the job is touched; returns at once if it was since this was last answered. Nothing is
    /// lost by dropping the future and asking again.
    pub fn changed(&mut self) -> impl Future<Output = Changed> + Send {
        poll_fn(|cx| self.poll_changed(cx))
    }

    /// The same for those who poll by hand. Only the last waker is woken.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Changed> {
        self.watchers.poll(self.place, cx)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watchers.leave(self.place);
    }
}

/// Everybody who watches a job of one node.
#[derive(Default)]
pub(crate) struct Watchers {
    /// How many they are: while there are none, a batch looks at nothing else.
    count: AtomicUsize,
    book: Mutex<Registry>,
    /// Rung when somebody watches and nobody did.
    pub(crate) notifier: Arc<Notifier>,
}

/// Nobody is woken with this in hand, and no waker is cloned or dropped: that may run code of others.
#[derive(Default)]
struct Registry {
    closed: bool,
    number: u64,
    eyes: BTreeMap<WatchKey, Subscription>,
}

/// The job, and a number that no other watch has: those of one job stand together.
type WatchKey = (JobId, u64);

#[derive(Default)]
struct Subscription {
    touched: bool,
    waker: Option<Waker>,
}

pub(crate) enum Touched {
    Jobs(Vec<JobId>),
    /// Nobody knows what it did.
    Anything,
}

impl Touched {
    pub(crate) fn is_something(&self) -> bool {
        match self {
            Touched::Jobs(ids) => !ids.is_empty(),
            Touched::Anything => true,
        }
    }
}

impl Watchers {
    pub(crate) fn watch(self: &Arc<Self>, id: JobId) -> Watch {
        let mut book = self.book();
        book.number += 1;
        let place = (id, book.number);
        book.eyes.insert(place, Subscription::default());
        // Before the job is read. Whoever commits a change that the reader does not see looks here later.
        self.count.store(book.eyes.len(), Ordering::SeqCst);
        let first = book.eyes.len() == 1;
        drop(book);
        if first {
            self.notifier.notify();
        }
        Watch { watchers: self.clone(), place }
    }

    /// Whether anybody has to be told of a batch that has just been carried out.
    pub(crate) fn are_there(&self) -> bool {
        self.count() > 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The jobs that are watched, each once.
    pub(crate) fn ids(&self) -> Vec<JobId> {
        let mut ids: Vec<JobId> = self.book().eyes.keys().map(|(id, _)| *id).collect();
        ids.dedup(); // those of one job stand together
        ids
    }

    pub(crate) fn tell(&self, touched: &Touched) {
        let mut woken = Vec::new();
        let mut book = self.book();
        match touched {
            Touched::Jobs(ids) => ids.iter().for_each(|id| {
                let watching = book.eyes.range_mut((*id, 0)..=(*id, u64::MAX));
                woken.extend(watching.filter_map(|(_, eye)| eye.touch()));
            }),
            Touched::Anything => {
                woken.extend(book.eyes.values_mut().filter_map(Subscription::touch))
            }
        }
        drop(book);
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn close(&self) {
        let mut book = self.book();
        book.closed = true;
        let woken: Vec<Waker> = book.eyes.values_mut().filter_map(|eye| eye.waker.take()).collect();
        drop(book);
        woken.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, place: WatchKey, cx: &mut Context<'_>) -> Poll<Changed> {
        let mut waker = Some(cx.waker().clone());
        let mut book = self.book();
        let closed = book.closed;
        let eye = book.eyes.get_mut(&place).expect("it leaves when its watch is dropped");
        if mem::take(&mut eye.touched) {
            return Poll::Ready(Changed::Touched); // what happened before the end is told before it
        }
        if closed {
            return Poll::Ready(Changed::Closed);
        }
        mem::swap(&mut eye.waker, &mut waker);
        drop(book);
        drop(waker);
        Poll::Pending
    }

    fn leave(&self, place: WatchKey) {
        let mut book = self.book();
        let left = book.eyes.remove(&place);
        self.count.store(book.eyes.len(), Ordering::SeqCst);
        drop(book);
        drop(left);
    }

    fn book(&self) -> MutexGuard<'_, Registry> {
        self.book.lock().expect("no code of ours panics with the book in hand")
    }
}

impl Subscription {
    /// Remembers a touch, and says who has to be woken for it.
    fn touch(&mut self) -> Option<Waker> {
        self.touched = true;
        self.waker.take()
    }
}
