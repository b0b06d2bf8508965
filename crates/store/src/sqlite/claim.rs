//! Which due jobs a claim gets: in turn over the queues, then by priority, then by due time.

use super::{
    cached_job::CachedJob,
    digest,
    error::TransactionError,
    load::{self, Stored},
    maintenance::to_i64,
    sql,
    writer::Writer,
};
use crate::{store::Claimed, unit_of_work::Source as _};
use engine::{CLAIM_BYTES_MAX, CLAIM_MAX, Claim, ClaimRequest, Effect, JsonText, Scope, Timestamp};
use std::{collections::VecDeque, sync::Arc};

/// The waiting jobs of one queue, as far as a claim has looked.
struct WaitingJobs {
    queue: i64,
    found: VecDeque<i64>,
    /// So many of them were read ahead.
    ahead: usize,
    /// There is nothing beyond what was found.
    whole: bool,
}

/// So many jobs are read at a time: few enough that large payloads are not read for nothing.
const AHEAD: usize = 32;

impl Writer {
    pub(super) fn claim(
        &mut self,
        scope: &Scope,
        claim_request: &ClaimRequest,
    ) -> Result<Vec<Claimed>, TransactionError> {
        let held = self.held(scope, claim_request)?;
        if !held.is_empty() {
            return Ok(held);
        }
        let max = claim_request.max.min(CLAIM_MAX);
        let mut lines = self.lines(scope, claim_request);
        let share = max.div_ceil(lines.len().max(1));
        let claim = Claim::of(scope, claim_request);
        let mut claimed = Vec::new();
        let mut bytes = 0;
        // One job from each queue in turn, until the claim is full or nobody has a due job left.
        while claimed.len() < max
            && bytes < CLAIM_BYTES_MAX
            && let Some(mut line) = lines.pop_front()
        {
            let Some(no) = self.next_in(&mut line, share.min(max - claimed.len()))? else {
                continue;
            };
            match self.start(no, &claim)? {
                Some(started) => {
                    bytes += started.payload.as_str().len();
                    claimed.push(started);
                    self.serves += 1;
                    self.served.insert(line.queue, self.serves);
                }
                // What is damaged is not found again. Anything else would be, again and again: enough of
                // this line for now.
                None if self.known.damaged.contains(&no) => {}
                None => line.whole = true,
            }
            lines.push_back(line);
        }
        Ok(claimed)
    }

    /// The leases that an earlier claim of the same name still holds. Of the types that are wanted: a door has
    /// looked at no others, and names can be guessed.
    fn held(
        &self,
        scope: &Scope,
        claim_request: &ClaimRequest,
    ) -> Result<Vec<Claimed>, TransactionError> {
        let digest = digest::of_claim(scope, &claim_request.worker, &claim_request.claim);
        let mut held = Vec::new();
        for (_, no) in self.known.claims.range((digest, i64::MIN)..=(digest, i64::MAX)) {
            let no = *no;
            let stored = self.must_find(no)?;
            let theirs = stored.job.lease().is_some_and(|lease| {
                (&lease.scope, &lease.worker, &lease.claim)
                    == (scope, &claim_request.worker, &claim_request.claim)
                    && claim_request.wants(&stored.job.envelope.job_type)
                    && lease.holds_in(self.known.fixture.epoch)
            });
            if theirs {
                let payload = load::payload(&self.db, no)?;
                held.push(Claimed { payload, job: stored.job.clone() });
            }
        }
        Ok(held)
    }

    /// The queues that the claim may take from and where something may be due; the one that was not
    /// served for the longest time comes first.
    ///
    /// Not a cursor that goes round: workers that want different types would keep setting it past
    /// each other's queues, and one of them could starve.
    fn lines(&self, scope: &Scope, claim_request: &ClaimRequest) -> VecDeque<WaitingJobs> {
        let mut wanted = claim_request.job_types.clone();
        wanted.sort();
        wanted.dedup();
        let queues = wanted.iter().flat_map(|job_type| self.known.queues.of_type(job_type, scope));
        let open = queues.filter(|(no, queue)| {
            let ready = self.known.ready.get(no);
            self.known.queued(*no) > 0
                && ready.is_none_or(|ready| ready.not_before <= self.now())
                && !self.known.is_paused(queue)
        });
        let mut open: Vec<i64> = open.map(|(no, _)| no).collect();
        open.sort_by_key(|queue| self.served.get(queue));
        let line = |queue| WaitingJobs { queue, found: VecDeque::new(), ahead: 0, whole: false };
        open.into_iter().map(line).collect()
    }

    /// The next due job of a line. What was found before has been claimed since, so looking again
    /// finds what comes after it.
    fn next_in(
        &mut self,
        line: &mut WaitingJobs,
        share: usize,
    ) -> Result<Option<i64>, TransactionError> {
        if line.found.is_empty() && !line.whole {
            line.found = self.due(line.queue, share)?;
            line.whole = line.found.len() < share;
            if line.found.is_empty() {
                self.none_due(line.queue)?;
            }
        }
        if line.ahead == 0 {
            line.ahead = line.found.len().min(AHEAD);
            let ahead: Vec<i64> = line.found.iter().take(AHEAD).copied().collect();
            self.read_ahead(&ahead)?;
        }
        line.ahead = line.ahead.saturating_sub(1);
        Ok(line.found.pop_front())
    }

    /// The first due jobs of a queue, in the order in which they should start.
    fn due(&mut self, queue: i64, limit: usize) -> Result<VecDeque<i64>, TransactionError> {
        self.write_pending()?;
        let ready = self.known.ready.get(&queue).copied().unwrap_or_default();
        let damaged = &self.known.damaged;
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

    /// Remembers until when it is no use to look at a queue.
    fn none_due(&mut self, queue: i64) -> Result<(), TransactionError> {
        let mut ready = self.known.ready.get(&queue).copied().unwrap_or_default();
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
        self.known.ready.insert(queue, ready);
        Ok(())
    }

    /// Starts a job that stood in a line. The engine has the last word.
    fn start(&mut self, no: i64, claim: &Claim) -> Result<Option<Claimed>, TransactionError> {
        let found = self.find_to_start(no);
        let Some((stored, payload)) = load::readable(found)? else {
            self.known.damaged.insert(no);
            return Ok(None);
        };
        let facts = self.facts(self.known.records.policy(&stored.job.envelope.job_type));
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

    /// A job that waits, and its payload.
    fn find_to_start(&self, no: i64) -> Result<(Arc<Stored>, JsonText), TransactionError> {
        if let Some(CachedJob { stored, payload }) = self.job_cache.get(no) {
            let payload = payload.clone().map_or_else(|| load::payload(&self.db, no), Ok)?;
            return Ok((stored.clone(), payload));
        }
        Ok((self.must_find(no)?, load::payload(&self.db, no)?))
    }

    /// Reads jobs that are about to be started, neighbours together. What cannot be read is met again
    /// when its turn comes.
    fn read_ahead(&mut self, due: &[i64]) -> Result<(), TransactionError> {
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

    /// A job that an index has named.
    pub(super) fn must_find(&self, no: i64) -> Result<Arc<Stored>, TransactionError> {
        self.find_by_no(no)?.ok_or(TransactionError::Impossible(NOT_THERE))
    }
}

const NOT_THERE: &str = "an index names a job that is not there";
