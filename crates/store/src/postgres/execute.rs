//! One batch, one transaction: lock, load, decide, save, commit. Everything in its turn.

use super::{
    Inner, audit,
    claim::early_look,
    desk::{BLOCK, Desk, Key, KeyName},
    error::Trouble,
    inbox,
    known::{self, Known},
    load,
    pending::queue_column,
    plan::{Plan, notes_of},
    pool::{Lent, Param, Pool},
    sql,
    uuid::{ServerStart, Uuid, Xact, XactNumber, uuids},
};
use crate::{
    form::{
        body::{from_row, to_row, to_scope},
        facet,
    },
    node::News,
    queue::Queue,
    store::{Answer, Reply, Request},
};
use engine::{AuditNote, Envelope, JobId, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::{Row, types::Type};

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
            tokio::try_join!(biased; db.begin(), keys_of(db, &plan.rekeyed, &mut keys))?;
            set(db, plan).await?;
        }
        let first = early_look(plan, &known);
        let hold = async {
            tokio::try_join!(
                biased;
                begin(db, !early && !plan.taking_in),
                lock(db, &audit),
                lock_keys(db, &keys),
                load::locked(db, needed),
            )
        };
        let (reads, writes) = (first.is_none(), plan.surely_writes());
        let read = async {
            tokio::try_join!(
                biased;
                lock(db, locks),
                held(db, &digests),
                clock(db, reads, writes),
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
            numbers.extend(places(db, more + self.places_wanted(db, plan, &known)).await?);
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
        let (holders, queued) = tokio::try_join!(biased; load::read(db, &holders), queued(db, bounded.into_iter().collect()))?;
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

pub(super) async fn lock(db: &Lent, locks: &[i64]) -> Result<(), Trouble> {
    if locks.is_empty() {
        return Ok(());
    }
    db.rows(sql::LOCK, &[(&locks, Type::INT8_ARRAY)]).await.map(drop)
}

/// The jobs that claims of these names were given.
pub(super) async fn held(db: &Lent, digests: &[i64]) -> Result<HashMap<i64, Vec<JobId>>, Trouble> {
    let mut held = HashMap::new();
    if digests.is_empty() {
        return Ok(held);
    }
    for row in db.rows(sql::CLAIMS_HELD, &[(&digests, Type::INT8_ARRAY)]).await? {
        let (digest, ids): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
        let (ids, _) = ids.as_chunks::<16>();
        held.insert(digest, ids.iter().map(|id| JobId::from_bytes(*id)).collect());
    }
    Ok(held)
}

/// Adds the keys of these jobs. They never change, so nobody need hold the jobs for that.
async fn keys_of(
    db: &Lent,
    ids: &[JobId],
    keys: &mut BTreeMap<KeyName, JobId>,
) -> Result<(), Trouble> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids = uuids(ids.iter().copied());
    for row in db.rows(sql::ENVELOPES, &[(&ids, Type::UUID_ARRAY)]).await? {
        let (id, no, queue): (Uuid, i64, i32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let Some(envelope) =
            load::readable(from_row::<Envelope>(no, row.try_get(3)?).map_err(Trouble::from))?
        else {
            continue;
        };
        if let Some(key) = &envelope.key {
            keys.entry((queue.into(), key.name.as_str().into())).or_insert(id.0);
        }
    }
    Ok(())
}

/// Takes the keys that are free, and holds those that are not.
async fn lock_keys(
    db: &Lent,
    keys: &BTreeMap<KeyName, JobId>,
) -> Result<BTreeMap<KeyName, Key>, Trouble> {
    let mut locked = BTreeMap::new();
    if keys.is_empty() {
        return Ok(locked);
    }
    let queue: Vec<i32> = keys.keys().map(|(queue, _)| queue_column(*queue)).collect();
    let name: Vec<&str> = keys.keys().map(|(_, name)| name.as_str()).collect();
    let id: Vec<Uuid> = keys.values().copied().map(Uuid).collect();
    let take: [Param<'_>; 3] =
        [(&queue, Type::INT4_ARRAY), (&name, Type::TEXT_ARRAY), (&id, Type::UUID_ARRAY)];
    let named: [Param<'_>; 2] = [(&queue, Type::INT4_ARRAY), (&name, Type::TEXT_ARRAY)];
    let (taken, held) =
        tokio::try_join!(biased; db.rows(sql::KEYS_TAKE, &take), db.rows(sql::KEYS_HELD, &named))?;
    for row in &held {
        let (queue, name, id): (i32, String, Uuid) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        locked.insert((queue.into(), name), Key { row: id.0, holder: Some(id.0) });
    }
    for row in &taken {
        let (queue, name): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
        let key = locked.get_mut(&(queue.into(), name));
        key.ok_or(Trouble::Impossible("a key was taken and is not there"))?.holder = None;
    }
    Ok(locked)
}

/// The time, and what the house says.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) now: Timestamp,
    pub(super) epoch: i32,
    pub(super) settings: i64,
    pub(super) place: i64,
    pub(super) number: Option<XactNumber>,
    pub(super) server: ServerStart,
}

/// Reads the clock, unless something else does.
async fn clock(db: &Lent, needed: bool, writes: bool) -> Result<Option<Clock>, Trouble> {
    if !needed {
        return Ok(None);
    }
    let rows = db.rows(sql::CLOCK, &[(&writes, Type::BOOL)]).await?;
    let row = rows.first().ok_or(Trouble::Impossible("the house has no row"))?;
    Ok(Some(Clock {
        now: Timestamp::from_unix_ms(row.try_get(0)?),
        epoch: row.try_get(1)?,
        settings: row.try_get(2)?,
        place: row.try_get(3)?,
        number: row.try_get(4)?,
        server: row.try_get(5)?,
    }))
}

/// Places of their own for so many blocks of numbers.
async fn places(db: &Lent, count: usize) -> Result<Vec<i64>, Trouble> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let rows = db.rows(sql::PLACES, &[(&count, Type::INT4)]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

async fn queued(db: &Lent, queues: Vec<i64>) -> Result<HashMap<i64, u64>, Trouble> {
    if queues.is_empty() {
        return Ok(HashMap::new());
    }
    let queues: Vec<i32> = queues.into_iter().map(queue_column).collect();
    let rows = db.rows(sql::QUEUED, &[(&queues, Type::INT4_ARRAY)]).await?;
    let read = |row: &Row| {
        let (queue, queued): (i32, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok((i64::from(queue), u64::try_from(queued).unwrap_or(0)))
    };
    rows.iter().map(read).collect()
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
