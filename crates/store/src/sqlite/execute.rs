//! One batch, one transaction: everything in its turn.

use super::{
    body::{Seen, to_row, to_scope},
    error::Trouble,
    facet,
    known::Known,
    load::{self, Stored},
    sql,
    writer::Writer,
};
use crate::{
    queue::check_pause,
    seen::room_for_worker,
    store::{Answer, Reply, Request, turn},
    taken::{Intent, Taken, decided},
};
use engine::{
    AuditNote, Command, Effect, Facts, Host, JobId, JobType, NewJob, Policy, Refusal, Scope,
    WorkerId, decide, submit, submit_again, submit_same,
};
use std::time::Duration;

impl Writer {
    /// Carries out a batch; replies keep the order of the requests.
    pub(super) fn execute(&mut self, batch: Vec<Request>) -> Result<Vec<Reply>, Trouble> {
        let mut numbered: Vec<(usize, Request)> = batch.into_iter().enumerate().collect();
        numbered.sort_by_key(|(_, request)| turn(request)); // stable: the order within a turn stays
        let mut replies: Vec<(usize, Reply)> = Vec::with_capacity(numbered.len());
        for (index, request) in numbered {
            replies.push((index, self.request(request)?));
        }
        self.keep_up_listing()?;
        replies.sort_by_key(|(index, _)| *index);
        Ok(replies.into_iter().map(|(_, reply)| reply).collect())
    }

    fn request(&mut self, request: Request) -> Result<Reply, Trouble> {
        match request {
            Request::Submit(jobs) => return self.submit(&jobs),
            Request::Job { scope, id, command } => return self.command(&scope, id, &command),
            Request::Claim { scope, wish } => {
                let claimed = self.claim(&scope, &wish)?;
                self.see(scope, wish.worker, wish.host, Some(wish.job_types))?;
                return Ok(Ok(Answer::Claimed(claimed)));
            }
            Request::Record { note, request } => return self.record(note, request),
            Request::Seen { scope, worker } => self.see(scope, worker, None, None)?,
            Request::Leave { scope, worker } => self.leave(scope, worker)?,
            Request::SetPolicy { job_type, policy } => self.set_policy(job_type, policy)?,
            Request::Pause { scope, job_type } => return self.pause(job_type, scope),
            Request::Resume { scope, job_type } => self.resume(&job_type, &scope)?,
            Request::PutKey(key) => return self.put_key(&key),
            Request::PutSigningKey(key) => self.put_signing_key(&key)?,
        }
        Ok(Ok(Answer::Done))
    }

    /// Does something and notes it; what is refused is not noted.
    fn record(&mut self, note: AuditNote, request: Option<Box<Request>>) -> Result<Reply, Trouble> {
        let reply = match request {
            Some(request) => self.request(*request)?,
            None => Ok(Answer::Done),
        };
        if reply.is_ok() {
            self.note(note)?;
        }
        Ok(reply)
    }

