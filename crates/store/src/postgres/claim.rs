//! Which due jobs a claim gets: queues in turn, then by priority, then by due time.
//!
//! Claims of one batch that want the same queues share one scan; its jobs are distributed among
//! them.

use super::{
    Inner,
    batch_plan::{BatchPlan, PlannedClaim},
    claim_cursors::{DueScanSummary, RANKS, ranks},
    error::{Result, TransactionError},
    execute::Ready,
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
use crate::{codec::stored::Stored, queue::Queue, store::Claimed};
use engine::{
    CLAIM_BYTES_MAX, CLAIM_MAX, Claim, ClaimRequest, JobId, JobType, JsonText, Scope, Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::Row;

/// A scan locks and reads at most this many jobs.
const SCAN_JOBS_MAX: usize = 1_000;
/// The number of scans while claims are unserved.
const SCANS_MAX: usize = 16;

/// The due jobs of one queue that scans have found so far.
struct DueJobs {
    queue: i64,
    found: VecDeque<DueJob>,
    /// When this transaction last took a job from the queue, counted in jobs.
    turn: usize,
    /// The scan reached the end of the queue.
    whole: bool,
}

/// A queued job that this transaction has locked.
struct DueJob {
    stored: Arc<Stored>,
    payload: JsonText,
}

/// The answer to a scan of some queues, as the database gave it.
pub(super) struct DueScan {
    queues: Vec<i64>,
    room: usize,
    /// Where the scan began in each queue, and whether that was the start of the index.
    floors: Vec<([i64; RANKS], bool)>,
    at: Duration,
    share: usize,
    rows: Vec<Row>,
    pub(super) clock: ClockReading,
}

/// A claim that is being served.
struct ServedClaim<'a> {
    index: usize,
    claim: Claim,
    claim_request: &'a ClaimRequest,
    got: Vec<Claimed>,
    bytes: usize,
}

impl ServedClaim<'_> {
    fn room(&self) -> usize {
        if self.bytes >= CLAIM_BYTES_MAX {
            return 0;
        }
        self.claim_request.max.min(CLAIM_MAX) - self.got.len()
    }
}

