//! Lists jobs, the newest first.

use super::{
    Cell, Session, StyledLine, Table, filter, pages, refresh, status::note, status_style,
    with_session,
};
use crate::args::{ListArgs, PageArgs};
use anyhow::Result;
use client::ListQuery;
use std::process::ExitCode;
use wire::{JobStatus, Page};

pub(crate) fn run(args: &ListArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        refresh::show_repeatedly(session, args.watch, async || {
            let filter = filter::compose(&args.selection, session.now())?;
            let page_args = PageArgs { top: args.top, all: args.all };
            let page = pages::fetch(page_args, async |top, cursor| {
                let query = ListQuery { filter: filter.clone(), top: Some(top), cursor };
                session.client.list(&query).await
            });
            let page = page.await?;
            Ok(session.show.view(&page, || lines(session, &page)))
        })
        .await
    })
}

fn lines(session: &Session, page: &Page<JobStatus>) -> Vec<StyledLine> {
    let mut lines = Table::of(&page.items)
        .column("job", |job| &job.job_id)
        .column("tenant", |job| Cell::maybe(job.tenant.as_ref()))
        .wide()
        .text("type", |job| &job.job_type)
        .text("subject", |job| Cell::maybe(job.subject_id.as_ref()))
        .column("status", |job| Cell::styled(status_style(&job.status), &job.status))
        .number("try", |job| format!("{}/{}", job.attempt, job.max_attempts))
        .column("created", |job| session.when(job.created_at))
        .column("ended", |job| Cell::maybe(job.completed_at.map(|at| session.when(at))))
        .wide()
        .text("correlation", |job| &job.correlation_id)
        .wide()
        .text("note", |job| note(job, session.now()))
        .lines_or(&session.show, "no job fits");
    lines.extend(pages::more(page.items.len(), page.next_cursor.as_ref()));
    lines
}
