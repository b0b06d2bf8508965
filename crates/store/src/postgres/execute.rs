//! One batch, one transaction: lock, load, decide, write, commit. Everything in its turn.

use super::{
    Inner,
    batch_plan::BatchPlan,
    claim::{Look, first_look},
    commit::begin_if,
    error::Trouble,
    inbox,
    known::Known,
    load,
    locks::{self, Clock},
    pool::{Lent, Param, Pool},
    recall::Recalled,
    records, sql,
    transaction::{BLOCK, Key, KeyName, Transaction, TransactionContext},
    uuid::{Xact, Xid},
    workers::{Sign, WorkersNews},
};
use crate::{
    form::stored::Stored,
    node::News,
    queue::Queue,
    record::{RecordKind, Records},
    store::{Answer, Reply, Request},
    unit_of_work::carry_out,
};
use engine::{Backoff, JobId, JobType, NewJob, Tenant, TenantLimit};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::types::Type;

/// Transactions that were in each other's way are tried again so often.
pub(super) const ATTEMPTS_MAX: u32 = 6;
/// How long they wait before that.
const COLLISION_BACKOFF: Backoff =
    Backoff::doubling(Duration::from_millis(3), Duration::from_millis(50));

impl Inner {
    /// Carries out a batch; replies keep the order of the requests.
    pub(super) async fn execute(
        &self,
        writers: &Arc<Pool>,
        batch: &[Request],
        news: &News,
    ) -> Result<Vec<Reply>, Trouble> {
        match self.execute_at_length(writers, (batch, news), false).await {
            Err(Trouble::Unheard(unheard)) => {
                // It is rare, and as large as all that goes before it.
                Box::pin(self.hand_over_again(writers, (batch, news), *unheard)).await
            }
            done => done,
        }
    }

    /// Tries to carry out a batch as often as makes sense.
    pub(super) async fn execute_at_length(
        &self,
        writers: &Arc<Pool>,
        (batch, news): (&[Request], &News),
        mut pessimistic: bool,
    ) -> Result<Vec<Reply>, Trouble> {
        for attempt in 1..=ATTEMPTS_MAX {
            match self.try_execute(writers, (batch, news), pessimistic).await {
                Ok(done) => return Ok(done),
                // Nothing was done. When those are jobs, it can be.
                Err(Trouble::InInbox(ids)) if attempt < ATTEMPTS_MAX => self.let_in(&ids).await?,
                Err(trouble) => self.recover(trouble, attempt, &mut pessimistic).await?,
            }
        }
        Err(Trouble::Contended(None))
    }

    /// Sees to it that the same may be tried again. What is no use to try again is given back.
    pub(super) async fn recover(
        &self,
        trouble: Trouble,
        attempt: u32,
        pessimistic: &mut bool,
    ) -> Result<(), Trouble> {
        // Somebody may be at the very same: what was not there when it was looked up is there now.
        let unclear = trouble.is_an_echo() || trouble.is_a_repeat();
        let is_contended = trouble.is_a_collision() || trouble.is_a_change() || unclear;
        // A row that is there already although everything was looked up is no contention: rows
        // contradict each other, and the batcher has to find the request that meets them.
        let is_contradiction = trouble.is_a_repeat() && *pessimistic;
        if is_contended && !is_contradiction && attempt == ATTEMPTS_MAX {
            return Err(Trouble::Contended(Some(Box::new(trouble))));
        }
        if (trouble.is_a_change() || unclear) && !*pessimistic {
            *pessimistic = true;
        } else if (trouble.is_a_collision() || unclear) && attempt < ATTEMPTS_MAX {
            self.wait_a_moment(attempt).await;
        } else if matches!(trouble, Trouble::Jumped) {
            self.follow_clock().await?;
        } else if trouble.is_a_lost_connection() && attempt == 1 {
            // Nothing was done, and another connection may be a good one.
            self.lose();
        } else {
            return Err(trouble);
        }
        Ok(())
    }

    /// A connection is lost: others may be as bad, and who knows which server answers next.
    pub(super) fn lose(&self) {
        self.writers.forget_all();
        self.remembered().forget_all();
    }

    async fn wait_a_moment(&self, attempt: u32) {
        tokio::time::sleep(COLLISION_BACKOFF.spread(attempt, self.dice.roll())).await;
    }

