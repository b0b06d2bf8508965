//! Do one thing to many jobs: those that a filter means, or those in a list.
//!
//! A walk goes from the newest job to the oldest and looks at each once, so it ends, and never meets a job
//! that came after it began. What it finds is read before it is changed: the engine decides again, and
//! whatever ended meanwhile is refused and not counted.

use crate::{Error, Platform, execute::check_items, request::TypedRequest};
use engine::{Command, ErrorCode, Field, Filter, Grant, Job, JobId, JobType, Scope, Status};
use std::collections::BTreeMap;
use store::{Cursor, PAGE_MAX, Query};

/// Which jobs are meant.
#[derive(Clone, Debug)]
pub enum JobSelection {
    /// Those that the filter shows.
    Matching(Filter),
    /// These, at most [`engine::ITEMS_MAX`]. One that is not there, or of which the verb does not speak, is
    /// passed over.
    Ids(Vec<JobId>),
}

/// Whether a caller may touch or see a job, beyond what its scope says.
pub type JobPermission<'a> = &'a (dyn Fn(&Job) -> bool + Send + Sync);

/// A question for a page of the poison queue.
#[derive(Clone, Debug)]
pub struct PoisonQuery {
    /// Whose jobs.
    pub scope: Scope,
    /// Only of this type.
    pub job_type: Option<JobType>,
    /// Only with this reason.
    pub error_code: Option<ErrorCode>,
    /// Only jobs behind this place: what the page before said.
    pub before: Option<Cursor>,
    /// At most so many, and never more than [`PAGE_MAX`].
    pub limit: usize,
}

/// A page of the poison queue.
#[derive(Clone, Debug)]
pub struct PoisonPage {
    /// Newest first. A page may be short, or empty, and still say where to go on.
    pub jobs: Vec<Job>,
    /// What to ask `before` for the next page; nothing after the last.
    pub next: Option<Cursor>,
    /// How many wait for which reason, with the first page only.
    pub reasons: Option<PoisonReasons>,
}

/// How many jobs of the poison queue wait for which reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoisonReasons {
    /// By error code. Which code was asked for does not matter here, so that one sees the others.
    pub counts: BTreeMap<ErrorCode, u64>,
    /// Whether these are all. Of more codes than [`store::POISON_CODES_MAX`] those with the most
    /// jobs are told; and a caller who is limited to subjects is told the counts of the newest
    /// [`POISON_COUNTED_MAX`].
    pub complete: bool,
}

/// No more jobs of a poison queue are counted for a caller who is limited to subjects: it means
/// reading each of them, and somebody waits for it.
pub const POISON_COUNTED_MAX: usize = PAGE_MAX;

impl Platform {
    /// Cancels all that have not ended, and says how many: waiting ones at once, running ones are asked to stop.
    pub async fn cancel_matching(
        &self,
        scope: &Scope,
        chosen: JobSelection,
        may: JobPermission<'_>,
    ) -> Result<u64, Error> {
        let live = [Status::Queued, Status::Running].map(|is| Filter::eq(Field::Status(is)));
        self.bulk(scope, chosen, Filter::Or(live.into()), may, Command::Cancel).await
    }

    /// Gives all that wait in the poison queue another life, with all their attempts, and says how many.
    pub async fn redrive_matching(
        &self,
        scope: &Scope,
        chosen: JobSelection,
        may: JobPermission<'_>,
    ) -> Result<u64, Error> {
        let command = Command::Redrive { max_attempts: None, reset_steps: false };
        self.bulk(scope, chosen, poisoned(), may, command).await
    }

    /// Takes all that wait in the poison queue out of it for good, and says how many.
    pub async fn discard_matching(
        &self,
        scope: &Scope,
        chosen: JobSelection,
        may: JobPermission<'_>,
    ) -> Result<u64, Error> {
        self.bulk(scope, chosen, poisoned(), may, Command::Discard).await
    }

    /// One page of the poison queue: what is within the limits of `grant`, newest first.
    pub async fn poisoned(&self, query: &PoisonQuery, grant: &Grant) -> Result<PoisonPage, Error> {
        let may: JobPermission<'_> = &|job| grant.may_touch(&job.envelope).is_ok();
        let of_type = query.job_type.clone().map(|job_type| Filter::eq(Field::JobType(job_type)));
        let of_code = query.error_code.clone().map(|code| Filter::eq(Field::ErrorCode(code)));
        let reasons = match query.before {
            Some(_) => None,
            // What a job is about stands in the job: where that matters, each is read.
            None if !grant.subjects.is_empty() => {
                Some(self.reasons(&query.scope, all_of(of_type.clone()), may).await?)
            }
            None => Some(self.counted_reasons(query, grant).await?),
        };
        let filter = all_of([all_of(of_type.into_iter().chain(of_code)), poisoned()]);
        let (scope, before, limit) = (query.scope.clone(), query.before, query.limit);
        let waiting = |job: &Job| is_meant(&poisoned(), job) && may(job);
        let page = self.list_reached(&Query { scope, filter, before, limit }, &waiting).await?;
        Ok(PoisonPage { jobs: page.jobs, next: page.next, reasons })
    }

