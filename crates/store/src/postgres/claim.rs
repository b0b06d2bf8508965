//! Which due jobs a claim gets: queues in turn, then by priority, then by due time.
//!
//! Claims of one batch that want the same queues share one scan; its jobs are distributed among
//! them.

use super::{
    Inner,
    batch_plan::{BatchPlan, PlannedClaim},
    claim_cursors::{DueScanSummary, RANKS, ranks},
    error::{Result, TransactionError},
    execute::UncommittedBatch,
    load, locked,
    locks::{self, ClockReading},
    pending::queue_column,
    pool::PooledConnection,
    settings_cache::SettingsCache,
    sql,
    transaction::Transaction,
    uuid::id_of,
    values::Param,
};
use crate::{codec::stored::Stored, record::Records, store::Claimed};
use engine::{
    CLAIM_BYTES_MAX, CLAIM_MAX, Claim, ClaimRequest, JobId, JobType, JsonText, Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::Row;

/// A scan locks and reads at most this many jobs.
const SCAN_JOBS_MAX: usize = 1_000;
/// At most this many scans are made for claims that have not got all they want.
const SCANS_MAX: usize = 16;

/// The due jobs of one queue that scans have found so far.
struct DueJobs {
    queue: i64,
    jobs: VecDeque<DueJob>,
    /// When this transaction last took a job from the queue, as the number of jobs it had taken
    /// from all queues by then.
    last_served: usize,
    /// The scan reached the end of the queue.
    is_exhausted: bool,
}

/// A queued job that this transaction has locked.
struct DueJob {
    stored: Arc<Stored>,
    payload: JsonText,
}

/// The result of a scan of some queues, before its rows are decoded.
pub(super) struct DueScan {
    queues: Vec<i64>,
    capacity: usize,
    /// Where the scan began in each queue, and whether that was the start of the index.
    lower_bounds: Vec<([i64; RANKS], bool)>,
    scanned_at: Duration,
    jobs_per_queue: usize,
    rows: Vec<Row>,
    pub(super) clock: ClockReading,
}

/// A claim that is being served.
struct ServedClaim<'a> {
    index: usize,
    claim: Claim,
    claim_request: &'a ClaimRequest,
    claimed: Vec<Claimed>,
    bytes: usize,
}

impl ServedClaim<'_> {
    fn capacity(&self) -> usize {
        if self.bytes >= CLAIM_BYTES_MAX {
            return 0;
        }
        self.claim_request.max.min(CLAIM_MAX) - self.claimed.len()
    }
}

