//! One batch, one transaction: lock, load, decide, save, commit. Everything in its turn.

use super::{
    Inner, audit,
    claim::early_look,
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
};
use crate::{
    form::{
        body::{to_row, to_scope},
        facet,
    },
    node::News,
    queue::Queue,
    store::{Answer, Reply, Request},
};
use engine::{AuditNote, JobId};
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
        let known = self.known();
        let is_new = |queue: &Queue| known.queues.no(&queue.job_type, &queue.tenant).is_none();
        let queues = plan.new.iter().map(|new| crate::taken::queue_of(new));
        let missing: BTreeSet<Queue> = queues.filter(is_new).collect();
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
        let known = Arc::new(Known::load(db).await?);
        db.closed();
        self.learn(known.clone());
        Ok(known)
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
                    seen.push((scope, worker, None, None));
                    Ok(Answer::Done)
                }
                Some(_) | None => Ok(Answer::Done), // settings were set before anything else
            };
            remember(&reply, request, &mut notes);
            replies.insert(*index, reply);
        }
        desk.expect_changes()?;
        let mut ready = Ready { xact, made, careful: plan.careful, ..Ready::default() };
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
                seen.insert(0, (wanted.scope, &wish.worker, host, Some(&wish.job_types)));
            }
        }
        ready.replies = replies.into_values().collect();
        ready.seen = self.news_of_workers(seen, desk.now);
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
        let (audit, claims) = (plan.audit_lock(self.schema()), plan.claim_locks(self.schema()));
        // Claims are taken to be new at first. One that is not shows when it is written down, or when there was nothing for it.
        let digests = if plan.careful { plan.digests() } else { Vec::new() };
        let locks: &[i64] = if plan.careful { &claims } else { &[] };
        let mut keys = plan.keys(&known);
        let recalled = self.recall(plan);
        let needed: &[JobId] = if recalled.is_some() { &[] } else { &plan.jobs };
        // Most batches need nothing before their locks, and begin in the same journey.
        let early = !plan.rekeyed.is_empty() || plan.sets_anything();
        if early {
            tokio::try_join!(biased; db.begin(), hold::keys_of(db, &plan.rekeyed, &mut keys))?;
            set(db, plan).await?;
        }
        let first = early_look(plan, &known);
        let hold = async {
            tokio::try_join!(
                biased;
                begin(db, !early && !plan.taking_in),
                hold::lock(db, &audit),
                hold::lock_keys(db, &keys),
                load::locked(db, needed),
            )
        };
        let (reads, writes) = (first.is_none(), plan.surely_writes());
        let read = async {
            tokio::try_join!(
                biased;
                hold::lock(db, locks),
                hold::held(db, &digests),
                hold::clock(db, reads, writes),
                self.look_early(db, first, &claims),
            )
        };
        // Ended jobs are held by a second statement. Everything else is behind it.
        let (((), (), keys, jobs), ((), held, clock, look)) = if needed.is_empty() {
            tokio::try_join!(biased; hold, read)?
        } else {
            (hold.await?, read.await?)
        };
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
        // It went by the database's time, which may have gone back, and by what was known.
        desk.early = look.filter(|_| as_known && now == clock.now);
        desk.claim_locks = claims;
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

/// A transaction that has only to be committed.
#[derive(Default)]
pub(super) struct Ready<'a> {
    pub(super) replies: Vec<Reply>,
    pub(super) desk: Option<Desk>,
    pub(super) notes: Vec<&'a AuditNote>,
    pub(super) seen: Vec<super::workers::News>,
    /// What each claim was given.
    pub(super) given: Vec<(i64, Vec<JobId>)>,
    /// What was learned about lines, true as soon as it is committed.
    pub(super) lines: Vec<super::lines::Looked>,
    /// The queues that jobs were taken from, each as often, in order.
    pub(super) served: Vec<i64>,
    pub(super) xact: Xact,
    /// Whether it was looked up what its claims were given before.
    pub(super) careful: bool,
    /// How many connections had been made when it began.
    pub(super) made: u64,
}

fn remember<'a>(reply: &Reply, request: &'a Request, notes: &mut Vec<&'a AuditNote>) {
    if reply.is_ok() {
        notes.extend(notes_of(request));
    }
}

async fn begin(db: &Lent, now: bool) -> Result<(), Trouble> {
    if now { db.begin().await } else { Ok(()) }
}

/// Settings come first. They are few, and each is a statement.
async fn set(db: &Lent, plan: &Plan<'_>) -> Result<(), Trouble> {
    if plan.sets {
        db.run(sql::SETTINGS_CHANGED, &[]).await?;
    }
    for (_, request) in &plan.requests {
        match request.bare() {
            Some(Request::SetPolicy { job_type, policy }) => {
                let name = job_type.as_str();
                let body = to_row(facet::of_name(&[name]), policy);
                known::put_policy(db, name, &body, policy).await?;
            }
            Some(Request::Pause { scope, job_type }) => {
                let params: [Param<'_>; 2] =
                    [(&job_type.as_str(), Type::TEXT), (&to_scope(scope), Type::TEXT)];
                db.run(sql::PAUSE_PUT, &params).await?;
            }
            Some(Request::Resume { scope, job_type }) => {
                let params: [Param<'_>; 2] =
                    [(&job_type.as_str(), Type::TEXT), (&to_scope(scope), Type::TEXT)];
                db.run(sql::PAUSE_LIFT, &params).await?;
            }
            Some(Request::PutKey(key)) => audit::put_key(db, key).await?,
            Some(Request::PutSigningKey(key)) => audit::put_signing_key(db, key).await?,
            Some(
                Request::Submit(_)
                | Request::Job { .. }
                | Request::Claim { .. }
                | Request::Seen { .. }
                | Request::Record { .. },
            )
            | None => {}
        }
    }
    Ok(())
}
