//! Lists, makes, rotates and revokes keys.

use super::{Cell, Session, Style, StyledLine, Table, UsageError, ago, with_session};
use crate::args::{KeysCreateArgs, KeysRevokeArgs, KeysRotateArgs, RemoteArgs};
use anyhow::Result;
use engine::{ROTATION_GRACE, Timestamp, counted};
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use wire::{
    KeyCreated, KeyInfo, KeyKind, KeyRequest, Rfc3339, RotateRequest, format_time, parse_span,
    parse_time,
};

/// A key that ends sooner than this should have a successor.
const SOON: Duration = Duration::from_secs(14 * 86_400);

pub(crate) fn list(args: &RemoteArgs) -> Result<ExitCode> {
    with_session(args, async |session| {
        let page = session.client.keys().await?;
        session.answer(&page, || lines(session, &page.items))
    })
}

fn lines(session: &Session, keys: &[KeyInfo]) -> Vec<StyledLine> {
    let never = || Cell::styled(Style::Faint, "never");
    Table::of(keys)
        .column("id", |key| &key.id)
        .text("name", |key| match key.kind {
            KeyKind::Api => key.name.as_deref().unwrap_or_default(),
            KeyKind::Signing => "(signs status addresses)",
        })
        .column("tenant", |key| Cell::maybe(key.tenant.as_ref()))
        .text("scopes", |key| key.scopes.join(" "))
        .text("limits", |key| limits(&key.types, &key.subjects))
        .column("created", |key| session.when(key.created_at))
        .text("created by", |key| Cell::maybe(key.created_by.as_ref()))
        .wide()
        .column("expires", |key| {
            let (style, _) = state(key, session.now());
            key.expires_at.map_or_else(never, |at| Cell::styled(style, session.when(at)))
        })
        .column("last used", |key| {
            key.last_used_at.map_or_else(never, |at| session.when(at).into())
        })
        .column("state", |key| {
            let (style, state) = state(key, session.now());
            Cell::styled(style, state)
        })
        .lines(&session.show)
}