    /// All of `jobs` or none: everything is decided before anything is saved.
    fn submit(&mut self, jobs: &[NewJob]) -> Result<Reply, Trouble> {
        let (answers, taken) = match decided(jobs, |new, taken| self.submit_one(new, taken))? {
            Ok(decided) => decided,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for (new, change) in taken.jobs {
            self.save_new(new, change)?;
        }
        Ok(Ok(Answer::Submitted(answers)))
    }

    fn submit_one(&self, new: &NewJob, taken: &Taken<'_>) -> Result<Decided, Trouble> {
        // The same hand-over again: somebody could not know whether the first one was committed.
        if self.may_have(new.id)
            && let Some(stored) = self.find_by_id(new.id)?
        {
            return Ok(submit_same(&stored.job, new).map(Intent::Again));
        }
        let queue = self.known.queues.no(&new.job_type, &new.tenant);
        if let Some(key) = &new.key {
            if let Some(holder) = taken.holder(new) {
                return Ok(submit_again(holder, &key.content).map(Intent::Again));
            }
            let stored = match queue {
                Some(queue) => self.key_holder(queue, key.name.as_str())?,
                None => None,
            };
            if let Some(holder) = stored {
                return Ok(submit_again(&holder.job, &key.content).map(Intent::Again));
            }
        }
        let opens_type = match queue {
            Some(_) => false,
            None => match self.check_new_type(new, taken) {
                Ok(opens_type) => opens_type,
                Err(refusal) => return Ok(Err(refusal)),
            },
        };
        let policy = self.known.policy(&new.job_type);
        // Asked only where it matters: nobody else needs the sum.
        let queued = policy
            .max_queued
            .map_or(0, |_| queue.map_or(0, |queue| self.known.queued(queue)) + taken.queued(new));
        let begin = |change| Intent::Begin { change: Box::new(change), opens_type };
        Ok(submit(new, policy, queued, self.now()).map(begin))
    }

    fn check_new_type(&self, new: &NewJob, taken: &Taken<'_>) -> Result<bool, Refusal> {
        let Known { queues, policies, .. } = &self.known;
        let is_declared = policies.contains_key(&new.job_type);
        let undeclared = queues.undeclared_types(&new.tenant, policies);
        taken.check_new_type(new, &self.limits, is_declared, undeclared)
    }

    /// Whether a job may be here. Ids begin with the moment at which they were made, so nearly every new
    /// one is greater than all that are in the file.
    fn may_have(&self, id: JobId) -> bool {
        self.known.newest_id >= Some(id) || self.pending.number(id).is_some()
    }

    /// Lets the engine decide one command about one job, and saves what it decided.
    fn command(&mut self, scope: &Scope, id: JobId, command: &Command) -> Result<Reply, Trouble> {
        let stored = self.find_by_id(id)?;
        let Some(stored) = stored.filter(|stored| scope.covers(&stored.job.envelope.tenant)) else {
            return Ok(Err(Refusal::JobNotFound));
        };
        let ruling = match self.decide(&stored, command)? {
            Ok(ruling) => ruling,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match ruling.effect {
            Effect::Nothing => {}
            Effect::Change(change) => self.save_change(&stored, *change)?,
            Effect::Erase => self.erase(&stored)?,
        }
        Ok(Ok(Answer::Job(ruling.answer)))
    }

    fn decide(&self, stored: &Stored, command: &Command) -> Result<engine::Decision, Trouble> {
        // The record of the attempt is only needed when the token is not the job's current one.
        let current = stored.job.lease().map(|lease| lease.token);
        let stale = command.token().filter(|token| Some(**token) != current);
        let record = match stale {
            Some(token) => load::record(&self.db, stored, token)?,
            None => None,
        };
        let step = match command.step() {
            Some(name) => load::step(&self.db, stored.no, name)?,
            None => None,
        };
        // How many there are is only asked when another one begins.
        let steps = match (command.step(), &step) {
            (Some(_), None) => load::steps_count(&self.db, stored.no)?,
            (Some(_), Some(_)) | (None, _) => 0,
        };
        let facts = Facts {
            record: record.as_ref(),
            step: step.as_ref(),
            steps,
            ..self.facts(&stored.job.envelope.job_type)
        };
        Ok(decide(&stored.job, command, &facts))
    }

    /// What a decision about a job of this type may know, as far as every decision needs it.
    pub(super) fn facts(&self, job_type: &JobType) -> Facts<'_> {
        Facts {
            now: self.now(),
            epoch: self.known.house.epoch,
            policy: self.known.policy(job_type),
            chance: self.dice.roll(),
            record: None,
            step: None,
            steps: 0,
        }
    }

    fn see(
        &mut self,
        scope: Scope,
        worker: WorkerId,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) -> Result<(), Trouble> {
        let now = self.now();
        let mut workers = self.shared.workers();
        let name = (scope, worker);
        // One too many works like any other and is not shown: claims and reports are never refused
        // for it.
        if !workers.contains_key(&name) && self.shared.is_full(&name.0, now) {
            return Ok(());
        }
        let Ok(forgotten) = room_for_worker(&workers, &name, &self.limits, now) else {
            self.shared.note_full(name.0, now);
            return Ok(());
        };
        if let Some(lost) = forgotten {
            let values = (to_scope(&lost.0), lost.1.as_str());
            self.db.prepare_cached(sql::WORKER_DROP)?.execute(values)?;
            workers.remove(&lost);
        }
        let before = workers.get(&name).cloned();
        let nobody = Seen { host: None, job_types: [].into(), seen_at: now, left: false };
        let mut seen = before.clone().unwrap_or(nobody);
        (seen.seen_at, seen.left) = (now, false);
        seen.host = host.or(seen.host);
        seen.job_types = job_types.map_or(seen.job_types, Into::into);
        // The file is told now and then: a worker that claims a thousand times a second is alive, and
        // that is all anybody wants to know after a restart.
        let told = before.is_some_and(|before| {
            (&before.host, &before.job_types, before.left) == (&seen.host, &seen.job_types, false)
                && now.unix_ms() / SEEN_WRITTEN_MS == before.seen_at.unix_ms() / SEEN_WRITTEN_MS
        });
        if !told {
            self.save_worker(&name.0, &name.1, &seen)?;
        }
        workers.insert(name, seen);
        Ok(())
    }

    /// A worker signs off. One that was never seen has nothing to leave.
    fn leave(&mut self, scope: Scope, worker: WorkerId) -> Result<(), Trouble> {
        let now = self.now();
        let mut workers = self.shared.workers();
        let name = (scope, worker);
        let Some(before) = workers.get(&name).cloned() else { return Ok(()) };
        let seen = Seen { seen_at: now, left: true, ..before };
        self.save_worker(&name.0, &name.1, &seen)?;
        workers.insert(name, seen);
        Ok(())
    }

    fn set_policy(&mut self, job_type: JobType, policy: Policy) -> Result<(), Trouble> {
        let no = facet::of_name(&[job_type.as_str()]);
        let values = (job_type.as_str(), to_row(no, &policy));
        self.db.prepare_cached(sql::POLICY_PUT)?.execute(values)?;
        self.known.policies.insert(job_type, policy);
        Ok(())
    }

    fn pause(&mut self, job_type: JobType, scope: Scope) -> Result<Reply, Trouble> {
        let pause = (job_type, scope);
        if let Err(refusal) = check_pause(&self.known.paused, &pause, &self.limits) {
            return Ok(Err(refusal));
        }
        let (job_type, scope) = (pause.0.as_str(), to_scope(&pause.1));
        let values = (job_type, scope, to_row(facet::of_name(&[job_type, scope]), &pause));
        self.db.prepare_cached(sql::PAUSE_PUT)?.execute(values)?;
        self.known.paused.insert(pause);
        Ok(Ok(Answer::Done))
    }

    fn resume(&mut self, job_type: &JobType, scope: &Scope) -> Result<(), Trouble> {
        let lifted = |(paused, of): &&(JobType, Scope)| {
            paused == job_type && (*scope == Scope::All || scope == of)
        };
        let lifted: Vec<_> = self.known.paused.iter().filter(lifted).cloned().collect();
        for pause in lifted {
            let values = (pause.0.as_str(), to_scope(&pause.1));
            self.db.prepare_cached(sql::PAUSE_LIFT)?.execute(values)?;
            self.known.paused.remove(&pause);
        }
        Ok(())
    }
}

/// How often a worker that goes on claiming is written down.
const SEEN_WRITTEN_MS: i64 = Duration::from_secs(5).as_millis() as i64;

type Decided = Result<Intent, Refusal>;
