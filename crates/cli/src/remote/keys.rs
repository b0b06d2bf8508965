//! Keys: listed, made, ended.

use super::{
    Session,
    exit::Usage,
    show::{Cell, Column, Table, ago, when},
    with_session,
};
use crate::{
    args::{KeysCreateArgs, KeysRevokeArgs, RemoteArgs},
    ink::{Line, Tone},
};
use anyhow::Result;
use engine::Timestamp;
use std::{process::ExitCode, time::Duration};
use wire::{
    KeyCreated, KeyKind, KeyRequest, KeyShape, Moment, format_time, parse_span, parse_time,
};

/// A key that ends sooner than this should have a successor.
pub(crate) const SOON: Duration = Duration::from_secs(14 * 86_400);

pub(crate) fn list(args: &RemoteArgs) -> Result<ExitCode> {
    with_session(args, show_all)
}

async fn show_all(session: &Session) -> Result<ExitCode> {
    let page = session.client.keys().await?;
    if session.show.is_json() {
        session.show.json(&page)?;
    } else {
        session.show.table(&table(&page.items, session.now(), session.show.is_wide()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(keys: &[KeyShape], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new([
        Column::new("id"),
        Column::text("name"),
        Column::new("tenant"),
        Column::text("scopes"),
        Column::text("limits"),
        Column::new("created"),
        Column::text("created by").wide(),
        Column::new("expires"),
        Column::new("state"),
    ]);
    for key in keys {
        let life = life(key, now);
        let name = match key.kind {
            KeyKind::Api => key.name.as_deref().unwrap_or_default(),
            KeyKind::Signing => "(signs status addresses)",
        };
        table.row([
            Cell::new(&key.id),
            Cell::new(name),
            Cell::maybe(key.tenant.as_ref()),
            Cell::new(key.scopes.join(" ")),
            Cell::new(limits(&key.types, &key.subjects)),
            Cell::new(when(key.created_at, now, wide)),
            Cell::maybe(key.created_by.as_ref()),
            key.expires_at.map_or(Cell::toned(Tone::Faint, "never"), |at| {
                Cell::toned(life.tone(), when(at, now, wide))
            }),
            Cell::toned(life.tone(), life.word(key, now)),
        ]);
    }
    table
}

/// Whether a key opens the door, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Good,
    /// It ends within [`SOON`].
    EndsSoon,
    Expired,
    Revoked,
}

impl Life {
    fn tone(self) -> Tone {
        match self {
            Life::Good => Tone::Good,
            Life::EndsSoon => Tone::Waiting,
            Life::Expired => Tone::Bad,
            Life::Revoked => Tone::Faint,
        }
    }

    fn word(self, key: &KeyShape, now: Timestamp) -> String {
        match self {
            Life::Good => "good".into(),
            Life::EndsSoon => "ends soon".into(),
            Life::Expired => "expired".into(),
            Life::Revoked => {
                key.revoked_at.map_or(String::new(), |at| format!("revoked {}", ago(at, now)))
            }
        }
    }
}

/// How a key stands.
pub(crate) fn life(key: &KeyShape, now: Timestamp) -> Life {
    if key.revoked_at.is_some() {
        return Life::Revoked;
    }
    match key.expires_at {
        Some(Moment(at)) if at <= now => Life::Expired,
        Some(Moment(at)) if at.since(now) <= SOON => Life::EndsSoon,
        Some(_) | None => Life::Good,
    }
}

fn limits(types: &[String], subjects: &[String]) -> String {
    let some =
        |name, list: &[String]| (!list.is_empty()).then(|| format!("{name} {}", list.join(" ")));
    let both: Vec<String> =
        [some("types", types), some("subjects", subjects)].into_iter().flatten().collect();
    both.join("; ")
}

pub(crate) fn create(args: &KeysCreateArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| make(session, args).await)
}

/// The key stands alone on the standard output, so that it can go into a file or a profile.
async fn make(session: &Session, args: &KeysCreateArgs) -> Result<ExitCode> {
    let now = session.now();
    let request = KeyRequest {
        name: args.name.clone(),
        tenant: args.tenant.clone(),
        scopes: args.scope.clone(),
        types: args.job_type.clone(),
        subjects: args.subject.clone(),
        expires_at: args.expires.as_deref().map(|text| expiry(text, now)).transpose()?,
    };
    let created = session.client.create_key(&request).await?;
    if session.show.is_json() {
        session.show.json(&created)?;
        return Ok(ExitCode::SUCCESS);
    }
    session.show.lines(&[Line::of(Tone::Plain, created.key.expose())])?;
    session.show.complain(&about(&args.name, &created, now));
    Ok(ExitCode::SUCCESS)
}

fn about(name: &str, created: &KeyCreated, now: Timestamp) -> Vec<Line> {
    let granted = &created.granted;
    let mut may = granted.scopes.join(" ");
    let limits = limits(&granted.types, &granted.subjects);
    if !limits.is_empty() {
        may = format!("{may}; only {limits}");
    }
    let ends = created.expires_at.map_or("never".into(), |at| ago(at, now));
    vec![
        Line::of(
            Tone::Plain,
            format!("{name} (id {}) for tenant {}: {may}", created.id, granted.tenant),
        ),
        Line::of(Tone::Faint, format!("ends {ends}; this is the only time that it is shown")),
    ]
}

/// A span from now, or a time, as the API writes it.
fn expiry(text: &str, now: Timestamp) -> Result<String> {
    if let Ok(ms) = parse_span("expires", text) {
        let at = Timestamp::parse("expires", now.unix_ms().saturating_add(ms));
        return at.map(format_time).map_err(|wrong| Usage::new(wrong.to_string()).into());
    }
    match parse_time("expires", text) {
        Ok(at) => Ok(format_time(at)),
        Err(_) => {
            let told = format!(
                "--expires {text}: must be a span such as 90d, or a time such as 2027-01-31T00:00:00Z"
            );
            Err(Usage::new(told).into())
        }
    }
}

pub(crate) fn revoke(args: &KeysRevokeArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| end(session, args).await)
}

async fn end(session: &Session, args: &KeysRevokeArgs) -> Result<ExitCode> {
    let descendants = args.descendants;
    for id in &args.ids {
        let unconfirmed = match descendants {
            true => session.client.revoke_key_and_descendants(id).await?,
            false => session.client.revoke_key(id).await?,
        };
        if session.show.is_json() {
            session.show.json(&serde_json::json!({
                "id": id,
                "revoked": true,
                "descendants": descendants,
                "unconfirmedNodes": unconfirmed,
            }))?;
        } else {
            session.show.lines(&about_end(id, descendants, unconfirmed))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn about_end(id: &str, descendants: bool, unconfirmed: u64) -> Vec<Line> {
    let (ended, keys) = match descendants {
        true => (
            format!("key {id} and every key that was made with it are revoked: they get"),
            "these keys",
        ),
        false => (format!("key {id} is revoked: whoever shows it gets"), "the key"),
    };
    let mut lines = vec![Line::of(Tone::Plain, format!("{ended} 401 from now on"))];
    let nodes = match unconfirmed {
        0 => return lines,
        1 => "1 node has".to_owned(),
        nodes => format!("{nodes} nodes have"),
    };
    // A node acts by what it remembers until it takes itself for lost, which is 10 s at most.
    let warning = format!("{nodes} not confirmed it and may serve {keys} for up to 10 s");
    lines.push(Line::of(Tone::Waiting, warning));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_unix_ms(1_794_787_200_000)
    }

    #[test]
    fn an_end_is_a_span_or_a_time() {
        assert_eq!(expiry("1d", now()).unwrap(), "2026-11-17T00:00:00.000Z");
        assert_eq!(expiry("2027-01-31T01:00:00+01:00", now()).unwrap(), "2027-01-31T00:00:00.000Z");
        for wrong in ["", "soon", "90", "2027-01-31"] {
            assert!(expiry(wrong, now()).unwrap_err().is::<Usage>(), "{wrong:?}");
        }
    }

    #[test]
    fn nodes_that_have_not_confirmed_an_end_are_told() {
        let told = |descendants, unconfirmed| -> Vec<String> {
            let lines = about_end("k", descendants, unconfirmed);
            lines.iter().map(Line::text).collect()
        };
        assert_eq!(told(false, 0).len(), 1);
        let one = "1 node has not confirmed it and may serve the key for up to 10 s";
        assert_eq!(told(false, 1)[1..], [one]);
        let two = "2 nodes have not confirmed it and may serve these keys for up to 10 s";
        assert_eq!(told(true, 2)[1..], [two]);
    }

    #[test]
    fn a_key_ends_in_one_of_several_ways() {
        let after =
            |days: i64| Moment(Timestamp::from_unix_ms(now().unix_ms() + days * 86_400_000));
        let check = |expires: Option<i64>, revoked: Option<i64>, expected: Life| {
            let key = KeyShape {
                id: "k".into(),
                kind: KeyKind::Api,
                name: None,
                tenant: None,
                scopes: Vec::new(),
                types: Vec::new(),
                subjects: Vec::new(),
                created_at: after(-9),
                created_by: None,
                expires_at: expires.map(after),
                revoked_at: revoked.map(after),
            };
            assert_eq!(life(&key, now()), expected);
        };
        check(None, None, Life::Good);
        check(Some(15), None, Life::Good);
        check(Some(14), None, Life::EndsSoon);
        check(Some(0), None, Life::Expired);
        check(Some(15), Some(-1), Life::Revoked);
    }
}
