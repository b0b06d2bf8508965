//! Cancel a job, or a job and all its descendants.

use crate::{Actor, Error, JobPermission, Platform, request::TypedRequest};
use engine::{Command, Field, Filter, Job, JobId, Refusal, Scope};
use std::{collections::BTreeSet, sync::Arc};
use store::{PAGE_MAX, Query};

/// The descendants that a cancel reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CancelledDescendants {
    /// How many were cancelled, or asked to stop where they run.
    pub cancelled: u64,
    /// Whether there may be more: the cancel reads at most [`DESCENDANTS_MAX`] descendants.
    pub more: bool,
}

/// The most descendants that one cancel reads.
pub const DESCENDANTS_MAX: usize = 10_000;
/// The most generations that one cancel reads.
const GENERATIONS_MAX: usize = 32;

impl Platform {
    /// Cancels a waiting job at once, and asks the worker of a running one to stop.
    pub async fn cancel(
        &self,
        scope: &Scope,
        id: JobId,
        actor: Option<&Actor>,
    ) -> Result<Job, Error> {
        let request = TypedRequest::change(scope, id, Command::Cancel);
        self.execute_one(request.audited(actor, "job.cancel", id, None)).await
    }

    /// Cancels a job and all its live descendants, parents before their children: a cancelled
    /// parent submits no more of them. The audit entry has their number. Where the job itself has
    /// ended, only its descendants are cancelled.
    pub async fn cancel_with_descendants(
        &self,
        job: &Job,
        may: JobPermission<'_>,
        actor: Option<&Actor>,
    ) -> Result<(Job, CancelledDescendants), Error> {
        let (descendants, more) = self.live_descendants(job, may).await?;
        let detail: Arc<str> = format!("cascade: {} live descendants", descendants.len()).into();
        let scope = Scope::One(job.envelope.tenant.clone());
        let request = TypedRequest::change(&scope, job.id(), Command::Cancel);
        let request = request.audited(actor, "job.cancel", job.id(), Some(detail.clone()));
        let job = match self.execute_one(request).await {
            Err(Error::Refused(Refusal::AlreadyEnded { .. })) if !descendants.is_empty() => {
                self.record_cascade(job, actor, &detail).await?
            }
            result => result?,
        };
        let cancel = |id: &JobId| TypedRequest::command(&scope, *id, Command::Cancel);
        let mut cancelled = 0;
        for page in descendants.chunks(PAGE_MAX) {
            let results = self.execute_each(page.iter().map(cancel)).await?;
            cancelled += results.iter().filter(|result| result.is_ok()).count() as u64;
        }
        Ok((job, CancelledDescendants { cancelled, more }))
    }

    /// Records a cancel of the descendants of an ended job.
    async fn record_cascade(
        &self,
        job: &Job,
        actor: Option<&Actor>,
        detail: &str,
    ) -> Result<Job, Error> {
        if let Some(actor) = actor {
            let target = job.id().to_string();
            self.record_action(actor, "job.cancel", &target, Some(detail)).await?;
        }
        Ok(job.clone())
    }

    /// The live descendants of a job, one generation after the other, and whether there may be
    /// more. Ended ones are passed through: their children may be live.
    async fn live_descendants(
        &self,
        root: &Job,
        may: JobPermission<'_>,
    ) -> Result<(Vec<JobId>, bool), Error> {
        let (mut live, mut seen) = (Vec::new(), BTreeSet::from([root.id()]));
        let mut parents = vec![root.id()];
        for _ in 0..GENERATIONS_MAX {
            let mut children = Vec::new();
            for parent in parents {
                for job in self.children_of(root, parent, DESCENDANTS_MAX - seen.len()).await? {
                    // A job may name itself or a descendant as its parent.
                    if seen.insert(job.id()) {
                        children.push(job.id());
                        live.extend((!job.status().is_ended() && may(&job)).then(|| job.id()));
                    }
                }
                if seen.len() >= DESCENDANTS_MAX {
                    return Ok((live, true));
                }
            }
            if children.is_empty() {
                return Ok((live, false));
            }
            parents = children;
        }
        Ok((live, true))
    }

    /// The children of one job in the tenant of `root`, a few more than `max` at most.
    async fn children_of(&self, root: &Job, parent: JobId, max: usize) -> Result<Vec<Job>, Error> {
        let scope = Scope::One(root.envelope.tenant.clone());
        let filter = Filter::eq(Field::ParentId(parent));
        let mut query = Query { scope, filter, before: None, limit: PAGE_MAX };
        let mut children = Vec::new();
        loop {
            let page = self.store.list(&query).await?;
            children.extend(page.jobs);
            query.before = page.next;
            if page.next.is_none() || children.len() > max {
                return Ok(children);
            }
        }
    }
}
