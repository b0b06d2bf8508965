//! Which due jobs a claim gets: queues take turns, then by priority, then by due time.

use super::{
    cached_job::CachedJob,
    digest,
    error::{Result, TransactionError},
    load::{self, Stored},
    maintenance::to_i64,
    sql,
    writer::Writer,
};
use crate::{store::Claimed, unit_of_work::Source as _};
use engine::{CLAIM_BYTES_MAX, CLAIM_MAX, Claim, ClaimRequest, Effect, JsonText, Scope, Timestamp};
use std::{collections::VecDeque, sync::Arc};

/// The waiting jobs of one queue, as far as a claim has read them.
struct WaitingJobs {
    queue: i64,
    due_jobs: VecDeque<i64>,
    /// How many of them have their rows in the job cache.
    cached: usize,
    /// The queue has no due jobs beyond `due_jobs`.
    is_exhausted: bool,
}

/// How many jobs are read at a time: few enough that large payloads are not read in vain.
const READ_AHEAD_MAX: usize = 32;

impl Writer {
    pub(super) fn claim(
        &mut self,
        scope: &Scope,
        claim_request: &ClaimRequest,
    ) -> Result<Vec<Claimed>> {
        let leases = self.leases_of_claim(scope, claim_request)?;
        if !leases.is_empty() {
            return Ok(leases);
        }
        let jobs_max = claim_request.max.min(CLAIM_MAX);
        let mut candidates = self.candidates(scope, claim_request);
        let share = jobs_max.div_ceil(candidates.len().max(1));
        let claim = Claim::of(scope, claim_request);
        let mut claimed = Vec::new();
        let mut bytes = 0;
        // One job from each queue in turn, until the claim is full or no queue has a due job left.
        while claimed.len() < jobs_max
            && bytes < CLAIM_BYTES_MAX
            && let Some(mut candidate) = candidates.pop_front()
        {
            let Some(no) = self.next_in(&mut candidate, share.min(jobs_max - claimed.len()))?
            else {
                continue;
            };
            match self.start(no, &claim)? {
                Some(started) => {
                    bytes += started.payload.as_str().len();
                    claimed.push(started);
                    self.serve_count += 1;
                    self.last_served.insert(candidate.queue, self.serve_count);
                }
                // A damaged job is not found again. Any other refused job would be, again and
                // again, so the claim stops reading this queue.
                None if self.cache.damaged_jobs.contains(&no) => {}
                None => candidate.is_exhausted = true,
            }
            candidates.push_back(candidate);
        }
        Ok(claimed)
    }

    /// The leases that an earlier claim of the same name still holds, limited to the wanted types:
    /// the HTTP API has authorized only those, and claim names can be guessed.
    fn leases_of_claim(&self, scope: &Scope, claim_request: &ClaimRequest) -> Result<Vec<Claimed>> {
        let digest = digest::of_claim(scope, &claim_request.worker, &claim_request.claim);
        let mut leases = Vec::new();
        for (_, no) in self.cache.claimed_jobs.range((digest, i64::MIN)..=(digest, i64::MAX)) {
            let no = *no;
            let stored = self.must_find(no)?;
            let is_of_claim = stored.job.lease().is_some_and(|lease| {
                (&lease.scope, &lease.worker, &lease.claim)
                    == (scope, &claim_request.worker, &claim_request.claim)
                    && claim_request.wants(&stored.job.envelope.job_type)
                    && lease.holds_in(self.cache.store_meta.epoch)
            });
            if is_of_claim {
                let payload = load::payload(&self.db, no)?;
                leases.push(Claimed { payload, job: stored.job.clone() });
            }
        }
        Ok(leases)
    }

    /// The queues that the claim may take from and where a job may be due; the queue that was not
    /// served for the longest time comes first.
    ///
    /// Not a round-robin cursor: workers that want different types would keep moving it past each
    /// other's queues, and one of them could starve.
    fn candidates(&self, scope: &Scope, claim_request: &ClaimRequest) -> VecDeque<WaitingJobs> {
        let mut job_types = claim_request.job_types.clone();
        job_types.sort();
        job_types.dedup();
        let queues =
            job_types.iter().flat_map(|job_type| self.cache.queues.of_type(job_type, scope));
        let open = queues.filter(|(no, queue)| {
            let ready = self.cache.ready_queues.get(no);
            self.cache.queued(*no) > 0
                && ready.is_none_or(|ready| ready.not_before <= self.now())
                && !self.cache.records.is_paused(queue)
        });
        let mut open: Vec<i64> = open.map(|(no, _)| no).collect();
        open.sort_by_key(|queue| self.last_served.get(queue));
        let candidate = |queue| WaitingJobs {
            queue,
            due_jobs: VecDeque::new(),
            cached: 0,
            is_exhausted: false,
        };
        open.into_iter().map(candidate).collect()
    }

