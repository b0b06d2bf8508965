//! One batch, one transaction: lock, load, decide, save, commit. Everything in its turn.

use super::{
    Inner, audit,
    claim::early_look,
    commit::begin_if,
    desk::{BLOCK, Desk},
    error::Trouble,
    hold::{self, Clock},
    inbox,
    known::{self, Known},
    load,
    plan::{Plan, notes_of},
    pool::{Lent, Param, Pool},
    sql,
    uuid::Xact,
    workers::{Sign, WorkersNews},
};
use crate::{
    form::{
        body::{to_row, to_scope},
        facet,
    },
    node::News,
    queue::{Queue, check_pause},
    store::{Answer, Reply, Request},
};
use engine::{AuditNote, JobId, JobType, Refusal, Scope, Tenant, TenantLimit};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::types::Type;

/// Transactions that were in each other's way are tried again so often.
pub(super) const ATTEMPTS_MAX: u32 = 6;
/// How long the first of them waits before that; each later one waits longer.
const COLLISION_WAIT: Duration = Duration::from_millis(3);

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
        mut careful: bool,
    ) -> Result<Vec<Reply>, Trouble> {
        for attempt in 1..=ATTEMPTS_MAX {
            match self.try_execute(writers, (batch, news), careful).await {
                Ok(done) => return Ok(done),
                // Nothing was done. When those are jobs, it can be.
                Err(Trouble::InInbox(ids)) if attempt < ATTEMPTS_MAX => self.let_in(&ids).await?,
                Err(trouble) => self.recover(trouble, attempt, &mut careful).await?,
            }
        }
        Err(Trouble::Impossible("a batch was in others' way again and again"))
    }

    /// Sees to it that the same may be tried again. What is no use to try again is given back.
    pub(super) async fn recover(
        &self,
        trouble: Trouble,
        attempt: u32,
        careful: &mut bool,
    ) -> Result<(), Trouble> {
        // Somebody may be at the very same: what was not there when it was looked up is there now.
        let unclear = trouble.is_an_echo() || trouble.is_a_repeat();
        if (trouble.is_a_change() || unclear) && !*careful {
            *careful = true;
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
        let chance = u32::try_from(self.dice.roll().0 & 0xff).unwrap_or(0);
        tokio::time::sleep(COLLISION_WAIT * attempt * (64 + chance) / 128).await;
    }

    async fn try_execute(
        &self,
        writers: &Arc<Pool>,
        (batch, news): (&[Request], &News),
        careful: bool,
    ) -> Result<Vec<Reply>, Trouble> {
        let plan = Plan::of(batch, careful);
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
        plan: &Plan<'_>,
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
    fn missing_queues(&self, plan: &Plan<'_>, known: &Known) -> MissingQueues {
        let mut missing = MissingQueues::default();
        for (_, request) in &plan.requests {
            let Some(Request::Submit(jobs)) = request.bare() else { continue };
            let queues = jobs.iter().map(crate::taken::queue_of);
            let is_new = |queue: &Queue| {
                known.queues.no(&queue.job_type, &queue.tenant).is_none()
                    && !missing.queues.contains(queue)
            };
            let of_list: BTreeSet<Queue> = queues.filter(is_new).collect();
            let mut opened: BTreeMap<&Tenant, u64> = BTreeMap::new();
            for queue in &of_list {
                let opens = !known.policies.contains_key(&queue.job_type);
                *opened.entry(&queue.tenant).or_default() += u64::from(opens);
            }
            // A list is taken whole or not at all, so that the last of its types has to fit.
            let fits = |(tenant, opened): (&&Tenant, &u64)| {
                let kept = known.queues.undeclared_types(tenant, &known.policies)
                    + missing.opened.get(*tenant).copied().unwrap_or(0);
                let last = (kept + opened).saturating_sub(1);
                *opened == 0 || self.limits.check(TenantLimit::JobTypes, last).is_ok()
            };
            if plan.taking_in || opened.iter().all(fits) {
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
    pub(super) async fn transaction<'a>(
        &self,
        db: &Lent,
        plan: &Plan<'a>,
        known: Arc<Known>,
    ) -> Result<Ready<'a>, Trouble> {
        // Whatever is heard on this connection from now on, the server has not crashed since these were made.
        let made = self.readers.made();
        let (mut desk, held, xact) = self.begin(db, plan, known).await?;
        let mut replies: BTreeMap<usize, Reply> = BTreeMap::new();
        let mut notes = Vec::new();
        let mut seen = Vec::new();
        for (index, request) in &plan.requests {
            let reply = match request.bare() {
                Some(Request::Submit(jobs)) => desk.submit(jobs)?,
                Some(Request::Job { scope, id, command }) => desk.command(scope, *id, command)?,
                Some(Request::Claim { .. }) => continue,
                Some(Request::Seen { scope, worker }) => {
                    seen.push(Sign::of(scope, worker));
                    Ok(Answer::Done)
                }
                Some(Request::Leave { scope, worker }) => {
                    seen.push(Sign { left: true, ..Sign::of(scope, worker) });
                    Ok(Answer::Done)
                }
                // Settings were set before anything else.
                Some(_) | None => match desk.refused.remove(index) {
                    Some(refusal) => Err(refusal),
                    None => Ok(Answer::Done),
                },
            };
            remember(&reply, request, &mut notes);
            replies.insert(*index, reply);
        }
        desk.expect_changes()?;
        let only_claims = plan.only_claims();
        let mut ready = Ready { xact, made, only_claims, ..Ready::default() };
        if !plan.claims.is_empty() {
            self.lines().note(&desk.pending);
            desk.write(db).await?;
            let claimed = self.claim(db, &mut desk, plan, &held, &mut ready).await?;
            for (wanted, jobs) in plan.claims.iter().zip(claimed) {
                let wish = wanted.wish;
                let reply = Ok(Answer::Claimed(jobs));
                let request = plan.requests.iter().find(|(index, _)| *index == wanted.index);
                request.iter().for_each(|(_, request)| remember(&reply, request, &mut notes));
                replies.insert(wanted.index, reply);
                let host = wish.host.as_ref();
                let sign = Sign::of(wanted.scope, &wish.worker);
                seen.insert(0, Sign { host, job_types: Some(&wish.job_types[..]), ..sign });
            }
        }
        ready.replies = replies.into_values().collect();
        ready.workers = self.news_of_workers(seen, desk.now);
        ready.notes = notes;
        ready.desk = Some(desk);
        Ok(ready)
    }

    /// Takes all locks, loads all that is needed, and reads the clock.
    async fn begin(
        &self,
        db: &Lent,
        plan: &Plan<'_>,
        known: Arc<Known>,
    ) -> Result<(Desk, HashMap<i64, Vec<JobId>>, Xact), Trouble> {
        let claims = plan.claim_locks();
        // Claims are taken to be new at first. One that is not shows when it is locked.
        let digests = if plan.careful { plan.digests() } else { Vec::new() };
        let (locks, new): (&[i64], &[i64]) =
            if plan.careful { (&claims, &[]) } else { (&[], &claims) };
        let mut keys = plan.keys(&known);
        let recalled = self.recall(plan);
        let needed: &[JobId] = if recalled.is_some() { &[] } else { &plan.jobs };
        // Most batches need nothing before their locks, and begin in the same journey.
        let early = !plan.rekeyed.is_empty() || plan.sets_anything();
        let mut refused = BTreeMap::new();
        if early {
            tokio::try_join!(biased; db.begin(), hold::keys_of(db, &plan.rekeyed, &mut keys))?;
            refused = self.set(db, plan).await?;
        }
        let first = early_look(plan, &known);
        let hold = async {
            tokio::try_join!(
                biased;
                begin_if(db, !early && !plan.taking_in),
                hold::lock_audit(db, plan.notes),
                hold::lock_keys(db, &keys),
                load::locked(db, needed),
            )
        };
        let (reads, writes) = (first.is_none(), plan.surely_writes());
        let read = async {
            tokio::try_join!(
                biased;
                hold::lock_claims(db, locks),
                hold::held(db, &digests),
                hold::clock(db, reads, writes),
                self.look_early(db, first, new),
            )
        };
        // Ended jobs are held by a second statement. Everything else is behind it.
        let (((), (), keys, jobs), (_, held, clock, look)) = if needed.is_empty() {
            tokio::try_join!(biased; hold, read)?
        } else {
            (hold.await?, read.await?)
        };
        let looked = look.is_some();
        let clock = look.as_ref().map(|look| look.clock).or(clock);
        let clock = clock.ok_or(Trouble::Impossible("nobody looked at the clock"))?;
        let as_known = known.version == clock.settings;
        let known = self.known_at(db, &clock, known, plan.sets).await?;
        let now = self.tick(clock.now);
        if self.has_jumped() {
            return Err(Trouble::Jumped);
        }
        let facts = (now, clock.epoch.unsigned_abs());
        let mut numbers = vec![clock.place];
        if !plan.new.is_empty() {
            let more = (plan.new.len() - 1) / BLOCK;
            numbers.extend(hold::places(db, more + self.places_wanted(db, plan, &known)).await?);
            self.keep_places(&numbers.split_off(1 + more));
            self.note_places(&numbers, now);
        }
        let mut desk = Desk::new(facts, known, self.dice.clone(), clock.place, numbers);
        desk.limits = self.limits;
        // It went by the database's time, which may have gone back, and by what was known.
        desk.early = look.filter(|_| as_known && now == clock.now);
        desk.unlocked_claims = if plan.careful || looked { Vec::new() } else { claims };
        desk.refused = refused;
        desk.jobs = jobs;
        if let Some(recalled) = recalled {
            desk.jobs = recalled.jobs;
            desk.recalled = recalled.by;
        }
        desk.keys = keys;
        let missing = plan.commands.iter().map(|(id, _)| *id);
        let missing: Vec<JobId> = missing.filter(|id| !desk.jobs.contains_key(id)).collect();
        inbox::expect_none(db, &missing).await?;
        self.fill(db, &mut desk, plan).await?;
        Ok((desk, held, Xact { number: clock.number, server: clock.server }))
    }

    /// Loads what is known to be needed only now.
    async fn fill(&self, db: &Lent, desk: &mut Desk, plan: &Plan<'_>) -> Result<(), Trouble> {
        let holders = desk.keys.values().filter_map(|key| key.holder);
        let holders: Vec<JobId> = holders.filter(|id| !desk.jobs.contains_key(id)).collect();
        let bounded =
            plan.new.iter().filter(|new| desk.known.policy(&new.job_type).max_queued.is_some());
        let bounded = bounded.filter_map(|new| desk.known.queues.no(&new.job_type, &new.tenant));
        let bounded: BTreeSet<i64> = bounded.filter(|_| !plan.taking_in).collect();
        let (holders, queued) = tokio::try_join!(biased; load::read(db, &holders), hold::queued(db, bounded.into_iter().collect()))?;
        desk.holders = holders;
        desk.queued = queued;
        if plan.taking_in {
            desk.free_kept_keys(&plan.new);
        }
        inbox::expect_none(db, &desk.missing_holders()).await?;
        load::details(db, desk, &plan.commands).await
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
#[derive(Default)]
pub(super) struct Ready<'a> {
    pub(super) replies: Vec<Reply>,
    pub(super) desk: Option<Desk>,
    pub(super) notes: Vec<&'a AuditNote>,
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

fn remember<'a>(reply: &Reply, request: &'a Request, notes: &mut Vec<&'a AuditNote>) {
    if reply.is_ok() {
        notes.extend(notes_of(request));
    }
}

impl Inner {
    /// Settings come first. They are few, and each is a statement. Gives those that are refused.
    async fn set(&self, db: &Lent, plan: &Plan<'_>) -> Result<BTreeMap<usize, Refusal>, Trouble> {
        if plan.sets {
            db.run(sql::SETTINGS_SET, &[]).await?;
        } else if plan.requests.iter().any(|(_, request)| request.sets()) {
            db.run(sql::CREDENTIALS_SET, &[]).await?;
        }
        let mut refused = BTreeMap::new();
        for (index, request) in &plan.requests {
            let done = match request.bare() {
                Some(Request::SetPolicy { job_type, policy }) => {
                    let name = job_type.as_str();
                    let body = to_row(facet::of_name(&[name]), policy);
                    known::put_policy(db, name, &body, policy).await?;
                    Ok(())
                }
                Some(Request::Pause { scope, job_type }) => self.pause(db, scope, job_type).await?,
                Some(Request::Resume { scope, job_type }) => {
                    let params: [Param<'_>; 2] =
                        [(&job_type.as_str(), Type::TEXT), (&to_scope(scope), Type::TEXT)];
                    db.run(sql::PAUSE_LIFT, &params).await?;
                    Ok(())
                }
                Some(Request::PutKey(key)) => audit::put_key(db, key, &self.limits).await?,
                Some(Request::PutSigningKey(key)) => {
                    audit::put_signing_key(db, key).await?;
                    Ok(())
                }
                Some(
                    Request::Submit(_)
                    | Request::Job { .. }
                    | Request::Claim { .. }
                    | Request::Seen { .. }
                    | Request::Leave { .. }
                    | Request::Record { .. },
                )
                | None => Ok(()),
            };
            if let Err(refusal) = done {
                refused.insert(*index, refusal);
            }
        }
        Ok(refused)
    }

    /// The lock on the number of settings, which is taken, keeps two nodes from adding the last
    /// one.
    async fn pause(
        &self,
        db: &Lent,
        scope: &Scope,
        job_type: &JobType,
    ) -> Result<Result<(), Refusal>, Trouble> {
        let paused = known::load_pauses(db).await?;
        let pause = (job_type.clone(), scope.clone());
        if let Err(refusal) = check_pause(&paused, &pause, &self.limits) {
            return Ok(Err(refusal));
        }
        let params: [Param<'_>; 2] =
            [(&job_type.as_str(), Type::TEXT), (&to_scope(scope), Type::TEXT)];
        db.run(sql::PAUSE_PUT, &params).await?;
        Ok(Ok(()))
    }
}
