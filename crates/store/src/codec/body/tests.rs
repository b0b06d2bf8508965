//! Bodies are read as they were written, and bytes that are not ours are refused.

use super::*;
use crate::{
    codec::{
        body::{Commit, Deltas, StoreMeta, StoredWorker, from_scope, to_scope},
        inline_history::{HistoryRow, InlineHistory},
    },
    conformance,
    queue::{Counts, Queue},
};
use engine::{
    ApiKey, AuditEntry, AuditHash, Backoff, ContentDigest, CorrelationId, Ended, EndingDigest,
    Entropy, Envelope, ErrorCode, Event, EventKind, ExecCommand, Failure, HandlerUrl, HistoryEntry,
    Host, IdempotencyKey, Jitter, Job, JobId, JobKey, JobType, JsonText, KeyId, KeyName, Lease,
    LeaseToken, Life, Pause, PauseNote, PauseReason, PayloadVersion, Policy, Priority, Progress,
    ProgressReport, ReadyMade, ResultUrl, Scope, SigningKey, State, Status, Step, StepName,
    SubjectId, Tenant, Timestamp, TraceParent, WorkerId,
};
use proptest::prelude::*;
use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(seconds * 1_000)
}

/// An envelope with every optional field set.
fn full_envelope() -> Envelope {
    Envelope {
        id: JobId::new(at(1), Entropy(1)),
        tenant: Tenant::parse("acme").unwrap(),
        job_type: JobType::parse("email").unwrap(),
        subject: Some(SubjectId::parse("Bestellung 7 ✓").unwrap()),
        correlation: CorrelationId::parse("c").unwrap(),
        key: Some(JobKey {
            name: IdempotencyKey::parse("k").unwrap(),
            content: ContentDigest([7; 32]),
        }),
        payload_version: Some(PayloadVersion::Text("v2".into())),
        priority: Priority::HIGHEST,
        parent: Some(JobId::new(at(2), Entropy(2))),
        traceparent: TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .ok(),
        created_at: at(3),
    }
}

fn full_life() -> Life {
    let report = ProgressReport::check(55, Some("half")).unwrap();
    Life {
        redrive_count: 1,
        due_at: at(4),
        started_at: Some(at(5)),
        attempt: 2,
        releases: 3,
        losses: 4,
        cancel_requested: true,
        last_failure: Some(Failure {
            code: ErrorCode::parse("SMTP_DOWN").unwrap(),
            message: Some("no route".into()),
        }),
        message: Some("hm".into()),
        progress: Some(Progress { report, at: at(6) }),
        result: Some(JsonText::parse("result", "[1]", 10).unwrap()),
        result_url: Some(ResultUrl::parse("https://x/y").unwrap()),
    }
}

/// A row of history with every optional field set.
fn full_entry() -> HistoryEntry {
    let token = LeaseToken { epoch: 0, fence: 1, secret: 2 };
    HistoryEntry {
        seq: 1,
        at: at(1),
        from: Some(Status::Running),
        to: Status::Queued,
        attempt: 0,
        worker: WorkerId::parse("w").ok(),
        error_code: ErrorCode::parse("A").ok(),
        message: Some("m".into()),
        settled: Some((token, EndingDigest([3; 16]))),
    }
}

fn job(state: State) -> Job {
    Job {
        envelope: Arc::new(full_envelope()),
        state,
        life: full_life(),
        max_attempts: 9,
        expires_at: Some(at(7)),
        fence: 300,
        seq: 70_000,
        version: u64::MAX,
        changed_at: Timestamp::MAX,
    }
}

fn states() -> Vec<State> {
    let token = LeaseToken { epoch: u32::MAX, fence: 8, secret: u128::MAX - 5 };
    let lease = |scope| Lease {
        token,
        scope,
        worker: WorkerId::parse("w").unwrap(),
        claim: engine::ClaimId::parse("c").unwrap(),
        due_at: at(8),
        started_at: at(9),
        expires_at: at(10),
        deadline: at(11),
        length: Duration::from_secs(30),
    };
    let ended = Ended { at: at(12), discarded_at: None };
    let discarded = Ended { at: at(12), discarded_at: Some(at(13)) };
    vec![
        State::Queued { run_at: at(7) },
        State::Running(lease(Scope::All)),
        State::Running(lease(Scope::One(Tenant::parse("acme").unwrap()))),
        State::Completed(ended),
        State::Failed(ended),
        State::Poisoned(discarded),
        State::Cancelled(ended),
        State::AwaitingChildren { since: at(14) },
    ]
}

