//! A platform over an empty memory store, with a manual clock.

use engine::{
    AuditEntry, AuditFilter, ClaimId, ClaimRequest, EndingDraft, JobDraft, JobId, JobType, Outcome,
    Refusal, Scope, Status, Tenant, Timestamp, WorkerId,
};
use platform::{AuditQuery, Error, Platform, Report, Settings, SettleResult};
use pollster::block_on;
use std::sync::Arc;
use store::{Claimed, ManualClock, Memory, SeededRandom};

pub(crate) struct Fixture {
    pub(crate) platform: Platform,
    pub(crate) clock: Arc<ManualClock>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
        let random = Arc::new(SeededRandom::new(1));
        let store = Arc::new(Memory::new(clock.clone(), random.clone()));
        let platform = Platform::new(store, clock.clone(), random, Settings::default());
        Fixture { platform, clock }
    }

    pub(crate) fn submit(&self) -> JobId {
        let draft = JobDraft { job_type: "email".into(), ..JobDraft::default() };
        block_on(self.platform.submit(&Tenant::default_tenant(), draft)).unwrap().job_id
    }

    pub(crate) fn claim(&self, name: &str) -> Vec<Claimed> {
        block_on(self.platform.claim(&Scope::All, claim_request(name, 10))).unwrap()
    }

    pub(crate) fn settle(&self, claimed: &Claimed, word: Outcome) -> Result<Status, Refusal> {
        let token = claimed.job.lease().unwrap().token;
        let draft = EndingDraft { retry_after_seconds: Some(0), ..EndingDraft::new(word) };
        let report = Report { id: claimed.job.id(), token, ending: draft.check().unwrap() };
        status_or_refusal(
            block_on(self.platform.settle(&Scope::All, vec![report])).unwrap().remove(0),
        )
    }
}

/// The result of one report, over a store without damage.
#[track_caller]
/// The newest entries of the audit log.
pub(crate) fn audit(platform: &Platform, scope: Scope) -> Vec<AuditEntry> {
    let query = AuditQuery { scope, filter: AuditFilter::default(), before: None, limit: 100 };
    block_on(platform.audit(&query)).unwrap().entries
}

pub(crate) fn status_or_refusal(result: SettleResult) -> Result<Status, Refusal> {
    result.map_err(|error| match error {
        Error::Refused(refusal) => refusal,
        Error::Store(_) | Error::OutcomeUnknown { .. } => panic!("not a refusal: {error}"),
    })
}

pub(crate) fn claim_request(name: &str, max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::parse("w1").unwrap(),
        host: None,
        claim: ClaimId::parse(name).unwrap(),
        job_types: vec![JobType::parse("email").unwrap()],
        max,
        lease: None,
    }
}

/// The fields that a refusal names.
#[track_caller]
pub(crate) fn refused_fields<T>(outcome: Result<T, Error>) -> Vec<&'static str> {
    match outcome {
        Err(Error::Refused(refusal)) => refusal.problems().iter().map(|p| p.field).collect(),
        Err(other) => panic!("not a refusal: {other}"),
        Ok(_) => panic!("it was accepted"),
    }
}
