//! The audit log, the newest entries first.

use super::{Cell, Session, StyledLine, Table, pages, with_session};
use crate::args::AuditListArgs;
use anyhow::Result;
use std::process::ExitCode;
use wire::{AuditLogEntry, Page};

pub(crate) fn run(args: &AuditListArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let fetch_page = async |top, cursor: Option<String>| {
            session.client.audit(Some(top), cursor.as_deref()).await
        };
        let page = pages::fetch(args.page, fetch_page).await?;
        session.answer(&page, || lines(session, &page))
    })
}

fn lines(session: &Session, page: &Page<AuditLogEntry>) -> Vec<StyledLine> {
    let mut lines = Table::of(&page.items)
        .number("number", |entry| Cell::maybe(entry.number.map(|number| number.to_string())))
        .wide()
        .column("when", |entry| session.when(entry.at))
        .column("who", |entry| &entry.who)
        .column("tenant", |entry| &entry.tenant)
        .wide()
        .column("action", |entry| &entry.action)
        .text("target", |entry| &entry.target)
        .text("detail", |entry| Cell::maybe(entry.detail.as_ref()))
        .text("correlation", |entry| &entry.correlation_id)
        .wide()
        .lines_or(&session.show, "nothing was done yet");
    lines.extend(pages::more(page.items.len(), page.next_cursor.as_ref()));
    lines
}
