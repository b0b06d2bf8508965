//! One batch, one transaction: load, decide, save, answer.

use super::tables::{Seen, Tables};
use crate::{
    dice::Dice,
    queue::check_pause,
    store::{Answer, Reply, Request, turn},
    taken::{Intent, Taken, decided, queue_of},
};
use engine::{
    ApiKey, AuditEntry, AuditHash, AuditNote, Command, Effect, Facts, Host, JobId, JobType, NewJob,
    Refusal, Scope, Tenant, WorkerId, submit, submit_again, submit_same,
};
use std::{collections::BTreeMap, convert::Infallible};

impl Tables {
    /// Carries out a batch, everything in its turn; replies keep the order of the requests.
    pub(super) fn execute(&mut self, batch: Vec<Request>, dice: &dyn Dice) -> Vec<Reply> {
        let mut numbered: Vec<(usize, Request)> = batch.into_iter().enumerate().collect();
        numbered.sort_by_key(|(_, request)| turn(request)); // stable: the order within a turn stays
        let mut replies: BTreeMap<usize, Reply> = BTreeMap::new();
        for (index, request) in numbered {
            self.settings_version += u64::from(request.sets());
            let reply = self.request(request, dice);
            replies.insert(index, reply);
        }
        replies.into_values().collect()
    }

    fn request(&mut self, request: Request, dice: &dyn Dice) -> Reply {
        match request {
            Request::Submit(jobs) => return self.submit(jobs),
            Request::Job { scope, id, command } => {
                return self.command(&scope, id, &command, dice);
            }
            Request::Claim { scope, wish } => {
                let claimed = self.claim(&scope, &wish, dice);
                self.see(scope, wish.worker, wish.host, Some(wish.job_types));
                return Ok(Answer::Claimed(claimed));
            }
            Request::Record { note, request } => {
                let done = request.map(|request| self.request(*request, dice));
                let answer = done.unwrap_or(Ok(Answer::Done))?;
                self.note(note);
                return Ok(answer);
            }
            Request::Seen { scope, worker } => self.see(scope, worker, None, None),
            Request::Leave { scope, worker } => self.leave(scope, worker),
            Request::SetPolicy { job_type, policy } => drop(self.policies.insert(job_type, policy)),
            Request::Pause { scope, job_type } => self.pause(scope, job_type)?,
            Request::Resume { scope, job_type } => self.resume(&scope, &job_type),
            Request::PutKey(key) => self.put_key(key)?,
            Request::PutSigningKey(key) => drop(self.signing_keys.insert(key.id, key)),
        }
        Ok(Answer::Done)
    }

    /// Adds an entry to the audit log.
    fn note(&mut self, note: AuditNote) {
        let before = self.audit.last().map_or(AuditHash::FIRST, |last| last.hash);
        let number = self.audit.len() as u64 + 1;
        self.audit.push(AuditEntry::new(number, self.now(), note, before));
    }

    /// All of `jobs` or none: everything is decided before anything is saved.
    fn submit(&mut self, jobs: Vec<NewJob>) -> Reply {
        let one = |new, taken: &Taken<'_>| Ok(self.submit_one(new, taken));
        let Ok(decided) = decided::<Infallible>(&jobs, one);
        let (answers, taken) = decided?;
        for (new, change) in taken.jobs {
            self.payloads.insert(new.id, new.payload.clone());
            self.save(change);
        }
        Ok(Answer::Submitted(answers))
    }

    fn submit_one(&self, new: &NewJob, taken: &Taken<'_>) -> Result<Intent, Refusal> {
        // The same hand-over again: somebody could not know whether the first one was committed.
        if let Some(stored) = self.jobs.get(&new.id) {
            return Ok(Intent::Again(submit_same(stored, new)?));
        }
        if let Some(key) = &new.key {
            let full = (new.tenant.clone(), new.job_type.clone(), key.name.clone());
            let stored = self.rules.key_holder(self.holder(&full), self.now());
            if let Some(holder) = taken.holder(new).or(stored) {
                return Ok(Intent::Again(submit_again(holder, &key.content)?));
            }
        }
        let counts = self.counts.get(&queue_of(new));
        let queued = counts.map_or(0, |counts| counts.queued) + taken.queued(new);
        let opens_type = match counts {
            Some(_) => false,
            None => {
                let is_declared = self.policies.contains_key(&new.job_type);
                let open = self.undeclared_types(&new.tenant);
                taken.check_new_type(new, &self.limits, is_declared, open)?
            }
        };
        let change = submit(new, self.policy(&new.job_type), queued, self.now())?;
        Ok(Intent::Begin { change: Box::new(change), opens_type })
    }

