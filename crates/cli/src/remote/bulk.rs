//! Bulk actions: the command counts the jobs, asks the user, and acts page by page.

use super::{REFUSED, Session, confirm, pages::PAGE_MAX};
use crate::args::BulkArgs;
use anyhow::Result;
use client::{BulkPage, ClientError};
use engine::counted;
use serde::Serialize;
use std::{fmt, process::ExitCode};
use wire::{BulkAnswer, BulkRequest};

/// A bulk action in words.
pub(crate) struct BulkWords {
    /// As in "cancel 3 jobs?".
    pub(crate) verb: &'static str,
    /// As in "3 jobs would be cancelled".
    pub(crate) done: &'static str,
}

/// Counts the jobs that a request selects, asks the user, and acts on all of them.
pub(crate) async fn act_on_all(
    session: &Session,
    request: &BulkRequest,
    args: &BulkArgs,
    words: &BulkWords,
    send: impl AsyncFn(&BulkRequest, &BulkPage) -> Result<BulkAnswer, ClientError>,
) -> Result<ExitCode> {
    if args.dry_run || !args.yes {
        let count = count(request, &send).await?;
        if args.dry_run || count.is_none() {
            let summary = match count.is_none() {
                true => format!("no job fits that can be {}", words.done),
                false => format!("{count} would be {}", words.done),
            };
            session.answer(&count.answer(), || vec![summary.into()])?;
            return Ok(ExitCode::SUCCESS);
        }
        if !confirm::ask(&format!("{} {count}?", words.verb))? {
            session.show.print_error(&["consign: nothing was done".into()]);
            return Ok(ExitCode::from(REFUSED));
        }
    }
    let answer = act_by_pages(session, request, words.done, send).await?;
    let summary = format!("{} {}", counted(answer.matched, "job was", "jobs were"), words.done);
    session.answer(&answer, || vec![summary.into()])?;
    Ok(ExitCode::SUCCESS)
}

/// Acts on all jobs of a request, a page at a time, and shows how far it is.
pub(crate) async fn act_by_pages(
    session: &Session,
    request: &BulkRequest,
    done: &str,
    send: impl AsyncFn(&BulkRequest, &BulkPage) -> Result<BulkAnswer, ClientError>,
) -> Result<BulkAnswer> {
    let mut total = BulkAnswer::default();
    let mut page = page_after(request, None);
    loop {
        let answer = match send(request, &page).await {
            Ok(answer) => answer,
            Err(error) => {
                note_progress(session, &total, done);
                return Err(error.into());
            }
        };
        total.matched += answer.matched;
        total.passed_over += answer.passed_over;
        // Each page is an action of its own in the audit log; all have the filter.
        total.operation_id = answer.operation_id.filter(|_| page.cursor.is_none());
        let Some(cursor) = answer.next_cursor else { return Ok(total) };
        note_progress(session, &total, done);
        page = page_after(request, Some(cursor));
    }
}

fn note_progress(session: &Session, total: &BulkAnswer, done: &str) {
    if total.matched > 0 {
        session.note(&[format!("{} {done} so far", jobs(total.matched)).into()]);
    }
}

/// More pages than this are not counted before the question.
const PAGES_COUNTED_MAX: u32 = 20;

/// How many jobs an action would change.
pub(crate) struct BulkCount {
    jobs: u64,
    /// Whether these are all.
    is_complete: bool,
}

/// The count for programs.
#[derive(Serialize)]
pub(crate) struct BulkCountAnswer {
    #[serde(flatten)]
    counted: BulkAnswer,
    complete: bool,
}

impl BulkCount {
    pub(crate) fn answer(&self) -> BulkCountAnswer {
        let counted = BulkAnswer { matched: self.jobs, ..BulkAnswer::default() };
        BulkCountAnswer { counted, complete: self.is_complete }
    }

    /// Whether the action would change no job. Pages may be empty before the last: where the count
    /// stopped early, the first job may be on a later one.
    pub(crate) fn is_none(&self) -> bool {
        self.is_complete && self.jobs == 0
    }
}

impl fmt::Display for BulkCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_complete, self.jobs) {
            (true, count) => f.write_str(&jobs(count)),
            (false, 0) => f.write_str("an unknown number of jobs"),
            (false, count) => write!(f, "at least {}", jobs(count)),
        }
    }
}

/// Lets the server count, with a dry run of the action.
pub(crate) async fn count(
    request: &BulkRequest,
    send: impl AsyncFn(&BulkRequest, &BulkPage) -> Result<BulkAnswer, ClientError>,
) -> Result<BulkCount, ClientError> {
    let mut count = BulkCount { jobs: 0, is_complete: false };
    let mut page = page_after(request, None);
    for _ in 0..PAGES_COUNTED_MAX {
        let answer = send(&request.counted(), &page).await?;
        count.jobs += answer.matched;
        count.is_complete = answer.next_cursor.is_none();
        if count.is_complete {
            break;
        }
        page = page_after(request, answer.next_cursor);
    }
    Ok(count)
}

/// Only a filter has pages.
fn page_after(request: &BulkRequest, cursor: Option<String>) -> BulkPage {
    BulkPage { top: request.filter.is_some().then_some(PAGE_MAX), cursor }
}

pub(crate) fn jobs(count: u64) -> String {
    counted(count, "job", "jobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts jobs of pages of which only that with this number, from 1, has a job.
    fn count_with_a_job_on_page(number: u32, pages: u32) -> BulkCount {
        let asked = std::cell::Cell::new(0);
        let send = async |_: &BulkRequest, _: &BulkPage| {
            asked.set(asked.get() + 1);
            let matched = u64::from(asked.get() == number);
            let next_cursor = (asked.get() < pages).then(|| "next".to_owned());
            Ok::<_, ClientError>(BulkAnswer { matched, next_cursor, ..BulkAnswer::default() })
        };
        pollster::block_on(count(&BulkRequest::matching("true"), send)).unwrap()
    }

    #[track_caller]
    fn check(count: &BulkCount, is_none: bool, text: &str, json: &str) {
        assert_eq!((count.is_none(), count.to_string().as_str()), (is_none, text));
        assert_eq!(serde_json::to_string(&count.answer()).unwrap(), json);
    }

    #[test]
    fn a_count_that_stopped_early_does_not_say_that_no_job_fits() {
        let late = count_with_a_job_on_page(PAGES_COUNTED_MAX + 1, PAGES_COUNTED_MAX + 1);
        let json = r#"{"matched":0,"passedOver":0,"complete":false}"#;
        check(&late, false, "an unknown number of jobs", json);
        let some = count_with_a_job_on_page(1, PAGES_COUNTED_MAX + 1);
        let json = r#"{"matched":1,"passedOver":0,"complete":false}"#;
        check(&some, false, "at least 1 job", json);
        let none = count_with_a_job_on_page(3, 2);
        check(&none, true, "0 jobs", r#"{"matched":0,"passedOver":0,"complete":true}"#);
        let all = count_with_a_job_on_page(2, 2);
        check(&all, false, "1 job", r#"{"matched":1,"passedOver":0,"complete":true}"#);
    }
}
