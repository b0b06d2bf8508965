//! The poison queue: jobs that wait for a person, by reason.

use super::{
    Cell, Session, Style, StyledLine, Table, pages,
    poison_actions::{self, PoisonAction},
    with_session,
};
use crate::args::{PoisonArgs, PoisonCommand};
use anyhow::Result;
use client::PoisonQuery;
use std::{collections::BTreeMap, process::ExitCode};
use wire::{JobStatus, Page, PoisonAnswer};

pub(crate) fn run(args: &PoisonArgs) -> Result<ExitCode> {
    match &args.command {
        None => with_session(&args.remote, async |session| list(session, args).await),
        Some(PoisonCommand::Redrive(args)) => poison_actions::run(args, PoisonAction::Redrive),
        Some(PoisonCommand::Discard(args)) => poison_actions::run(args, PoisonAction::Discard),
    }
}

async fn list(session: &Session, args: &PoisonArgs) -> Result<()> {
    let mut counts = BTreeMap::new();
    let page = pages::fetch(args.page, async |top, cursor| {
        let query = PoisonQuery {
            job_type: args.job_type.clone(),
            tenant: args.tenant.clone(),
            error_code: args.error_code.clone(),
            top: Some(top),
            cursor,
        };
        let page = session.client.poison(&query).await?;
        counts.extend(page.counts);
        Ok(Page { items: page.items, next_cursor: page.next_cursor })
    });
    let Page { items, next_cursor } = page.await?;
    let answer = PoisonAnswer { items, next_cursor, counts };
    session.answer(&answer, || lines(session, &answer))
}

fn lines(session: &Session, answer: &PoisonAnswer) -> Vec<StyledLine> {
    if answer.items.is_empty() && answer.counts.is_empty() {
        return vec![StyledLine::of(Style::Good, "no job waits for a person")];
    }
    let counts: Vec<(&String, &u64)> = answer.counts.iter().collect();
    let mut lines = Table::of(&counts)
        .column("code", |(code, _)| code)
        .number("jobs", |(_, count)| Cell::count(Style::Poison, **count))
        .text("", |(code, _)| Cell::maybe(wire::entry(code).map(|entry| entry.title)))
        .lines(&session.show);
    lines.push(StyledLine::new());
    lines.extend(jobs(session, &answer.items).lines(&session.show));
    lines.extend(pages::more(answer.items.len(), answer.next_cursor.as_ref()));
    lines.extend(answer.items.first().into_iter().flat_map(next_commands));
    lines
}

fn jobs<'a>(session: &'a Session, jobs: &'a [JobStatus]) -> Table<'a, JobStatus> {
    Table::of(jobs)
        .column("job", |job| &job.job_id)
        .column("tenant", |job| Cell::maybe(job.tenant.as_ref()))
        .wide()
        .text("type", |job| &job.job_type)
        .text("subject", |job| Cell::maybe(job.subject_id.as_ref()))
        .column("code", |job| {
            Cell::styled(Style::Poison, job.error_code.as_deref().unwrap_or_default())
        })
        .text("message", |job| Cell::maybe(job.error_message.as_ref().or(job.message.as_ref())))
        .column("poisoned", |job| Cell::maybe(job.completed_at.map(|at| session.when(at))))
        .text("correlation", |job| &job.correlation_id)
        .wide()
}

/// The actions that are possible for jobs such as this one.
fn next_commands(job: &JobStatus) -> [StyledLine; 3] {
    let (id, job_type) = (&job.job_id, &job.job_type);
    let code = job.error_code.as_deref().unwrap_or("CODE");
    [
        format!("what happened to one:  consign history {id}"),
        format!(
            "when it is mended:     consign poison redrive --type {job_type} --error-code {code}"
        ),
        format!("when it is not wanted: consign poison discard {id}"),
    ]
    .map(|text| StyledLine::of(Style::Faint, text))
}