#[test]
fn jobs_and_announcements_come_back_as_they_went() {
    for state in states() {
        let job = job(state);
        let envelope = job.envelope.clone();
        let mut recent = InlineHistory::default();
        recent.push(&full_entry(), Some(7));
        recent.push(&full_entry(), None);
        let row = job_to_row_in(vec![7; 9], 3, &job, &recent);
        let rows = [Some(7), None].map(|event| HistoryRow { event, entry: full_entry() });
        assert_eq!(recent.rows(3), Ok(rows.to_vec()));
        assert_eq!(job_from_row(3, &row, envelope.clone()), Ok((job.clone(), recent)));
        let event = Event { kind: EventKind::Redriven, at: at(1), job };
        assert_eq!(event_from_row(4, &event_to_row(4, 3, &event), envelope), Ok(event));
    }
}

/// The rows that were checked, in hexadecimal digits.
#[derive(Default)]
struct Rows(String);

impl Rows {
    #[track_caller]
    fn check<T: Body + PartialEq + std::fmt::Debug>(&mut self, value: T) {
        let row = to_row(5, &value);
        self.add(&row);
        assert_eq!(from_row(5, &row), Ok(value));
    }

    fn add(&mut self, row: &[u8]) {
        row.iter().for_each(|byte| write!(self.0, "{byte:02x}").expect("it is a text"));
        self.0.push('\n');
    }
}

#[test]
fn everything_comes_back_as_it_went_in_bytes_that_do_not_change() {
    let mut rows = Rows::default();
    for state in states() {
        let job = job(state);
        rows.add(&job_to_row_in(Vec::new(), 3, &job, &InlineHistory::default()));
        let event = Event { kind: EventKind::Redriven, at: at(1), job };
        rows.add(&event_to_row(4, 3, &event));
    }
    rows.check(full_envelope());
    rows.check(Envelope {
        subject: None,
        key: None,
        payload_version: Some(PayloadVersion::Number(7)),
        parent: None,
        traceparent: None,
        ..full_envelope()
    });
    let entry = HistoryEntry {
        seq: 1,
        at: at(1),
        from: None,
        to: Status::Queued,
        attempt: 0,
        worker: None,
        error_code: None,
        message: None,
        settled: None,
    };
    rows.check(full_entry());
    rows.check(entry);
    let name = StepName::parse("s").unwrap();
    rows.check(Step { name: name.clone(), begun_at: at(1), result: None });
    rows.check(Step { name, begun_at: at(1), result: Some(JsonText::from_stored("1")) });
    rows.check(Policy::default());
    let backoff = Backoff { jitter: Jitter::None, ..Backoff::default() };
    rows.check(Policy { backoff, max_queued: Some(7), concurrency: Some(8), ..Policy::default() });
    let schema = Some(JsonText::from_stored("{\"type\":\"object\"}"));
    rows.check(Policy { schema: schema.clone(), ..Policy::default() });
    let push = Some(ReadyMade::Http(HandlerUrl::parse("https://hooks.example/a").unwrap()));
    rows.check(Policy { handler: push, ..Policy::default() });
    let run = Some(ReadyMade::Exec(ExecCommand::parse(&["convert", "-"]).unwrap()));
    rows.check(Policy { schema, handler: run, ..Policy::default() });
    let job_types = vec![JobType::parse("a").unwrap(), JobType::parse("b").unwrap()];
    rows.check(StoredWorker {
        host: Host::parse("h").ok(),
        job_types: job_types.into(),
        seen_at: at(1),
        left: true,
    });
    let deltas = Deltas(BTreeMap::from([(1, [-1, 2, 0, 0, 0, 0, 0, 0, i64::MAX]), (9, [0; 9])]));
    rows.check(Commit { at: at(1), last_no: 7, last_event: i64::MAX, deltas });
    let key = SigningKey { id: KeyId(7), secret: [8; 32], created_at: at(1), revoked_at: None };
    rows.check(SigningKey { revoked_at: Some(at(2)), ..key.clone() });
    rows.check(key);
    rows.check(StoreMeta { epoch: u32::MAX, last_published_event: 1, last_indexed_job: 2 });
    let job_type = JobType::parse("a").unwrap();
    let by_name = KeyName::parse("ops").ok();
    let reason = PauseReason::parse("SMTP is down").ok();
    let note = PauseNote { by: Some("key:1".into()), by_name, reason };
    rows.check(Pause { job_type: job_type.clone(), scope: Scope::All, note, at: at(1) });
    rows.check(Queue { job_type, tenant: Tenant::default_tenant() });
    for scope in [Scope::All, Scope::One(Tenant::default_tenant())] {
        let key = conformance::credentials::key(u64::MAX, scope.clone());
        rows.check(ApiKey { revoked_at: Some(at(9)), ..key.clone() });
        rows.check(ApiKey { expires_at: None, ..key });
        let note = |target| conformance::audit::note(scope.clone(), target);
        rows.check(AuditEntry::new(1, at(1), note("odd"), AuditHash::FIRST));
        rows.check(AuditEntry::new(u64::MAX, at(1), note("even"), AuditHash([7; 32])));
        assert_eq!(from_scope(to_scope(&scope)), Some(scope));
    }
    rows.check(Counts { submitted: 300, erased: 2, ..Counts::default() });
    assert_eq!(rows.0, include_str!("bytes_on_disk.txt"));
}

