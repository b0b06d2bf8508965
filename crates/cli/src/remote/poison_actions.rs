//! Redrives or discards poisoned jobs. The command prints how many before and after.

use super::{
    REFUSED, Session, Style, StyledLine, UsageError, confirm, filter,
    pages::{self, PAGE_MAX},
    with_session,
};
use crate::args::{PoisonActionArgs, SelectionArgs};
use anyhow::Result;
use client::PoisonQuery;
use engine::Status;
use std::process::ExitCode;
use wire::{BulkAnswer, PoisonRequest};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoisonAction {
    Redrive,
    Discard,
}

pub(crate) fn run(args: &PoisonActionArgs, action: PoisonAction) -> Result<ExitCode> {
    with_session(&args.remote, async |session| run_action(session, args, action).await)
}

async fn run_action(
    session: &Session,
    args: &PoisonActionArgs,
    action: PoisonAction,
) -> Result<ExitCode> {
    let request = request(args)?;
    let count = count(session, args).await?;
    if count == Some(0) {
        let message = "no poisoned job matches; `consign poison` lists them";
        let none = BulkAnswer { matched: 0, operation_id: None };
        session.answer(&none, || vec![message.into()])?;
        return Ok(ExitCode::SUCCESS);
    }
    let (verb, will) = match action {
        PoisonAction::Redrive => ("redrive", "will get another life"),
        PoisonAction::Discard => ("discard", "will leave the poison queue for good"),
    };
    let jobs_text = jobs(count);
    session.note(&[format!("{jobs_text} {will}").into()]);
    if args.jobs.is_empty() && !args.yes && !confirm::ask(&format!("{verb} {jobs_text}?"))? {
        session.note(&["nothing was done".into()]);
        return Ok(ExitCode::from(REFUSED));
    }
    let done = match action {
        PoisonAction::Redrive => session.client.redrive_poison(&request).await?,
        PoisonAction::Discard => session.client.discard_poison(&request).await?,
    };
    session.answer(&done, || result_lines(args, action, &done))?;
    let all = args.jobs.is_empty() || done.matched >= args.jobs.len() as u64;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// The selection of jobs as the API takes it.
fn request(args: &PoisonActionArgs) -> Result<PoisonRequest> {
    if !args.jobs.is_empty() {
        return Ok(PoisonRequest { job_ids: Some(args.jobs.clone()), filter: None });
    }
    let filter = match args.everything {
        true => Some("true".to_owned()),
        false => filter::compose(&selection(args), engine::Timestamp::default()),
    };
    let none = "say which jobs are meant: their ids, --type, --tenant, --error-code, --filter, or --everything";
    let filter = Some(filter.ok_or_else(|| UsageError::new(none))?);
    Ok(PoisonRequest { job_ids: None, filter })
}

fn selection(args: &PoisonActionArgs) -> SelectionArgs {
    SelectionArgs {
        job_type: args.job_type.iter().cloned().collect(),
        tenant: args.tenant.clone(),
        error_code: args.error_code.clone(),
        filter: args.filter.clone(),
        ..SelectionArgs::default()
    }
}

/// Beyond so many pages, the question says only that there are many.
const PAGES_MAX: u32 = 10;

/// How many jobs match; `None` where there are too many to count.
async fn count(session: &Session, args: &PoisonActionArgs) -> Result<Option<u64>> {
    if !args.jobs.is_empty() {
        return Ok(Some(args.jobs.len() as u64));
    }
    if args.filter.is_some() {
        // Discarded jobs are still poisoned and count here; the server skips them.
        let selection = SelectionArgs { status: vec![Status::Poisoned], ..selection(args) };
        let filter = filter::compose(&selection, session.now());
        let (jobs, all) = pages::count(session, filter, PAGES_MAX).await?;
        return Ok(all.then_some(jobs));
    }
    let (job_type, tenant) = (args.job_type.clone(), args.tenant.clone());
    let query = PoisonQuery { job_type, tenant, top: Some(1), ..Default::default() };
    let counts = session.client.poison(&query).await?.counts;
    // The counts have all codes, also where a filter names one.
    let is_selected = |code: &str| args.error_code.as_ref().is_none_or(|selected| selected == code);
    Ok(Some(counts.iter().filter(|(code, _)| is_selected(code)).map(|(_, count)| count).sum()))
}

fn jobs(count: Option<u64>) -> String {
    match count {
        None => format!("more than {} jobs", PAGES_MAX * PAGE_MAX),
        Some(1) => "1 job".into(),
        Some(count) => format!("{count} jobs"),
    }
}

fn result_lines(
    args: &PoisonActionArgs,
    action: PoisonAction,
    done: &BulkAnswer,
) -> Vec<StyledLine> {
    let count = jobs(Some(done.matched));
    let mut lines = vec![match action {
        PoisonAction::Redrive => StyledLine::of(Style::Good, format!("{count} got another life")),
        PoisonAction::Discard => format!("{count} left the poison queue").into(),
    }];
    let missing = (args.jobs.len() as u64).saturating_sub(done.matched);
    if missing > 0 {
        let are = if missing == 1 { "is" } else { "are" };
        let missing = jobs(Some(missing));
        let note = format!("{missing} {are} not poisoned, or not to be seen with this key");
        lines.push(StyledLine::of(Style::Bad, note));
    }
    if action == PoisonAction::Redrive && done.matched > 0 {
        let question = format!("do they come through?  {}", follow_up(args));
        lines.push(StyledLine::of(Style::Faint, question));
    }
    lines
}

fn follow_up(args: &PoisonActionArgs) -> String {
    match (&args.jobs[..], &args.job_type) {
        ([job], _) => format!("consign status {job} --watch"),
        (_, Some(job_type)) => {
            format!("consign queues {job_type}; what comes back: consign poison --type {job_type}")
        }
        (_, None) => "consign queues; what comes back: consign poison".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::RemoteArgs;

    fn args() -> PoisonActionArgs {
        PoisonActionArgs {
            jobs: Vec::new(),
            job_type: None,
            tenant: None,
            error_code: None,
            filter: None,
            everything: false,
            yes: false,
            remote: RemoteArgs::default(),
        }
    }

    #[track_caller]
    fn check(args: PoisonActionArgs, filter: &str) {
        let request = request(&args).unwrap();
        assert_eq!(request.filter.as_deref(), Some(filter));
        request.check().unwrap();
    }

    #[test]
    fn selectors_become_a_filter() {
        let selected = PoisonActionArgs {
            job_type: Some("email".into()),
            error_code: Some("BAD_DATA".into()),
            ..args()
        };
        check(selected, "jobType eq 'email' and errorCode eq 'BAD_DATA'");
        check(PoisonActionArgs { everything: true, ..args() }, "true");
        let filter = Some("subjectId eq 'a' or subjectId eq 'b'".into());
        check(PoisonActionArgs { filter, ..args() }, "(subjectId eq 'a' or subjectId eq 'b')");
    }

    #[test]
    fn a_poison_action_without_a_selection_is_a_usage_error() {
        assert!(request(&args()).unwrap_err().is::<UsageError>());
    }

    #[test]
    fn jobs_that_are_not_poisoned_are_reported_as_skipped() {
        let two = PoisonActionArgs { jobs: vec!["a".into(), "b".into()], ..args() };
        let done = BulkAnswer { matched: 1, operation_id: None };
        let text: Vec<String> =
            result_lines(&two, PoisonAction::Redrive, &done).iter().map(StyledLine::text).collect();
        assert_eq!(text[0], "1 job got another life");
        assert!(text[1].starts_with("1 job is not poisoned"), "{text:?}");
        assert!(text[2].contains("consign queues"), "{text:?}");
    }
}
