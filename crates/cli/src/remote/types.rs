//! Job types: how their jobs are treated.

use super::{
    Session,
    exit::REFUSED,
    policy::{self, Setting, typed},
    show::{Cell, Column, Table},
    with_session,
};
use crate::{
    args::{TypesArgs, TypesCommand, TypesSetArgs},
    ink::{Line, Tone},
};
use anyhow::Result;
use engine::Policy;
use std::process::ExitCode;
use wire::{HandlerShape, PolicyShape, TypeShape};

pub(crate) fn run(args: &TypesArgs) -> Result<ExitCode> {
    match &args.command {
        Some(TypesCommand::Set(args)) => {
            with_session(&args.remote, async |session| set(session, args).await)
        }
        None => with_session(&args.remote, async |session| match &args.job_type {
            Some(job_type) => one(session, job_type).await,
            None => list(session).await,
        }),
    }
}

async fn list(session: &Session) -> Result<ExitCode> {
    let page = session.client.types().await?;
    if session.show.is_json() {
        session.show.json(&page)?;
    } else if page.items.is_empty() {
        let told = "no type yet: the first job makes one, and so does consign types set TYPE";
        session.show.lines(&[Line::of(Tone::Faint, told)])?;
    } else {
        session.show.table(&table(&page.items))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(types: &[TypeShape]) -> Table {
    let mut table = Table::new([
        Column::new("type"),
        Column::new("declared"),
        Column::number("attempts"),
        Column::number("lease"),
        Column::number("timeout"),
        Column::text("backoff"),
        Column::number("retention"),
        Column::number("max queued"),
        Column::number("slots"),
        Column::new("schema"),
        Column::text("handler"),
    ]);
    for shown in types {
        table.row(row(shown));
    }
    table
}

fn row(shown: &TypeShape) -> [Cell; 11] {
    let policy = &shown.policy;
    let number = |number: Option<i64>| Cell::maybe(number.map(|number| number.to_string()));
    let yes = |yes: bool| if yes { Cell::new("yes") } else { Cell::toned(Tone::Faint, "no") };
    [
        Cell::new(&shown.job_type),
        yes(shown.declared),
        number(policy.max_attempts),
        Cell::maybe(policy.lease.as_ref()),
        Cell::maybe(policy.timeout.as_ref()),
        Cell::new(policy::backoff(policy)),
        Cell::maybe(policy.retention.as_ref()),
        number(policy.max_queued),
        number(policy.concurrency),
        yes(policy.schema.is_some()),
        Cell::maybe(policy.handler.as_ref().map(handler)),
    ]
}

fn handler(handler: &HandlerShape) -> String {
    match (&handler.http, &handler.exec) {
        (Some(url), _) => url.clone(),
        (None, Some(words)) => typed(words),
        (None, None) => String::new(),
    }
}

async fn one(session: &Session, job_type: &str) -> Result<ExitCode> {
    let Some(shown) = find(session, job_type).await? else {
        let told = format!("consign: no type {job_type} is known; `consign types` lists them");
        session.show.complain(&[Line::of(Tone::Plain, told)]);
        return Ok(ExitCode::from(REFUSED));
    };
    if session.show.is_json() {
        session.show.json(&shown)?;
    } else {
        session.show.lines(&facts(&shown))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn find(session: &Session, job_type: &str) -> Result<Option<TypeShape>> {
    let all = session.client.types().await?.items;
    Ok(all.into_iter().find(|shown| shown.job_type == job_type))
}

fn facts(shown: &TypeShape) -> Vec<Line> {
    let declared = if shown.declared { "yes" } else { "no: these are the defaults" };
    let head = [("type", shown.job_type.clone()), ("declared", declared.into())];
    let rest = policy::settings(&shown.policy);
    let rest = rest.into_iter().map(|Setting { name, value }| (name, value));
    head.into_iter().chain(rest).map(|(name, value)| fact(name, &value)).collect()
}

fn fact(name: &str, value: &str) -> Line {
    Line::of(Tone::Faint, format!("{name:<16} ")).then(Tone::Plain, value)
}

/// The API sets whole policies: the one that stands is read, changed, and written back.
async fn set(session: &Session, args: &TypesSetArgs) -> Result<ExitCode> {
    let known = find(session, &args.job_type).await?;
    let usual = || PolicyShape::from(&Policy::default());
    let before = known.map_or_else(usual, |known| known.policy);
    let base = if args.reset { PolicyShape::default() } else { before.clone() };
    let wanted = policy::changed(base, args)?;
    let set = session.client.set_type(&args.job_type, &wanted).await?;
    if session.show.is_json() {
        session.show.json(&set)?;
    } else {
        session.show.lines(&changes(&args.job_type, &before, &set.policy))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn changes(job_type: &str, before: &PolicyShape, after: &PolicyShape) -> Vec<Line> {
    let pairs = policy::settings(before).into_iter().zip(policy::settings(after));
    let changed = pairs.filter(|(before, after)| before.value != after.value);
    let mut lines: Vec<Line> = changed.map(|(before, after)| change(&before, &after)).collect();
    if lines.is_empty() {
        lines.push(Line::of(Tone::Faint, format!("{job_type} is declared; nothing else changed")));
    } else {
        lines.insert(0, Line::of(Tone::Strong, job_type));
    }
    lines
}

fn change(before: &Setting, after: &Setting) -> Line {
    const ROOM: usize = 60;
    let old = Line::of(Tone::Faint, &before.value).cut(ROOM);
    let new = Line::of(Tone::Good, &after.value).cut(ROOM);
    Line::of(Tone::Faint, format!("  {:<16} ", before.name))
        .and(old)
        .then(Tone::Plain, " → ")
        .and(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_shown() {
        let before = PolicyShape::from(&Policy::default());
        let after = PolicyShape { lease: Some("1m".into()), max_queued: Some(7), ..before.clone() };
        let text: Vec<String> = changes("email", &before, &after).iter().map(Line::text).collect();
        assert_eq!(text, ["email", "  lease            30s → 1m", "  max queued       none → 7"]);
        assert!(changes("email", &before, &before)[0].text().contains("nothing else changed"));
    }
}
