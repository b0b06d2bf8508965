//! Verbs about many jobs: those that match a filter, or those in a list.
//!
//! A verb reads the jobs page by page, from the newest to the oldest, and each once. So it ends,
//! and it never reads a job that was submitted after it began. It reads jobs before it changes
//! them: the engine decides again, and a job that ended meanwhile is refused and not counted.

use crate::{Error, Platform, execute::check_items, request::TypedRequest};
use engine::{Command, ErrorCode, Field, Filter, Grant, Job, JobId, JobType, Scope, Status};
use std::collections::BTreeMap;
use store::{Cursor, PAGE_MAX, Query};

/// The jobs that a bulk verb is about.
#[derive(Clone, Debug)]
pub enum JobSelection {
    /// Jobs that match the filter.
    Matching(Filter),
    /// These jobs, at most [`engine::ITEMS_MAX`]. Jobs that do not exist, or that the verb is not
    /// about, are skipped.
    Ids(Vec<JobId>),
}

/// Whether a caller may change or see a job, beyond the limits of its scope.
pub type JobPermission<'a> = &'a (dyn Fn(&Job) -> bool + Send + Sync);

/// The arguments of a read of one page of the poison queue.
#[derive(Clone, Debug)]
pub struct PoisonQuery {
    /// The tenants whose jobs are listed.
    pub scope: Scope,
    /// Only jobs of this type.
    pub job_type: Option<JobType>,
    /// Only jobs with this error code.
    pub error_code: Option<ErrorCode>,
    /// Only jobs after this cursor, which the previous page gave.
    pub before: Option<Cursor>,
    /// At most so many jobs, and never more than [`PAGE_MAX`].
    pub limit: usize,
}

/// A page of the poison queue.
#[derive(Clone, Debug)]
pub struct PoisonPage {
    /// Newest first. A page may be short, or empty, and still have a next page.
    pub jobs: Vec<Job>,
    /// The cursor of the next page; `None` after the last.
    pub next: Option<Cursor>,
    /// Job counts by reason; only on the first page.
    pub reasons: Option<PoisonReasons>,
}

/// How many jobs of the poison queue have which reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoisonReasons {
    /// By error code. The query's own error code does not restrict them, so that the caller sees
    /// the other codes.
    pub counts: BTreeMap<ErrorCode, u64>,
    /// Whether these are all. Of more codes than [`store::POISON_CODES_MAX`], only those with the
    /// most jobs are here. A caller who is limited to subjects gets the counts of the newest
    /// [`POISON_COUNTED_MAX`] jobs.
    pub complete: bool,
}

/// The most poisoned jobs that are counted for a caller who is limited to subjects: the platform
/// reads each of them while the caller waits.
pub const POISON_COUNTED_MAX: usize = PAGE_MAX;

impl Platform {
    /// Cancels all selected jobs that have not ended, and returns how many. Waiting jobs end at
    /// once; the workers of running ones are asked to stop.
    pub async fn cancel_matching(
        &self,
        scope: &Scope,
        selection: JobSelection,
        may: JobPermission<'_>,
    ) -> Result<u64, Error> {
        let live = [Status::Queued, Status::Running].map(|is| Filter::eq(Field::Status(is)));
        self.bulk(scope, selection, Filter::Or(live.into()), may, Command::Cancel).await
    }

    /// Gives all selected jobs of the poison queue another life with all their attempts, and
    /// returns how many.
    pub async fn redrive_matching(
        &self,
        scope: &Scope,
        selection: JobSelection,
        may: JobPermission<'_>,
    ) -> Result<u64, Error> {
        let command = Command::Redrive { max_attempts: None, reset_steps: false };
        self.bulk(scope, selection, poisoned(), may, command).await
    }

    /// Discards all selected jobs of the poison queue for good, and returns how many.
    pub async fn discard_matching(
        &self,
        scope: &Scope,
        selection: JobSelection,
        may: JobPermission<'_>,
    ) -> Result<u64, Error> {
        self.bulk(scope, selection, poisoned(), may, Command::Discard).await
    }

