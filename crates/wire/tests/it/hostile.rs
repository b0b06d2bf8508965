//! Hostile bodies: the answer is always a problem that names the field, and never a panic.

use crate::jobs;
use engine::{Filter, ITEMS_MAX, Refusal, Scope, check_max_attempts};
use serde::de::DeserializeOwned;
use wire::{filter::some_jobs, *};

/// From a body to its command: every check that can refuse it.
type BodyCheck = fn(&[u8]) -> Result<(), Vec<String>>;

/// The pointers of all problems.
fn pointers(problem: &Problem) -> Vec<String> {
    problem.errors.iter().map(|error| error.pointer.clone()).collect()
}

fn enter<T: DeserializeOwned>(
    body: &[u8],
    check: impl FnOnce(T) -> Result<(), Refusal>,
) -> Result<(), Vec<String>> {
    let request =
        read(body).map_err(|error| pointers(&Problem::unreadable(&error, &jobs::correlation())))?;
    check(request).map_err(|refusal| pointers(&Problem::refused(&refusal, &jobs::correlation())))
}

/// The same for requests that contain a filter.
fn order<T: DeserializeOwned>(
    body: &[u8],
    check: impl FnOnce(T) -> Result<Result<Filter, FilterError>, Refusal>,
) -> Result<(), Vec<String>> {
    let mut filter = Ok(Filter::Everything);
    enter(body, |request| {
        filter = check(request)?;
        Ok(())
    })?;
    let pointed = |error| pointers(&Problem::filter(&error, &jobs::correlation()));
    filter.map(drop).map_err(pointed)
}

const SUBMIT: BodyCheck = |body| {
    enter(body, |request: SubmitRequest| request.into_draft()?.check(jobs::context()).map(drop))
};
const CLAIM: BodyCheck = |body| enter(body, |request: ClaimRequest| request.check().map(drop));
const HEARTBEAT: BodyCheck =
    |body| enter(body, |request: HeartbeatRequest| request.check().map(drop));
const BEAT: BodyCheck = |body| {
    enter(body, |item: HeartbeatItem| match item.check()?.ignored_progress {
        Some(left_out) => Err(left_out),
        None => Ok(()),
    })
};
const SETTLE: BodyCheck = |body| enter(body, |item: SettleItem| item.check().map(drop));
const RELEASE: BodyCheck = |body| enter(body, |item: ReleaseItem| item.check().map(drop));
const STEP: BodyCheck = |body| enter(body, |request: StepRequest| request.check().map(drop));
const REDRIVE: BodyCheck = |body| {
    enter(body, |request: RedriveRequest| {
        let max_attempts = request.max_attempts.map(check_max_attempts).transpose();
        Ok(max_attempts.map(drop)?)
    })
};
const BULK: BodyCheck = |body| {
    order(body, |request: BulkRequest| match request.check()? {
        BulkSelection::Jobs(_) => Ok(Ok(Filter::Everything)),
        BulkSelection::Matching(filter) => Ok(some_jobs(filter, &Scope::All)),
    })
};
const POLICY: BodyCheck = |body| {
    enter(body, |shape: TypePolicy| shape.to_draft()?.check().map(drop).map_err(Refusal::Invalid))
};

/// Sends `good` with `field` replaced by each value. Every time the problem must name that field
/// alone.
#[track_caller]
fn check(body_check: BodyCheck, good: &str, pointer: &str, hostile: &[String]) {
    assert_eq!(body_check(good.as_bytes()), Ok(()), "{good} should be accepted");
    for value in hostile {
        let mut body: serde_json::Value = serde_json::from_str(good).unwrap();
        *body.pointer_mut(pointer).unwrap() = "HERE".into();
        let body = body.to_string().replace("\"HERE\"", value);
        let found = body_check(body.as_bytes());
        let shown = &value[..value.floor_char_boundary(60)];
        assert_eq!(found, Err(vec![pointer.to_owned()]), "{pointer} = {shown}");
    }
}

