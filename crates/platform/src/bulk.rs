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

/// What a bulk verb does to each selected job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkVerb {
    /// Cancels jobs that have not ended. Waiting jobs end at once; the workers of running ones are
    /// asked to stop.
    Cancel,
    /// Gives jobs that ended without success another life with all their attempts.
    Redrive,
    /// The same for jobs of the poison queue only.
    RedrivePoisoned,
    /// Discards jobs of the poison queue for good.
    DiscardPoisoned,
}

/// How much of a bulk verb one call carries out.
#[derive(Clone, Copy, Debug, Default)]
pub struct BulkExtent {
    /// Only counts the jobs, and changes none.
    pub dry_run: bool,
    /// Only jobs after this cursor: the `next` of the previous call.
    pub before: Option<Cursor>,
    /// The most jobs that a filter selects in this call, up to [`PAGE_MAX`]; `None` for all.
    pub limit: Option<usize>,
}

/// What a bulk verb did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkResult {
    /// How many jobs it changed, or would change.
    pub matched: u64,
    /// How many selected jobs it left as they are. A filter selects only jobs that the caller may
    /// change. Among named jobs, those that it may not change count like those that do not exist.
    pub passed_over: u64,
    /// Where the next call goes on; `None` after the last job.
    pub next: Option<Cursor>,
}

impl BulkVerb {
    fn command(self) -> Command {
        match self {
            BulkVerb::Cancel => Command::Cancel,
            BulkVerb::Redrive | BulkVerb::RedrivePoisoned => Command::redrive(),
            BulkVerb::DiscardPoisoned => Command::Discard,
        }
    }

    /// The jobs that the verb may be about. The engine decides about each of them again.
    fn filter(self) -> Filter {
        let any = |is_meant: fn(&Status) -> bool| {
            let statuses = Status::ALL.into_iter().filter(is_meant);
            Filter::Or(statuses.map(|status| Filter::eq(Field::Status(status))).collect())
        };
        match self {
            BulkVerb::Cancel => any(|status| !status.is_ended()),
            BulkVerb::Redrive => any(|status| status.is_dead_end()),
            BulkVerb::RedrivePoisoned | BulkVerb::DiscardPoisoned => poisoned(),
        }
    }

    /// Whether it is about a job that the caller names: a discarded one, too, as the verb about
    /// one job is. Only the verbs of the poison queue are about jobs that are still in it.
    fn is_about_named(self, job: &Job) -> bool {
        match self {
            BulkVerb::Cancel | BulkVerb::Redrive => self.filter().matches(job),
            BulkVerb::RedrivePoisoned | BulkVerb::DiscardPoisoned => {
                is_selected_by(&self.filter(), job)
            }
        }
    }
}

impl Platform {
    /// Carries a verb out on all selected jobs, page by page.
    pub async fn bulk(
        &self,
        scope: &Scope,
        verb: BulkVerb,
        selection: JobSelection,
        extent: BulkExtent,
        may: JobPermission<'_>,
    ) -> Result<BulkResult, Error> {
        match selection {
            JobSelection::Ids(ids) => {
                check_items("jobIds", ids.len())?;
                let count = ids.len() as u64;
                let mut jobs = Vec::with_capacity(ids.len());
                for id in ids {
                    jobs.extend(self.store.job(scope, id).await?);
                }
                jobs.retain(|job| verb.is_about_named(job) && may(job));
                let matched = self.bulk_page(scope, verb, &jobs, extent.dry_run).await?;
                Ok(BulkResult { matched, passed_over: count - matched, next: None })
            }
            JobSelection::Matching(filter) => {
                let mut pages = FilteredJobs::new(scope, all_of([filter, verb.filter()]));
                pages.query.before = extent.before;
                pages.query.limit = extent.limit.unwrap_or(PAGE_MAX);
                let mut result = BulkResult::default();
                loop {
                    let page = self.bulk_next(scope, verb, &mut pages, extent.dry_run, may).await;
                    let is_after_some = result.matched > 0 && !extent.dry_run;
                    let (matched, passed_over) = page
                        .map_err(|error| if is_after_some { error.after_some() } else { error })?;
                    result.matched += matched;
                    result.passed_over += passed_over;
                    if pages.is_finished || extent.limit.is_some() {
                        return Ok(BulkResult { next: pages.query.before, ..result });
                    }
                }
            }
        }
    }

    /// The next page of a verb: how many jobs it changed, and how many it passed over.
    async fn bulk_next(
        &self,
        scope: &Scope,
        verb: BulkVerb,
        pages: &mut FilteredJobs,
        dry_run: bool,
        may: JobPermission<'_>,
    ) -> Result<(u64, u64), Error> {
        let mut jobs = pages.next(self).await?.unwrap_or_default();
        // Before they are counted: their number, too, is not for callers who may not see them.
        jobs.retain(may);
        let count = jobs.len() as u64;
        let filter = verb.filter();
        jobs.retain(|job| is_selected_by(&filter, job));
        let matched = self.bulk_page(scope, verb, &jobs, dry_run).await?;
        Ok((matched, count - matched))
    }

    /// Carries a verb out on these jobs, and returns how many it changed.
    async fn bulk_page(
        &self,
        scope: &Scope,
        verb: BulkVerb,
        jobs: &[Job],
        dry_run: bool,
    ) -> Result<u64, Error> {
        if dry_run {
            return Ok(jobs.len() as u64);
        }
        let command = verb.command();
        let request = |job: &Job| TypedRequest::command(scope, job.id(), command.clone());
        let results = self.execute_each(jobs.iter().map(request)).await?;
        Ok(results.iter().filter(|result| result.is_ok()).count() as u64)
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