/// Bodies without a name are as they were before entries had names.
#[test]
fn an_audit_entry_keeps_the_name_of_its_actor() {
    let note = conformance::audit::note(Scope::All, "email");
    let named = engine::AuditNote { name: KeyName::parse("ops").ok(), ..note };
    Rows::default().check(AuditEntry::new(1, at(1), named, AuditHash::FIRST));
}

/// The bytes of a policy from before there were schemas and ready-made handlers.
#[test]
fn a_policy_that_was_written_before_is_still_read() {
    let policy = Policy { max_queued: Some(7), concurrency: Some(8), ..Policy::default() };
    let before = [
        1, 3, 0xb0, 0xea, 1, 0xa0, 0xf7, 0x36, 0xd0, 15, 0xc8, 1, 0xc0, 0xcf, 0x24, 1, 3, 0x80,
        0x88, 0xb2, 0xa0, 2, 0x80, 0x90, 0xfb, 0xd3, 9, 1, 7, 1, 8,
    ];
    assert_eq!(from_row(5, &seal(Kind::Policy, 5, before.to_vec())), Ok(policy.clone()));
    // After a downgrade, that version can still read policies that use neither.
    assert_eq!(to_row(5, &policy), seal(Kind::Policy, 5, before.to_vec()));
}

#[test]
fn every_status_and_kind_has_a_number_of_its_own() {
    let numbers: std::collections::BTreeSet<u64> =
        Status::ALL.into_iter().map(status_number).collect();
    assert_eq!(numbers.len(), Status::ALL.len());
    for to in Status::ALL {
        let entry = HistoryEntry {
            seq: 1,
            at: at(1),
            from: Some(to),
            to,
            attempt: 0,
            worker: None,
            error_code: None,
            message: None,
            settled: None,
        };
        Rows::default().check(entry);
    }
}

proptest! {
    /// A seal can be right and its content still not be ours: a later version wrote it, or a person
    /// edited the file. It is read or refused, and nothing panics.
    #[test]
    fn no_bytes_make_us_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = bytes;
        bytes.insert(0, 1);
        let envelope = Arc::new(full_envelope());
        drop(job_from_row(1, &seal(Kind::Job, 1, bytes.clone()), envelope.clone()));
        drop(event_from_row(1, &seal(Kind::Event, 1, bytes.clone()), envelope));
        drop(from_row::<Envelope>(1, &seal(Kind::Envelope, 1, bytes.clone())));
        drop(from_row::<HistoryEntry>(1, &seal(Kind::History, 1, bytes.clone())));
        drop(from_row::<Policy>(1, &seal(Kind::Policy, 1, bytes.clone())));
        drop(from_row::<Commit>(1, &seal(Kind::Commit, 1, bytes.clone())));
        drop(from_row::<ApiKey>(1, &seal(Kind::ApiKey, 1, bytes.clone())));
        drop(from_row::<SigningKey>(1, &seal(Kind::SigningKey, 1, bytes.clone())));
        drop(from_row::<AuditEntry>(1, &seal(Kind::Audit, 1, bytes.clone())));
        drop(from_row::<StoredWorker>(1, &seal(Kind::Worker, 1, bytes)));
    }
}
