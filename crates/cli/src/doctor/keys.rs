//! Warns of keys that expire soon.

use super::{DoctorReport, quoted};
use crate::remote::{KeyValidity, ago, validity};
use engine::Timestamp;
use wire::KeyInfo;

pub(super) fn examine(report: &mut DoctorReport, keys: &[KeyInfo], now: Timestamp) {
    let findings_before = report.0.len();
    for key in keys {
        let name = key.name.as_deref().unwrap_or_default();
        let when = key.expires_at.map_or(String::new(), |at| ago(at, now));
        let revoke = format!("consign keys revoke {}", key.id);
        match validity(key, now) {
            KeyValidity::Good | KeyValidity::Revoked => {}
            KeyValidity::EndsSoon => {
                report
                    .wrong("key", format!("key {name} ({}): ends {when}", key.id))
                    .run("make its successor", successor(key, name))
                    .run("when that one is in use everywhere", revoke);
            }
            KeyValidity::Expired => {
                report
                    .note("key", format!("key {name} ({}): expired {when}", key.id))
                    .run("if it is no longer needed", revoke);
            }
        }
    }
    let well = format!("keys: {}, and none ends within 14 days", keys.len());
    report.well_since(findings_before, "keys", well);
}

/// The command that makes a key with the same rights.
fn successor(key: &KeyInfo, name: &str) -> String {
    let mut words = vec!["consign keys create".to_owned(), quoted(name)];
    let mut flag = |flag: &str, value: &str| words.push(format!("{flag} {}", quoted(value)));
    key.tenant.iter().for_each(|tenant| flag("--tenant", tenant));
    key.scopes.iter().for_each(|scope| flag("--scope", scope));
    key.types.iter().for_each(|pattern| flag("--type", pattern));
    key.subjects.iter().for_each(|pattern| flag("--subject", pattern));
    flag("--expires", "90d");
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Finding, *};
    use wire::{KeyKind, Rfc3339};

    #[test]
    fn a_key_that_ends_gets_a_successor_that_may_the_same() {
        let now = Timestamp::from_unix_ms(1_794_787_200_000);
        let after = |days: i64| Rfc3339(Timestamp::from_unix_ms(now.unix_ms() + days * 86_400_000));
        let key = KeyInfo {
            id: "k1".into(),
            kind: KeyKind::Api,
            name: Some("the shop".into()),
            tenant: Some("*".into()),
            scopes: vec!["jobs:read".into(), "work".into()],
            types: vec!["mail-*".into()],
            subjects: Vec::new(),
            created_at: after(-9),
            created_by: None,
            expires_at: Some(after(3)),
            revoked_at: None,
            last_used_at: None,
        };
        let examined = |key: &KeyInfo| {
            let mut report = DoctorReport::default();
            examine(&mut report, std::slice::from_ref(key), now);
            report.0
        };
        let lines: Vec<String> =
            examined(&key).iter().flat_map(Finding::lines).map(|line| line.text()).collect();
        assert_eq!(
            lines,
            [
                "✗ key the shop (k1): ends in 3 d",
                "  → make its successor: consign keys create 'the shop' --tenant '*' --scope jobs:read --scope work \
                 --type 'mail-*' --expires 90d",
                "  → when that one is in use everywhere: consign keys revoke k1",
            ]
        );
        let good = KeyInfo { expires_at: None, ..key };
        assert_eq!(examined(&good)[0].what, "keys: 1, and none ends within 14 days");
    }
}
