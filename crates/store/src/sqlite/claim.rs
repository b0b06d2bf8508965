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
    found: VecDeque<i64>,
    /// How many of them were read ahead.
    ahead: usize,
    /// The queue has no due jobs beyond `found`.
    whole: bool,
}

/// How many jobs are read at a time: few enough that large payloads are not read in vain.
const AHEAD: usize = 32;

impl Writer {
    pub(super) fn claim(
        &mut self,
        scope: &Scope,
        claim_request: &ClaimRequest,
    ) -> Result<Vec<Claimed>> {
        let held = self.held(scope, claim_request)?;
        if !held.is_empty() {
            return Ok(held);
        }
        let max = claim_request.max.min(CLAIM_MAX);
        let mut candidates = self.candidates(scope, claim_request);
        let share = max.div_ceil(candidates.len().max(1));
        let claim = Claim::of(scope, claim_request);
        let mut claimed = Vec::new();
        let mut bytes = 0;
        // One job from each queue in turn, until the claim is full or no queue has a due job left.
        while claimed.len() < max
            && bytes < CLAIM_BYTES_MAX
            && let Some(mut candidate) = candidates.pop_front()
        {
            let Some(no) = self.next_in(&mut candidate, share.min(max - claimed.len()))? else {
                continue;
            };
            match self.start(no, &claim)? {
                Some(started) => {
                    bytes += started.payload.as_str().len();
                    claimed.push(started);
                    self.serves += 1;
                    self.served.insert(candidate.queue, self.serves);
                }
                // A damaged job is not found again. Any other refused job would be, again and
                // again, so the claim stops reading this queue.
                None if self.cache.damaged.contains(&no) => {}
                None => candidate.whole = true,
            }
            candidates.push_back(candidate);
        }
        Ok(claimed)
    }

    /// The leases that an earlier claim of the same name still holds, limited to the wanted types:
    /// the HTTP API has authorized only those, and claim names can be guessed.
    fn held(&self, scope: &Scope, claim_request: &ClaimRequest) -> Result<Vec<Claimed>> {
        let digest = digest::of_claim(scope, &claim_request.worker, &claim_request.claim);
        let mut held = Vec::new();
        for (_, no) in self.cache.claims.range((digest, i64::MIN)..=(digest, i64::MAX)) {
            let no = *no;
            let stored = self.must_find(no)?;
            let theirs = stored.job.lease().is_some_and(|lease| {
                (&lease.scope, &lease.worker, &lease.claim)
                    == (scope, &claim_request.worker, &claim_request.claim)
                    && claim_request.wants(&stored.job.envelope.job_type)
                    && lease.holds_in(self.cache.store_meta.epoch)
            });
            if theirs {
                let payload = load::payload(&self.db, no)?;
                held.push(Claimed { payload, job: stored.job.clone() });
            }
        }
        Ok(held)
    }

    /// The queues that the claim may take from and where a job may be due; the queue that was not
    /// served for the longest time comes first.
    ///
    /// Not a round-robin cursor: workers that want different types would keep moving it past each
    /// other's queues, and one of them could starve.
    fn candidates(&self, scope: &Scope, claim_request: &ClaimRequest) -> VecDeque<WaitingJobs> {
        let mut wanted = claim_request.job_types.clone();
        wanted.sort();
        wanted.dedup();
        let queues = wanted.iter().flat_map(|job_type| self.cache.queues.of_type(job_type, scope));
        let open = queues.filter(|(no, queue)| {
            let ready = self.cache.ready.get(no);
            self.cache.queued(*no) > 0
                && ready.is_none_or(|ready| ready.not_before <= self.now())
                && !self.cache.is_paused(queue)
        });
        let mut open: Vec<i64> = open.map(|(no, _)| no).collect();
        open.sort_by_key(|queue| self.served.get(queue));
        let candidate =
            |queue| WaitingJobs { queue, found: VecDeque::new(), ahead: 0, whole: false };
        open.into_iter().map(candidate).collect()
    }

    /// The next due job of a queue. The jobs found before have been claimed since, so reading again
    /// finds the jobs after them.
    fn next_in(&mut self, candidate: &mut WaitingJobs, share: usize) -> Result<Option<i64>> {
        if candidate.found.is_empty() && !candidate.whole {
            candidate.found = self.due(candidate.queue, share)?;
            candidate.whole = candidate.found.len() < share;
            if candidate.found.is_empty() {
                self.none_due(candidate.queue)?;
            }
        }
        if candidate.ahead == 0 {
            candidate.ahead = candidate.found.len().min(AHEAD);
            let ahead: Vec<i64> = candidate.found.iter().take(AHEAD).copied().collect();
            self.read_ahead(&ahead)?;
        }
        candidate.ahead = candidate.ahead.saturating_sub(1);
        Ok(candidate.found.pop_front())
    }

    /// The first due jobs of a queue, in the order in which they should start.
    fn due(&mut self, queue: i64, limit: usize) -> Result<VecDeque<i64>> {
        self.write_pending()?;
        let ready = self.cache.ready.get(&queue).copied().unwrap_or_default();
        let damaged = &self.cache.damaged;
        let mut found = VecDeque::new();
        for rank in ready.ranks() {
            let wanted = limit - found.len();
            let values = (queue, rank, self.now().unix_ms(), to_i64(wanted + damaged.len()));
            let due = load::numbers(&self.db, sql::READY, values)?;
            found.extend(due.into_iter().filter(|no| !damaged.contains(no)).take(wanted));
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    /// Remembers until when no job of a queue is due.
    fn none_due(&mut self, queue: i64) -> Result<()> {
        let mut ready = self.cache.ready.get(&queue).copied().unwrap_or_default();
        ready.not_before = Timestamp::MAX;
        for rank in ready.ranks() {
            let values = (queue, rank, self.now().unix_ms());
            match load::one::<Option<i64>>(&self.db, sql::READY_NEXT, values)? {
                Some(run_at) => {
                    ready.not_before = ready.not_before.min(Timestamp::from_unix_ms(run_at));
                }
                None => ready.none_of(rank),
            }
        }
        self.cache.ready.insert(queue, ready);
        Ok(())
    }

    /// Starts a waiting job, if the engine allows it.
    fn start(&mut self, no: i64, claim: &Claim) -> Result<Option<Claimed>> {
        let found = self.find_to_start(no);
        let Some((stored, payload)) = load::readable(found)? else {
            self.cache.damaged.insert(no);
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
        let known = |no| self.job_cache.get(no).is_some_and(|memory| memory.payload.is_some());
        let unknown: Vec<i64> = due.iter().copied().filter(|no| !known(*no)).collect();
        for neighbours in unknown.chunk_by(|one, next| one + 1 == *next) {
            let range = (neighbours[0], neighbours[neighbours.len() - 1]);
            let job_cache = &mut self.job_cache;
            load::start(&self.db, range, |read| {
                if let Ok((stored, payload)) = read {
                    job_cache.put(CachedJob { stored: Arc::new(stored), payload: Some(payload) });
                }
            })?;
        }
        Ok(())
    }

    /// A job whose number comes from an index.
    pub(super) fn must_find(&self, no: i64) -> Result<Arc<Stored>> {
        self.find_by_no(no)?.ok_or(TransactionError::Impossible(NOT_THERE))
    }
}

const NOT_THERE: &str = "an index names a job that is not there";