fn state(key: &KeyInfo, now: Timestamp) -> (Style, String) {
    match validity(key, now) {
        KeyValidity::Good => (Style::Good, "good".into()),
        KeyValidity::EndsSoon => (Style::Waiting, "ends soon".into()),
        KeyValidity::Expired => (Style::Bad, "expired".into()),
        KeyValidity::Revoked => {
            let revoked = key.revoked_at.map(|at| format!("revoked {}", ago(at, now)));
            (Style::Faint, revoked.unwrap_or_default())
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyValidity {
    Good,
    /// It ends within [`SOON`].
    EndsSoon,
    Expired,
    Revoked,
}

pub(crate) fn validity(key: &KeyInfo, now: Timestamp) -> KeyValidity {
    if key.revoked_at.is_some() {
        return KeyValidity::Revoked;
    }
    match key.expires_at {
        Some(Rfc3339(at)) if at <= now => KeyValidity::Expired,
        Some(Rfc3339(at)) if at.since(now) <= SOON => KeyValidity::EndsSoon,
        Some(_) | None => KeyValidity::Good,
    }
}

fn limits(types: &[String], subjects: &[String]) -> String {
    let limit =
        |name, list: &[String]| (!list.is_empty()).then(|| format!("{name} {}", list.join(" ")));
    let both = [limit("types", types), limit("subjects", subjects)];
    both.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The key is the only text on stdout, so that it can go into a file or a profile.
pub(crate) fn create(args: &KeysCreateArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
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
        session.answer(&created, || vec![created.key.expose().into()])?;
        session.note(&created_lines(&args.name, &created, now));
        Ok(())
    })
}

fn created_lines(name: &str, created: &KeyCreated, now: Timestamp) -> [StyledLine; 2] {
    let granted = &created.grant;
    let limits = limits(&granted.types, &granted.subjects);
    let joiner = if limits.is_empty() { "" } else { "; only " };
    let rights = format!("{}{joiner}{limits}", granted.scopes.join(" "));
    let summary = format!("{name} (id {}) for tenant {}: {rights}", created.id, granted.tenant);
    let ends = created.expires_at.map_or("never".into(), |at| ago(at, now));
    let note = format!("ends {ends}; this is the only time that it is shown");
    [summary.into(), StyledLine::of(Style::Faint, note)]
}

/// The new key is the only text on stdout.
pub(crate) fn rotate(args: &KeysRotateArgs) -> Result<ExitCode> {
    with_session(&args.remote, async |session| {
        let grace_ms = args.grace.as_deref().map(|span| parse_span("grace", span)).transpose();
        let grace_ms = grace_ms.map_err(|error| UsageError::new(format!("--{error}")))?;
        let grace_seconds = grace_ms.map(|ms| (ms + 999) / 1_000); // 0 would end the key at once
        let request = RotateRequest { grace_seconds };
        let created = session.client.rotate_key(&args.id, &request).await?;
        session.answer(&created, || vec![created.key.expose().into()])?;
        let now = session.now();
        let grace = grace_ms.unwrap_or(ROTATION_GRACE.as_millis() as i64);
        let old = match grace {
            0 => format!("key {} has ended", args.id),
            ms => {
                let end = Timestamp::from_unix_ms(now.unix_ms().saturating_add(ms));
                format!("key {} ends {} at the latest", args.id, ago(Rfc3339(end), now))
            }
        };
        let [summary, note] = created_lines("the new key", &created, now);
        session.note(&[summary, note, StyledLine::of(Style::Faint, old)]);
        Ok(())
    })
}

/// The time of expiry as the API writes it, from a span from now or a time.
fn expiry(text: &str, now: Timestamp) -> Result<String> {
    let at = match parse_span("expires", text) {
        Ok(ms) => Timestamp::parse("expires", now.unix_ms().saturating_add(ms))
            .map_err(|error| UsageError::new(error.to_string()))?,
        Err(_) => parse_time("expires", text).map_err(|_| {
            let must_be = "must be a span such as 90d, or a time such as 2027-01-31T00:00:00Z";
            UsageError::new(format!("--expires {text}: {must_be}"))
        })?,
    };
    Ok(format_time(at))
}

pub(crate) fn revoke(args: &KeysRevokeArgs) -> Result<ExitCode> {
    let descendants = args.descendants;
    with_session(&args.remote, async |session| {
        for id in &args.ids {
            let unconfirmed = match descendants {
                true => session.client.revoke_key_and_descendants(id).await?,
                false => session.client.revoke_key(id).await?,
            };
            let answer = json!({
                "id": id,
                "revoked": true,
                "descendants": descendants,
                "unconfirmedNodes": unconfirmed,
            });
            session.answer(&answer, || revoked_lines(id, descendants, unconfirmed))?;
        }
        Ok(())
    })
}

fn revoked_lines(id: &str, descendants: bool, unconfirmed: u64) -> Vec<StyledLine> {
    let (keys, ended) = match descendants {
        true => ("these keys", "and every key that was made with it are revoked: they get"),
        false => ("the key", "is revoked: every caller that sends it gets"),
    };
    let mut lines = vec![format!("key {id} {ended} 401 from now on").into()];
    if unconfirmed > 0 {
        let nodes = counted(unconfirmed, "node has", "nodes have");
        // A node acts by its cache until it takes itself for lost, after 10 s at most.
        let warning = format!("{nodes} not confirmed it and may serve {keys} for up to 10 s");
        lines.push(StyledLine::of(Style::Waiting, warning));
    }
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
            assert!(expiry(wrong, now()).unwrap_err().is::<UsageError>(), "{wrong:?}");
        }
    }

    #[test]
    fn unconfirmed_nodes_are_counted_after_a_revocation() {
        let texts = |descendants, unconfirmed| -> Vec<String> {
            let lines = revoked_lines("k", descendants, unconfirmed);
            lines.iter().map(StyledLine::text).collect()
        };
        assert_eq!(texts(false, 0).len(), 1);
        let one = "1 node has not confirmed it and may serve the key for up to 10 s";
        assert_eq!(texts(false, 1)[1..], [one]);
        let two = "2 nodes have not confirmed it and may serve these keys for up to 10 s";
        assert_eq!(texts(true, 2)[1..], [two]);
    }

    #[test]
    fn a_key_ends_in_one_of_several_ways() {
        let after =
            |days: i64| Rfc3339(Timestamp::from_unix_ms(now().unix_ms() + days * 86_400_000));
        let check = |expires: Option<i64>, revoked: Option<i64>, expected: KeyValidity| {
            let key = KeyInfo {
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
                last_used_at: None,
            };
            assert_eq!(validity(&key, now()), expected);
        };
        check(None, None, KeyValidity::Good);
        check(Some(15), None, KeyValidity::Good);
        check(Some(14), None, KeyValidity::EndsSoon);
        check(Some(0), None, KeyValidity::Expired);
        check(Some(15), Some(-1), KeyValidity::Revoked);
    }
}
