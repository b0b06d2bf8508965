//! Gather the requests of many callers into few transactions.
//!
//! A durable commit costs the same for one change as for a thousand, so nobody commits alone: a batch
//! is whatever arrived while the last commit ran. A caller who is alone waits for nobody: an idle system
//! commits at once.

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
/// others. The request of a caller that leaves early may be carried out all the same, but no job
/// stays leased to a caller that is gone.
pub struct Batcher {
    queue: Arc<BatchQueue>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// How much goes into a batch, and how much may wait for one.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Requests in a batch.
    pub batch_requests_max: usize,
    /// Jobs that a batch may touch. Claims that stand and wait have a share of the same size for
    /// themselves, so that a flood of other requests cannot keep workers idle.
    pub batch_jobs_max: usize,
    /// What the requests of a batch may hold in memory.
    pub batch_bytes_max: usize,
    /// What may wait for its batch in each lane. Callers above it are held in front of the lane, in
    /// their order; those who leave take their requests with them.
    pub waiting_bytes_max: usize,
    /// Batches under way at the same time. More than one is for stores with more than one writer.
    pub writers: usize,
    /// The callers of a batch of so many submissions are waited for: they come back with their
    /// next.
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
    /// What they hold in memory, roughly.
    pub bytes: usize,
    /// Callers in front of a full lane.
    pub held: usize,
    /// Claims that wait for work.
    pub standing: usize,
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
            // Should a thread not start, those that did are closed with the batcher.
            let thread = builder.spawn(move || queue.write())?;
            batcher.threads.lock().expect(UNPOISONED).push(thread);
        }
        Ok(batcher)
    }

    /// Carries out the requests of one caller in one transaction. Replies are in request order.
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
    /// It takes part in the next batch and, as long as it gets nothing, in every later one that may
    /// bring it work, after the submits in it: a job handed over to an idle system is stored and
    /// started by one commit.
    pub fn stand(&self, scope: Scope, claim_request: ClaimRequest) -> ClaimWait {
        ClaimWait::stand(&self.queue, scope, claim_request)
    }

    /// Lets claims that wait try again: those that want one of `types`, or all. For what no request
    /// brings: time that has come, and other nodes.
    pub fn wake(&self, types: Option<&[JobType]>) {
        let wanted =
            |filter: &ClaimFilter| types.is_none_or(|types| types.iter().any(|t| filter.knows(t)));
        let mut state = self.queue.state();
        if !state.claims.is_empty() {
            state.claims.mark_ready(|_, filter| wanted(filter));
            self.queue.notify_writer(state);
        }
    }

    /// Wants to know when a batch touches a job. Begin before you read it.
    pub fn watch(&self, id: JobId) -> Watch {
        self.queue.watchers.watch(id)
    }

    pub(crate) fn watchers(&self) -> &Arc<Watchers> {
        &self.queue.watchers
    }

    /// Whether there are other nodes, which want to know what this one does.
    pub(crate) fn be_in_company(&self, company: bool) {
        self.queue.company.store(company, Ordering::SeqCst);
    }

    /// What waits now.
    pub fn waiting(&self) -> Waiting {
        let state = self.queue.state();
        let (reports, ordinary) = (&state.reports, &state.ordinary);
        Waiting {
            requests: reports.inside.requests + ordinary.inside.requests,
            bytes: reports.inside.bytes + ordinary.inside.bytes,
            held: reports.held.len() + ordinary.held.len(),
            standing: state.claims.len(),
        }
    }

    /// Takes nothing new, finishes what waits, and returns when the last answer was given. Claims that
    /// stand get an empty one, and whoever watches a job learns that nothing will happen any more.
    ///
    /// This blocks. Jobs whose answer nobody takes afterwards stay leased until the lease runs out.
    pub fn close(&self) {
        self.queue.close();
        // Whoever closes as well waits here until it is done.
        let mut threads = self.threads.lock().expect(UNPOISONED);
        for thread in threads.drain(..) {
            // The last one who knows the batcher may be a future that dies of the answer it gets. Then
            // this is a writer, which cannot wait for itself.
            if thread.thread().id() != thread::current().id() {
                drop(thread.join()); // a panic of the store was told to its callers
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

const UNPOISONED: &str = "no code of ours panics with a lock of the batcher in hand";