impl Inner {
    /// Serves the claims of a batch; returns what each got, in their order.
    pub(super) async fn claim<'a>(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'a>,
        claim_results: &HashMap<i64, Vec<JobId>>,
        batch: &mut UncommittedBatch,
    ) -> Result<Vec<Vec<Claimed>>> {
        let claims = &plan.claims;
        let mut claimed: Vec<Option<Vec<Claimed>>> = Vec::new();
        let mut leases_of_other_types: Vec<Vec<JobId>> = Vec::new();
        for claim in claims {
            let ids = claim_results.get(&claim.digest);
            let (leased, other_types) =
                self.leases_of_claim(db, &batch.transaction, claim, ids).await?;
            claimed.push((!leased.is_empty()).then_some(leased));
            leases_of_other_types.push(other_types);
        }
        let mut groups: BTreeMap<Vec<i64>, Vec<usize>> = BTreeMap::new();
        // Compared by name and not by digest: a worker can choose a name whose digest collides with
        // another's.
        let name = |claim: &PlannedClaim<'a>| {
            (claim.scope, &claim.claim_request.worker, &claim.claim_request.claim)
        };
        let mut first: BTreeMap<_, usize> = BTreeMap::new();
        for (index, claim) in claims.iter().enumerate() {
            // A claim and its repetition in one batch get the same jobs.
            let is_first = *first.entry(name(claim)).or_insert(index) == index;
            if claimed[index].is_none() && is_first {
                let Transaction { settings, .. } = &batch.transaction;
                let queues = claimable_queues(settings, batch.transaction.records(), claim);
                groups.entry(queues).or_default().push(index);
            }
        }
        for (queues, indexes) in groups {
            let serving = indexes.iter().map(|index| serving(*index, &claims[*index])).collect();
            for served in self.serve(db, &queues, serving, batch).await? {
                let ids = served.claimed.iter().map(|claimed| claimed.job.id());
                let other_leases = std::mem::take(&mut leases_of_other_types[served.index]);
                if !served.claimed.is_empty() {
                    let all = ids.chain(other_leases).collect();
                    batch.granted.push((claims[served.index].digest, all));
                }
                claimed[served.index] = Some(served.claimed);
            }
        }
        // Where no queue could be scanned, no claim is locked yet, and one of them may be a
        // repetition.
        let unlocked = std::mem::take(&mut batch.transaction.unlocked_claims);
        expect_new(&unlocked, locks::lock_claims(db, &unlocked).await?)?;
        for (index, claim) in claims.iter().enumerate() {
            if claimed[index].is_none() {
                let first = claimed[first[&name(claim)]].clone().unwrap_or_default();
                let wants =
                    |claimed: &Claimed| claim.claim_request.wants(&claimed.job.envelope.job_type);
                claimed[index] = Some(first.into_iter().filter(wants).collect());
            }
        }
        Ok(claimed.into_iter().flatten().collect())
    }

    /// The leases that an earlier claim of the same name still holds, of the wanted types only: the
    /// HTTP API authorized no other types, and names can be guessed. Jobs of other types are only
    /// returned by id, so that the claim's row keeps them.
    async fn leases_of_claim(
        &self,
        db: &PooledConnection,
        transaction: &Transaction,
        claim: &PlannedClaim<'_>,
        ids: Option<&Vec<JobId>>,
    ) -> Result<(Vec<Claimed>, Vec<JobId>)> {
        let Some(ids) = ids else { return Ok((Vec::new(), Vec::new())) };
        let mut found = load::read(db, ids).await?;
        found.extend(ids.iter().filter_map(|id| Some((*id, transaction.jobs.get(id)?.clone()))));
        let (scope, claim_request) = (claim.scope, claim.claim_request);
        let is_of_claim = |stored: &&Arc<Stored>| {
            stored.job.lease().is_some_and(|lease| {
                (&lease.scope, &lease.worker, &lease.claim)
                    == (scope, &claim_request.worker, &claim_request.claim)
                    && lease.holds_in(transaction.epoch)
            })
        };
        let mut leased: Vec<&Arc<Stored>> = found.values().filter(is_of_claim).collect();
        leased.sort_by_key(|stored| stored.no);
        let wants = |stored: &&Arc<Stored>| claim_request.wants(&stored.job.envelope.job_type);
        let (wanted, other_types): (Vec<_>, Vec<_>) = leased.into_iter().partition(wants);
        let mut claimed = Vec::new();
        for stored in wanted {
            let payload = load::payload(db, stored.no).await?;
            claimed.push(Claimed { payload, job: stored.job.clone() });
        }
        Ok((claimed, other_types.into_iter().map(|stored| stored.job.id()).collect()))
    }

    /// Serves claims that may take from the same queues.
    async fn serve<'a>(
        &self,
        db: &PooledConnection,
        queues: &[i64],
        mut serving: Vec<ServedClaim<'a>>,
        batch: &mut UncommittedBatch,
    ) -> Result<Vec<ServedClaim<'a>>> {
        let mut remaining: Vec<i64> = queues.to_vec();
        for _ in 0..SCANS_MAX {
            let capacity: usize = serving.iter().map(ServedClaim::capacity).sum();
            if capacity == 0 || remaining.is_empty() {
                break;
            }
            let mut due_queues =
                self.scan(db, &remaining, capacity.min(SCAN_JOBS_MAX), batch).await?;
            for served in &mut serving {
                self.distribute(batch, &mut due_queues, served)?;
            }
            remaining = due_queues
                .iter()
                .filter(|due_jobs| !due_jobs.is_exhausted)
                .map(|due_jobs| due_jobs.queue)
                .collect();
            let more = !remaining.is_empty() && serving.iter().any(|served| served.capacity() > 0);
            if more {
                // The next scan must not find the jobs that were just started.
                self.write(db, &mut batch.transaction).await?;
            }
        }
        Ok(serving)
    }

    /// Gives jobs to one claim, one from each queue in turn. The queue that was served longest ago
    /// comes first.
    ///
    /// A round-robin cursor would not do: workers that want different types would move it past each
    /// other's queues all the time, and one of them could starve.
    fn distribute(
        &self,
        batch: &mut UncommittedBatch,
        due_queues: &mut [DueJobs],
        served: &mut ServedClaim<'_>,
    ) -> Result<()> {
        let cursors = locked(&self.claim_cursors);
        while served.capacity() > 0 {
            // A queue that this transaction has served comes after all queues served before it, as
            // it will once the transaction is committed.
            let last_served = |due_jobs: &&mut DueJobs| {
                (due_jobs.last_served, cursors.last_served(due_jobs.queue))
            };
            let waiting = due_queues.iter_mut().filter(|due_jobs| !due_jobs.jobs.is_empty());
            let Some(due_jobs) = waiting.min_by_key(last_served) else { break };
            let Some(DueJob { stored, payload }) = due_jobs.jobs.pop_front() else { break };
            let bytes = payload.as_str().len();
            if let Some(started) = batch.transaction.start(&stored, payload, &served.claim)? {
                served.bytes += bytes;
                served.claimed.push(started);
                batch.transaction.served_queues.push(due_jobs.queue);
                due_jobs.last_served = batch.transaction.served_queues.len();
            }
        }
        Ok(())
    }

    /// Finds and locks the first due jobs of these queues, an equal share of each.
    async fn scan(
        &self,
        db: &PooledConnection,
        queues: &[i64],
        capacity: usize,
        batch: &mut UncommittedBatch,
    ) -> Result<Vec<DueJobs>> {
        let transaction = &mut batch.transaction;
        let early_scan = transaction
            .early_scan
            .take()
            .filter(|scan| scan.queues == queues && scan.capacity == capacity);
        let DueScan { lower_bounds, scanned_at, jobs_per_queue, rows, clock, .. } = match early_scan
        {
            Some(scan) => scan,
            None => {
                let locks = std::mem::take(&mut transaction.unlocked_claims);
                self.scan_queues(db, (queues, capacity), &locks, Some(transaction.now)).await?
            }
        };
        transaction.continue_events_at(clock.event_seq);
        let now = transaction.now;
        // Row locks gave the transaction a number, if it had none.
        batch.xact.number = batch.xact.number.or(clock.xact_number);
        let mut found: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        for row in rows {
            found.entry(row.try_get(0)?).or_default().push(row);
        }
        let mut due_queues = Vec::new();
        for (ord, (queue, (_, from_start))) in (1..).zip(queues.iter().zip(&lower_bounds)) {
            let rows = found.remove(&ord).unwrap_or_default();
            let (mut due_jobs, last_found) = self.due_jobs_of(*queue, rows, jobs_per_queue)?;
            due_jobs.last_served =
                transaction.served_queues.iter().rposition(|of| of == queue).map_or(0, |at| at + 1);
            transaction.scan_summaries.push(DueScanSummary {
                queue: *queue,
                from_start: *from_start,
                last_found,
                now,
                scanned_at,
            });
            due_queues.push(due_jobs);
        }
        Ok(due_queues)
    }

    /// Locks the jobs that are due by `now`, which is the store's time. Before the transaction has
    /// read that, the statement uses the database's time, which is never later than the store's and
    /// nearly always equal.
    pub(super) async fn scan_queues(
        &self,
        db: &PooledConnection,
        (queues, capacity): (&[i64], usize),
        locks: &[i64],
        now: Option<Timestamp>,
    ) -> Result<DueScan> {
        let scanned_at = self.clock.read().monotonic;
        let jobs_per_queue = capacity.div_ceil(queues.len()) + locked(&self.damaged).len();
        let numbers: Vec<i32> = queues.iter().map(|queue| queue_column(*queue)).collect();
        let jobs_max = vec![i32::try_from(jobs_per_queue).unwrap_or(i32::MAX); queues.len()];
        let lower_bounds: Vec<_> = queues
            .iter()
            .map(|queue| locked(&self.claim_cursors).lower_bounds(*queue, scanned_at))
            .collect();
        let from: Vec<i64> =
            lower_bounds.iter().flat_map(|(lower_bounds, _)| *lower_bounds).collect();
        let (now, count) = (now.map(Timestamp::unix_ms), RANKS as i64);
        let params: [Param<'_>; 7] = [&numbers, &jobs_max, &ranks(), &from, &now, &count, &locks];
        let mut rows = db.rows(sql::DUE_LOCK, &params).await?;
        let last = rows
            .pop()
            .ok_or(TransactionError::Inconsistent("a due scan returned no clock reading"))?;
        let new: i64 = last.try_get(12)?;
        expect_new(locks, usize::try_from(new).unwrap_or(0))?;
        let clock = ClockReading {
            now: Timestamp::from_unix_ms(last.try_get(8)?),
            epoch: last.try_get(4)?,
            batch_settings_version: last.try_get(10)?,
            event_seq: last.try_get(1)?,
            xact_number: last.try_get(9)?,
            server_start: last.try_get(11)?,
        };
        Ok(DueScan {
            queues: queues.to_vec(),
            capacity,
            lower_bounds,
            scanned_at,
            jobs_per_queue,
            rows,
            clock,
        })
    }

    /// The jobs found in one queue, in order, and where the scan ended if it did not reach the end.
    fn due_jobs_of(
        &self,
        queue: i64,
        rows: Vec<Row>,
        jobs_per_queue: usize,
    ) -> Result<(DueJobs, Option<(usize, i64)>)> {
        let is_exhausted = rows.len() < jobs_per_queue;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let (no, rank, run_at): (i64, i16, i64) =
                (row.try_get(1)?, row.try_get(7)?, row.try_get(8)?);
            let order = (usize::try_from(rank).unwrap_or(0).min(RANKS - 1), run_at, no);
            match load::readable(read(row))? {
                Some(job) => found.push((order, job)),
                // A damaged job stays in its queue. Later scans skip it, so it takes no other job's
                // slot.
                None => drop(locked(&self.damaged).insert(no)),
            }
        }
        found.sort_by_key(|(order, _)| *order);
        let last_found =
            found.last().filter(|_| !is_exhausted).map(|((rank, run_at, _), _)| (*rank, *run_at));
        let jobs = found.into_iter().map(|(_, job)| job).collect();
        Ok((DueJobs { queue, jobs, last_served: 0, is_exhausted }, last_found))
    }
}

