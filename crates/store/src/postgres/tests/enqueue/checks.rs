//! `consign.enqueue` refuses what the HTTP API refuses, in the same words.

use super::{EnqueueFixture, RUNTIME, refused};
use crate::{
    Store,
    conformance::fixture::{email, tenant},
};
use engine::{
    Entropy, JobDraft, JobId, JsonText, NewJob, PAYLOAD_BYTES_MAX, PayloadVersion, Policy, Refusal,
    Scope, SubmitContext, Timestamp,
};

fn check_as_http(draft: JobDraft) -> Result<NewJob, Refusal> {
    draft.check(SubmitContext {
        id: JobId::new(Timestamp::from_unix_ms(1), Entropy(1)),
        tenant: tenant("default"),
        entropy: Entropy(1),
        payload_bytes_max: PAYLOAD_BYTES_MAX,
    })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A draft and the same arguments in SQL. The texts are `jobType, subject, correlation, key,
/// version`.
fn texts() -> Vec<(JobDraft, String)> {
    let long = |chars: usize| "ä".repeat(chars);
    let some = |text: &str| Some(text.to_owned());
    let mut table = Vec::new();
    for name in ["", "-a", "A", "a b", "ä", "a\n", &"x".repeat(65), "a", "0", &"x".repeat(64)] {
        table.push((JobDraft { job_type: name.into(), ..email() }, quoted(name)));
    }
    for text in ["", &long(256), &long(257)] {
        let draft = JobDraft { subject_id: some(text), ..email() };
        table.push((draft, format!("'email', subject => {}", quoted(text))));
    }
    for text in ["", "a\nb", "a\u{7f}", "\u{9f}", &long(128), &long(129), "a b~"] {
        let draft = JobDraft { correlation_id: some(text), ..email() };
        table.push((draft, format!("'email', correlation => {}", quoted(text))));
    }
    for text in ["", &long(1024), &long(1025)] {
        let draft = JobDraft { idempotency_key: some(text), ..email() };
        table.push((draft, format!("'email', key => {}", quoted(text))));
    }
    for text in ["", &long(64), &long(65)] {
        let version = Some(PayloadVersion::Text(text.into()));
        let draft = JobDraft { payload_version: version, ..email() };
        table.push((draft, format!("'email', payload_version => {}", quoted(text))));
    }
    table
}

fn numbers() -> Vec<(JobDraft, String)> {
    let mut table = Vec::new();
    for number in [-1, 0, 9, 10] {
        let draft = JobDraft { priority: Some(number), ..email() };
        table.push((draft, format!("'email', priority => {number}")));
    }
    for number in [0, 1, 100, 101] {
        let draft = JobDraft { max_attempts: Some(number), ..email() };
        table.push((draft, format!("'email', max_attempts => {number}")));
    }
    for seconds in [-1, 0, 315_360_000, 315_360_001] {
        let draft = JobDraft { delay_seconds: Some(seconds), ..email() };
        table.push((draft, format!("'email', delay => make_interval(secs => {seconds})")));
    }
    for ms in [-1_000, 0, 253_402_300_799_000, 253_402_300_800_000] {
        let moment = format!("to_timestamp({})", ms / 1_000);
        let draft = JobDraft { run_at: Some(ms), ..email() };
        table.push((draft, format!("'email', run_at => {moment}")));
    }
    for ms in [-1_000, 253_402_300_799_000, 253_402_300_800_000] {
        let draft = JobDraft { expires_at: Some(ms), ..email() };
        table.push((draft, format!("'email', expires_at => to_timestamp({})", ms / 1_000)));
    }
    let both = JobDraft { run_at: Some(1_000), delay_seconds: Some(1), ..email() };
    table.push((both, "'email', run_at => to_timestamp(1), delay => '1 second'".into()));
    let wrong = JobDraft { priority: Some(10), max_attempts: Some(0), ..email() };
    table.push((wrong, "'email', priority => 10, max_attempts => 0".into()));
    table
}

#[test]
fn submit_refusals_match_the_http_api() {
    let fixture = EnqueueFixture::idle();
    for (draft, call) in texts().into_iter().chain(numbers()) {
        match (check_as_http(draft), fixture.enqueue(&call)) {
            (Ok(_), Ok((id, _))) => assert!(fixture.job(id).is_some(), "{call}"),
            (Err(refusal), enqueued @ Err(_)) => {
                let (state, code, message) = refused(enqueued);
                assert_eq!((state.as_str(), code.as_str()), ("CN400", refusal.code()), "{call}");
                assert_eq!(sorted(&message), sorted(&refusal.to_string()), "{call}");
            }
            (http, sql) => panic!("{call}: {:?} by HTTP, {:?} by SQL", http.err(), sql.err()),
        }
    }
    assert_eq!(fixture.count("inbox"), 0, "nothing lawful was left there as refused");
}

/// The problems in a message, sorted.
fn sorted(message: &str) -> Vec<&str> {
    let mut problems: Vec<&str> = message.split("; ").collect();
    problems.sort_unstable();
    problems
}

#[test]
fn sql_and_http_accept_the_same_json_payloads() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let (deep, deeper, deepest) = (nested(64), nested(65), nested(20_000));
    let (objects, more_objects) = (objects(64), objects(65));
    let mut texts =
        vec!["", " ", "nul", "{", "{\"a\"}", "[1,]", "01", "1.", "+1", "1e", "'a'", "1 2"];
    texts.extend(["\"\u{1}\"", r#""\x""#, r#""\ud800""#, r#""\udc00""#, r#""\u0000""#, "{a:1}"]);
    texts.extend([
        "1e1000000000",
        "0e1000000000",
        r#""1e1000000000""#,
        "\"\\\"",
        r#""\ud83d\ude00""#,
    ]);
    texts.extend([" 1 ", "\n[true, null]\t", "1.50e2", "\"ä\"", r#"{"a":1,"a":2}"#, "-0.0"]);
    texts.extend([&*deep, &*deeper, &*deepest, &*objects, &*more_objects]);
    let fixture = EnqueueFixture::idle();
    for text in texts {
        let draft = JobDraft { payload: Some(text.into()), ..email() };
        let short = &text[..text.len().min(40)];
        match (check_as_http(draft), fixture.enqueue(&format!("'email', {}", quoted(text)))) {
            (Ok(new), Ok((id, _))) => {
                let stored = RUNTIME.block_on(fixture.store.payload(&Scope::All, id)).unwrap();
                assert_eq!(stored.as_ref().map(JsonText::as_str), Some(new.payload.as_str()));
            }
            (Err(_), enqueued @ Err(_)) => {
                let (state, code, message) = refused(enqueued);
                assert_eq!((state.as_str(), code.as_str()), ("CN400", "INVALID_FIELD"), "{short}");
                assert!(message.starts_with("payload: "), "{short}: {message}");
            }
            (http, sql) => panic!("{short}: {:?} by HTTP, {:?} by SQL", http.err(), sql.err()),
        }
    }
}

#[test]
fn a_payload_has_a_bound_which_an_operator_may_move() {
    let fixture = EnqueueFixture::idle();
    let call = |bytes: usize| format!("'email', '\"{}\"'", "x".repeat(bytes - 2));
    fixture.must(&call(PAYLOAD_BYTES_MAX));
    let (state, code, message) = refused(fixture.enqueue(&call(PAYLOAD_BYTES_MAX + 1)));
    let large = Refusal::PayloadTooLarge { bytes: 65_537, bytes_max: PAYLOAD_BYTES_MAX };
    assert_eq!((state.as_str(), code.as_str()), ("CN413", large.code()));
    assert_eq!(message, large.to_string());
    fixture.sql("update consign.store_meta set enqueue_bytes_max = 1048576");
    assert!(fixture.job(fixture.must(&call(1 << 20))).is_some());
}

#[test]
fn a_payload_may_be_of_any_type_that_is_json() {
    let fixture = EnqueueFixture::idle();
    let payloads = [
        ("jsonb_build_object('a', 1)", "{\"a\": 1}"),
        ("json_build_object('a', 1)", "{\"a\" : 1}"),
        ("'[1]'::text", "[1]"),
        ("'[1]'", "[1]"),
        ("null::jsonb", "null"),
        ("null", "null"),
        ("to_jsonb('text'::text)", "\"text\""),
    ];
    for (sql, stored) in payloads {
        let id = fixture.must(&format!("'email', {sql}"));
        let payload = RUNTIME.block_on(fixture.store.payload(&Scope::All, id)).unwrap();
        assert_eq!(payload.expect("it is there").as_str(), stored, "{sql}");
    }
    assert_eq!(refused(fixture.enqueue("null")).1, "INVALID_FIELD");
    assert_eq!(refused(fixture.enqueue("'email', tenant => 'A'")).1, "INVALID_FIELD");
}

#[test]
fn a_job_that_expires_before_it_may_start_is_refused() {
    let fixture = EnqueueFixture::idle();
    let calls = [
        "'email', expires_at => '2027-01-15T08:00:00Z'",
        "'email', expires_at => '2027-01-15T08:00:10Z', delay => '10 seconds'",
        "'email', run_at => '2027-01-16', expires_at => '2027-01-15T08:00:10Z'",
    ];
    for call in calls {
        let (_, code, message) = refused(fixture.enqueue(call));
        assert_eq!(code, "INVALID_FIELD");
        assert_eq!(message, "expiresAt: must be later than the moment it may start");
    }
}

#[test]
fn a_full_queue_takes_no_more() {
    let fixture = EnqueueFixture::idle();
    fixture.set_policy("email", Policy { max_queued: Some(3), ..Policy::default() });
    let taken_in = fixture.must("'email'");
    assert!(fixture.job(taken_in).is_some());
    fixture.sql("begin");
    let (second, third) = (fixture.must("'email'"), fixture.must("'email'"));
    let (state, code, message) = refused(fixture.enqueue("'email', key => 'k'"));
    assert_eq!((state.as_str(), code.as_str()), ("CN429", "QUEUE_FULL"));
    assert_eq!(message, "the queue of email is full: 3 jobs wait");
    fixture.sql("rollback");
    assert_eq!([fixture.job(second), fixture.job(third)], [None, None]);
    let ids = [fixture.must("'email'"), fixture.must("'email', key => 'k'")];
    assert!(ids.iter().all(|id| fixture.job(*id).is_some()));
    assert_eq!(refused(fixture.enqueue("'email'")).1, "QUEUE_FULL");
    assert_eq!(
        fixture.enqueue("'email', key => 'k'").unwrap(),
        (ids[1], true),
        "a repeat needs no room"
    );
    fixture.must("'email', tenant => 'acme'");
    fixture.must("'other'");
}

#[test]
fn a_tenant_cannot_open_types_without_end() {
    let fixture = EnqueueFixture::idle();
    fixture.sql("update consign.store_meta set enqueue_job_types_max = 3");
    let taken_in = fixture.must("'type-1'");
    assert!(fixture.job(taken_in).is_some());
    // Inbox rows count as well, within the transaction and after it.
    fixture.sql("begin");
    fixture.must("'type-2', key => 'k'");
    fixture.must("'type-2'");
    fixture.must("'type-3'");
    let (state, code, message) = refused(fixture.enqueue("'type-4'"));
    assert_eq!((state.as_str(), code.as_str()), ("CN422", "TENANT_LIMIT"));
    assert!(message.contains("enqueue_job_types_max"), "{message}");
    fixture.sql("rollback");
    let ids = [fixture.must("'type-2'"), fixture.must("'type-3'")];
    assert_eq!(refused(fixture.enqueue("'type-4'")).1, "TENANT_LIMIT");
    assert!(ids.iter().all(|id| fixture.job(*id).is_some()));
    assert_eq!(refused(fixture.enqueue("'type-4', key => 'k'")).1, "TENANT_LIMIT");
    fixture.must("'type-1'");
    fixture.must("'type-4', tenant => 'acme'");
    fixture.set_policy("type-4", Policy::default());
    fixture.must("'type-4'");
}

#[test]
fn an_enqueued_job_is_accepted_after_its_queue_filled_up() {
    let fixture = EnqueueFixture::idle();
    let ids = [fixture.must("'email'"), fixture.must("'email'")];
    fixture.set_policy("email", Policy { max_queued: Some(1), ..Policy::default() });
    assert!(ids.iter().all(|id| fixture.job(*id).is_some()), "it was acknowledged");
}

#[test]
fn sql_enqueue_refuses_types_with_a_schema() {
    let fixture = EnqueueFixture::idle();
    let schema = Some(JsonText::from_stored("{\"type\":\"object\"}"));
    fixture.set_policy("email", Policy { schema, ..Policy::default() });
    let (state, code, message) = refused(fixture.enqueue("'email', '{}'"));
    assert_eq!((state.as_str(), code.as_str()), ("CN422", "SCHEMA_MISMATCH"));
    assert!(message.contains("email has a JSON Schema"), "{message}");
    fixture.set_policy("email", Policy::default());
    fixture.must("'email', '{}'");
}