    async fn try_execute(
        &self,
        writers: &Arc<Pool>,
        (batch, news): (&[Request], &News),
        pessimistic: bool,
    ) -> Result<Vec<Reply>, Trouble> {
        let plan = BatchPlan::of(batch, pessimistic);
        let mut db = writers.lend().await?;
        let known = self.make_queues(&mut db, &plan).await?;
        if let Some(foreseen) = self.foresee(&db, &plan, &known) {
            return self.hand_over(&mut db, &plan, (known, foreseen), news).await;
        }
        db.opened();
        let done = self.transaction(&db, &plan, known).await;
        let done = match done {
            Ok(ready) => self.commit(&db, ready, news).await,
            Err(trouble) => Err(trouble),
        };
        db.end(&done).await;
        done
    }

    /// Makes the queues that new jobs will wait in, where they are the first: in a transaction of its own, so that
    /// nobody else's batch waits for ours.
    pub(super) async fn make_queues(
        &self,
        db: &mut Lent,
        plan: &BatchPlan<'_>,
    ) -> Result<Arc<Known>, Trouble> {
        let mut known = self.known();
        let mut missing = self.missing_queues(plan, &known);
        if missing.is_refused {
            // Another node may have declared the type since.
            known = self.known_now(db).await?;
            missing = self.missing_queues(plan, &known);
        }
        let missing = missing.queues;
        if missing.is_empty() {
            return Ok(known);
        }
        let job_type: Vec<&str> = missing.iter().map(|queue| queue.job_type.as_str()).collect();
        let tenant: Vec<&str> = missing.iter().map(|queue| queue.tenant.as_str()).collect();
        let params: [Param<'_>; 2] = [(&job_type, Type::TEXT_ARRAY), (&tenant, Type::TEXT_ARRAY)];
        db.opened();
        tokio::try_join!(
            biased;
            db.begin(),
            db.run(sql::QUEUES_INSERT, &params),
            db.run(sql::SETTINGS_CHANGED, &[]),
            db.script(sql::COMMIT),
        )?;
        db.closed();
        let known = Arc::new(Known::load(db).await?);
        self.learn(known.clone());
        Ok(known)
    }

    /// The queues that a batch is the first to need, without those of jobs that will be refused:
    /// their tenant has too many types already. What came by SQL was counted when it was enqueued.
    fn missing_queues(&self, plan: &BatchPlan<'_>, known: &Known) -> MissingQueues {
        let mut missing = MissingQueues::default();
        for (_, request) in &plan.requests {
            let queues = request.parts().flat_map(new_jobs).map(Queue::of_new);
            let is_new = |queue: &Queue| {
                known.queues.no(&queue.job_type, &queue.tenant).is_none()
                    && !missing.queues.contains(queue)
            };
            let of_list: BTreeSet<Queue> = queues.filter(is_new).collect();
            let mut opened: BTreeMap<&Tenant, u64> = BTreeMap::new();
            // A list sees the policies that it puts itself.
            let put: BTreeSet<JobType> = request.parts().filter_map(policy_of).collect();
            for queue in &of_list {
                let is_declared = known.records.policies().contains_key(&queue.job_type)
                    || put.contains(&queue.job_type);
                let opens = !is_declared;
                *opened.entry(&queue.tenant).or_default() += u64::from(opens);
            }
            // A list is taken whole or not at all, so that the last of its types has to fit.
            let fits = |(tenant, opened): (&&Tenant, &u64)| {
                let kept = known.queues.undeclared_types(tenant, known.records.policies())
                    + missing.opened.get(*tenant).copied().unwrap_or(0);
                let last = (kept + opened).saturating_sub(1);
                *opened == 0 || self.limits.check(TenantLimit::JobTypes, last).is_ok()
            };
            if plan.from_inbox || opened.iter().all(fits) {
                for (tenant, opened) in opened {
                    *missing.opened.entry(tenant.clone()).or_default() += opened;
                }
                missing.queues.extend(of_list);
            } else {
                missing.is_refused = true;
            }
        }
        missing
    }

    /// Everything but the commit.
    pub(super) async fn transaction(
        &self,
        db: &Lent,
        plan: &BatchPlan<'_>,
        known: Arc<Known>,
    ) -> Result<Ready, Trouble> {
        // Whatever is heard on this connection from now on, the server has not crashed since these were made.
        let made = self.readers.made();
        let (mut transaction, held, xact) = self.load(db, plan, known).await?;
        let mut replies: BTreeMap<usize, Reply> = BTreeMap::new();
        let mut seen = Vec::new();
        for (index, request) in &plan.requests {
            let reply = match request {
                Request::Claim { .. } => continue,
                Request::Seen { scope, worker } => {
                    seen.push(Sign::of(scope, worker));
                    Ok(Answer::Done)
                }
                Request::Leave { scope, worker } => {
                    seen.push(Sign { left: true, ..Sign::of(scope, worker) });
                    Ok(Answer::Done)
                }
                Request::Submit(_)
                | Request::Job { .. }
                | Request::Pause { .. }
                | Request::Resume { .. }
                | Request::PutRecord(_)
                | Request::Audit(_)
                | Request::All(_) => carry_out(&mut transaction, request)?,
            };
            replies.insert(*index, reply);
        }
        transaction.expect_changes()?;
        let mut ready = Ready::new(transaction, xact, made);
        ready.only_claims = plan.only_claims();
        if !plan.claims.is_empty() {
            self.write(db, &mut ready.transaction).await?;
            let claimed = self.claim(db, plan, &held, &mut ready).await?;
            for (wanted, jobs) in plan.claims.iter().zip(claimed) {
                let wish = wanted.wish;
                replies.insert(wanted.index, Ok(Answer::Claimed(jobs)));
                let host = wish.host.as_ref();
                let sign = Sign::of(wanted.scope, &wish.worker);
                seen.insert(0, Sign { host, job_types: Some(&wish.job_types[..]), ..sign });
            }
        }
        ready.replies = replies.into_values().collect();
        ready.workers = self.news_of_workers(seen, ready.transaction.now);
        Ok(ready)
    }

    /// Takes all locks, loads all that is needed, and reads the clock.
    async fn load(
        &self,
        db: &Lent,
        plan: &BatchPlan<'_>,
        known: Arc<Known>,
    ) -> Result<(Transaction, HashMap<i64, Vec<JobId>>, Xact), Trouble> {
        let loaded = if plan.pessimistic {
            self.load_pessimistically(db, plan, &known).await?
        } else if let Some(first) = first_look(plan, &known) {
            self.load_for_claims(db, plan, first).await?
        } else if let Some(recalled) = self.recall(plan) {
            self.load_recalled(db, plan, &known, recalled).await?
        } else {
            self.load_jobs(db, plan, &known).await?
        };
        let clock = loaded.clock;
        let as_known = known.version == clock.settings;
        let known = self.known_at(db, &clock, known, plan.sets()).await?;
        let now = self.tick(clock.now);
        if self.has_jumped() {
            return Err(Trouble::Jumped);
        }
        let mut places = vec![clock.place];
        if !plan.new.is_empty() {
            let more = (plan.new.len() - 1) / BLOCK;
            let wanted = more + self.places_wanted(db, plan, &known);
            places.extend(locks::places(db, wanted).await?);
            self.keep_places(&places.split_off(1 + more));
            self.note_places(&places, now);
        }
        let epoch = clock.epoch.unsigned_abs();
        let context = TransactionContext { now, epoch, known, limits: self.limits, places };
        let mut transaction = Transaction::new(context, self.dice.clone());
        // It went by the database's time, which may have gone back, and by what was known.
        transaction.early = loaded.look.filter(|_| as_known && now == clock.now);
        transaction.unlocked_claims = loaded.unlocked_claims;
        (transaction.jobs, transaction.recalled) = (loaded.jobs, loaded.recalled);
        transaction.keys = loaded.keys;
        if !plan.kinds.is_empty() {
            let mut records = transaction.known.records.clone();
            records.extend(loaded.credentials);
            transaction.records = Some(records);
        }
        self.load_rest(db, &mut transaction, plan).await?;
        Ok((transaction, loaded.held, Xact { number: clock.number, server: clock.server }))
    }

    /// Only claims, all for the same queues: their look locks them and reads the clock as well.
    async fn load_for_claims(
        &self,
        db: &Lent,
        plan: &BatchPlan<'_>,
        (queues, room): (Vec<i64>, usize),
    ) -> Result<LoadedRows, Trouble> {
        // Claims are taken to be new at first. One that is not shows when it is locked.
        let claims = plan.claim_locks();
        let ((), look) = tokio::try_join!(
            biased;
            db.begin(),
            self.ask_lines(db, (&queues, room), &claims, None),
        )?;
        let clock = look.clock;
        Ok(LoadedRows { look: Some(look), ..LoadedRows::at(clock) })
    }

    /// All jobs of the batch are known by heart, or new: nothing is read but keys and the clock.
    async fn load_recalled(
        &self,
        db: &Lent,
        plan: &BatchPlan<'_>,
        known: &Known,
        recalled: Recalled,
    ) -> Result<LoadedRows, Trouble> {
        let opened = self.open(db, plan, known).await?;
        let ((), (), keys, clock) = tokio::try_join!(
            biased;
            begin_if(db, !opened.has_begun),
            locks::lock_audit(db, plan.audits),
            locks::lock_keys(db, &opened.keys),
            locks::clock(db, plan.surely_writes()),
        )?;
        Ok(LoadedRows {
            keys,
            jobs: recalled.jobs,
            recalled: recalled.by,
            unlocked_claims: plan.claim_locks(),
            credentials: opened.credentials,
            ..LoadedRows::at(clock)
        })
    }

    /// Jobs are locked and read. Ended ones are locked by a second statement, and everything else
    /// is behind it.
    async fn load_jobs(
        &self,
        db: &Lent,
        plan: &BatchPlan<'_>,
        known: &Known,
    ) -> Result<LoadedRows, Trouble> {
        if plan.jobs.is_empty() {
            return self.load_recalled(db, plan, known, Recalled::default()).await;
        }
        let opened = self.open(db, plan, known).await?;
        let (keys, jobs) = self.lock_jobs(db, plan, &opened).await?;
        let clock = locks::clock(db, plan.surely_writes()).await?;
        Ok(LoadedRows {
            keys,
            jobs,
            unlocked_claims: plan.claim_locks(),
            credentials: opened.credentials,
            ..LoadedRows::at(clock)
        })
    }

    /// Nothing is taken for granted: new jobs are looked up by their ids, and claims by their
    /// names.
    async fn load_pessimistically(
        &self,
        db: &Lent,
        plan: &BatchPlan<'_>,
        known: &Known,
    ) -> Result<LoadedRows, Trouble> {
        let opened = self.open(db, plan, known).await?;
        let (keys, jobs) = self.lock_jobs(db, plan, &opened).await?;
        let (claims, digests) = (plan.claim_locks(), plan.digests());
        let (_, held, clock) = tokio::try_join!(
            biased;
            locks::lock_claims(db, &claims),
            locks::held(db, &digests),
            locks::clock(db, plan.surely_writes()),
        )?;
        let credentials = opened.credentials;
        Ok(LoadedRows { keys, jobs, held, credentials, ..LoadedRows::at(clock) })
    }

    /// Most batches need nothing before their locks, and begin in the same journey. A batch that
    /// sets records locks their number first, and one that may move keys has to know which.
    async fn open(
        &self,
        db: &Lent,
        plan: &BatchPlan<'_>,
        known: &Known,
    ) -> Result<Preparation, Trouble> {
        let mut opened = Preparation { has_begun: plan.from_inbox, ..Preparation::default() };
        opened.keys = plan.keys(known);
        if plan.rekeyed.is_empty() && plan.kinds.is_empty() {
            return Ok(opened);
        }
        tokio::try_join!(
            biased;
            db.begin(),
            locks::keys_of(db, &plan.rekeyed, &mut opened.keys),
        )?;
        opened.has_begun = true;
        if !plan.kinds.is_empty() {
            let sql = if plan.sets() { sql::SETTINGS_SET } else { sql::CREDENTIALS_SET };
            let credentials = plan.kinds.iter().copied().filter(|kind| !kind.decides_batches());
            let credentials: Vec<RecordKind> = credentials.collect();
            db.run(sql, &[]).await?;
            if !credentials.is_empty() {
                opened.credentials = records::load(db, &credentials).await?;
            }
        }
        Ok(opened)
    }

    async fn lock_jobs(
        &self,
        db: &Lent,
        plan: &BatchPlan<'_>,
        opened: &Preparation,
    ) -> Result<(Keys, Jobs), Trouble> {
        let ((), (), keys, jobs) = tokio::try_join!(
            biased;
            begin_if(db, !opened.has_begun),
            locks::lock_audit(db, plan.audits),
            locks::lock_keys(db, &opened.keys),
            load::locked(db, &plan.jobs),
        )?;
        Ok((keys, jobs))
    }

    /// Loads what is known to be needed only now.
    async fn load_rest(
        &self,
        db: &Lent,
        transaction: &mut Transaction,
        plan: &BatchPlan<'_>,
    ) -> Result<(), Trouble> {
        let commands = plan.commands.iter().map(|(id, _)| *id);
        let missing: Vec<JobId> =
            commands.filter(|id| !transaction.jobs.contains_key(id)).collect();
        inbox::expect_none(db, &missing).await?;
        let holders = transaction.keys.values().filter_map(|key| key.holder);
        let holders: Vec<JobId> = holders.filter(|id| !transaction.jobs.contains_key(id)).collect();
        let bounded = self.bounded_queues(transaction, plan);
        let (holders, queued) = tokio::try_join!(
            biased;
            load::read(db, &holders),
            locks::queued(db, bounded),
        )?;
        (transaction.holders, transaction.queued) = (holders, queued);
        if plan.from_inbox {
            transaction.free_kept_keys(&plan.new);
        }
        inbox::expect_none(db, &transaction.missing_holders()).await?;
        load::details(db, transaction, &plan.commands).await
    }

    /// The queues of new jobs whose policies bound how many may wait. Rows of the inbox were
    /// counted when they were enqueued.
    fn bounded_queues(&self, transaction: &Transaction, plan: &BatchPlan<'_>) -> Vec<i64> {
        // A batch that sets policies may bound any of them.
        let may_be_bounded = |new: &NewJob| {
            plan.sets() || transaction.known.records.policy(&new.job_type).max_queued.is_some()
        };
        let new = plan.new.iter().filter(|new| !plan.from_inbox && may_be_bounded(new));
        let queues = &transaction.known.queues;
        let bounded: BTreeSet<i64> =
            new.filter_map(|new| queues.no(&new.job_type, &new.tenant)).collect();
        bounded.into_iter().collect()
    }

    /// What is known, read again if the house says that it has changed.
    async fn known_at(
        &self,
        db: &Lent,
        clock: &Clock,
        known: Arc<Known>,
        own: bool,
    ) -> Result<Arc<Known>, Trouble> {
        if known.version == clock.settings {
            return Ok(known);
        }
        let known = Arc::new(Known::load(db).await?);
        // What we have just set ourselves may still be rolled back: it is for this transaction only.
        if !own {
            self.learn(known.clone());
        }
        Ok(known)
    }
}

type Keys = BTreeMap<KeyName, Key>;
type Jobs = HashMap<JobId, Arc<Stored>>;

/// What a transaction has before its first locks.
#[derive(Default)]
struct Preparation {
    has_begun: bool,
    /// The keys that it needs, each with the job that comes with it.
    keys: BTreeMap<KeyName, JobId>,
    /// Records that it sets and batches are not decided by.
    credentials: Records,
}

/// What was locked and read.
struct LoadedRows {
    clock: Clock,
    keys: Keys,
    jobs: Jobs,
    recalled: BTreeMap<i64, Xid>,
    /// What claims were given before.
    held: HashMap<i64, Vec<JobId>>,
    look: Option<Look>,
    unlocked_claims: Vec<i64>,
    credentials: Records,
}

impl LoadedRows {
    fn at(clock: Clock) -> Self {
        LoadedRows {
            clock,
            keys: BTreeMap::new(),
            jobs: HashMap::new(),
            recalled: BTreeMap::new(),
            held: HashMap::new(),
            look: None,
            unlocked_claims: Vec::new(),
            credentials: Records::default(),
        }
    }
}

fn new_jobs(request: &Request) -> &[NewJob] {
    if let Request::Submit(jobs) = request { jobs } else { &[] }
}

/// The type whose policy a request puts.
fn policy_of(request: &Request) -> Option<JobType> {
    let Request::PutRecord(change) = request else { return None };
    (change.name.kind == RecordKind::Policy).then(|| change.job_type()).flatten()
}

/// Queues that are to be made.
#[derive(Default)]
struct MissingQueues {
    queues: BTreeSet<Queue>,
    /// How many undeclared types each tenant has with them and not without them.
    opened: BTreeMap<Tenant, u64>,
    /// Whether there are others, which are not made.
    is_refused: bool,
}

/// A transaction that has only to be committed.
pub(super) struct Ready {
    pub(super) replies: Vec<Reply>,
    pub(super) transaction: Transaction,
    pub(super) workers: WorkersNews,
    /// What each claim was given.
    pub(super) given: Vec<(i64, Vec<JobId>)>,
    /// What was learned about lines, true as soon as it is committed.
    pub(super) lines: Vec<super::lines::Looked>,
    /// The queues that jobs were taken from, each as often, in order.
    pub(super) served: Vec<i64>,
    pub(super) xact: Xact,
    /// Whether there was nothing in the batch but claims.
    pub(super) only_claims: bool,
    /// How many connections had been made when it began.
    pub(super) made: u64,
}

impl Ready {
    fn new(transaction: Transaction, xact: Xact, made: u64) -> Self {
        Ready {
            replies: Vec::new(),
            transaction,
            workers: WorkersNews::default(),
            given: Vec::new(),
            lines: Vec::new(),
            served: Vec::new(),
            xact,
            only_claims: false,
            made,
        }
    }
}
