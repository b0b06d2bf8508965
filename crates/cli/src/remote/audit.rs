//! The audit log, the newest entries first.

use super::{Cell, Session, StyledLine, Table, UsageError, pages, with_session};
use crate::args::AuditListArgs;
use anyhow::Result;
use client::AuditQuery;
use engine::{Timestamp, parse_span};
use std::process::ExitCode;
use wire::{AuditLogEntry, Page, Rfc3339, parse_time};

pub(crate) fn run(args: &AuditListArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let query = query(args, session.now())?;
        let fetch_page = async |top, cursor: Option<String>| {
            session.client.audit(&AuditQuery { top: Some(top), cursor, ..query.clone() }).await
        };
        let page = pages::fetch(args.page, fetch_page).await?;
        session.answer(&page, || lines(session, &page))
    })
}

fn query(args: &AuditListArgs, now: Timestamp) -> Result<AuditQuery> {
    let time =
        |flag, text: &Option<String>| text.as_ref().map(|text| moment(flag, text, now)).transpose();
    Ok(AuditQuery {
        actor: args.actor.clone(),
        action: args.action.clone(),
        from: time("since", &args.since)?,
        to: time("until", &args.until)?,
        tenant: args.tenant.tenant.clone(),
        ..AuditQuery::default()
    })
}

/// A time, or the time that was a span ago.
fn moment(flag: &'static str, text: &str, now: Timestamp) -> Result<Rfc3339> {
    let at = match parse_span(flag, text) {
        // A span beyond the range of timestamps means the beginning.
        Ok(ms) => Timestamp::parse(flag, now.unix_ms().saturating_sub(ms)).unwrap_or_default(),
        Err(_) => parse_time(flag, text).map_err(|_| {
            let must_be = "must be a span such as 2h, or a time such as 2026-11-15T08:00:00Z";
            UsageError::new(format!("--{flag} {text}: {must_be}"))
        })?,
    };
    Ok(Rfc3339(at))
}

fn lines(session: &Session, page: &Page<AuditLogEntry>) -> Vec<StyledLine> {
    let mut lines = Table::of(&page.items)
        .number("number", |entry| Cell::maybe(entry.number.map(|number| number.to_string())))
        .wide()
        .column("when", |entry| session.when(entry.at))
        .column("who", |entry| entry.actor_name.as_ref().unwrap_or(&entry.who))
        .column("id", |entry| &entry.who)
        .wide()
        .column("tenant", |entry| &entry.tenant)
        .wide()
        .column("action", |entry| &entry.action)
        .text("target", |entry| &entry.target)
        .text("detail", |entry| Cell::maybe(entry.detail.as_ref()))
        .text("correlation", |entry| &entry.correlation_id)
        .wide()
        .lines_or(&session.show, "nothing that fits was done");
    lines.extend(pages::more(page.items.len(), page.next_cursor.as_ref()));
    lines
}