impl Inner {
    /// Serves the claims of a batch; returns what each got, in their order.
    pub(super) async fn claim<'a>(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'a>,
        held: &HashMap<i64, Vec<JobId>>,
        ready: &mut Ready,
    ) -> Result<Vec<Vec<Claimed>>> {
        let claims = &plan.claims;
        let mut got: Vec<Option<Vec<Claimed>>> = Vec::new();
        let mut others: Vec<Vec<JobId>> = Vec::new();
        for wanted in claims {
            let held = held.get(&wanted.digest);
            let (again, other) = self.held(db, &ready.transaction, wanted, held).await?;
            got.push((!again.is_empty()).then_some(again));
            others.push(other);
        }
        let mut groups: BTreeMap<Vec<i64>, Vec<usize>> = BTreeMap::new();
        // Compared by name and not by digest: a worker can choose a name whose digest collides with
        // another's.
        let name = |wanted: &PlannedClaim<'a>| {
            (wanted.scope, &wanted.claim_request.worker, &wanted.claim_request.claim)
        };
        let mut first: BTreeMap<_, usize> = BTreeMap::new();
        for (index, wanted) in claims.iter().enumerate() {
            // A claim and its repetition in one batch get the same jobs.
            let is_first = *first.entry(name(wanted)).or_insert(index) == index;
            if got[index].is_none() && is_first {
                let (now, claim_request) =
                    (&ready.transaction, (wanted.scope, wanted.claim_request));
                let queues = open_queues(&now.known, |queue| now.is_paused(queue), claim_request);
                groups.entry(queues).or_default().push(index);
            }
        }
        for (queues, indexes) in groups {
            let serving = indexes.iter().map(|index| serving(*index, &claims[*index])).collect();
            for served in self.serve(db, &queues, serving, ready).await? {
                let ids = served.got.iter().map(|claimed| claimed.job.id());
                let other = std::mem::take(&mut others[served.index]);
                if !served.got.is_empty() {
                    let all = ids.chain(other).collect();
                    ready.given.push((claims[served.index].digest, all));
                }
                got[served.index] = Some(served.got);
            }
        }
        // Where no queue could be scanned, no claim is locked yet, and one of them may be a
        // repetition.
        let unlocked = std::mem::take(&mut ready.transaction.unlocked_claims);
        expect_new(&unlocked, locks::lock_claims(db, &unlocked).await?)?;
        for (index, wanted) in claims.iter().enumerate() {
            if got[index].is_none() {
                let first = got[first[&name(wanted)]].clone().unwrap_or_default();
                let wants =
                    |claimed: &Claimed| wanted.claim_request.wants(&claimed.job.envelope.job_type);
                got[index] = Some(first.into_iter().filter(wants).collect());
            }
        }
        Ok(got.into_iter().flatten().collect())
    }

    /// The leases that an earlier claim of the same name still holds, of the wanted types only: the
    /// HTTP API authorized no other types, and names can be guessed. Jobs of other types are only
    /// returned by id, so that the claim's row keeps them.
    async fn held(
        &self,
        db: &PooledConnection,
        transaction: &Transaction,
        wanted: &PlannedClaim<'_>,
        ids: Option<&Vec<JobId>>,
    ) -> Result<(Vec<Claimed>, Vec<JobId>)> {
        let Some(ids) = ids else { return Ok((Vec::new(), Vec::new())) };
        let mut found = load::read(db, ids).await?;
        found.extend(ids.iter().filter_map(|id| Some((*id, transaction.jobs.get(id)?.clone()))));
        let (scope, claim_request) = (wanted.scope, wanted.claim_request);
        let theirs = |stored: &&Arc<Stored>| {
            stored.job.lease().is_some_and(|lease| {
                (&lease.scope, &lease.worker, &lease.claim)
                    == (scope, &claim_request.worker, &claim_request.claim)
                    && lease.holds_in(transaction.epoch)
            })
        };
        let mut leased: Vec<&Arc<Stored>> = found.values().filter(theirs).collect();
        leased.sort_by_key(|stored| stored.no);
        let wants = |stored: &&Arc<Stored>| claim_request.wants(&stored.job.envelope.job_type);
        let (leased, others): (Vec<_>, Vec<_>) = leased.into_iter().partition(wants);
        let mut held = Vec::new();
        for stored in leased {
            let payload = load::payload(db, stored.no).await?;
            held.push(Claimed { payload, job: stored.job.clone() });
        }
        Ok((held, others.into_iter().map(|stored| stored.job.id()).collect()))
    }

    /// Serves claims that may take from the same queues.
    async fn serve<'a>(
        &self,
        db: &PooledConnection,
        queues: &[i64],
        mut serving: Vec<ServedClaim<'a>>,
        ready: &mut Ready,
    ) -> Result<Vec<ServedClaim<'a>>> {
        let mut open: Vec<i64> = queues.to_vec();
        for _ in 0..SCANS_MAX {
            let room: usize = serving.iter().map(ServedClaim::room).sum();
            if room == 0 || open.is_empty() {
                break;
            }
            let mut lines = self.scan(db, &open, room.min(SCAN_JOBS_MAX), ready).await?;
            for served in &mut serving {
                self.distribute(ready, &mut lines, served)?;
            }
            open = lines.iter().filter(|line| !line.whole).map(|line| line.queue).collect();
            let more = !open.is_empty() && serving.iter().any(|served| served.room() > 0);
            if more {
                // The next scan must not find the jobs that were just started.
                self.write(db, &mut ready.transaction).await?;
            }
        }
        Ok(serving)
    }

    /// Gives jobs to one claim, one from each queue in turn. The queue that was served longest ago
    /// comes first.
    ///
    /// A round-robin cursor would not do: workers that want different types would keep moving it
    /// past each other's queues, and one of them could starve.
    fn distribute(
        &self,
        ready: &mut Ready,
        lines: &mut [DueJobs],
        served: &mut ServedClaim<'_>,
    ) -> Result<()> {
        let memory = locked(&self.lines);
        while served.room() > 0 {
            // A queue that this transaction has served comes after all queues served before it, as
            // it will once the transaction is committed.
            let turn = |line: &&mut DueJobs| (line.turn, memory.served(line.queue));
            let waiting = lines.iter_mut().filter(|line| !line.found.is_empty());
            let Some(line) = waiting.min_by_key(turn) else { break };
            let Some(DueJob { stored, payload }) = line.found.pop_front() else { break };
            let bytes = payload.as_str().len();
            if let Some(started) = ready.transaction.start(&stored, payload, &served.claim)? {
                served.bytes += bytes;
                served.got.push(started);
                ready.transaction.served.push(line.queue);
                line.turn = ready.transaction.served.len();
            }
        }
        Ok(())
    }

    /// Finds and locks the first due jobs of these queues, an equal share of each.
    async fn scan(
        &self,
        db: &PooledConnection,
        queues: &[i64],
        room: usize,
        ready: &mut Ready,
    ) -> Result<Vec<DueJobs>> {
        let transaction = &mut ready.transaction;
        let early =
            transaction.early.take().filter(|scan| scan.queues == queues && scan.room == room);
        let DueScan { floors, at, share, rows, clock, .. } = match early {
            Some(scan) => scan,
            None => {
                let locks = std::mem::take(&mut transaction.unlocked_claims);
                self.scan_queues(db, (queues, room), &locks, Some(transaction.now)).await?
            }
        };
        transaction.go_on_at(clock.place);
        let now = transaction.now;
        // Row locks gave the transaction a number, if it had none.
        ready.xact.number = ready.xact.number.or(clock.number);
        let mut found: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        for row in rows {
            found.entry(row.try_get(0)?).or_default().push(row);
        }
        let mut lines = Vec::new();
        for (ord, (queue, (_, whole))) in (1..).zip(queues.iter().zip(&floors)) {
            let rows = found.remove(&ord).unwrap_or_default();
            let (mut line, until) = self.line(*queue, rows, share)?;
            line.turn =
                transaction.served.iter().rposition(|of| of == queue).map_or(0, |at| at + 1);
            transaction.scanned.push(DueScanSummary {
                queue: *queue,
                whole: *whole,
                until,
                now,
                at,
            });
            lines.push(line);
        }
        Ok(lines)
    }

    /// Locks the jobs that are due, by the store's time, or by the database's time while the
    /// store's is not known yet. The database's time is never later than the store's, and nearly
    /// always equal.
    pub(super) async fn scan_queues(
        &self,
        db: &PooledConnection,
        (queues, room): (&[i64], usize),
        locks: &[i64],
        now: Option<Timestamp>,
    ) -> Result<DueScan> {
        let at = self.clock.read().monotonic;
        let share = room.div_ceil(queues.len()) + locked(&self.damaged).len();
        let numbers: Vec<i32> = queues.iter().map(|queue| queue_column(*queue)).collect();
        let wanted = vec![i32::try_from(share).unwrap_or(i32::MAX); queues.len()];
        let floors: Vec<_> =
            queues.iter().map(|queue| locked(&self.lines).floors(*queue, at)).collect();
        let from: Vec<i64> = floors.iter().flat_map(|(floors, _)| *floors).collect();
        let (now, count) = (now.map(Timestamp::unix_ms), RANKS as i64);
        let params: [Param<'_>; 7] = [&numbers, &wanted, &ranks(), &from, &now, &count, &locks];
        let mut rows = db.rows(sql::READY, &params).await?;
        let last = rows.pop().ok_or(TransactionError::Impossible("a look without its last row"))?;
        let new: i64 = last.try_get(12)?;
        expect_new(locks, usize::try_from(new).unwrap_or(0))?;
        let clock = ClockReading {
            now: Timestamp::from_unix_ms(last.try_get(8)?),
            epoch: last.try_get(4)?,
            settings: last.try_get(10)?,
            place: last.try_get(1)?,
            number: last.try_get(9)?,
            server: last.try_get(11)?,
        };
        Ok(DueScan { queues: queues.to_vec(), room, floors, at, share, rows, clock })
    }

    /// The jobs found in one queue, in order, and where the scan ended if it did not reach the end.
    fn line(
        &self,
        queue: i64,
        rows: Vec<Row>,
        share: usize,
    ) -> Result<(DueJobs, Option<(usize, i64)>)> {
        let whole = rows.len() < share;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let (no, rank, run_at): (i64, i16, i64) =
                (row.try_get(1)?, row.try_get(7)?, row.try_get(8)?);
            let place = (usize::try_from(rank).unwrap_or(0).min(RANKS - 1), run_at, no);
            match load::readable(read(row))? {
                Some(job) => found.push((place, job)),
                // A damaged job stays in its queue. Later scans skip it, so it takes no other job's
                // slot.
                None => drop(locked(&self.damaged).insert(no)),
            }
        }
        found.sort_by_key(|(place, _)| *place);
        let until = found.last().filter(|_| !whole).map(|((rank, run_at, _), _)| (*rank, *run_at));
        let found = found.into_iter().map(|(_, job)| job).collect();
        Ok((DueJobs { queue, found, turn: 0, whole }, until))
    }
}

