//! Do what an operator wants, and note who it was: both, or neither.

use crate::{Error, Platform};
use engine::{
    AuditEntry, AuditNote, Command, CorrelationId, Job, JobId, JobType, PauseReason, Policy,
    PolicyDraft, Principal, Scope, check_max_attempts,
};
use std::sync::Arc;
use store::{Answer, Request};

/// Who does something, and how it can be found again.
#[derive(Clone, Debug)]
pub struct Author {
    /// What the audit log calls them: `key:…`, `jwt:…`, `config`.
    pub who: Arc<str>,
    /// In whose house they do it: who may read the entry.
    pub scope: Scope,
    /// What to search the logs for.
    pub correlation: CorrelationId,
}

impl Author {
    /// Somebody who passed a door, and acts in their own house.
    pub fn new(by: &Principal, correlation: CorrelationId) -> Self {
        Author { who: by.who.clone(), scope: by.grant.scope.clone(), correlation }
    }

    pub(crate) fn note(
        &self,
        action: &'static str,
        target: &str,
        detail: Option<&str>,
    ) -> AuditNote {
        AuditNote {
            who: self.who.clone(),
            scope: self.scope.clone(),
            action,
            target: target.into(),
            detail: detail.map(Into::into),
            correlation: self.correlation.clone(),
        }
    }
}

/// The verbs of operators, each noted in the audit log in the transaction that carries it out. What is refused
/// leaves no entry.
///
/// What a setting was before is read right before that transaction, not in it: stores would have to
/// load settings for an entry. Two callers that set one thing in the same moment may both tell what
/// was before the first; the order of their entries is still the order in which they hold.
pub struct Managed<'a> {
    platform: &'a Platform,
    author: Author,
}

impl Platform {
    /// The verbs of operators, in the name of `author`.
    pub fn by(&self, author: Author) -> Managed<'_> {
        Managed { platform: self, author }
    }

    /// A page of the audit log, newest first: entries with a number below `before`.
    pub async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, Error> {
        Ok(self.store.audit(scope, before, limit).await?)
    }
}

impl Managed<'_> {
    /// Cancels a waiting job at once, and asks the worker of a running one to stop.
    pub async fn cancel(&self, scope: &Scope, id: JobId) -> Result<Job, Error> {
        self.change("job.cancel", (scope, id), Command::Cancel, None).await
    }

    /// Queues an ended job again, with all its attempts or with `max_attempts` of them.
    pub async fn redrive(
        &self,
        scope: &Scope,
        id: JobId,
        max_attempts: Option<i64>,
        reset_steps: bool,
    ) -> Result<Job, Error> {
        let max_attempts = max_attempts.map(check_max_attempts).transpose()?;
        let attempts = max_attempts.map(|max| format!("maxAttempts {max}"));
        let steps = reset_steps.then(|| "resetSteps".to_owned());
        let detail: Vec<String> = attempts.into_iter().chain(steps).collect();
        let detail = (!detail.is_empty()).then(|| detail.join(", "));
        let command = Command::Redrive { max_attempts, reset_steps };
        self.change("job.redrive", (scope, id), command, detail.as_deref()).await
    }

    /// Discards a poisoned job: it stays as it ended, but waits for nobody any more.
    pub async fn discard(&self, scope: &Scope, id: JobId) -> Result<Job, Error> {
        self.change("job.discard", (scope, id), Command::Discard, None).await
    }

    /// Erases an ended job with its payload, history, steps and key.
    pub async fn erase(&self, scope: &Scope, id: JobId) -> Result<(), Error> {
        let request = Request::Job { scope: scope.clone(), id, command: Command::Erase };
        self.noted("job.erase", &id.to_string(), None, request).await.map(drop)
    }

    /// Lets nobody claim from a queue; what runs goes on.
    pub async fn pause(
        &self,
        scope: &Scope,
        job_type: JobType,
        reason: Option<&PauseReason>,
    ) -> Result<(), Error> {
        let before = self.platform.store.pauses().await?;
        let detail = engine::pause_change(&before, scope, &job_type, reason);
        let target = job_type.to_string();
        let request = Request::Pause { scope: scope.clone(), job_type };
        self.set("queue.pause", &target, Some(&detail), request).await
    }

    /// Lets a paused queue be claimed from again.
    pub async fn resume(&self, scope: &Scope, job_type: JobType) -> Result<(), Error> {
        let before = self.platform.store.pauses().await?;
        let detail = engine::resume_change(&before, scope, &job_type);
        let target = job_type.to_string();
        let request = Request::Resume { scope: scope.clone(), job_type };
        self.set("queue.resume", &target, Some(&detail), request).await
    }

    /// Sets the policy of a type for every node, from now on.
    pub async fn set_policy(
        &self,
        job_type: JobType,
        draft: &PolicyDraft,
    ) -> Result<Policy, Error> {
        let policy = self.platform.checked_policy(draft).await?;
        let before = self.platform.store.policies().await?;
        let detail = engine::policy_change(before.get(&job_type), &policy);
        let target = job_type.to_string();
        let request = Request::SetPolicy { job_type, policy: policy.clone() };
        self.set("type.put", &target, Some(&detail), request).await?;
        Ok(policy)
    }

    /// Notes something that was done elsewhere, or to many jobs at once.
    pub async fn record(
        &self,
        action: &'static str,
        target: &str,
        detail: Option<&str>,
    ) -> Result<(), Error> {
        let note = self.author.note(action, target, detail);
        self.platform.execute_one(Request::Record { note, request: None }).await.map(drop)
    }

    /// One command about one job, which answers the job as it is then.
    async fn change(
        &self,
        action: &'static str,
        (scope, id): (&Scope, JobId),
        command: Command,
        detail: Option<&str>,
    ) -> Result<Job, Error> {
        let request = Request::Job { scope: scope.clone(), id, command };
        let answer = self.noted(action, &id.to_string(), detail, request).await?;
        let Answer::Job(engine::Answer::Job(job)) = answer else {
            unreachable!("the engine answers these commands with the job");
        };
        Ok(*job)
    }

    /// Sets something that nodes keep in memory.
    async fn set(
        &self,
        action: &'static str,
        target: &str,
        detail: Option<&str>,
        request: Request,
    ) -> Result<(), Error> {
        let note = self.author.note(action, target, detail);
        let request = Some(Box::new(request));
        self.platform.set(Request::Record { note, request }).await.map(drop)
    }

    async fn noted(
        &self,
        action: &'static str,
        target: &str,
        detail: Option<&str>,
        request: Request,
    ) -> Result<Answer, Error> {
        let note = self.author.note(action, target, detail);
        let request = Some(Box::new(request));
        self.platform.execute_one(Request::Record { note, request }).await
    }
}
