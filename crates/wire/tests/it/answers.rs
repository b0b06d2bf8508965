//! Every answer, compared byte by byte with its file.

use crate::{jobs, shape::check};
use engine::{
    Command, Decision, Effect, EventKind, ExecCommand, HandlerUrl, HistoryEntry, Host, Job,
    JobType, JsonText, KeyName, LastSign, LeaseState, Pause, PauseNote, PauseReason, Policy,
    PolicySource, ReadyMade, Reason, Refusal, Scope, Status, StepAnswer, Submitted, Tenant, decide,
};
use wire::*;

#[test]
fn a_status_has_the_seed_s_fields_first_and_nulls_for_what_is_absent() {
    check("status_plain", &JobStatus::from(&jobs::plain()));
    check("status_stopping", &JobStatus::from(&jobs::stopping()));
    check("status_retrying", &JobStatus::from(&jobs::retrying()));
    check("status_completed", &JobStatus::from(&jobs::completed()));
    check("status_poisoned", &JobStatus::from(&jobs::poisoned()));
    let redrive = Command::Redrive { max_attempts: Some(9), reset_steps: false, payload: None };
    let redriven = jobs::after(&jobs::poisoned(), &redrive, 200);
    check("status_redriven", &JobStatus::from(&redriven));
}

#[test]
fn the_seed_s_twelve_fields_come_first_and_in_its_order() {
    const SEED: [&str; 12] = [
        "jobId",
        "jobType",
        "subjectId",
        "correlationId",
        "status",
        "attempt",
        "maxAttempts",
        "createdAt",
        "startedAt",
        "completedAt",
        "errorCode",
        "errorMessage",
    ];
    let text = serde_json::to_string(&JobStatus::from(&jobs::plain())).unwrap();
    let places: Vec<_> = SEED.iter().map(|name| text.find(&format!("\"{name}\":"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert!(places.last().unwrap() < &text.find("\"nextAttemptAt\":"), "{text}");
    assert!(text.contains("Z\",\"attemptStartedAt\":null,\"progress\":"), "right after it: {text}");
}

#[test]
fn the_start_of_the_last_attempt_is_not_that_of_the_first() {
    let started = |job: &Job| {
        let status = JobStatus::from(job);
        (status.started_at.map(|at| at.0), status.attempt_started_at.map(|at| at.0))
    };
    assert_eq!(started(&jobs::plain()), (None, None));
    let first = jobs::running(&jobs::full());
    assert_eq!(started(&first).1, first.lease().map(|lease| lease.started_at));
    assert_eq!(started(&first).0, started(&first).1);
    let retrying = jobs::retrying();
    assert_eq!(started(&retrying).0, started(&retrying).1, "one attempt so far");
    let second = jobs::claimed(&retrying, 160);
    assert_eq!(started(&second), (started(&retrying).0, Some(jobs::at(160))));
}

#[test]
fn a_completed_job_is_done_to_the_last_percent() {
    let percent = |job: &Job| JobStatus::from(job).progress.map(|progress| progress.percent);
    assert_eq!(percent(&jobs::completed()), Some(100));
    assert_ne!(percent(&jobs::stopping()), Some(100));
}

#[test]
fn a_discarded_job_says_so_in_every_shape() {
    let discarded = jobs::after(&jobs::poisoned(), &Command::Discard, 140);
    check("status_discarded", &JobStatus::from(&discarded));
    assert!(JobStatus::from(&jobs::poisoned()).discarded_at.is_none());
}

#[test]
fn the_next_attempt_appears_only_while_the_job_waits() {
    let next = |job: &Job| JobStatus::from(job).next_attempt_at.map(|at| at.0);
    assert_eq!(next(&jobs::plain()), Some(jobs::at(0)));
    assert_eq!(next(&jobs::retrying()), Some(jobs::at(160)));
    for job in [jobs::stopping(), jobs::completed(), jobs::poisoned()] {
        assert_eq!(next(&job), None, "{}", job.status());
    }
}

#[test]
fn a_whole_job_shows_its_payload_only_where_it_is_given() {
    check("job_plain", &FullJob::new(&jobs::plain(), None));
    check("job_full", &FullJob::new(&jobs::full(), Some(&jobs::payload())));
    let discarded = jobs::after(&jobs::poisoned(), &Command::Discard, 140);
    check(
        "job_discarded",
        &FullJob::new(&discarded, Some(&JsonText::parse("payload", "null", 4).unwrap())),
    );
}

#[test]
fn a_claim_answer_has_the_whole_job_and_its_lease() {
    let job = jobs::running(&jobs::full());
    let claimed = ClaimedJob::new(&job, job.lease().unwrap(), &jobs::payload());
    check("claim_answer", &ClaimAnswer { jobs: vec![claimed] });
    check("claim_answer_empty", &ClaimAnswer { jobs: vec![] });
}

#[test]
fn a_client_reads_what_a_server_wrote() {
    let job = jobs::running(&jobs::full());
    let claimed = ClaimedJob::new(&job, job.lease().unwrap(), &jobs::payload());
    let answer = ClaimAnswer { jobs: vec![claimed] };
    let text = serde_json::to_string(&answer).unwrap();
    let read: ClaimAnswer = serde_json::from_str(&text).unwrap();
    assert_eq!(
        read.jobs[0].base.extension.payload.as_ref().unwrap().as_str(),
        jobs::payload().as_str()
    );
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let event = CloudEvent::from(&jobs::event(EventKind::Completed, jobs::completed(), 130));
    let text = serde_json::to_string(&event).unwrap();
    let read: CloudEvent = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

#[test]
fn a_submit_answer_has_the_status_url() {
    let first = SubmittedJob::from(&Submitted::of(&jobs::full(), false));
    check("submitted", &first);
    let signed_status_url = Some(format!("{}?sig=x", first.status_url));
    let signed_events_url =
        Some(format!("https://jobs.example.org/api/jobs/{}/events?sig=x", first.job_id));
    check("submitted_signed", &SubmittedJob { signed_status_url, signed_events_url, ..first });
    let again = SubmittedJob::from(&Submitted::of(&jobs::completed(), true));
    let problem =
        Problem::refused(&Refusal::KeyReused { holder: jobs::id() }, &jobs::correlation());
    let items = vec![BatchItem::Submitted(again), BatchItem::Refused { problem }];
    check("batch_answer", &BatchAnswer { items });
}

fn entry(decision: Decision) -> HistoryEntry {
    match decision.unwrap().effect {
        Effect::Change(change) => change.entry.unwrap(),
        Effect::Nothing | Effect::Erase => panic!("nothing is written"),
    }
}

#[test]
fn a_history_row_has_actor_change_and_time() {
    let policy = Policy::default();
    let full = jobs::full();
    let running = jobs::running(&full);
    let began = entry(engine::claim(&full, &jobs::by_worker_1(), &jobs::facts(&policy, 100)));
    let lost = entry(decide(&running, &Command::LeaseExpiry, &jobs::facts(&policy, 130)));
    let items = [began, lost].iter().map(Transition::from).collect();
    check("history", &Page { items, next_cursor: None });
}

fn pause() -> Pause {
    let by_name = KeyName::parse("ops").ok();
    let reason = PauseReason::parse("SMTP is down").ok();
    Pause {
        job_type: JobType::parse("email").unwrap(),
        scope: Scope::One(Tenant::parse("acme").unwrap()),
        note: PauseNote { by: Some("key:5d1a0c7e9b3f2486".into()), by_name, reason },
        at: jobs::at(60),
    }
}

#[test]
fn each_reason_has_its_own_fields_and_no_others() {
    let job_type = JobType::parse("email").unwrap();
    let lease = jobs::running(&jobs::full()).lease().unwrap().clone();
    let failure = jobs::retrying().life.last_failure.unwrap();
    let last_sign = LastSign {
        worker: lease.worker.clone(),
        scope: Scope::All,
        host: Host::parse("machine-1").ok(),
        at: jobs::at(50),
        left: false,
    };
    let reasons = [
        Reason::QueuePaused { pause: pause() },
        Reason::NoLiveWorker { job_type: job_type.clone(), last_sign: None },
        Reason::NoLiveWorker { job_type, last_sign: Some(last_sign) },
        Reason::WorkersBusy { live_workers: 2 },
        Reason::LeaseVoid {
            worker: lease.worker.clone(),
            since: lease.started_at,
            lease_expires_at: lease.expires_at,
            attempt: 2,
        },
        Reason::NotDue { run_at: jobs::at(60) },
        Reason::RetryWait { run_at: jobs::at(60), attempt: 2, error_code: Some(failure.code) },
        Reason::BehindOthers { ahead: 12 },
        Reason::LimitReached { running: 4, limit: 4 },
        Reason::CancelRequested,
        Reason::Running {
            worker: lease.worker,
            since: lease.started_at,
            lease_expires_at: lease.expires_at,
        },
        Reason::Ended { status: Status::Completed, at: jobs::at(130) },
    ];
    check("explain", &Explanation::new(Status::Queued, &reasons));
}

#[test]
fn the_answers_to_a_worker_s_reports() {
    let until = jobs::at(130);
    let lost = Problem::refused(&Refusal::LeaseLost, &jobs::correlation());
    let leases = vec![
        HeartbeatResult::new(jobs::id(), LeaseState::Extended(until)),
        HeartbeatResult::new(jobs::id(), LeaseState::CancelRequested(until)),
        HeartbeatResult::new(jobs::id(), LeaseState::Lost),
        HeartbeatResult::new(jobs::id(), LeaseState::Ended),
        HeartbeatResult::refused("no id", lost.clone()),
    ];
    check("heartbeat_answer", &HeartbeatAnswer { leases });
    let items = vec![
        SettledItem::settled(jobs::id(), Status::Completed),
        SettledItem::refused(&jobs::id().to_string(), lost),
    ];
    check("settle_answer", &SettleAnswer { items });
    check("step_new", &StepStatus::from(&StepAnswer::New));
    check("step_unfinished", &StepStatus::from(&StepAnswer::Unfinished));
    check("step_done", &StepStatus::from(&StepAnswer::Done(jobs::payload())));
}

#[test]
fn a_type_shows_its_policy_as_a_person_would_write_it() {
    let email = JobType::parse("email").unwrap();
    let mut policy = Policy::default();
    check("type_default", &TypeWithPolicy::new(&email, &policy, PolicySource::Default));
    policy.backoff.factor_hundredths = 150;
    policy.max_queued = Some(10_000);
    policy.concurrency = Some(8);
    check("type_own", &TypeWithPolicy::new(&email, &policy, PolicySource::Api));
    let read = TypePolicy::from(&policy).to_draft().unwrap().check();
    assert_eq!(read, Ok(policy.clone()), "what is shown can be sent back");
    policy.schema = Some(JsonText::from_stored(r#"{"type": "object", "required": ["to"]}"#));
    policy.handler = Some(ReadyMade::Http(HandlerUrl::parse("https://hooks.example/a").unwrap()));
    check("type_http", &TypeWithPolicy::new(&email, &policy, PolicySource::Api));
    let read = TypePolicy::from(&policy).to_draft().unwrap().check();
    assert_eq!(read, Ok(policy.clone()), "what is shown can be sent back");
    policy.handler = Some(ReadyMade::Exec(ExecCommand::parse(&["convert", "-"]).unwrap()));
    let shown = TypeWithPolicy::new(&email, &policy, PolicySource::Api);
    check("type_exec", &shown);
    let text = serde_json::to_string(&shown).unwrap();
    assert_eq!(serde_json::from_str::<TypeWithPolicy>(&text).unwrap(), shown);
    assert_eq!(
        shown.policy.to_draft().unwrap().check(),
        Ok(policy),
        "what is shown can be sent back"
    );
}

#[test]
fn queues_and_workers_and_pages() {
    let queue = QueueStatus {
        job_type: "email".into(),
        queued: 12,
        due: 9,
        oldest_age_seconds: Some(42),
        running: 3,
        poisoned: 1,
        paused: false,
        pauses: vec![QueuePause::from(&pause())],
        live_workers: 2,
        known: true,
    };
    check("queues", &Page { items: vec![queue], next_cursor: None });
    let worker = |state| WorkerStatus {
        worker_id: "worker-1".into(),
        host: Some("node-7".into()),
        job_types: vec!["email".into()],
        running: 3,
        last_seen_at: jobs::at(0).into(),
        state,
    };
    let items = vec![worker(WorkerState::of(true)), worker(WorkerState::of(false))];
    check("workers", &Page { items, next_cursor: Some("bmV4dA".into()) });
}

#[test]
fn the_poison_queue_counts_its_jobs_by_reason() {
    let answer = PoisonAnswer {
        items: vec![JobStatus::from(&jobs::poisoned())],
        next_cursor: Some("bmV4dA".into()),
        counts: [("SMTP_BUSY".into(), 7), ("MESSAGE_UNREADABLE".into(), 1)].into(),
    };
    check("poison", &answer);
    let text = serde_json::to_string(&answer).unwrap();
    let read: PoisonAnswer = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

#[test]
fn a_bulk_action_tells_how_many_it_found() {
    let page = BulkAnswer {
        matched: 12,
        passed_over: 1,
        operation_id: Some("op-1".into()),
        next_cursor: Some("bmV4dA".into()),
    };
    check("bulk_page", &page);
    let counted = BulkAnswer { matched: 12, ..BulkAnswer::default() };
    check("bulk_counted", &counted);
    for answer in [page, counted] {
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<BulkAnswer>(&text).unwrap(), answer);
    }
}

#[test]
fn nodes_say_what_they_do() {
    let node = |state| NodeStatus {
        node_id: "node-7".into(),
        host: Some("box-7".into()),
        pid: Some(4711),
        address: Some("0.0.0.0:8470".into()),
        version: "0.1.0".into(),
        started_at: jobs::at(0).into(),
        last_seen_at: jobs::at(7).into(),
        leader: state == NodeState::Live,
        state,
    };
    let seen = [(true, false), (true, true), (false, false)];
    let items = seen.map(|(live, draining)| node(NodeState::of(live, draining))).into();
    check("nodes", &Page { items, next_cursor: None });
}

#[test]
fn outcomes_are_cloud_events() {
    let ended = jobs::event(EventKind::Completed, jobs::completed(), 130);
    check("event_completed", &CloudEvent::from(&ended));
    let queued = jobs::event(EventKind::Queued, jobs::plain(), 0);
    check("event_queued", &CloudEvent::from(&queued));
}

#[test]
fn secrets_and_payloads_stay_out_of_logs() {
    let job = jobs::running(&jobs::full());
    let claimed = ClaimedJob::new(&job, job.lease().unwrap(), &jobs::payload());
    let logged = format!("{claimed:?}");
    assert!(!logged.contains("example.org"), "{logged}");
    assert!(!logged.contains(&jobs::token(&job).to_string()), "{logged}");
}
