//! Payloads are checked against the schema of their type, in every verb that accepts them.

use crate::controlled_store::{ControlledStore, job_type};
use engine::{JobDraft, PolicyDraft, Refusal, Tenant};
use platform::{Error, Node, Platform, RedriveOptions, Settings};
use pollster::block_on;
use std::{sync::Arc, thread, time::Duration};
use store::{SeededRandom, StoreError};

const REQUIRES_TO: &str = r#"{"type": "object", "required": ["to"]}"#;

fn platform(store: &Arc<ControlledStore>, strict_types: bool) -> Platform {
    let settings = Settings { strict_types, ..Settings::default() };
    store.platform(settings)
}

fn draft(payload: &str) -> JobDraft {
    JobDraft { job_type: "email".into(), payload: Some(payload.into()), ..JobDraft::default() }
}

fn submit(platform: &Platform, payloads: &[&str]) -> Result<usize, Error> {
    let drafts = payloads.iter().map(|payload| draft(payload)).collect();
    block_on(platform.submit_all(&Tenant::default_tenant(), drafts)).map(|all| all.len())
}

fn policy(schema: Option<&str>) -> PolicyDraft {
    PolicyDraft { schema: schema.map(Into::into), ..PolicyDraft::default() }
}

fn set_schema(platform: &Platform, schema: Option<&str>) {
    block_on(platform.set_policy(job_type("email"), &policy(schema), None)).unwrap();
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Refusal {
    match outcome {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}

#[test]
fn a_payload_must_keep_the_schema_of_its_type_from_when_it_is_set() {
    let platform = platform(&ControlledStore::new(), false);
    assert_eq!(submit(&platform, &["5"]).unwrap(), 1);
    set_schema(&platform, Some(REQUIRES_TO));
    assert_eq!(refused(submit(&platform, &["5"])).code(), "SCHEMA_MISMATCH");
    assert_eq!(submit(&platform, &[r#"{"to": 1}"#]).unwrap(), 1);
    set_schema(&platform, Some(r#"{"type": "integer"}"#));
    assert_eq!(submit(&platform, &["5"]).unwrap(), 1, "the new one holds at once");
    set_schema(&platform, None);
    assert_eq!(submit(&platform, &["null"]).unwrap(), 1);
}

#[test]
fn a_list_is_taken_whole_or_not_at_all_and_each_of_many_alone() {
    let store = ControlledStore::new();
    let platform = platform(&store, false);
    set_schema(&platform, Some(REQUIRES_TO));
    let before = store.batches().len();
    let refusal = refused(submit(&platform, &[r#"{"to": 1}"#, "{}"]));
    assert!(matches!(refusal, Refusal::Item { index: 1, .. }), "{refusal:?}");
    assert_eq!(&*refusal.problems()[0].within, "/to");
    assert_eq!(store.batches().len(), before, "nothing was stored");
    let drafts = vec![draft("{}"), draft(r#"{"to": 1}"#)];
    let each = block_on(platform.submit_each(&Tenant::default_tenant(), drafts)).unwrap();
    let mut each = each.into_iter();
    assert_eq!(refused(each.next().unwrap()).code(), "SCHEMA_MISMATCH");
    assert!(each.next().unwrap().is_ok());
}

#[test]
fn set_policy_refuses_an_invalid_schema() {
    let platform = platform(&ControlledStore::new(), false);
    let invalid = policy(Some(r#"{"properties": {"to": {"type": "strng"}}}"#));
    let refusal = refused(block_on(platform.set_policy(job_type("email"), &invalid, None)));
    let problem = &refusal.problems()[0];
    assert_eq!(refusal.code(), "INVALID_FIELD");
    assert_eq!((problem.field, &*problem.within), ("schema", "/properties/to/type"));
    assert!(block_on(platform.policies()).unwrap().is_empty());
}

#[test]
fn strict_types_with_schemas_read_the_policies_once() {
    let store = ControlledStore::new();
    let strict = platform(&store, true);
    set_schema(&strict, Some(REQUIRES_TO));
    let read_for_the_change = store.memory.policies_read();
    for _ in 0..5 {
        submit(&strict, &[r#"{"to": 1}"#; 3]).unwrap();
        assert_eq!(refused(submit(&strict, &["1"])).code(), "SCHEMA_MISMATCH");
    }
    assert_eq!(store.memory.policies_read(), read_for_the_change, "none for a submit");
    let other = JobDraft { job_type: "sms".into(), ..draft("1") };
    let outcome = block_on(strict.submit(&Tenant::default_tenant(), other));
    assert_eq!(refused(outcome).code(), "UNKNOWN_JOB_TYPE");
}

#[test]
fn submits_without_a_schema_read_the_policies_once() {
    let store = ControlledStore::new();
    let platform = platform(&store, false);
    for _ in 0..5 {
        submit(&platform, &["1"; 3]).unwrap();
    }
    assert_eq!(store.memory.policies_read(), 1);
}

/// The outcome of the set is unknown, so the node reads the policy again.
#[test]
fn a_node_rereads_the_schema_after_an_unknown_outcome() {
    let store = ControlledStore::new();
    let platform = platform(&store, false);
    submit(&platform, &["1"]).unwrap();
    store.fail(|| StoreError::OutcomeUnknown(None));
    let outcome =
        block_on(platform.set_policy(job_type("email"), &policy(Some(REQUIRES_TO)), None));
    assert!(matches!(outcome, Err(Error::OutcomeUnknown { .. })), "{outcome:?}");
    drop(submit(&platform, &["1"]));
    assert_eq!(store.memory.policies_read(), 3, "at first, for the change, and after it");
}

#[test]
fn a_job_that_was_taken_before_is_not_checked_again_but_a_repeat_is() {
    let platform = platform(&ControlledStore::new(), false);
    let keyed = JobDraft { idempotency_key: Some("k".into()), ..draft("5") };
    let tenant = Tenant::default_tenant();
    let first = block_on(platform.submit(&tenant, keyed.clone())).unwrap();
    let scope = engine::Scope::One(tenant.clone());
    block_on(platform.cancel(&scope, first.job_id, None)).unwrap();
    set_schema(&platform, Some(REQUIRES_TO));
    let redriven =
        block_on(platform.redrive(&scope, first.job_id, RedriveOptions::default(), None));
    assert!(redriven.is_ok(), "{redriven:?}");
    assert_eq!(refused(block_on(platform.submit(&tenant, keyed))).code(), "SCHEMA_MISMATCH");
}

#[test]
fn a_node_learns_of_a_schema_set_at_another_node() {
    let store = ControlledStore::new();
    let (clock, random) = (store.clock.clone(), Arc::new(SeededRandom::new(3)));
    let node =
        Node::start_with(store.clone(), store.memory.clone(), clock, random, Settings::default());
    let node = node.unwrap();
    submit(&node, &["5"]).unwrap();
    set_schema(&platform(&store, false), Some(REQUIRES_TO));
    let is_refused = (0..6_000).any(|_| {
        // Maintenance goes by the test's manual clock, and reads it once a second.
        store.clock.pass(Duration::from_secs(1));
        thread::sleep(Duration::from_millis(10));
        submit(&node, &["5"]).is_err()
    });
    assert!(is_refused);
    node.close();
}
