//! Pages of the audit log by actor, action and time.

use crate::fixture::Fixture;
use engine::{AuditFilter, CorrelationId, KeyName, Pattern, Scope, Tenant, Timestamp};
use platform::{Actor, AuditQuery, Platform};
use pollster::block_on;
use std::time::Duration;

fn acme() -> Scope {
    Scope::One(Tenant::parse("acme").unwrap())
}

/// One action per second: `count` of them, every third by another actor, for `acme`.
fn fixture(count: u64) -> Fixture {
    let fixture = Fixture::new();
    for number in 0..count {
        let is_ops = number % 3 == 0;
        let actor = Actor {
            who: if is_ops { "key:7" } else { "config" }.into(),
            name: is_ops.then(|| KeyName::parse("ops").unwrap()),
            scope: if is_ops { acme() } else { Scope::All },
            correlation: CorrelationId::parse("c").unwrap(),
        };
        let action = if is_ops { "queue.pause" } else { "type.put" };
        block_on(fixture.platform.record_action(&actor, action, &number.to_string(), None))
            .unwrap();
        fixture.clock.pass(Duration::from_secs(1));
    }
    fixture
}

/// All pages of a query: the targets, and how many pages there were.
fn targets(platform: &Platform, mut query: AuditQuery) -> (Vec<u64>, usize) {
    let (mut targets, mut pages) = (Vec::new(), 0);
    loop {
        let page = block_on(platform.audit(&query)).unwrap();
        assert!(page.entries.len() <= query.limit);
        targets.extend(page.entries.iter().map(|entry| entry.target.parse::<u64>().unwrap()));
        (query.before, pages) = (page.next, pages + 1);
        if page.next.is_none() {
            return (targets, pages);
        }
    }
}

fn query(scope: Scope, filter: AuditFilter) -> AuditQuery {
    AuditQuery { scope, filter, before: None, limit: 2 }
}

fn pattern(text: &str) -> Option<Pattern> {
    Some(Pattern::parse("actor", text).unwrap())
}

#[test]
fn entries_are_filtered_by_actor_and_action() {
    let fixture = fixture(10);
    let platform = &fixture.platform;
    let of = |scope, filter| targets(platform, query(scope, filter)).0;
    assert_eq!(of(Scope::All, AuditFilter::default()), (0..10).rev().collect::<Vec<_>>());
    assert_eq!(of(acme(), AuditFilter::default()), [9, 6, 3, 0], "a tenant sees its own");
    for actor in ["ops", "key:7", "key:*"] {
        let filter = AuditFilter { actor: pattern(actor), ..AuditFilter::default() };
        assert_eq!(of(Scope::All, filter), [9, 6, 3, 0], "{actor}");
    }
    let puts = AuditFilter { action: pattern("type.*"), ..AuditFilter::default() };
    assert_eq!(of(Scope::All, puts.clone()), [8, 7, 5, 4, 2, 1]);
    assert!(of(acme(), puts).is_empty());
}

#[test]
fn entries_are_filtered_by_time() {
    let fixture = fixture(10);
    let at = |second: i64| Timestamp::from_unix_ms(1_800_000_000_000 + second * 1_000);
    for (scope, of) in [(Scope::All, 1), (acme(), 3)] {
        for from in 0..=11 {
            for to in 0..=11 {
                let (from_time, to_time) = (Some(at(from)), Some(at(to)));
                let filter = AuditFilter { from: from_time, to: to_time, ..AuditFilter::default() };
                let expected: Vec<u64> = (0..10)
                    .rev()
                    .filter(|n| n % of == 0 && (from..to).contains(&(*n as i64)))
                    .collect();
                let (found, _) = targets(&fixture.platform, query(scope.clone(), filter));
                assert_eq!(found, expected, "{from} to {to}");
            }
        }
    }
}

/// A page that finds nothing ends after a bounded number of entries, and the next one goes on.
#[test]
fn a_page_reads_a_bounded_part_of_a_long_log() {
    let fixture = fixture(10_500);
    let nobody = AuditFilter { actor: pattern("key:9"), ..AuditFilter::default() };
    let first = block_on(fixture.platform.audit(&query(Scope::All, nobody.clone()))).unwrap();
    assert_eq!((first.entries.len(), first.next), (0, Some(501)));
    assert_eq!(targets(&fixture.platform, query(Scope::All, nobody)), (Vec::new(), 2));
}