/// Fails if one of the locked claims is a repetition: it must get the jobs it got before, and those
/// have to be read first.
fn expect_new(locked: &[i64], new: usize) -> Result<()> {
    if locked.len() == new { Ok(()) } else { Err(TransactionError::Changed) }
}

fn serving<'a>(index: usize, wanted: &PlannedClaim<'a>) -> ServedClaim<'a> {
    let claim = Claim::of(wanted.scope, wanted.claim_request);
    ServedClaim { index, claim, claim_request: wanted.claim_request, got: Vec::new(), bytes: 0 }
}

/// The first scan of a batch of claims for the same queues, and how many jobs they want. Such a
/// scan need not wait for anything, and reads the clock as well.
pub(super) fn first_scan(plan: &BatchPlan<'_>, known: &SettingsCache) -> Option<(Vec<i64>, usize)> {
    let mut wanted = plan
        .claims
        .iter()
        .map(|it| open_queues(known, |queue| known.is_paused(queue), (it.scope, it.claim_request)));
    let queues = wanted.next().filter(|queues| !queues.is_empty())?;
    let room: usize = plan.claims.iter().map(|it| it.claim_request.max.min(CLAIM_MAX)).sum();
    let others = plan.claims.len() < plan.requests.len() || wanted.any(|them| them != queues);
    (!others && room > 0).then(|| (queues, room.min(SCAN_JOBS_MAX)))
}

/// The queues that a claim may take from, sorted by name: of the queues that were never served, the
/// first by name comes first.
fn open_queues(
    known: &SettingsCache,
    is_paused: impl Fn(&Queue) -> bool,
    (scope, claim_request): (&Scope, &ClaimRequest),
) -> Vec<i64> {
    let wanted: BTreeSet<&JobType> = claim_request.job_types.iter().collect();
    let of_types = wanted.into_iter().flat_map(|job_type| known.queues.of_type(job_type, scope));
    let open = of_types.filter(|(_, queue)| !is_paused(queue));
    open.map(|(no, _)| no).collect()
}

fn read(row: &Row) -> Result<DueJob> {
    let (id, no, queue): (_, i64, i32) = (id_of(row, 3)?, row.try_get(1)?, row.try_get(4)?);
    let stored = load::stored_of(id, (no, queue.into()), row.try_get(5)?, row.try_get(2)?)?;
    Ok(DueJob { stored: Arc::new(stored), payload: JsonText::from_stored(row.try_get(6)?) })
}