    fn undeclared_types(&self, tenant: &Tenant) -> u64 {
        let own = self.counts.keys().filter(|queue| queue.tenant == *tenant);
        own.filter(|queue| !self.policies.contains_key(&queue.job_type)).count() as u64
    }

    fn pause(&mut self, scope: Scope, job_type: JobType) -> Result<(), Refusal> {
        let pause = (job_type, scope);
        check_pause(&self.paused, &pause, &self.limits)?;
        self.paused.insert(pause);
        Ok(())
    }

    fn put_key(&mut self, key: ApiKey) -> Result<(), Refusal> {
        if !self.api_keys.contains_key(&key.id) {
            let kept = self.api_keys.values();
            let forgotten = self.limits.room_for_key(kept, &key.grant.scope, self.now())?;
            forgotten.and_then(|id| self.api_keys.remove(&id));
        }
        self.api_keys.insert(key.id, key);
        Ok(())
    }

    /// Whether a worker is known or may be; one that was lost goes to make room.
    fn admits_worker(&mut self, name: &(Scope, WorkerId)) -> bool {
        if self.workers.contains_key(name) {
            return true;
        }
        let own = self.workers.iter().filter(|((own, _), _)| *own == name.0);
        let own = own.map(|(name, seen)| (name, seen.seen_at));
        let Ok(forgotten) = self.limits.room_for_worker(own, self.now()) else { return false };
        let forgotten = forgotten.cloned();
        forgotten.and_then(|name| self.workers.remove(&name));
        true
    }

    /// Lets the engine decide one command about one job, and saves what it decided.
    fn command(&mut self, scope: &Scope, id: JobId, command: &Command, dice: &dyn Dice) -> Reply {
        let job = self.visible(scope, id).ok_or(Refusal::JobNotFound)?;
        // The record of the attempt is only needed when the token is not the job's current one.
        let current = job.lease().map(|lease| lease.token);
        let stale = command.token().filter(|token| Some(**token) != current);
        let record = stale.and_then(|token| {
            self.history[&id].iter().rev().find_map(|entry| entry.record_of(token))
        });
        let steps = self.steps.get(&id);
        let facts = Facts {
            record: record.as_ref(),
            step: steps.zip(command.step()).and_then(|(steps, name)| steps.get(name)),
            steps: steps.map_or(0, BTreeMap::len) as u64,
            ..self.facts(job, dice)
        };
        let ruling = self.rules.decide(job, command, &facts)?;
        match ruling.effect {
            Effect::Nothing => {}
            Effect::Change(change) => self.save(*change),
            Effect::Erase => self.erase(id),
        }
        Ok(Answer::Job(ruling.answer))
    }

    fn see(
        &mut self,
        scope: Scope,
        worker: WorkerId,
        host: Option<Host>,
        job_types: Option<Vec<JobType>>,
    ) {
        let now = self.now();
        let name = (scope, worker);
        // One too many works like any other and is not shown: claims and reports are never refused
        // for it.
        if !self.admits_worker(&name) {
            return;
        }
        let seen = self.workers.entry(name).or_insert_with(|| Seen {
            host: None,
            job_types: Vec::new(),
            seen_at: now,
            left: false,
        });
        (seen.seen_at, seen.left) = (now, false);
        seen.host = host.or(seen.host.take());
        if let Some(job_types) = job_types {
            seen.job_types = job_types;
        }
    }

    /// A worker signs off. One that was never seen has nothing to leave.
    fn leave(&mut self, scope: Scope, worker: WorkerId) {
        let now = self.now();
        if let Some(seen) = self.workers.get_mut(&(scope, worker)) {
            (seen.seen_at, seen.left) = (now, true);
        }
    }

    fn resume(&mut self, scope: &Scope, job_type: &JobType) {
        let lifted = |paused: &Scope| *scope == Scope::All || scope == paused;
        self.paused.retain(|(paused_type, paused)| paused_type != job_type || !lifted(paused));
    }
}
