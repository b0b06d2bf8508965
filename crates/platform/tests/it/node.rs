//! The maintenance of a running node.

use engine::{
    ClaimId, ClaimRequest, EndingDraft, JobDraft, JobType, Outcome, PolicyDraft, ReleaseReason,
    Scope, Start, Status, Tenant, WorkerId,
};
use platform::{Node, Release, Report, Settings, SystemClock, SystemRandom};
use pollster::block_on;
use std::{sync::Arc, thread, time::Duration};
use store::{Clock, Memory};

fn node() -> Node {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let store = Arc::new(Memory::new(clock.clone(), random.clone()));
    Node::start(store, clock, random, Settings::default()).unwrap()
}

fn email(delay_seconds: Option<i64>) -> JobDraft {
    JobDraft { job_type: "email".into(), delay_seconds, ..JobDraft::default() }
}

fn claim_request(claim: &str) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::parse("w").unwrap(),
        host: None,
        claim: ClaimId::parse(claim).unwrap(),
        job_types: vec![JobType::parse("email").unwrap()],
        max: 1,
        lease: Some(Duration::from_secs(1)),
    }
}

#[test]
fn a_waiting_claim_gets_a_job_when_it_is_due() {
    let (node, clock) = (node(), SystemClock::new());
    let claim = node.claim_waiting(Scope::All, claim_request("1"));
    let id = block_on(node.submit(&Tenant::default_tenant(), email(Some(1)))).unwrap().job_id;
    let claimed = block_on(claim).unwrap();
    assert_eq!(claimed[0].job.id(), id);
    let waited = clock.read().monotonic;
    assert!(waited >= Duration::from_secs(1), "never early: {waited:?}");
    assert!(
        waited < Duration::from_secs(20),
        "maintenance woke it, not the periodic wake-up of all claims: {waited:?}"
    );
}

#[test]
fn a_worker_that_falls_silent_loses_its_job_to_one_that_waits() {
    let node = node();
    let quick = PolicyDraft { backoff_base_ms: Some(0), ..PolicyDraft::default() };
    block_on(node.set_policy(JobType::parse("email").unwrap(), &quick, None)).unwrap();
    let id = block_on(node.submit(&Tenant::default_tenant(), email(None))).unwrap().job_id;
    let silent = block_on(node.claim_waiting(Scope::All, claim_request("1"))).unwrap();
    let next = block_on(node.claim_waiting(Scope::All, claim_request("2"))).unwrap();
    assert_eq!((silent[0].job.id(), next[0].job.id()), (id, id));
    assert!(next[0].job.lease().unwrap().token > silent[0].job.lease().unwrap().token);
    let history = block_on(node.history(&Scope::All, id, 0)).unwrap();
    assert_eq!(history[2].error_code.as_ref().unwrap().as_str(), "LEASE_EXPIRED");
}

#[test]
fn announcements_are_numbered_by_itself() {
    let node = node();
    block_on(node.submit(&Tenant::default_tenant(), email(None))).unwrap();
    let clock = SystemClock::new();
    while block_on(node.events(0, 10)).unwrap().is_empty() {
        assert!(clock.read().monotonic < Duration::from_secs(30), "waited in vain");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_closed_node_answers_waiting_claims_and_refuses_submits() {
    let node = node();
    let claim = node.claim_waiting(Scope::All, claim_request("1"));
    node.close();
    assert_eq!(block_on(claim).unwrap(), []);
    assert!(block_on(node.submit(&Tenant::default_tenant(), email(None))).is_err());
}

#[test]
fn the_catalogue_knows_types_that_were_declared_and_types_that_came() {
    let node = node();
    let strict = PolicyDraft { max_attempts: Some(1), ..PolicyDraft::default() };
    block_on(node.set_policy(JobType::parse("invoice").unwrap(), &strict, None)).unwrap();
    block_on(node.submit(&Tenant::default_tenant(), email(None))).unwrap();
    let types = block_on(node.types(&Scope::All)).unwrap();
    let types_found: Vec<_> =
        types.iter().map(|t| (t.job_type.as_str(), t.declared, t.policy.max_attempts)).collect();
    assert_eq!(types_found, [("email", false, 3), ("invoice", true, 1)]);
    let job = block_on(node.submit(
        &Tenant::default_tenant(),
        JobDraft { job_type: "invoice".into(), ..JobDraft::default() },
    ));
    let job = block_on(node.job(&Scope::All, job.unwrap().job_id)).unwrap();
    assert_eq!((job.status(), job.max_attempts), (Status::Queued, 1));
}

#[test]
fn retry_after_follows_the_measured_rate() {
    let node = node();
    let (tenant, job_type) = (Tenant::default_tenant(), JobType::parse("email").unwrap());
    let soon = || node.retry_after_submit(&tenant, &job_type, Start::Now).as_secs();
    assert_eq!(soon(), 1, "no worker is there");
    let ids: Vec<_> =
        (0..3).map(|_| block_on(node.submit(&tenant, email(None))).unwrap().job_id).collect();
    let clock = SystemClock::new();
    let waited = || assert!(clock.read().monotonic < Duration::from_secs(30), "waited in vain");
    while soon() == 1 {
        waited(); // maintenance has not run yet
        thread::sleep(Duration::from_millis(5));
    }
    let job = |id| block_on(node.job(&Scope::All, id)).unwrap();
    assert_eq!(node.retry_after(&job(ids[0])), Some(Duration::from_secs(5)), "nothing moved yet");
    block_on(node.cancel(&Scope::All, ids[0], None)).unwrap();
    assert_eq!(node.retry_after(&job(ids[0])), None, "an ended job does not change");
    while soon() == 5 {
        waited();
        thread::sleep(Duration::from_millis(5));
    }
    let later = Start::After(Duration::from_secs(90));
    assert_eq!(node.retry_after_submit(&tenant, &job_type, later), Duration::from_secs(90));
}

#[test]
fn a_parent_goes_on_as_soon_as_its_last_child_has_ended() {
    let (node, clock) = (node(), SystemClock::new());
    let tenant = Tenant::default_tenant();
    for round in 0..20 {
        let parent = block_on(node.submit(&tenant, email(None))).unwrap().job_id;
        let claimed = block_on(node.claim(&Scope::All, claim_request("first"))).unwrap();
        let child = JobDraft {
            job_type: "child".into(),
            parent_id: Some(parent.to_string()),
            ..JobDraft::default()
        };
        let child = block_on(node.submit(&tenant, child)).unwrap().job_id;
        let release = Release {
            id: parent,
            token: claimed[0].job.lease().unwrap().token,
            reason: ReleaseReason::AwaitsChildren,
            delay: Duration::ZERO,
        };
        block_on(node.release(&Scope::All, vec![release])).unwrap()[0].as_ref().unwrap();
        let waiting = node.claim_waiting(Scope::All, claim_request(&format!("again-{round}")));
        block_on(node.cancel(&Scope::All, child, None)).unwrap();
        let resumed = block_on(waiting).unwrap();
        assert_eq!((resumed[0].job.id(), resumed[0].job.life.attempt), (parent, 1));
        let token = resumed[0].job.lease().unwrap().token;
        let ending = EndingDraft::new(Outcome::Completed).check().unwrap();
        let report = Report { id: parent, token, ending };
        block_on(node.settle(&Scope::All, vec![report])).unwrap()[0].as_ref().unwrap();
    }
    let took = clock.read().monotonic;
    assert!(took < Duration::from_secs(10), "each waited for a sweep, a second: {took:?}");
}