/// Values that no text field accepts: empty, with U+0000, too long, of another kind. Null means
/// absent.
fn texts() -> Vec<String> {
    let huge = format!("\"{}\"", "x".repeat(1 << 20));
    let kinds = ["\"\"", r#""a\u0000b""#, "5", "-1", "1e999", "[]", "[\"x\"]", "{}", "true"];
    kinds.map(String::from).into_iter().chain([huge]).collect()
}

/// The same for a required text field.
fn required_texts() -> Vec<String> {
    texts().into_iter().chain(["null".into()]).collect()
}

/// Values that no number field accepts.
fn numbers() -> Vec<String> {
    let kinds = [
        "-1",
        "-9223372036854775808",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "1e30",
        "-1e30",
        "1e999",
        "\"5\"",
        "\"\"",
        "[]",
        "{}",
        "false",
    ];
    kinds.map(String::from).into()
}

/// Values that no time field accepts, the far past and future among them.
fn times() -> Vec<String> {
    let far =
        ["\"-000001-01-01T00:00:00Z\"", "\"10000-01-01T00:00:00Z\"", "\"2026-11-15T08:00:00\""];
    texts().into_iter().chain(far.map(String::from)).collect()
}

const JOB: &str = r#"{"jobType":"email","subjectId":"s","correlationId":"c","idempotencyKey":"k",
    "payload":{},"payloadVersion":1,"priority":4,"runAt":"2026-11-15T08:00:00Z",
    "expiresAt":"2026-11-16T08:00:00Z","maxAttempts":3,
    "parentId":"0190163d-8694-739b-aea5-966c26f8ad91",
    "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#;

#[test]
fn submit() {
    check(SUBMIT, JOB, "/jobType", &required_texts());
    for field in ["/subjectId", "/correlationId", "/idempotencyKey", "/parentId"] {
        check(SUBMIT, JOB, field, &texts());
    }
    for field in ["/priority", "/maxAttempts"] {
        check(SUBMIT, JOB, field, &numbers());
    }
    let delayed = r#"{"jobType":"email","delaySeconds":1}"#;
    check(SUBMIT, delayed, "/delaySeconds", &numbers());
    for field in ["/runAt", "/expiresAt"] {
        check(SUBMIT, JOB, field, &times());
    }
    let versions = [
        "-1",
        "4294967296",
        "1.5",
        "1e999",
        "\"\"",
        "\"\\u0000\"",
        "[]",
        "[1]",
        "{}",
        "{\"a\":1}",
        "true",
    ];
    check(SUBMIT, JOB, "/payloadVersion", &versions.map(String::from));
}

#[test]
fn payloads() {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    check(SUBMIT, JOB, "/payload", &[deep, r#""\u0000""#.into(), r#"{"\u0000":1}"#.into()]);
    let huge = format!(r#"{{"jobType":"email","payload":"{}"}}"#, "x".repeat(1 << 21));
    let request: SubmitRequest = read(huge.as_bytes()).unwrap();
    let refusal = request.into_draft().unwrap().check(jobs::context()).unwrap_err();
    assert_eq!(refusal.code(), "PAYLOAD_TOO_LARGE");
    let numbers = r#"{"jobType":"email","payload":[1e999,123456789012345678901234567890]}"#;
    assert_eq!(SUBMIT(numbers.as_bytes()), Ok(()), "a payload's numbers are the client's own");
}

#[test]
fn every_wrong_time_is_named_at_once() {
    let both = r#"{"jobType":"email","runAt":"soon","expiresAt":"late"}"#;
    assert_eq!(SUBMIT(both.as_bytes()), Err(vec!["/runAt".into(), "/expiresAt".into()]));
}

#[test]
fn batches() {
    let batch = |count: usize| {
        let jobs = vec![r#"{"jobType":"email"}"#; count].join(",");
        let body = format!(r#"{{"jobs":[{jobs}]}}"#);
        enter(body.as_bytes(), |batch: BatchRequest| batch.check_count())
    };
    assert_eq!(batch(ITEMS_MAX), Ok(()));
    assert_eq!(batch(0), Err(vec!["/jobs".into()]));
    assert_eq!(batch(ITEMS_MAX + 1), Err(vec!["/jobs".into()]));
    let wrong = br#"{"jobs":[{"jobType":"a"},{"jobType":"b","priority":[]}]}"#;
    let batch: BatchRequest = wire::read(wrong).unwrap();
    let read: Vec<_> = batch.read().collect();
    let wrong = read[1].clone().unwrap_err();
    assert!(read[0].is_ok() && wrong.pointer.as_deref() == Some("/priority"), "the other is good");
    assert_eq!(wrong.of_item("jobs", 1).pointer.as_deref(), Some("/jobs/1/priority"));
}

#[test]
fn claim() {
    let good = r#"{"workerId":"w","claimId":"c","host":"h","jobTypes":["email"],"max":1,
        "waitSeconds":0,"leaseSeconds":30}"#;
    check(CLAIM, good, "/workerId", &required_texts());
    check(CLAIM, good, "/claimId", &required_texts());
    check(CLAIM, good, "/host", &texts());
    let zero = || numbers().into_iter().chain(["0".into()]).collect::<Vec<_>>();
    check(CLAIM, good, "/max", &[zero(), vec!["1001".into()]].concat());
    check(CLAIM, good, "/leaseSeconds", &[zero(), vec!["3601".into()]].concat());
    check(CLAIM, good, "/waitSeconds", &[numbers(), vec!["61".into()]].concat());
    let many = format!("[{}]", vec!["\"a\""; 101].join(","));
    let lists = ["null", "[]", "{}", "5", "\"email\"", "[\"\"]", "[\"a\",\"B\"]", "[\"\\u0000\"]"];
    check(CLAIM, good, "/jobTypes", &[lists.map(String::from).to_vec(), vec![many]].concat());
    assert_eq!(
        CLAIM(br#"{"workerId":"w","claimId":"c","jobTypes":["a",5]}"#),
        Err(vec!["/jobTypes/1".into()])
    );
}

/// A report with a job, a lease, and `rest`.
fn report(rest: &str) -> String {
    let token = engine::LeaseToken { epoch: 1, fence: 7, secret: 0xabc };
    format!(r#"{{"jobId":"{}","token":"{token}"{rest}}}"#, jobs::id())
}

/// Every report must name a valid job and a valid lease.
#[track_caller]
fn check_lease(body_check: BodyCheck, good: &str) {
    check(body_check, good, "/jobId", &required_texts());
    check(body_check, good, "/token", &required_texts());
}

#[test]
fn heartbeat() {
    let many = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
    let good = r#"{"workerId":"w","leases":[]}"#;
    check(HEARTBEAT, good, "/workerId", &required_texts());
    let lists = ["null", "{}", "5", "\"\""].map(String::from).to_vec();
    check(HEARTBEAT, good, "/leases", &[lists, vec![many(ITEMS_MAX + 1)]].concat());
    let good = report(r#","progress":{"percent":0,"note":"n"}"#);
    check_lease(BEAT, &good);
    let percents = ["101".into(), "null".into()];
    check(BEAT, &good, "/progress/percent", &[numbers(), percents.into()].concat());
    check(BEAT, &good, "/progress/note", &[r#""\u0000""#, "5", "[]", "{}"].map(String::from));
    check(BEAT, &good, "/progress", &["5", "\"x\"", "true"].map(String::from));
}

#[test]
fn settle() {
    let good = report(
        r#","outcome":"failed","retryable":true,"errorCode":"E","errorMessage":"m",
        "retryAfterSeconds":1,"message":"m","result":1,"resultUrl":"https://u""#,
    );
    check_lease(SETTLE, &good);
    check(SETTLE, &good, "/outcome", &required_texts());
    check(SETTLE, &good, "/errorCode", &texts());
    check(SETTLE, &good, "/resultUrl", &texts());
    check(SETTLE, &good, "/retryAfterSeconds", &numbers());
    check(SETTLE, &good, "/retryable", &["\"yes\"", "1", "[]", "{}"].map(String::from));
    // Sentences for people may be empty, and long ones are cut.
    for field in ["/message", "/errorMessage"] {
        check(SETTLE, &good, field, &[r#""\u0000""#, "5", "[]", "{}"].map(String::from));
    }
    let results = [r#""\u0000""#.into(), format!("\"{}\"", "x".repeat(5_000))];
    check(SETTLE, &good, "/result", &results);
}

#[test]
fn release() {
    let good = report(r#","delaySeconds":1"#);
    check_lease(RELEASE, &good);
    check(RELEASE, &good, "/delaySeconds", &numbers());
}

#[test]
fn lists_of_reports() {
    let body = format!(r#"{{"items":[{}]}}"#, vec!["{}"; ITEMS_MAX + 1].join(","));
    let settles = enter(body.as_bytes(), |request: SettleRequest| request.check_count());
    let releases = enter(body.as_bytes(), |request: ReleaseRequest| request.check_count());
    assert_eq!((settles, releases), (Err(vec!["/items".into()]), Err(vec!["/items".into()])));
}

#[test]
fn step() {
    let good = report(r#","name":"n","action":"finish","result":1"#);
    check_lease(STEP, &good);
    check(STEP, &good, "/name", &required_texts());
    check(STEP, &good, "/action", &required_texts());
    let results = [r#""\u0000""#.into(), format!("\"{}\"", "x".repeat(17_000))];
    check(STEP, &good, "/result", &results);
}

#[test]
fn redrive() {
    let good = r#"{"resetSteps":true,"maxAttempts":3}"#;
    check(REDRIVE, good, "/maxAttempts", &[numbers(), vec!["0".into(), "101".into()]].concat());
    check(REDRIVE, good, "/resetSteps", &["\"yes\"", "1", "[]", "{}"].map(String::from));
}

/// Filters that no request accepts. `filter/faults.rs` tests other errors in filters.
fn filters() -> Vec<String> {
    let words = ["\" \"", "\"status\"", "\"nope eq 1\"", "\"status eq 'x'\""].map(String::from);
    [texts(), words.into()].concat()
}

#[test]
fn bulk() {
    check(BULK, r#"{"filter":"true"}"#, "/filter", &filters());
    let good = format!(r#"{{"jobIds":["{}"]}}"#, jobs::id());
    let many = |count: usize| format!("[{}]", vec![format!("\"{}\"", jobs::id()); count].join(","));
    let lists = ["[]", "{}", "5", "\"x\"", "null", "[\"\"]", "[\"x\"]", "[\"\\u0000\"]"];
    let hostile = [lists.map(String::from).to_vec(), vec![many(ITEMS_MAX + 1)]].concat();
    check(BULK, &good, "/jobIds", &hostile);
    assert_eq!(BULK(format!(r#"{{"jobIds":{}}}"#, many(ITEMS_MAX)).as_bytes()), Ok(()));
    assert_eq!(BULK(br#"{"jobIds":["x",5]}"#), Err(vec!["/jobIds/1".into()]));
    let both = format!(r#"{{"jobIds":["{}"],"filter":"true"}}"#, jobs::id());
    for body in [both.as_str(), "{}", r#"{"filter":null}"#] {
        assert_eq!(BULK(body.as_bytes()), Err(vec!["/jobIds".into()]), "{body}");
    }
}

#[test]
fn policy() {
    let good = r#"{"maxAttempts":3,"lease":"30s","timeout":"15m",
        "backoff":{"base":"2s","factor":2,"max":"10m","jitter":"full"},"lostWorkersMax":3,
        "keyWindow":"7d","retention":"30d","maxQueued":1,"concurrency":1,
        "schema":{"type":"object"},"handler":{"http":"https://hooks.example/a"}}"#;
    let spans = [texts(), ["\"-1s\"", "\"30\"", "\"9999999d\""].map(String::from).into()].concat();
    let fields =
        ["/lease", "/timeout", "/backoff/base", "/backoff/max", "/keyWindow", "/retention"];
    for field in fields {
        check(POLICY, good, field, &spans);
    }
    for field in ["/maxAttempts", "/lostWorkersMax", "/maxQueued", "/concurrency"] {
        check(POLICY, good, field, &numbers());
    }
    check(POLICY, good, "/backoff/factor", &[numbers(), vec!["1.234".into()]].concat());
    check(POLICY, good, "/backoff/jitter", &texts());
    check(POLICY, good, "/schema", &["5", "\"{}\"", "[]", "[{}]"].map(String::from));
    let urls = ["\"ftp://a\"", "\"https://u:p@a/\"", "\"https://\""].map(String::from);
    check(POLICY, good, "/handler", &["5", "[]", "{}", "\"x\""].map(String::from));
    check(POLICY, good, "/handler/http", &[texts(), urls.into()].concat());
    let two = r#"{"handler":{"http":"https://a","exec":["b"]}}"#;
    assert_eq!(POLICY(two.as_bytes()), Err(vec!["/handler".into()]));
    for (words, pointer) in
        [("[]", ""), ("5", ""), ("[\"\"]", "/0"), ("[5]", "/0"), ("[\"a\",\"\\u0000\"]", "/1")]
    {
        let body = format!(r#"{{"handler":{{"exec":{words}}}}}"#);
        assert_eq!(POLICY(body.as_bytes()), Err(vec![format!("/handler/exec{pointer}")]), "{body}");
    }
}

#[test]
fn bodies_that_are_no_object() {
    let body_checks =
        [SUBMIT, CLAIM, HEARTBEAT, BEAT, SETTLE, RELEASE, STEP, REDRIVE, BULK, POLICY];
    for body_check in body_checks {
        for body in [
            "",
            " ",
            "\0",
            "null",
            "5",
            "\"x\"",
            "[]",
            "[[]]",
            "{",
            "{\"a\":",
            "{\"leases\":[],\"items\":[]}}",
            "\u{feff}{}",
        ] {
            assert_eq!(body_check(body.as_bytes()), Err(vec![]), "{body:?}");
        }
        assert_eq!(body_check(b"\xff\xfe"), Err(vec![]));
    }
}