    /// The next due job of a queue. The jobs found before have been claimed since, so reading again
    /// finds the jobs after them.
    fn next_in(&mut self, candidate: &mut WaitingJobs, share: usize) -> Result<Option<i64>> {
        if candidate.due_jobs.is_empty() && !candidate.is_exhausted {
            candidate.due_jobs = self.due(candidate.queue, share)?;
            candidate.is_exhausted = candidate.due_jobs.len() < share;
            if candidate.due_jobs.is_empty() {
                self.record_none_due(candidate.queue)?;
            }
        }
        if candidate.cached == 0 {
            candidate.cached = candidate.due_jobs.len().min(READ_AHEAD_MAX);
            let numbers: Vec<i64> =
                candidate.due_jobs.iter().take(READ_AHEAD_MAX).copied().collect();
            self.read_ahead(&numbers)?;
        }
        candidate.cached = candidate.cached.saturating_sub(1);
        Ok(candidate.due_jobs.pop_front())
    }

    /// The first due jobs of a queue, in the order in which they should start.
    fn due(&mut self, queue: i64, limit: usize) -> Result<VecDeque<i64>> {
        self.write_pending()?;
        let ready = self.cache.ready_queues.get(&queue).copied().unwrap_or_default();
        let damaged = &self.cache.damaged_jobs;
        let mut due_jobs = VecDeque::new();
        for rank in ready.ranks() {
            let missing = limit - due_jobs.len();
            let values = (queue, rank, self.now().unix_ms(), to_i64(missing + damaged.len()));
            let due = load::numbers(&self.db, sql::READY, values)?;
            due_jobs.extend(due.into_iter().filter(|no| !damaged.contains(no)).take(missing));
            if due_jobs.len() == limit {
                break;
            }
        }
        Ok(due_jobs)
    }

    /// Remembers until when no job of a queue is due.
    fn record_none_due(&mut self, queue: i64) -> Result<()> {
        let mut ready = self.cache.ready_queues.get(&queue).copied().unwrap_or_default();
        ready.not_before = Timestamp::MAX;
        for rank in ready.ranks() {
            let values = (queue, rank, self.now().unix_ms());
            match load::one::<Option<i64>>(&self.db, sql::READY_NEXT, values)? {
                Some(run_at) => {
                    ready.not_before = ready.not_before.min(Timestamp::from_unix_ms(run_at));
                }
                None => ready.remove_rank(rank),
            }
        }
        self.cache.ready_queues.insert(queue, ready);
        Ok(())
    }

    /// Starts a waiting job, if the engine allows it.
    fn start(&mut self, no: i64, claim: &Claim) -> Result<Option<Claimed>> {
        let row = self.find_to_start(no);
        let Some((stored, payload)) = load::readable(row)? else {
            self.cache.damaged_jobs.insert(no);
            return Ok(None);
        };
        let facts = self.facts(self.cache.records.policy(&stored.job.envelope.job_type));
        let Ok(decided) = engine::claim(&stored.job, claim, &facts) else {
            return Ok(None);
        };
        let Effect::Change(change) = decided.effect else {
            return Ok(None);
        };
        let job = change.job.clone();
        self.save_change(&stored, *change)?;
        Ok(Some(Claimed { payload, job }))
    }

    /// A waiting job and its payload.
    fn find_to_start(&self, no: i64) -> Result<(Arc<Stored>, JsonText)> {
        if let Some(CachedJob { stored, payload }) = self.job_cache.get(no) {
            let payload = payload.clone().map_or_else(|| load::payload(&self.db, no), Ok)?;
            return Ok((stored.clone(), payload));
        }
        Ok((self.must_find(no)?, load::payload(&self.db, no)?))
    }

    /// Reads jobs that are about to be started, adjacent numbers together. A job that cannot be
    /// read fails later, when the claim starts it.
    fn read_ahead(&mut self, due: &[i64]) -> Result<()> {
        let is_cached = |no| self.job_cache.get(no).is_some_and(|entry| entry.payload.is_some());
        let missing: Vec<i64> = due.iter().copied().filter(|no| !is_cached(*no)).collect();
        for neighbours in missing.chunk_by(|one, next| one + 1 == *next) {
            let range = (neighbours[0], neighbours[neighbours.len() - 1]);
            let job_cache = &mut self.job_cache;
            load::jobs_to_start(&self.db, range, |read| {
                if let Ok((stored, payload)) = read {
                    job_cache.put(CachedJob { stored: Arc::new(stored), payload: Some(payload) });
                }
            })?;
        }
        Ok(())
    }

    /// A job whose number comes from an index.
    pub(super) fn must_find(&self, no: i64) -> Result<Arc<Stored>> {
        self.find_by_no(no)?.ok_or(TransactionError::Inconsistent(JOB_MISSING))
    }
}

const JOB_MISSING: &str = "an index contains a job that does not exist";
