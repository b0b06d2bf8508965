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
    key: WatchKey,
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

    /// The poll variant of [`Watch::changed`]. Only the waker of the last poll is woken.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<Changed> {
        self.watchers.poll(self.key, cx)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watchers.remove(self.key);
    }
}

/// All watches of one node.
#[derive(Default)]
pub(crate) struct Watchers {
    /// How many watches there are. While it is 0, a batch does not take the lock of the registry.
    count: AtomicUsize,
    registry: Mutex<Registry>,
    /// Notified when the first watch begins.
    pub(crate) notifier: Arc<Notifier>,
}

/// No thread wakes, clones or drops a waker while it holds this lock, because that may run foreign
/// code.
#[derive(Default)]
struct Registry {
    closed: bool,
    last_number: u64,
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
    pub(crate) fn has_any(&self) -> bool {
        match self {
            Touched::Jobs(ids) => !ids.is_empty(),
            Touched::Anything => true,
        }
    }
}

impl Watchers {
    pub(crate) fn watch(self: &Arc<Self>, id: JobId) -> Watch {
        let mut registry = self.registry();
        registry.last_number += 1;
        let key = (id, registry.last_number);
        registry.subscriptions.insert(key, Subscription::default());
        // Before the job is read: a batch that commits a change after that read loads the count
        // later.
        self.count.store(registry.subscriptions.len(), Ordering::SeqCst);
        let first = registry.subscriptions.len() == 1;
        drop(registry);
        if first {
            self.notifier.notify();
        }
        Watch { watchers: self.clone(), key }
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

    pub(crate) fn notify(&self, touched: &Touched) {
        let mut wakers = Vec::new();
        let mut registry = self.registry();
        match touched {
            Touched::Jobs(ids) => ids.iter().for_each(|id| {
                let watching = registry.subscriptions.range_mut((*id, 0)..=(*id, u64::MAX));
                wakers.extend(watching.filter_map(|(_, subscription)| subscription.touch()));
            }),
            Touched::Anything => {
                wakers.extend(registry.subscriptions.values_mut().filter_map(Subscription::touch))
            }
        }
        drop(registry);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn close(&self) {
        let mut registry = self.registry();
        registry.closed = true;
        let wakers: Vec<Waker> = registry
            .subscriptions
            .values_mut()
            .filter_map(|subscription| subscription.waker.take())
            .collect();
        drop(registry);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, key: WatchKey, cx: &mut Context<'_>) -> Poll<Changed> {
        let mut waker = Some(cx.waker().clone());
        let mut registry = self.registry();
        let closed = registry.closed;
        let subscription = registry
            .subscriptions
            .get_mut(&key)
            .expect("a subscription is removed only when its watch is dropped");
        if mem::take(&mut subscription.touched) {
            return Poll::Ready(Changed::Touched); // report touches from before the end first
        }
        if closed {
            return Poll::Ready(Changed::Closed);
        }
        mem::swap(&mut subscription.waker, &mut waker);
        drop(registry);
        drop(waker);
        Poll::Pending
    }

    fn remove(&self, key: WatchKey) {
        let mut registry = self.registry();
        let removed = registry.subscriptions.remove(&key);
        self.count.store(registry.subscriptions.len(), Ordering::SeqCst);
        drop(registry);
        drop(removed);
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().expect("no code panics while it holds the registry of watches")
    }
}

impl Subscription {
    /// Records a touch, and returns the waker to wake for it.
    fn touch(&mut self) -> Option<Waker> {
        self.touched = true;
        self.waker.take()
    }
}
