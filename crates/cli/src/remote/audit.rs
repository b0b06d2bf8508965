//! What operators did, the newest first.

use super::{
    Session,
    pages::{self, PAGE_MAX},
    show::{Cell, Column, Table, when},
    with_session,
};
use crate::{
    args::AuditListArgs,
    ink::{Line, Tone},
};
use anyhow::Result;
use engine::Timestamp;
use std::process::ExitCode;
use wire::{AuditShape, Page};

pub(crate) fn run(args: &AuditListArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| list(session, args).await)
}

async fn list(session: &Session, args: &AuditListArgs) -> Result<ExitCode> {
    let page = fetch(session, args).await?;
    if session.show.is_json() {
        session.show.json(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    if page.items.is_empty() {
        session.show.lines(&[Line::of(Tone::Faint, "nothing was done yet")])?;
        return Ok(ExitCode::SUCCESS);
    }
    session.show.table(&table(&page.items, session.now(), session.show.is_wide()))?;
    if page.next_cursor.is_some() {
        session.show.lines(&[pages::more(page.items.len())])?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn fetch(session: &Session, args: &AuditListArgs) -> Result<Page<AuditShape>> {
    let top = if args.all { PAGE_MAX } else { args.top };
    let mut whole = session.client.audit(Some(top), None).await?;
    while args.all
        && let Some(cursor) = whole.next_cursor.take()
    {
        let page = session.client.audit(Some(top), Some(&cursor)).await?;
        whole.items.extend(page.items);
        whole.next_cursor = page.next_cursor;
    }
    Ok(whole)
}

fn table(entries: &[AuditShape], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new([
        Column::number("number").wide(),
        Column::new("when"),
        Column::new("who"),
        Column::new("tenant").wide(),
        Column::new("action"),
        Column::text("target"),
        Column::text("detail"),
        Column::text("correlation").wide(),
    ]);
    for entry in entries {
        table.row([
            Cell::maybe(entry.number.map(|number| number.to_string()).as_ref()),
            Cell::new(when(entry.at, now, wide)),
            Cell::new(&entry.who),
            Cell::new(&entry.tenant),
            Cell::new(&entry.action),
            Cell::new(&entry.target),
            Cell::maybe(entry.detail.as_ref()),
            Cell::new(&entry.correlation_id),
        ]);
    }
    table
}
