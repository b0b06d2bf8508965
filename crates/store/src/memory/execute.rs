//! One batch, one transaction: load, decide, save, answer.

use super::tables::{Key, Seen, Tables};
use crate::{
    dice::Dice,
    store::{Answer, Reply, Request, turn},
    taken::{Intent, Taken, decided, queue_of},
};
use engine::{
    AuditEntry, AuditHash, AuditNote, Command, Effect, Facts, Host, JobId, JobType, NewJob,
    Refusal, Scope, SeededBug, WorkerId, decide, planted, submit, submit_again, submit_same,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
};

impl Tables {
    /// Carries out a batch, everything in its turn; replies keep the order of the requests.
    pub(super) fn execute(&mut self, batch: Vec<Request>, dice: &dyn Dice) -> Vec<Reply> {
        let known_keys: Option<BTreeSet<Key>> =
            planted(SeededBug::CheckThenInsertKey).then(|| self.keys.keys().cloned().collect());
        let mut numbered: Vec<(usize, Request)> = batch.into_iter().enumerate().collect();
        numbered.sort_by_key(|(_, request)| turn(request)); // stable: the order within a turn stays
        let mut replies: BTreeMap<usize, Reply> = BTreeMap::new();
        for (index, request) in numbered {
            let reply = self.request(request, dice, known_keys.as_ref());
            replies.insert(index, reply);
        }
        replies.into_values().collect()
    }

    fn request(
        &mut self,
        request: Request,
        dice: &dyn Dice,
        known_keys: Option<&BTreeSet<Key>>,
    ) -> Reply {
        match request {
            Request::Submit(jobs) => return self.submit(jobs, known_keys),
            Request::Job { scope, id, command } => {
                return self.command(&scope, id, &command, dice);
            }
            Request::Claim { scope, wish } => {
                let claimed = self.claim(&scope, &wish, dice);
                self.see(scope, wish.worker, wish.host, Some(wish.job_types));
                return Ok(Answer::Claimed(claimed));
            }
            Request::Record { note, request } => {
                let done = request.map(|request| self.request(*request, dice, known_keys));
                let answer = done.unwrap_or(Ok(Answer::Done))?;
                self.note(note);
                return Ok(answer);
            }
            Request::Seen { scope, worker } => self.see(scope, worker, None, None),
            Request::SetPolicy { job_type, policy } => drop(self.policies.insert(job_type, policy)),
            Request::Pause { scope, job_type } => drop(self.paused.insert((job_type, scope))),
            Request::Resume { scope, job_type } => self.resume(&scope, &job_type),
            Request::PutKey(key) => drop(self.api_keys.insert(key.id, key)),
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
    fn submit(&mut self, jobs: Vec<NewJob>, known_keys: Option<&BTreeSet<Key>>) -> Reply {
        let one = |new, taken: &Taken<'_>| Ok(self.submit_one(new, taken, known_keys));
        let Ok(decided) = decided::<Infallible>(&jobs, one);
        let (answers, taken) = decided?;
        for (new, change) in taken.jobs {
            self.payloads.insert(new.id, new.payload.clone());
            self.save(change);
        }
        Ok(Answer::Submitted(answers))
    }

    fn submit_one(
        &self,
        new: &NewJob,
        taken: &Taken<'_>,
        known_keys: Option<&BTreeSet<Key>>,
    ) -> Result<Intent, Refusal> {
        // The same hand-over again: somebody could not know whether the first one was committed.
        if let Some(stored) = self.jobs.get(&new.id) {
            return Ok(Intent::Again(submit_same(stored, new)?));
        }
        if let Some(key) = &new.key {
            let full = (new.tenant.clone(), new.job_type.clone(), key.name.clone());
            // Only the planted bug has `known_keys`: it believes what it saw before the batch.
            let looks_free = known_keys.is_some_and(|known| !known.contains(&full));
            let stored = self.holder(&full).filter(|_| !looks_free);
            if let Some(holder) = taken.holder(new).or(stored) {
                return Ok(Intent::Again(submit_again(holder, &key.content)?));
            }
        }
        let queued = self.counts.get(&queue_of(new)).map_or(0, |counts| counts.queued);
        let queued = queued + taken.queued(new);
        let policy = self.policy(&new.job_type);
        Ok(Intent::Begin(Box::new(submit(new, policy, queued, self.now())?)))
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
        let ruling = decide(job, command, &facts)?;
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
        let seen = self.workers.entry((scope, worker)).or_insert_with(|| Seen {
            host: None,
            job_types: Vec::new(),
            seen_at: now,
        });
        seen.seen_at = now;
        seen.host = host.or(seen.host.take());
        if let Some(job_types) = job_types {
            seen.job_types = job_types;
        }
    }

    fn resume(&mut self, scope: &Scope, job_type: &JobType) {
        let lifted = |paused: &Scope| *scope == Scope::All || scope == paused;
        self.paused.retain(|(paused_type, paused)| paused_type != job_type || !lifted(paused));
    }
}