    /// Counted by the store, which reads no job for it.
    async fn counted_reasons(
        &self,
        query: &PoisonQuery,
        grant: &Grant,
    ) -> Result<PoisonReasons, Error> {
        let told = self.store.poison_counts(&query.scope, query.job_type.as_ref()).await?;
        let mut counts = BTreeMap::new();
        let within = told.counts.into_iter().filter(|(of, _)| grant.may_type(of).is_ok());
        for (code, count) in within.flat_map(|(_, codes)| codes) {
            *counts.entry(code).or_default() += count;
        }
        Ok(PoisonReasons { counts, complete: told.complete })
    }

    async fn reasons(
        &self,
        scope: &Scope,
        filter: Filter,
        may: JobPermission<'_>,
    ) -> Result<PoisonReasons, Error> {
        let mut walk = FilteredJobs::new(scope, all_of([filter, poisoned()]));
        let mut counts = BTreeMap::new();
        for _ in 0..POISON_COUNTED_MAX / PAGE_MAX {
            let Some(jobs) = walk.next(self).await? else { break };
            let waiting = jobs.into_iter().filter(|job| is_meant(&poisoned(), job) && may(job));
            for failure in waiting.filter_map(|job| job.life.last_failure) {
                *counts.entry(failure.code).or_default() += 1;
            }
        }
        Ok(PoisonReasons { counts, complete: walk.over })
    }

    /// Sends `command` to all that are chosen, page by page, and counts those who took it.
    async fn bulk(
        &self,
        scope: &Scope,
        chosen: JobSelection,
        about: Filter,
        may: JobPermission<'_>,
        command: Command,
    ) -> Result<u64, Error> {
        let meant = |job: &Job| is_meant(&about, job) && may(job);
        match chosen {
            JobSelection::Ids(ids) => {
                check_items("jobIds", ids.len())?;
                let mut jobs = Vec::with_capacity(ids.len());
                for id in ids {
                    jobs.extend(self.store.job(scope, id).await?);
                }
                jobs.retain(meant);
                self.command_all(scope, jobs, &command).await
            }
            JobSelection::Matching(filter) => {
                let mut walk = FilteredJobs::new(scope, all_of([filter, about.clone()]));
                let mut done = 0;
                let partly =
                    |done| move |error: Error| if done > 0 { error.after_some() } else { error };
                while let Some(mut jobs) = walk.next(self).await.map_err(partly(done))? {
                    jobs.retain(meant);
                    done += self.command_all(scope, jobs, &command).await.map_err(partly(done))?;
                }
                Ok(done)
            }
        }
    }

    async fn command_all(
        &self,
        scope: &Scope,
        jobs: Vec<Job>,
        command: &Command,
    ) -> Result<u64, Error> {
        let request = |job: &Job| TypedRequest::command(scope, job.id(), command.clone());
        let results = self.execute_each(jobs.iter().map(request)).await?;
        Ok(results.iter().filter(|result| result.is_ok()).count() as u64)
    }
}

fn all_of(filters: impl IntoIterator<Item = Filter>) -> Filter {
    Filter::And(filters.into_iter().collect())
}

fn poisoned() -> Filter {
    Filter::eq(Field::Status(Status::Poisoned))
}

/// Whether a verb that speaks of the jobs of `about` means this one. Discarded jobs wait for nobody.
fn is_meant(about: &Filter, job: &Job) -> bool {
    about.matches(job) && job.ended().is_none_or(|ended| ended.discarded_at.is_none())
}

/// All jobs that a filter shows, page by page.
struct FilteredJobs {
    query: Query,
    over: bool,
}

impl FilteredJobs {
    fn new(scope: &Scope, filter: Filter) -> Self {
        let query = Query { scope: scope.clone(), filter, before: None, limit: PAGE_MAX };
        FilteredJobs { query, over: false }
    }

    /// The next page, which may be empty; nothing after the last.
    async fn next(&mut self, platform: &Platform) -> Result<Option<Vec<Job>>, Error> {
        if self.over {
            return Ok(None);
        }
        let page = platform.store.list(&self.query).await?;
        self.query.before = page.next;
        self.over = page.next.is_none();
        Ok(Some(page.jobs))
    }
}
