//! Job types and their policies.

use super::{
    Cell, REFUSED, Session, Style, StyledLine, Table, fact,
    policy::{self, handler},
    with_session,
};
use crate::args::{TypesArgs, TypesCommand, TypesSetArgs};
use anyhow::Result;
use engine::Policy;
use std::process::ExitCode;
use wire::{PolicyOwner, TypePolicy, TypeWithPolicy};

pub(crate) fn run(args: &TypesArgs) -> Result<ExitCode> {
    if let Some(TypesCommand::Set(args)) = &args.command {
        return with_session(&args.remote, async |session| set(session, args).await);
    }
    with_session(&args.remote, async |session| match &args.job_type {
        Some(job_type) => show_one(session, job_type).await,
        None => list(session).await.map(|()| ExitCode::SUCCESS),
    })
}

async fn list(session: &Session) -> Result<()> {
    let page = session.client.types().await?;
    session.answer(&page, || lines(session, &page.items))
}

fn lines(session: &Session, types: &[TypeWithPolicy]) -> Vec<StyledLine> {
    let number = |number: Option<i64>| Cell::maybe(number.map(|number| number.to_string()));
    let yes = |yes| if yes { Cell::from("yes") } else { Cell::styled(Style::Faint, "no") };
    let empty = "no type yet: the first job makes one, and so does consign types set TYPE";
    Table::of(types)
        .column("type", |shown| &shown.job_type)
        .column("owner", owner)
        .number("attempts", |shown| number(shown.policy.max_attempts))
        .number("lease", |shown| Cell::maybe(shown.policy.lease.as_ref()))
        .number("timeout", |shown| Cell::maybe(shown.policy.timeout.as_ref()))
        .text("backoff", |shown| policy::backoff(&shown.policy))
        .number("retention", |shown| Cell::maybe(shown.policy.retention.as_ref()))
        .number("max queued", |shown| number(shown.policy.max_queued))
        .number("slots", |shown| number(shown.policy.concurrency))
        .column("schema", |shown| yes(shown.policy.schema.is_some()))
        .text("handler", |shown| Cell::maybe(handler(&shown.policy).map(|(_, what)| what)))
        .lines_or(&session.show, empty)
}

async fn show_one(session: &Session, job_type: &str) -> Result<ExitCode> {
    let Some(shown) = find(session, job_type).await? else {
        let message = format!("consign: no type {job_type} is known; `consign types` lists them");
        session.show.print_error(&[message.into()]);
        return Ok(ExitCode::from(REFUSED));
    };
    session.answer(&shown, || facts(&shown))?;
    Ok(ExitCode::SUCCESS)
}

async fn find(session: &Session, job_type: &str) -> Result<Option<TypeWithPolicy>> {
    let all = session.client.types().await?.items;
    Ok(all.into_iter().find(|shown| shown.job_type == job_type))
}

fn owner(shown: &TypeWithPolicy) -> Cell {
    match shown.owner {
        Some(PolicyOwner::Api) => Cell::from("api"),
        Some(PolicyOwner::File) if shown.changed_by_api => {
            Cell::styled(Style::Waiting, "file, changed since")
        }
        Some(PolicyOwner::File) => Cell::from("file"),
        None => Cell::styled(Style::Faint, "none: defaults"),
    }
}

fn facts(shown: &TypeWithPolicy) -> Vec<StyledLine> {
    let owner = match shown.owner {
        Some(PolicyOwner::Api) => "api",
        Some(PolicyOwner::File) if shown.changed_by_api => {
            "file, changed since: the next start of a node sets again what consign.toml says"
        }
        Some(PolicyOwner::File) => "file: consign.toml names it",
        None => "none: these are the defaults",
    };
    let head = [("type", shown.job_type.clone()), ("owner", owner.into())];
    let facts = head.into_iter().chain(policy::settings(&shown.policy));
    facts.map(|(name, value)| fact(name, 16, &value)).collect()
}

/// Sends the given fields alone, so that a change of another operator at the same time stays. With
/// `--reset` every other field becomes the default.
async fn set(session: &Session, args: &TypesSetArgs) -> Result<()> {
    let patch = policy::patch(args)?;
    let current = find(session, &args.job_type).await?;
    let default_policy = || TypePolicy::from(&Policy::default());
    let before = current.map_or_else(default_policy, |current| current.policy);
    let set = match args.reset {
        true => {
            let policy = patch.apply(TypePolicy::default());
            session.client.set_type(&args.job_type, &policy).await?
        }
        false => session.client.change_type(&args.job_type, &patch).await?,
    };
    session.answer(&set, || changes(&args.job_type, &before, &set.base.policy))?;
    if let Some(warning) = &set.extension.warning {
        session.note(&[StyledLine::of(Style::Waiting, warning)]);
    }
    Ok(())
}

fn changes(job_type: &str, before: &TypePolicy, after: &TypePolicy) -> Vec<StyledLine> {
    const COLUMNS_MAX: usize = 60;
    let mut lines = vec![StyledLine::of(Style::Strong, job_type)];
    for ((name, old), (_, new)) in policy::settings(before).into_iter().zip(policy::settings(after))
    {
        if old != new {
            let line = StyledLine::of(Style::Faint, format!("  {name:<16} "))
                .and(StyledLine::of(Style::Faint, old).cut(COLUMNS_MAX))
                .then(Style::Plain, " → ")
                .and(StyledLine::of(Style::Good, new).cut(COLUMNS_MAX));
            lines.push(line);
        }
    }
    if lines.len() == 1 {
        let message = format!("{job_type} is declared; nothing else changed");
        return vec![StyledLine::of(Style::Faint, message)];
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_shown() {
        let before = TypePolicy::from(&Policy::default());
        let after = TypePolicy { lease: Some("1m".into()), max_queued: Some(7), ..before.clone() };
        let text: Vec<String> =
            changes("email", &before, &after).iter().map(StyledLine::text).collect();
        assert_eq!(text, ["email", "  lease            30s → 1m", "  max queued       none → 7"]);
        assert!(changes("email", &before, &before)[0].text().contains("nothing else changed"));
    }
}
