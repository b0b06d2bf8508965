//! Hostile values for every public constructor: a typed refusal that names the field, no panic.

use crate::situation::*;
use engine::*;

fn hostile_texts() -> Vec<String> {
    vec![
        String::new(),
        " ".into(),
        "\0".into(),
        "a\0b".into(),
        "x".repeat(100_000),
        "ä".repeat(100_000),
        "\u{202e}\u{feff}".into(),
        "'; drop table job; --".into(),
        "-9223372036854775809".into(),
        "9".repeat(400),
        "[".repeat(10_000),
        "\"\\ud800\"".into(),
    ]
}

const HOSTILE_NUMBERS: [i64; 6] = [i64::MIN, -1, 0, 1, 1_000_000_000_000_000, i64::MAX];

/// A constructor under test: its name, and the field that its error names.
type Constructor = (&'static str, fn(&str) -> Option<&'static str>);

fn blamed<T>(checked: Checked<T>) -> Option<&'static str> {
    checked.err().map(|problem| problem.field)
}

#[test]
fn names_refuse_by_field() {
    let constructors: [Constructor; 12] = [
        ("jobType", |text| blamed(JobType::parse(text))),
        ("tenant", |text| blamed(Tenant::parse(text))),
        ("subjectId", |text| blamed(SubjectId::parse(text))),
        ("correlationId", |text| blamed(CorrelationId::parse(text))),
        ("workerId", |text| blamed(WorkerId::parse(text))),
        ("host", |text| blamed(Host::parse(text))),
        ("claimId", |text| blamed(ClaimId::parse(text))),
        ("name", |text| blamed(StepName::parse(text))),
        ("errorCode", |text| blamed(ErrorCode::parse(text))),
        ("resultUrl", |text| blamed(ResultUrl::parse(text))),
        ("traceparent", |text| blamed(TraceParent::parse(text))),
        ("idempotencyKey", |text| blamed(IdempotencyKey::parse(text))),
    ];
    for (field, parse) in constructors {
        for text in hostile_texts() {
            assert!(
                matches!(parse(&text), None | Some(_) if parse(&text).is_none_or(|f| f == field))
            );
        }
        for text in ["", "\0", "a\0b", &"x".repeat(100_000)] {
            assert_eq!(
                parse(text),
                Some(field),
                "{field} accepts {:?}",
                &text[..text.len().min(9)]
            );
        }
    }
    for text in hostile_texts() {
        assert_eq!(blamed(JobId::parse(&text)), Some("jobId"));
        assert_eq!(blamed(LeaseToken::parse(&text)), Some("token"));
        assert_eq!(Status::from_name(&text), None);
    }
}

#[test]
fn drafts_refuse_by_field_and_never_panic() {
    for text in hostile_texts() {
        for number in HOSTILE_NUMBERS {
            let job = JobDraft {
                job_type: text.clone(),
                subject_id: Some(text.clone()),
                correlation_id: Some(text.clone()),
                idempotency_key: Some(text.clone()),
                payload: Some(text.clone()),
                payload_version: Some(PayloadVersion::Text(text.as_str().into())),
                priority: Some(number),
                run_at: Some(number),
                delay_seconds: Some(number),
                expires_at: Some(number),
                max_attempts: Some(number),
                parent_id: Some(text.clone()),
                traceparent: Some(text.clone()),
                on_ended: Some(text.clone()),
            };
            assert!(job.check(context()).is_err());
            let ending = EndingDraft {
                error_code: Some(text.clone()),
                error_message: Some(text.clone()),
                retry_after_seconds: Some(number),
                message: Some(text.clone()),
                result: Some(text.clone()),
                result_url: Some(text.clone()),
                ..EndingDraft::new(Outcome::Failed)
            };
            let problems = ending.check().expect_err("no hostile text is a valid errorCode");
            assert!(problems.iter().any(|problem| problem.field == "errorCode"));
        }
    }
}

#[test]
fn the_sizes_are_the_contract_s() {
    let json = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let submit = |bytes, payload_bytes_max| {
        let draft = JobDraft { payload: Some(json(bytes)), ..draft() };
        draft.check(SubmitContext { payload_bytes_max, ..context() }).is_ok()
    };
    assert!(submit(65_536, PAYLOAD_BYTES_MAX) && !submit(65_537, PAYLOAD_BYTES_MAX));
    assert!(submit(1_048_576, usize::MAX) && !submit(1_048_577, usize::MAX));
    let settle = |bytes| {
        let draft =
            EndingDraft { result: Some(json(bytes)), ..EndingDraft::new(Outcome::Completed) };
        draft.check().is_ok()
    };
    assert!(settle(4_096) && !settle(4_097));
    assert!(check_step_result(&json(16_384)).is_ok() && check_step_result(&json(16_385)).is_err());
    let note = ProgressReport::check(1, Some(&"x".repeat(300))).unwrap().note.unwrap();
    assert!(note.len() <= 256 && note.ends_with('…'));
}

#[test]
fn numbers_refuse_by_field() {
    for number in [i64::MIN, -1, i64::MAX] {
        assert_eq!(blamed(check_max_attempts(number)), Some("maxAttempts"));
        assert_eq!(blamed(check_lease(number)), Some("leaseSeconds"));
        assert_eq!(blamed(Timestamp::parse("runAt", number)), Some("runAt"));
        assert_eq!(blamed(ProgressReport::check(number, None)), Some("progress.percent"));
    }
    assert_eq!(blamed(ProgressReport::check(1, Some("\0"))), Some("progress.note"));
    assert_eq!(blamed(check_step_result(&"1".repeat(16 * 1024 + 1))), Some("result"));
}

fn claim_at(job: &Job, moment: Timestamp) -> Decision {
    let policy = Policy::default();
    engine::claim(job, &by_w1(), &facts(&policy, moment))
}

#[test]
fn decisions_survive_the_ends_of_time_and_of_counting() {
    let mut extreme = running();
    extreme.life.attempt = u32::MAX;
    extreme.life.releases = u32::MAX - 1;
    extreme.life.losses = u32::MAX - 1;
    let policy = Policy::default();
    let token = token(&extreme);
    let commands = [
        Command::Heartbeat { token, progress: None },
        settle(&extreme, failed()),
        release(&extreme, ReleaseReason::Released),
        Command::Cancel,
        Command::Expire,
        Command::Timeout,
        Command::LeaseExpiry,
        Command::Discard,
        Command::Erase,
        Command::Purge,
    ];
    for job in [&extreme, &queued(), &ended(poisoned())] {
        for command in &commands {
            for moment in [Timestamp::default(), now(), Timestamp::MAX] {
                let _any_decision = claim_at(job, moment);
                let _any_decision = decide(job, command, &facts(&policy, moment));
                let _some_or_none = overdue(job, &policy, moment);
            }
        }
    }
}
