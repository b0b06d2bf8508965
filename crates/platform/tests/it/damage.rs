//! A damaged job affects no other job.

use crate::controlled_store::{ControlledStore, claim_request};
use engine::{
    EndingDraft, JobDraft, JobId, LeaseState, LeaseToken, Outcome, Refusal, ReleaseReason, Scope,
    Status, Tenant, Timestamp, WorkerId,
};
use platform::{Error, Heartbeat, Platform, Release, Report, Settings};
use pollster::block_on;
use std::{sync::Arc, time::Duration};
use store::StoreError;

const JOBS: usize = 9;

struct DamageFixture {
    store: Arc<ControlledStore>,
    platform: Platform,
    /// What was claimed.
    leases: Vec<(JobId, LeaseToken)>,
}

impl DamageFixture {
    /// Nine jobs that run, two of them damaged.
    fn new() -> Self {
        let store = ControlledStore::new();
        let platform = store.platform(Settings::default());
        let email = JobDraft { job_type: "email".into(), ..JobDraft::default() };
        block_on(platform.submit_all(&Tenant::default_tenant(), vec![email; JOBS])).unwrap();
        let claimed =
            block_on(platform.claim(&Scope::All, claim_request("c", &["email"], JOBS))).unwrap();
        let leases = claimed.iter().map(|c| (c.job.id(), c.job.lease().unwrap().token)).collect();
        let fixture = DamageFixture { store, platform, leases };
        DAMAGED.iter().for_each(|index| fixture.store.damage(fixture.leases[*index].0));
        fixture
    }

    fn reports(&self) -> Vec<Report> {
        let ending = EndingDraft::new(Outcome::Completed).check().unwrap();
        let report = |(id, token): &_| Report { id: *id, token: *token, ending: ending.clone() };
        self.leases.iter().map(report).collect()
    }

    fn beats(&self) -> Vec<Heartbeat> {
        self.leases
            .iter()
            .map(|(id, token)| Heartbeat { id: *id, token: *token, progress: None })
            .collect()
    }

    fn worker(&self) -> WorkerId {
        WorkerId::parse("w1").unwrap()
    }
}

const DAMAGED: [usize; 2] = [3, 8];

/// In request order: damaged jobs get the error, the others the expected answer.
#[track_caller]
fn check<T: std::fmt::Debug>(results: &[Result<T, Error>], is_expected: impl Fn(&T) -> bool) {
    assert_eq!(results.len(), JOBS);
    for (index, result) in results.iter().enumerate() {
        match result {
            Ok(result) => {
                assert!(is_expected(result) && !DAMAGED.contains(&index), "{index}: {result:?}")
            }
            Err(Error::Store(StoreError::Damaged(_))) if DAMAGED.contains(&index) => {}
            Err(other) => panic!("{index}: {other:?}"),
        }
    }
}

#[test]
fn reports_are_taken_beside_one_that_cannot_be() {
    let fixture = DamageFixture::new();
    let results = block_on(fixture.platform.settle(&Scope::All, fixture.reports())).unwrap();
    check(&results, |status| *status == Status::Completed);
}

#[test]
fn a_refusal_beside_damage_stays_one() {
    let fixture = DamageFixture::new();
    let mut reports = fixture.reports();
    reports[4].token = LeaseToken { epoch: 0, fence: 0, secret: 0 };
    let mut results = block_on(fixture.platform.settle(&Scope::All, reports)).unwrap();
    let refused = std::mem::replace(&mut results[4], Ok(Status::Completed));
    assert!(matches!(refused, Err(Error::Refused(Refusal::LeaseLost))), "{refused:?}");
    check(&results, |status| *status == Status::Completed);
}

#[test]
fn jobs_are_given_back_beside_one_that_cannot_be() {
    let fixture = DamageFixture::new();
    let back = |(id, token): &(JobId, LeaseToken)| Release {
        id: *id,
        token: *token,
        reason: ReleaseReason::Released,
        delay: Duration::ZERO,
    };
    let releases = fixture.leases.iter().map(back).collect();
    let results = block_on(fixture.platform.release(&Scope::All, releases)).unwrap();
    check(&results, |status| *status == Status::Queued);
}

#[test]
fn leases_are_kept_beside_one_that_cannot_be() {
    let fixture = DamageFixture::new();
    let lease_states =
        block_on(fixture.platform.heartbeat(&Scope::All, &fixture.worker(), fixture.beats()));
    check(
        &lease_states.unwrap(),
        |lease_state| matches!(lease_state, LeaseState::Extended(until) if *until > Timestamp::default()),
    );
}

#[test]
fn damaged_jobs_do_not_stop_the_sweep_of_others() {
    let fixture = DamageFixture::new();
    fixture.store.clock.pass(Duration::from_secs(3_600));
    let mut swept = block_on(fixture.platform.sweep()).unwrap().jobs;
    swept.sort();
    let sound = fixture.leases.iter().enumerate().filter(|(index, _)| !DAMAGED.contains(index));
    let mut sound: Vec<JobId> = sound.map(|(_, (id, _))| *id).collect();
    sound.sort();
    assert_eq!(swept, sound);
}

#[test]
fn a_damaged_job_settled_alone_fails_as_an_item() {
    let fixture = DamageFixture::new();
    let report = fixture.reports().remove(DAMAGED[0]);
    let results = block_on(fixture.platform.settle(&Scope::All, vec![report])).unwrap();
    assert!(matches!(results[..], [Err(Error::Store(StoreError::Damaged(_)))]), "{results:?}");
}

#[test]
fn a_page_without_damage_is_one_transaction() {
    let fixture = DamageFixture::new();
    let before = fixture.store.batches().len();
    let mut reports = fixture.reports();
    reports.truncate(DAMAGED[0]);
    block_on(fixture.platform.settle(&Scope::All, reports)).unwrap();
    assert_eq!(fixture.store.batches().len(), before + 1);
    assert!(block_on(fixture.platform.settle(&Scope::All, Vec::new())).unwrap().is_empty());
    assert_eq!(fixture.store.batches().len(), before + 1, "nothing needs none");
}

#[test]
fn a_settle_that_saved_nothing_reports_an_unavailable_store() {
    let fixture = DamageFixture::new();
    fixture.store.fail_after(1, || StoreError::Unavailable(None));
    let settled = block_on(fixture.platform.settle(&Scope::All, fixture.reports()));
    assert!(matches!(settled, Err(Error::Store(StoreError::Unavailable(_)))), "{settled:?}");
}

#[test]
fn a_settle_that_fails_halfway_has_an_unknown_outcome() {
    let fixture = DamageFixture::new();
    // All nine, the left four, and the left two of them, which succeed.
    fixture.store.fail_after(3, || StoreError::Unavailable(None));
    let settled = block_on(fixture.platform.settle(&Scope::All, fixture.reports()));
    assert!(matches!(settled, Err(Error::OutcomeUnknown { .. })), "{settled:?}");
    let status = |index: usize| {
        let (id, _) = fixture.leases[index];
        block_on(fixture.platform.job(&Scope::All, id)).unwrap().status()
    };
    assert_eq!(
        [status(0), status(1), status(2)],
        [Status::Completed, Status::Completed, Status::Running]
    );
}
