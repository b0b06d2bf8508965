//! Gathers the requests of many callers into few transactions.
//!
//! A durable commit costs the same for one change as for a thousand, so callers share commits: a
//! batch is what arrived while the last commit ran. A lone caller waits for no other: an idle
//! system commits at once.

mod batch;
mod batch_queue;
mod lane;
mod pending_reply;
mod submission;
mod wait_at_most;
mod waiting_claims;
mod work_hint;

pub use pending_reply::{ClaimWait, PendingReply};

use self::{batch_queue::BatchQueue, waiting_claims::ClaimFilter};
use crate::{Watch, watch::Watchers};
use ::store::{
    Execute, Notification, Reply, Request, StoreError,
    sync::{Mutex, atomic::Ordering, thread},
};
use engine::{ClaimRequest, JobId, JobType, Scope};
use std::{io, sync::Arc};

/// Shares the transactions of a store among callers.
///
/// [`Batcher::execute`] puts the requests of one call into one transaction, together with those of
/// other callers. When a caller leaves early, its request may still be executed, but no job stays
/// leased to it.
pub struct Batcher {
    queue: Arc<BatchQueue>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// Limits of a batch, and of what may wait for one.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests in a batch.
    pub batch_requests_max: usize,
    /// Jobs that a batch may touch. Waiting claims have a share of the same size for themselves, so
    /// that a flood of other requests cannot keep workers idle.
    pub batch_jobs_max: usize,
    /// Bytes of memory that the requests of a batch may hold.
    pub batch_bytes_max: usize,
    /// Bytes that may wait in each lane. Requests above it wait in the overflow of the lane, in
    /// order of arrival. When their caller leaves, they are dropped.
    pub waiting_bytes_max: usize,
    /// Batches under way at the same time. More than one is for stores with more than one writer.
    pub writers: usize,
    /// After a batch of at least so many submissions, the writer waits for its callers to come back
    /// with their next one.
    pub gather_min: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            batch_requests_max: 2_000,
            batch_jobs_max: 1_000,
            batch_bytes_max: 8 * 1024 * 1024,
            waiting_bytes_max: 32 * 1024 * 1024,
            writers: 1,
            gather_min: 8,
        }
    }
}

/// What waits at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Requests that will be in one of the next batches.
    pub requests: usize,
    /// Roughly how many bytes they hold in memory.
    pub bytes: usize,
    /// Callers whose requests are in the overflow of a full lane.
    pub overflow: usize,
    /// Claims that wait for work.
    pub waiting_claims: usize,
}

impl Batcher {
    /// Starts the threads that write to `store`.
    pub fn start(store: Arc<dyn Execute>, limits: Limits) -> io::Result<Self> {
        let writers = limits.writers.max(1);
        let batcher = Batcher {
            queue: Arc::new(BatchQueue::new(store, limits)),
            threads: Mutex::new(Vec::new()),
        };
        for number in 1..=writers {
            let queue = batcher.queue.clone();
            let builder = thread::Builder::new().name(format!("consign-writer-{number}"));
            // If a thread fails to start, dropping the batcher closes those that did.
            let thread = builder.spawn(move || queue.run_writer())?;
            batcher.threads.lock().expect(UNPOISONED).push(thread);
        }
        Ok(batcher)
    }

    /// Executes the requests of one caller in one transaction. Replies are in request order.
    pub async fn execute(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        PendingReply::submit(&self.queue, batch)?.await
    }

    pub(crate) fn notify_peers(&self, notification: Notification) {
        self.queue.notify_peers(notification);
    }

    /// Claims, and waits until there is something to claim.
    ///
    /// The claim takes part in the next batch. While it gets nothing, it takes part in every later
    /// batch that may bring it work, after that batch's submits. So one commit stores and starts a
    /// job that is submitted to an idle system.
    pub fn claim_waiting(&self, scope: Scope, claim_request: ClaimRequest) -> ClaimWait {
        ClaimWait::claim_waiting(&self.queue, scope, claim_request)
    }

    /// Lets waiting claims try again: those that want one of `types`, or all. For work that no
    /// request brings: jobs that become due, and work from other nodes.
    pub fn wake(&self, types: Option<&[JobType]>) {
        let wanted = |filter: &ClaimFilter| {
            types.is_none_or(|types| types.iter().any(|job_type| filter.has_type(job_type)))
        };
        let mut state = self.queue.state();
        if !state.claims.is_empty() {
            state.claims.mark_ready(|_, filter| wanted(filter));
            self.queue.notify_writer(state);
        }
    }

    /// Watches a job for batches that touch it. Call this before you read the job.
    pub fn watch(&self, id: JobId) -> Watch {
        self.queue.watchers.watch(id)
    }

    pub(crate) fn watchers(&self) -> &Arc<Watchers> {
        &self.queue.watchers
    }

    /// Sets whether other nodes want notifications of this node's writes.
    pub(crate) fn set_has_peers(&self, has_peers: bool) {
        self.queue.has_peers.store(has_peers, Ordering::SeqCst);
    }

    /// What waits now.
    pub fn waiting(&self) -> Waiting {
        let state = self.queue.state();
        let (reports, ordinary) = (&state.reports, &state.ordinary);
        Waiting {
            requests: reports.admitted_size.requests + ordinary.admitted_size.requests,
            bytes: reports.admitted_size.bytes + ordinary.admitted_size.bytes,
            overflow: reports.overflow.len() + ordinary.overflow.len(),
            waiting_claims: state.claims.len(),
        }
    }

    /// Accepts nothing new, finishes what waits, and returns after the last answer. Waiting claims
    /// get an empty answer, and watches report that the node is closed.
    ///
    /// Blocking. Jobs whose answer the caller never takes stay leased until the lease runs out.
    pub fn close(&self) {
        self.queue.close();
        // A second caller of `close` waits here until the first is done.
        let mut threads = self.threads.lock().expect(UNPOISONED);
        for thread in threads.drain(..) {
            // The last owner of the batcher may be a future that this thread drops with its answer.
            // Then this is a writer thread, which cannot join itself.
            if thread.thread().id() != thread::current().id() {
                drop(thread.join()); // its callers already got the store's panic
            }
        }
        drop(threads);
        self.queue.watchers.close();
    }
}

impl Drop for Batcher {
    fn drop(&mut self) {
        self.close();
    }
}

const UNPOISONED: &str = "no code panics while it holds a lock of the batcher";