    /// One page of the poison queue, newest first: the jobs that `grant` covers.
    pub async fn poisoned(&self, query: &PoisonQuery, grant: &Grant) -> Result<PoisonPage, Error> {
        let may: JobPermission<'_> = &|job| grant.may_touch(&job.envelope).is_ok();
        let type_filter =
            query.job_type.clone().map(|job_type| Filter::eq(Field::JobType(job_type)));
        let code_filter = query.error_code.clone().map(|code| Filter::eq(Field::ErrorCode(code)));
        let reasons = match query.before {
            Some(_) => None,
            // Only the job itself has its subject: where the grant names subjects, each job is
            // read.
            None if !grant.subjects.is_empty() => {
                Some(self.reasons(&query.scope, all_of(type_filter.clone()), may).await?)
            }
            None => Some(self.counted_reasons(query, grant).await?),
        };
        let filter = all_of([all_of(type_filter.into_iter().chain(code_filter)), poisoned()]);
        let (scope, before, limit) = (query.scope.clone(), query.before, query.limit);
        let is_listed = |job: &Job| is_selected_by(&poisoned(), job) && may(job);
        let page = self.list_permitted(&Query { scope, filter, before, limit }, &is_listed).await?;
        Ok(PoisonPage { jobs: page.jobs, next: page.next, reasons })
    }

    /// The counts of the store, which reads no job for them.
    async fn counted_reasons(
        &self,
        query: &PoisonQuery,
        grant: &Grant,
    ) -> Result<PoisonReasons, Error> {
        let store_counts = self.store.poison_counts(&query.scope, query.job_type.as_ref()).await?;
        let mut counts = BTreeMap::new();
        let permitted =
            store_counts.counts.into_iter().filter(|(of, _)| grant.may_type(of).is_ok());
        for (code, count) in permitted.flat_map(|(_, codes)| codes) {
            *counts.entry(code).or_default() += count;
        }
        Ok(PoisonReasons { counts, complete: store_counts.complete })
    }

    async fn reasons(
        &self,
        scope: &Scope,
        filter: Filter,
        may: JobPermission<'_>,
    ) -> Result<PoisonReasons, Error> {
        let mut pages = FilteredJobs::new(scope, all_of([filter, poisoned()]));
        let mut counts = BTreeMap::new();
        for _ in 0..POISON_COUNTED_MAX / PAGE_MAX {
            let Some(jobs) = pages.next(self).await? else { break };
            let counted =
                jobs.into_iter().filter(|job| is_selected_by(&poisoned(), job) && may(job));
            for failure in counted.filter_map(|job| job.life.last_failure) {
                *counts.entry(failure.code).or_default() += 1;
            }
        }
        Ok(PoisonReasons { counts, complete: pages.is_finished })
    }

    /// Sends `command` to all selected jobs, page by page, and counts those that it changed.
    async fn bulk(
        &self,
        scope: &Scope,
        selection: JobSelection,
        verb_filter: Filter,
        may: JobPermission<'_>,
        command: Command,
    ) -> Result<u64, Error> {
        let is_selected = |job: &Job| is_selected_by(&verb_filter, job) && may(job);
        match selection {
            JobSelection::Ids(ids) => {
                check_items("jobIds", ids.len())?;
                let mut jobs = Vec::with_capacity(ids.len());
                for id in ids {
                    jobs.extend(self.store.job(scope, id).await?);
                }
                jobs.retain(is_selected);
                self.command_all(scope, jobs, &command).await
            }
            JobSelection::Matching(filter) => {
                let mut pages = FilteredJobs::new(scope, all_of([filter, verb_filter.clone()]));
                let mut done = 0;
                let with_progress =
                    |done| move |error: Error| if done > 0 { error.after_some() } else { error };
                while let Some(mut jobs) = pages.next(self).await.map_err(with_progress(done))? {
                    jobs.retain(is_selected);
                    done += self
                        .command_all(scope, jobs, &command)
                        .await
                        .map_err(with_progress(done))?;
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

/// Whether a verb for the jobs of `verb_filter` includes this one. Discarded jobs are left out.
fn is_selected_by(verb_filter: &Filter, job: &Job) -> bool {
    verb_filter.matches(job) && job.ended().is_none_or(|ended| ended.discarded_at.is_none())
}

/// All jobs that match a filter, page by page.
struct FilteredJobs {
    query: Query,
    is_finished: bool,
}

impl FilteredJobs {
    fn new(scope: &Scope, filter: Filter) -> Self {
        let query = Query { scope: scope.clone(), filter, before: None, limit: PAGE_MAX };
        FilteredJobs { query, is_finished: false }
    }

    /// The next page, which may be empty; `None` after the last.
    async fn next(&mut self, platform: &Platform) -> Result<Option<Vec<Job>>, Error> {
        if self.is_finished {
            return Ok(None);
        }
        let page = platform.store.list(&self.query).await?;
        self.query.before = page.next;
        self.is_finished = page.next.is_none();
        Ok(Some(page.jobs))
    }
}
