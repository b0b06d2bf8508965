//! A list of jobs, the newest first.

use super::{
    Session, filter, pages, refresh,
    show::{Cell, Column, Show, Table, View, status_cell, when},
    with_session,
};
use crate::{
    args::ListArgs,
    ink::{Line, Tone},
};
use anyhow::Result;
use client::ListQuery;
use engine::Timestamp;
use std::process::ExitCode;
use wire::{Page, StatusShape};

pub(crate) fn run(args: &ListArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        refresh::shown(session, args.watch, async || list(session, args).await).await
    })
}

async fn list(session: &Session, args: &ListArgs) -> Result<View> {
    let page = fetch(session, args).await?;
    Ok(session.show.view(&page, |show| lines(&page, session.now(), show)))
}

fn lines(page: &Page<StatusShape>, now: Timestamp, show: &Show) -> Vec<Line> {
    if page.items.is_empty() {
        return vec![Line::of(Tone::Faint, "no job fits")];
    }
    let mut lines = show.rows(&table(&page.items, now, show.is_wide()));
    if page.next_cursor.is_some() {
        lines.push(pages::more(page.items.len()));
    }
    lines
}

/// As many as were asked for: a page may be short, and still have a next one.
async fn fetch(session: &Session, args: &ListArgs) -> Result<Page<StatusShape>> {
    let filter = filter::compose(&args.which, session.now());
    let mut whole = Page { items: Vec::new(), next_cursor: None };
    while let Some(top) = pages::missing(args.all, args.top, whole.items.len()) {
        let cursor = whole.next_cursor.take();
        let query = ListQuery { filter: filter.clone(), top: Some(top), cursor };
        let page = session.client.list(&query).await?;
        whole.items.extend(page.items);
        whole.next_cursor = page.next_cursor;
        if whole.next_cursor.is_none() {
            break;
        }
    }
    Ok(whole)
}

fn table(jobs: &[StatusShape], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new([
        Column::new("job"),
        Column::new("tenant").wide(),
        Column::text("type"),
        Column::text("subject"),
        Column::new("status"),
        Column::number("try"),
        Column::new("created"),
        Column::new("ended").wide(),
        Column::text("correlation").wide(),
        Column::text("note"),
    ]);
    for job in jobs {
        table.row([
            Cell::new(&job.job_id),
            Cell::maybe(job.tenant.as_ref()),
            Cell::new(&job.job_type),
            Cell::maybe(job.subject_id.as_ref()),
            status_cell(&job.status),
            Cell::new(format!("{}/{}", job.attempt, job.max_attempts)),
            Cell::new(when(job.created_at, now, wide)),
            Cell::maybe(job.completed_at.map(|at| when(at, now, wide))),
            Cell::new(&job.correlation_id),
            Cell::new(super::status::note(job, now)),
        ]);
    }
    table
}