/// Fails if one of the locked claims is a repetition: it must get the jobs that it got before, and
/// the next attempt reads those first.
fn expect_new(locked: &[i64], new: usize) -> Result<()> {
    if locked.len() == new { Ok(()) } else { Err(TransactionError::StaleCache) }
}

fn serving<'a>(index: usize, planned: &PlannedClaim<'a>) -> ServedClaim<'a> {
    let claim = Claim::of(planned.scope, planned.claim_request);
    ServedClaim {
        index,
        claim,
        claim_request: planned.claim_request,
        claimed: Vec::new(),
        bytes: 0,
    }
}

/// The first scan of a batch of claims for the same queues, and how many jobs they want. Such a
/// scan need not wait for anything, and reads the clock as well.
pub(super) fn first_scan(
    plan: &BatchPlan<'_>,
    settings: &SettingsCache,
) -> Option<(Vec<i64>, usize)> {
    let mut queues_of_claims =
        plan.claims.iter().map(|claim| claimable_queues(settings, &settings.records, claim));
    let queues = queues_of_claims.next().filter(|queues| !queues.is_empty())?;
    let capacity: usize = plan.claims.iter().map(|it| it.claim_request.max.min(CLAIM_MAX)).sum();
    let is_mixed =
        plan.claims.len() < plan.requests.len() || queues_of_claims.any(|them| them != queues);
    (!is_mixed && capacity > 0).then(|| (queues, capacity.min(SCAN_JOBS_MAX)))
}

/// The queues that a claim may take from, sorted by name: of the queues that were never served, the
/// first by name comes first.
fn claimable_queues(
    settings: &SettingsCache,
    records: &Records,
    claim: &PlannedClaim<'_>,
) -> Vec<i64> {
    let job_types: BTreeSet<&JobType> = claim.claim_request.job_types.iter().collect();
    let of_types =
        job_types.into_iter().flat_map(|job_type| settings.queues.of_type(job_type, claim.scope));
    let claimable = of_types.filter(|(_, queue)| !records.is_paused(queue));
    claimable.map(|(no, _)| no).collect()
}

fn read(row: &Row) -> Result<DueJob> {
    let (id, no, queue): (_, i64, i32) = (id_of(row, 3)?, row.try_get(1)?, row.try_get(4)?);
    let stored = load::stored_of(id, (no, queue.into()), row.try_get(5)?, row.try_get(2)?)?;
    Ok(DueJob { stored: Arc::new(stored), payload: JsonText::from_stored(row.try_get(6)?) })
}
