//! Every verb, fed with hostile values: a typed refusal that names the field, no panic.

use crate::fixture::{Fixture, claim_request, refused_fields, status_or_refusal};
use engine::{
    ClaimRequest, EndingDraft, Entropy, Filter, JobDraft, JobId, JobType, LeaseState, LeaseToken,
    Outcome, PolicyDraft, Refusal, ReleaseReason, Scope, StepName, Tenant, Timestamp, WorkerId,
    check_step_result,
};
use platform::{Error, Heartbeat, RedriveOptions, Release, Report, StepReport};
use pollster::block_on;
use std::time::Duration;
use store::{Cursor, Query};

const TOKENS: [LeaseToken; 3] = [
    LeaseToken { epoch: 0, fence: 0, secret: 0 },
    LeaseToken { epoch: 0, fence: 1, secret: 1 },
    LeaseToken { epoch: u32::MAX, fence: u64::MAX, secret: u128::MAX },
];

fn unknown_job() -> JobId {
    JobId::new(Timestamp::MAX, Entropy(u128::MAX))
}

#[test]
fn submits_are_refused_by_field() {
    let fixture = Fixture::new();
    let tenant = Tenant::default_tenant();
    let submit = |drafts| block_on(fixture.platform.submit_all(&tenant, drafts));
    assert_eq!(refused_fields(submit(Vec::new())), ["jobs"]);
    assert_eq!(refused_fields(submit(vec![JobDraft::default(); 1_001])), ["jobs"]);
    assert_eq!(refused_fields(submit(vec![JobDraft::default()])), ["jobType"]);
    let good = JobDraft { job_type: "email".into(), ..JobDraft::default() };
    for text in ["", "\0", "[", "\"\\u0000\"", &"[".repeat(60_000)] {
        let bad = JobDraft { payload: Some(text.into()), ..good.clone() };
        assert_eq!(refused_fields(submit(vec![bad])), ["payload"]);
    }
    let late = JobDraft { run_at: Some(i64::MAX), expires_at: Some(i64::MIN), ..good.clone() };
    let error = submit(vec![good.clone(), late]).unwrap_err();
    assert!(matches!(&error, Error::Refused(Refusal::Item { index: 1, .. })), "{error}");
    assert_eq!(refused_fields::<()>(Err(error)), ["runAt", "expiresAt"]);
    let large = JobDraft { payload: Some("1".repeat(65_537)), ..good.clone() };
    let error = submit(vec![large]).unwrap_err();
    assert!(matches!(error, Error::Refused(Refusal::PayloadTooLarge { bytes: 65_537, .. })));
    let too_late = JobDraft { expires_at: Some(1), ..good };
    assert_eq!(refused_fields(submit(vec![too_late])), ["expiresAt"]);
    let query = Query { scope: Scope::All, filter: Filter::Everything, before: None, limit: 10 };
    assert!(block_on(fixture.platform.list(&query)).unwrap().jobs.is_empty(), "nothing was stored");
}

#[test]
fn claims_are_refused_by_field() {
    let fixture = Fixture::new();
    let claim = |claim_request| block_on(fixture.platform.claim(&Scope::All, claim_request));
    for max in [0, 1_001, usize::MAX] {
        assert_eq!(refused_fields(claim(claim_request("c", max))), ["max"]);
    }
    let mut idle = claim_request("c", 1);
    idle.job_types.clear();
    assert_eq!(refused_fields(claim(idle.clone())), ["jobTypes"]);
    idle.job_types = vec![JobType::parse("x").unwrap(); 101];
    assert_eq!(refused_fields(claim(idle)), ["jobTypes"]);
    for lease in [Duration::ZERO, Duration::from_secs(3_601), Duration::MAX] {
        let odd = ClaimRequest { lease: Some(lease), ..claim_request("c", 1) };
        assert_eq!(refused_fields(claim(odd)), ["leaseSeconds"]);
    }
}

#[test]
fn reports_are_refused_one_by_one() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    fixture.claim("c");
    let scope = Scope::All;
    let ending = EndingDraft::new(Outcome::Completed).check().unwrap();
    let platform = &fixture.platform;
    let worker = WorkerId::parse("w1").unwrap();
    let many = vec![Report { id, token: TOKENS[0], ending: ending.clone() }; 1_001];
    assert_eq!(refused_fields(block_on(platform.settle(&scope, many))), ["items"]);
    let many = vec![Heartbeat { id, token: TOKENS[0], progress: None }; 1_001];
    assert_eq!(refused_fields(block_on(platform.heartbeat(&scope, &worker, many))), ["leases"]);
    let (reason, delay) = (ReleaseReason::Snoozed, Duration::MAX);
    let endless = Release { id, token: TOKENS[0], reason, delay };
    assert_eq!(refused_fields(block_on(platform.release(&scope, vec![endless]))), ["delaySeconds"]);
    for token in TOKENS {
        let report = |id| Report { id, token, ending: ending.clone() };
        let results =
            block_on(platform.settle(&scope, vec![report(id), report(unknown_job())])).unwrap();
        let results: Vec<_> = results.into_iter().map(status_or_refusal).collect();
        assert_eq!(results, [Err(Refusal::LeaseLost), Err(Refusal::JobNotFound)]);
        let back = Release { id, token, reason, delay: Duration::ZERO };
        let mut results = block_on(platform.release(&scope, vec![back])).unwrap();
        assert_eq!(status_or_refusal(results.remove(0)), Err(Refusal::LeaseLost));
        let beat = |id| Heartbeat { id, token, progress: None };
        let beats = vec![beat(id), beat(unknown_job())];
        let lease_states = block_on(platform.heartbeat(&scope, &worker, beats)).unwrap();
        assert!(
            matches!(lease_states[..], [Ok(LeaseState::Lost), Ok(LeaseState::Lost)]),
            "{lease_states:?}"
        );
        let name = StepName::parse("s").unwrap();
        for result in [None, Some(check_step_result("1").unwrap())] {
            let step = StepReport { id, token, name: name.clone(), result };
            let refused = block_on(platform.step(&scope, step));
            assert!(matches!(refused, Err(Error::Refused(Refusal::LeaseLost))));
        }
    }
}

#[test]
fn operators_are_refused_by_field() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    for attempts in [i64::MIN, -1, 0, 101, i64::MAX] {
        let options = RedriveOptions { max_attempts: Some(attempts), ..RedriveOptions::default() };
        let redrive = fixture.platform.redrive(&Scope::All, id, options, None);
        assert_eq!(refused_fields(block_on(redrive)), ["maxAttempts"]);
    }
    let draft = PolicyDraft {
        lease_ms: Some(-1),
        retention_ms: Some(i64::MAX),
        backoff_factor_hundredths: Some(0),
        ..PolicyDraft::default()
    };
    let set = fixture.platform.set_policy(JobType::parse("email").unwrap(), &draft, None);
    assert_eq!(refused_fields(block_on(set)), ["backoff.factor", "lease", "retention"]);
    assert!(block_on(fixture.platform.policies()).unwrap().is_empty());
}

#[test]
fn reads_survive_anything() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    for after in [0, 1, u64::MAX] {
        block_on(fixture.platform.history(&Scope::All, id, after)).unwrap();
        assert!(block_on(fixture.platform.events(after, usize::MAX)).unwrap().is_empty());
    }
    for limit in [0, usize::MAX] {
        for before in [None, Cursor::parse("0-0"), Cursor::parse("ffffffffffffffff-0")] {
            let query = Query { scope: Scope::All, filter: Filter::Everything, before, limit };
            block_on(fixture.platform.list(&query)).unwrap();
        }
    }
}
