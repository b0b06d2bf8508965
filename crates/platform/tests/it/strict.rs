//! An installation that accepts only declared types.

use crate::controlled_store::{ControlledStore, job_type};
use engine::{JobDraft, PolicyDraft, Refusal, Tenant};
use platform::{Error, Platform, Settings};
use pollster::block_on;
use std::sync::Arc;

fn platform(store: &Arc<ControlledStore>, strict_types: bool) -> Platform {
    let settings = Settings { strict_types, ..Settings::default() };
    store.platform(settings)
}

fn submit(platform: &Platform, names: &[&str]) -> Result<usize, Error> {
    let draft = |name: &&str| JobDraft { job_type: (*name).into(), ..JobDraft::default() };
    let drafts = names.iter().map(draft).collect();
    block_on(platform.submit_all(&Tenant::default_tenant(), drafts)).map(|all| all.len())
}

fn declare(platform: &Platform, name: &str) {
    block_on(platform.set_policy(job_type(name), &PolicyDraft::default(), None)).unwrap();
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Refusal {
    match outcome {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}

fn unknown(name: &str) -> Refusal {
    Refusal::UnknownJobType { job_type: job_type(name) }
}

#[test]
fn strict_nodes_refuse_undeclared_job_types() {
    let store = ControlledStore::new();
    let strict = platform(&store, true);
    assert_eq!(refused(submit(&strict, &["email"])), unknown("email"));
    assert_eq!(unknown("email").code(), "UNKNOWN_JOB_TYPE");
    declare(&strict, "email");
    assert_eq!(submit(&strict, &["email"]).unwrap(), 1);
    let item = Refusal::Item { index: 1, refusal: Box::new(unknown("scan")) };
    assert_eq!(refused(submit(&strict, &["email", "scan"])), item, "none or all");
    assert_eq!(submit(&platform(&store, false), &["scan"]).unwrap(), 1);
    assert_eq!(refused(submit(&strict, &["scan"])), unknown("scan"), "coming is not declaring");
}

#[test]
fn each_of_many_is_refused_alone_where_its_type_was_not_declared() {
    let store = ControlledStore::new();
    let strict = platform(&store, true);
    declare(&strict, "email");
    let draft = |name: &str| JobDraft { job_type: name.into(), ..JobDraft::default() };
    let drafts = vec![draft("scan"), draft("email"), draft("NOT A TYPE")];
    let each = block_on(strict.submit_each(&Tenant::default_tenant(), drafts)).unwrap();
    let mut each = each.into_iter();
    assert_eq!(refused(each.next().unwrap()), unknown("scan"));
    assert!(each.next().unwrap().is_ok());
    assert!(matches!(refused(each.next().unwrap()), Refusal::Invalid(_)));
}

#[test]
fn a_strict_node_knows_types_declared_at_another_node() {
    let store = ControlledStore::new();
    let (strict, other) = (platform(&store, true), platform(&store, true));
    refused(submit(&strict, &["email"]));
    declare(&other, "email");
    assert_eq!(submit(&strict, &["email"]).unwrap(), 1);
}

#[test]
fn submits_of_a_known_type_read_the_policies_once() {
    let store = ControlledStore::new();
    let strict = platform(&store, true);
    declare(&strict, "email");
    let read_for_the_change = store.memory.policies_read();
    for _ in 0..5 {
        submit(&strict, &["email"; 3]).unwrap();
    }
    assert_eq!(store.memory.policies_read(), read_for_the_change, "none for a submit");
}

#[test]
fn an_invalid_field_is_refused_before_an_unknown_type() {
    let strict = platform(&ControlledStore::new(), true);
    assert!(matches!(
        refused(submit(&strict, &["email", "NOT A TYPE"])),
        Refusal::Item { index: 1, .. }
    ));
}
