//! The poison queue: what waits for a person, by reason.

use super::{
    Session,
    fate::{self, Fate},
    pages,
    show::{Cell, Column, Table, when},
    with_session,
};
use crate::{
    args::{PoisonArgs, PoisonCommand},
    ink::{Line, Tone},
};
use anyhow::Result;
use client::PoisonQuery;
use engine::Timestamp;
use std::{collections::BTreeMap, process::ExitCode};
use wire::{PoisonAnswer, StatusShape};

pub(crate) fn run(args: &PoisonArgs) -> Result<ExitCode> {
    match &args.command {
        None => with_session(&args.remote, async |session| list(session, args).await),
        Some(PoisonCommand::Redrive(args)) => fate::run(args, Fate::Redrive),
        Some(PoisonCommand::Discard(args)) => fate::run(args, Fate::Discard),
    }
}

async fn list(session: &Session, args: &PoisonArgs) -> Result<ExitCode> {
    let page = fetch(session, args).await?;
    if session.show.is_json() {
        session.show.json(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    if page.items.is_empty() && page.counts.is_empty() {
        session.show.lines(&[Line::of(Tone::Good, "no job waits for a person")])?;
        return Ok(ExitCode::SUCCESS);
    }
    session.show.table(&reasons(&page.counts))?;
    session.show.lines(&[Line::new()])?;
    session.show.table(&jobs(&page.items, session.now(), session.show.is_wide()))?;
    session.show.lines(&next(&page))?;
    Ok(ExitCode::SUCCESS)
}

/// As many as were asked for: a page may be short, and still have a next one. The first one has the counts.
async fn fetch(session: &Session, args: &PoisonArgs) -> Result<PoisonAnswer> {
    let mut whole = PoisonAnswer { items: Vec::new(), next_cursor: None, counts: BTreeMap::new() };
    while let Some(top) = pages::missing(args.all, args.top, whole.items.len()) {
        let query = PoisonQuery {
            job_type: args.job_type.clone(),
            error_code: args.error_code.clone(),
            top: Some(top),
            cursor: whole.next_cursor.take(),
        };
        let page = session.client.poison(&query).await?;
        whole.items.extend(page.items);
        whole.next_cursor = page.next_cursor;
        whole.counts.extend(page.counts);
        if whole.next_cursor.is_none() {
            break;
        }
    }
    Ok(whole)
}

fn reasons(counts: &BTreeMap<String, u64>) -> Table {
    let mut table = Table::new([Column::new("code"), Column::number("jobs"), Column::text("")]);
    for (code, count) in counts {
        let meaning = wire::entry(code).map(|entry| entry.title);
        table.row([Cell::new(code), Cell::count(Tone::Poison, *count), Cell::maybe(meaning)]);
    }
    table
}

fn jobs(jobs: &[StatusShape], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new([
        Column::new("job"),
        Column::new("tenant").wide(),
        Column::text("type"),
        Column::text("subject"),
        Column::new("code"),
        Column::text("message"),
        Column::new("poisoned"),
        Column::text("correlation").wide(),
    ]);
    for job in jobs {
        table.row([
            Cell::new(&job.job_id),
            Cell::maybe(job.tenant.as_ref()),
            Cell::new(&job.job_type),
            Cell::maybe(job.subject_id.as_ref()),
            Cell::toned(Tone::Poison, job.error_code.as_deref().unwrap_or_default()),
            Cell::maybe(job.error_message.as_ref().or(job.message.as_ref())),
            Cell::maybe(job.completed_at.map(|at| when(at, now, wide))),
            Cell::new(&job.correlation_id),
        ]);
    }
    table
}

fn next(page: &PoisonAnswer) -> Vec<Line> {
    let mut lines = Vec::new();
    if page.next_cursor.is_some() {
        lines.push(pages::more(page.items.len()));
    }
    if let Some(job) = page.items.first() {
        let (id, job_type) = (&job.job_id, &job.job_type);
        let code = job.error_code.as_deref().unwrap_or("CODE");
        let told = [
            format!("what happened to one:  consign history {id}"),
            format!(
                "when it is mended:     consign poison redrive --type {job_type} --error-code {code}"
            ),
            format!("when nobody wants it:  consign poison discard {id}"),
        ];
        lines.extend(told.map(|text| Line::of(Tone::Faint, text)));
    }
    lines
}
