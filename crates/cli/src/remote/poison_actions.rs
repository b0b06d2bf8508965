//! Redrives or discards poisoned jobs. The command prints how many before and after.

use super::{REFUSED, Session, Style, StyledLine, UsageError, bulk, confirm, filter, with_session};
use crate::args::{PoisonActionArgs, SelectionArgs};
use anyhow::Result;
use client::BulkPage;
use engine::counted;
use std::process::ExitCode;
use wire::{BulkAnswer, BulkRequest};

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
    let send = async |request: &BulkRequest, page: &BulkPage| match action {
        PoisonAction::Redrive => session.client.redrive_poison(request, page).await,
        PoisonAction::Discard => session.client.discard_poison(request, page).await,
    };
    let count = bulk::count(&request, send).await?;
    if count.is_none() && args.jobs.is_empty() {
        let message = "no poisoned job matches; `consign poison` lists them";
        session.answer(&count.answer(), || vec![message.into()])?;
        return Ok(ExitCode::SUCCESS);
    }
    let (verb, end) = match action {
        PoisonAction::Redrive => ("redrive", "get another life"),
        PoisonAction::Discard => ("discard", "leave the poison queue for good"),
    };
    if args.bulk.dry_run {
        session.answer(&count.answer(), || vec![format!("{count} would {end}").into()])?;
        return Ok(ExitCode::SUCCESS);
    }
    session.note(&[format!("{count} will {end}").into()]);
    if args.jobs.is_empty() && !args.bulk.yes && !confirm::ask(&format!("{verb} {count}?"))? {
        session.note(&["nothing was done".into()]);
        return Ok(ExitCode::from(REFUSED));
    }
    let done = match action {
        PoisonAction::Redrive => "got another life",
        PoisonAction::Discard => "left the poison queue",
    };
    let done = bulk::act_by_pages(session, &request, done, send).await?;
    session.answer(&done, || result_lines(args, action, &done))?;
    let all = args.jobs.is_empty() || done.matched >= args.jobs.len() as u64;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// The selection of jobs as the API takes it.
fn request(args: &PoisonActionArgs) -> Result<BulkRequest> {
    if !args.jobs.is_empty() {
        return Ok(BulkRequest { job_ids: Some(args.jobs.clone()), ..BulkRequest::default() });
    }
    let filter = match args.everything {
        true => Some("true".to_owned()),
        false => filter::compose(&selection(args), engine::Timestamp::default())?,
    };
    let none = "say which jobs are meant: their ids, --type, --tenant, --error-code, --filter, or --everything";
    let filter = Some(filter.ok_or_else(|| UsageError::new(none))?);
    Ok(BulkRequest { filter, ..BulkRequest::default() })
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

fn result_lines(
    args: &PoisonActionArgs,
    action: PoisonAction,
    done: &BulkAnswer,
) -> Vec<StyledLine> {
    let count = bulk::jobs(done.matched);
    let mut lines = vec![match action {
        PoisonAction::Redrive => StyledLine::of(Style::Good, format!("{count} got another life")),
        PoisonAction::Discard => format!("{count} left the poison queue").into(),
    }];
    let missing = (args.jobs.len() as u64).saturating_sub(done.matched);
    if missing > 0 {
        let missing = counted(missing, "job is", "jobs are");
        let note = format!("{missing} not poisoned, or not to be seen with this key");
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
    use crate::args::{BulkArgs, RemoteArgs};

    fn args() -> PoisonActionArgs {
        PoisonActionArgs {
            jobs: Vec::new(),
            job_type: None,
            tenant: None,
            error_code: None,
            filter: None,
            everything: false,
            bulk: BulkArgs { dry_run: false, yes: false },
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
        let done = BulkAnswer { matched: 1, ..BulkAnswer::default() };
        let text: Vec<String> =
            result_lines(&two, PoisonAction::Redrive, &done).iter().map(StyledLine::text).collect();
        assert_eq!(text[0], "1 job got another life");
        assert!(text[1].starts_with("1 job is not poisoned"), "{text:?}");
        assert!(text[2].contains("consign queues"), "{text:?}");
    }
}
