//! A node over a store in memory, with the helpers that tests share.

use engine::{HistoryEntry, Job, JobId, JobType, PolicyDraft, Scope, Status, Tenant};
use platform::{Node, Settings, SystemClock, SystemRandom};
use std::{sync::Arc, time::Duration};
use store::{FaultInjector, Memory, Store};
use worker::{JobRequest, Runner, RunnerHandle};

pub(crate) struct Fixture {
    pub(crate) node: Arc<Node>,
}

/// Longer than anything lawful takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

impl Fixture {
    pub(crate) fn open() -> Self {
        Fixture::over(memory())
    }

    pub(crate) fn over(store: Arc<dyn Store>) -> Self {
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let node = Node::start(store, clock, random, Settings::default()).unwrap();
        Fixture { node: Arc::new(node) }
    }

    /// The same, where a test chooses the batches that fail.
    pub(crate) fn with_faults(store: Arc<dyn Store>) -> (Self, Arc<FaultInjector>) {
        let faults = Arc::new(FaultInjector::new(store.clone()));
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let node = Node::start_with(faults.clone(), store, clock, random, Settings::default());
        (Fixture { node: Arc::new(node.unwrap()) }, faults)
    }

    pub(crate) fn runner(&self) -> Runner {
        Runner::new(&self.node)
    }

    pub(crate) async fn submit(&self, request: JobRequest) -> JobId {
        let draft = request.into_draft().unwrap();
        self.node.submit(&Tenant::default_tenant(), draft).await.unwrap().job_id
    }

    pub(crate) async fn job(&self, id: JobId) -> Job {
        self.node.job(&Scope::All, id).await.unwrap()
    }

    pub(crate) async fn history(&self, id: JobId) -> Vec<HistoryEntry> {
        self.node.history(&Scope::All, id, 0).await.unwrap()
    }

    /// Each row of a job's history: the new status and the error code.
    pub(crate) async fn history_lines(&self, id: JobId) -> Vec<String> {
        let rows = self.history(id).await.into_iter();
        rows.map(|row| match row.error_code {
            Some(code) => format!("{} {code}", row.to),
            None => row.to.to_string(),
        })
        .collect()
    }

    pub(crate) async fn wait_for(&self, id: JobId, status: Status) -> Job {
        eventually(&format!("the job is {status}"), async || self.job(id).await.status() == status)
            .await;
        self.job(id).await
    }

    pub(crate) async fn set_policy(&self, job_type: &str, policy: PolicyDraft) {
        self.node.set_policy(JobType::parse(job_type).unwrap(), &policy, None).await.unwrap();
    }
}

pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(Memory::new(Arc::new(SystemClock::new()), Arc::new(SystemRandom)))
}

/// Short leases and short waits, to keep tests fast.
pub(crate) fn short_policy() -> PolicyDraft {
    PolicyDraft {
        lease_ms: Some(1_000),
        timeout_ms: Some(1_000),
        backoff_base_ms: Some(10),
        max_attempts: Some(2),
        ..PolicyDraft::default()
    }
}

pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("timed out: {what}"));
}

/// Checks that every slot is free, all reports are taken, no thread is lost, and jobs run.
pub(crate) async fn check_full_strength(fixture: &Fixture, runner: &RunnerHandle, job_type: &str) {
    eventually("all slots are free", async || {
        let stats = runner.stats();
        stats.running == 0 && stats.unreported == 0
    })
    .await;
    let slots = runner.stats().slots;
    let mut jobs = Vec::new();
    for _ in 0..3 * slots {
        jobs.push(fixture.submit(JobRequest::new(job_type, &"fine")).await);
    }
    for job in jobs {
        fixture.wait_for(job, Status::Completed).await;
    }
}
