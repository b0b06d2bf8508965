//! Watches: learn that a job changed, without polling.
//!
//! Every write of a node goes through its batcher, which reports here the jobs that each batch
//! touched. A watch says only that a read is worth it, not what happened, so any number of changes
//! between two reads costs one read. [`crate::peer_watcher`] finds the changes of other nodes and
//! reports them here.

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

/// A subscription to changes of one job. Dropping it ends it.
///
/// Begin to watch *before* you read the job: then the read sees earlier changes, and the watch
/// reports later ones. A watch is a hint: it may report a touch that changed nothing, so read the
/// job. Changes by other nodes are reported a little later.
#[must_use = "a watch does nothing until it is awaited"]
pub struct Watch {
    watchers: Arc<Watchers>,
    place: WatchKey,
}

/// What a [`Watch`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The job may have changed since the last report.
    Touched,
    /// The node is closed: there will be no more changes.
    Closed,
}

impl Watch {
    /// Waits until the job is touched; returns at once if it was touched since the last answer.
    /// Dropping the future and calling this again loses nothing.
    pub fn changed(&mut self) -> impl Future<Output = Changed> + Send {
        poll_fn(|cx| self.poll_changed(cx))
    }

    /// The poll variant of [`Watch::changed`]. Only the last waker is woken.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Changed> {
        self.watchers.poll(self.place, cx)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watchers.leave(self.place);
    }
}

/// All watches of one node.
#[derive(Default)]
pub(crate) struct Watchers {
    /// How many watches there are: while it is 0, a batch reads nothing else.
    count: AtomicUsize,
    registry: Mutex<Registry>,
    /// Notified when the first watch begins.
    pub(crate) notifier: Arc<Notifier>,
}

/// No waker is woken, cloned or dropped under this lock: that may run foreign code.
#[derive(Default)]
struct Registry {
    closed: bool,
    number: u64,
    subscriptions: BTreeMap<WatchKey, Subscription>,
}

/// The job, and a number unique to the watch. The watches of one job are adjacent.
type WatchKey = (JobId, u64);

#[derive(Default)]
struct Subscription {
    touched: bool,
    waker: Option<Waker>,
}

pub(crate) enum Touched {
    Jobs(Vec<JobId>),
    /// It is unknown which jobs the batch changed.
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
        let mut registry = self.registry();
        registry.number += 1;
        let place = (id, registry.number);
        registry.subscriptions.insert(place, Subscription::default());
        // Before the job is read: a batch that commits a change after that read loads the count
        // later.
        self.count.store(registry.subscriptions.len(), Ordering::SeqCst);
        let first = registry.subscriptions.len() == 1;
        drop(registry);
        if first {
            self.notifier.notify();
        }
        Watch { watchers: self.clone(), place }
    }

    /// Whether there are watches that a batch must notify.
    pub(crate) fn has_watches(&self) -> bool {
        self.count() > 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The watched jobs, each once.
    pub(crate) fn ids(&self) -> Vec<JobId> {
        let mut ids: Vec<JobId> = self.registry().subscriptions.keys().map(|(id, _)| *id).collect();
        ids.dedup(); // watches of one job are adjacent
        ids
    }

    pub(crate) fn tell(&self, touched: &Touched) {
        let mut woken = Vec::new();
        let mut registry = self.registry();
        match touched {
            Touched::Jobs(ids) => ids.iter().for_each(|id| {
                let watching = registry.subscriptions.range_mut((*id, 0)..=(*id, u64::MAX));
                woken.extend(watching.filter_map(|(_, eye)| eye.touch()));
            }),
            Touched::Anything => {
                woken.extend(registry.subscriptions.values_mut().filter_map(Subscription::touch))
            }
        }
        drop(registry);
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn close(&self) {
        let mut registry = self.registry();
        registry.closed = true;
        let woken: Vec<Waker> =
            registry.subscriptions.values_mut().filter_map(|eye| eye.waker.take()).collect();
        drop(registry);
        woken.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, place: WatchKey, cx: &mut Context<'_>) -> Poll<Changed> {
        let mut waker = Some(cx.waker().clone());
        let mut registry = self.registry();
        let closed = registry.closed;
        let eye =
            registry.subscriptions.get_mut(&place).expect("it leaves when its watch is dropped");
        if mem::take(&mut eye.touched) {
            return Poll::Ready(Changed::Touched); // report touches from before the end first
        }
        if closed {
            return Poll::Ready(Changed::Closed);
        }
        mem::swap(&mut eye.waker, &mut waker);
        drop(registry);
        drop(waker);
        Poll::Pending
    }

    fn leave(&self, place: WatchKey) {
        let mut registry = self.registry();
        let left = registry.subscriptions.remove(&place);
        self.count.store(registry.subscriptions.len(), Ordering::SeqCst);
        drop(registry);
        drop(left);
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().expect("no code of ours panics with the book in hand")
    }
}

impl Subscription {
    /// Records a touch, and returns the waker to wake for it.
    fn touch(&mut self) -> Option<Waker> {
        self.touched = true;
        self.waker.take()
    }
}
