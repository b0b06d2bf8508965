//! Why is this job not running? A pure function of facts, so that every answer can be tested.

use crate::{
    count::counted,
    job::{Job, State, Status},
    lease::Lease,
    pause::Pause,
    text::{ErrorCode, JobType, Scope, WorkerId},
    time::Timestamp,
    worker::LastSign,
};

/// Facts about the surroundings of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainFacts {
    /// The store's clock.
    pub now: Timestamp,
    /// The pauses that stop its queue: of all tenants, of its own, or both.
    pub pauses: Vec<Pause>,
    /// How often the store was restored.
    pub epoch: u32,
    /// Live workers that claim its type.
    pub live_workers: u64,
    /// The last sign of life of the workers that claim its type, where there was one.
    pub last_sign: Option<LastSign>,
    /// Due jobs of its queue that come before it.
    pub ahead: u64,
    /// Running jobs of its type.
    pub running: u64,
    /// Slots of its type's ready-made handler, if that is limited.
    pub concurrency: Option<u32>,
}

/// One reason, with what a person needs to act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is spelled out by its detail")]
pub enum Reason {
    NoLiveWorker { job_type: JobType, last_sign: Option<LastSign> },
    NotDue { run_at: Timestamp },
    RetryWait { run_at: Timestamp, attempt: u32, error_code: Option<ErrorCode> },
    QueuePaused { pause: Pause },
    BehindOthers { ahead: u64 },
    LimitReached { running: u64, limit: u32 },
    WorkersBusy { live_workers: u64 },
    CancelRequested,
    Running { worker: WorkerId, since: Timestamp, lease_expires_at: Timestamp },
    LeaseVoid { worker: WorkerId, since: Timestamp, lease_expires_at: Timestamp, attempt: u32 },
    Ended { status: Status, at: Timestamp },
}

impl Reason {
    /// The reason for a reader who sees one tenant. All tenants share the slots: the reader learns
    /// that they are taken, but not how many jobs of other tenants run beyond them. Nor does the
    /// reader learn the machines of workers that all tenants share, or who paused the queues of
    /// all tenants.
    pub fn for_one_tenant(self) -> Self {
        match self {
            Reason::LimitReached { limit, .. } => {
                Reason::LimitReached { running: limit.into(), limit }
            }
            Reason::NoLiveWorker { job_type, last_sign: Some(sign) } => {
                let host = sign.host.filter(|_| sign.scope != Scope::All);
                Reason::NoLiveWorker { job_type, last_sign: Some(LastSign { host, ..sign }) }
            }
            Reason::QueuePaused { pause } => Reason::QueuePaused { pause: pause.for_one_tenant() },
            unchanged @ (Reason::NoLiveWorker { last_sign: None, .. }
            | Reason::NotDue { .. }
            | Reason::RetryWait { .. }
            | Reason::BehindOthers { .. }
            | Reason::WorkersBusy { .. }
            | Reason::CancelRequested
            | Reason::Running { .. }
            | Reason::LeaseVoid { .. }
            | Reason::Ended { .. }) => unchanged,
        }
    }
}

/// All reasons why `job` does not run now, the most lasting one first.
pub fn explain(job: &Job, facts: &ExplainFacts) -> Vec<Reason> {
    match &job.state {
        State::Queued { run_at } => reasons_of_queued(job, *run_at, facts),
        State::Running(lease) => {
            let cancel = job.life.cancel_requested.then_some(Reason::CancelRequested);
            std::iter::once(reason_of_running(job, lease, facts.epoch)).chain(cancel).collect()
        }
        State::Completed(ended)
        | State::Failed(ended)
        | State::Poisoned(ended)
        | State::Cancelled(ended) => vec![Reason::Ended { status: job.status(), at: ended.at }],
    }
}

/// After a restore no worker can settle the job, so it does not run, whatever its status says.
fn reason_of_running(job: &Job, lease: &Lease, epoch: u32) -> Reason {
    let (worker, since, lease_expires_at) =
        (lease.worker.clone(), lease.started_at, lease.expires_at);
    if lease.holds_in(epoch) {
        return Reason::Running { worker, since, lease_expires_at };
    }
    Reason::LeaseVoid { worker, since, lease_expires_at, attempt: job.life.attempt }
}

fn reasons_of_queued(job: &Job, run_at: Timestamp, facts: &ExplainFacts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let job_type = &job.envelope.job_type;
    reasons.extend(facts.pauses.iter().map(|pause| Reason::QueuePaused { pause: pause.clone() }));
    if facts.live_workers == 0 {
        let last_sign = facts.last_sign.clone();
        reasons.push(Reason::NoLiveWorker { job_type: job_type.clone(), last_sign });
    }
    let last_failure = job.life.last_failure.as_ref();
    match (run_at > facts.now, last_failure) {
        (true, Some(failure)) => reasons.push(Reason::RetryWait {
            run_at,
            attempt: job.life.attempt,
            error_code: Some(failure.code.clone()),
        }),
        (true, None) => reasons.push(Reason::NotDue { run_at }),
        (false, _) => {}
    }
    let limit = facts.concurrency.filter(|limit| facts.running >= u64::from(*limit));
    if let Some(limit) = limit {
        reasons.push(Reason::LimitReached { running: facts.running, limit });
    }
    if facts.ahead > 0 {
        reasons.push(Reason::BehindOthers { ahead: facts.ahead });
    }
    // Nothing keeps it, and a waiting claim would have taken it: no live worker asks just now.
    if reasons.is_empty() {
        reasons.push(Reason::WorkersBusy { live_workers: facts.live_workers });
    }
    reasons
}

impl Reason {
    /// The contract's code.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::NoLiveWorker { .. } => "NO_LIVE_WORKER",
            Reason::NotDue { .. } => "NOT_DUE",
            Reason::RetryWait { .. } | Reason::LeaseVoid { .. } => "RETRY_WAIT",
            Reason::QueuePaused { .. } => "QUEUE_PAUSED",
            Reason::BehindOthers { .. } => "BEHIND_OTHERS",
            Reason::LimitReached { .. } | Reason::WorkersBusy { .. } => "LIMIT_REACHED",
            Reason::CancelRequested => "CANCEL_REQUESTED",
            Reason::Running { .. } => "RUNNING",
            Reason::Ended { .. } => "ENDED",
        }
    }

    /// A sentence for people. It has no times: the HTTP API and the command line format those.
    pub fn detail(&self) -> String {
        match self {
            Reason::NoLiveWorker { job_type, last_sign } => no_live_worker(job_type, last_sign),
            Reason::NotDue { .. } => "it was scheduled for later".into(),
            Reason::RetryWait { attempt, error_code, .. } => match error_code {
                Some(code) => {
                    format!("attempt {attempt} failed with {code}; it waits for the next")
                }
                None => format!("attempt {attempt} failed; it waits for the next"),
            },
            Reason::QueuePaused { pause } => pause.sentence(),
            Reason::BehindOthers { ahead } => {
                counted(*ahead, "due job comes before it", "due jobs come before it")
            }
            Reason::LimitReached { running, limit } => {
                let jobs = counted(*running, "job of its type is", "jobs of its type are");
                format!("{jobs} running, and {limit} may")
            }
            Reason::WorkersBusy { live_workers: 1 } => {
                "it is next; the one live worker has not claimed it: its slots may all be taken"
                    .into()
            }
            Reason::WorkersBusy { live_workers } => format!(
                "it is next; none of the {live_workers} live workers has claimed it: their slots may all be taken"
            ),
            Reason::CancelRequested => {
                "it was asked to stop; its worker has not answered yet".into()
            }
            Reason::Running { worker, .. } => format!("{worker} is running it"),
            Reason::LeaseVoid { worker, .. } => format!(
                "the store was restored since {worker} began it, so its lease is void; the job is tried again when the lease ends"
            ),
            Reason::Ended { status, .. } => format!("it has ended: {status}"),
        }
    }
}

fn no_live_worker(job_type: &JobType, last_sign: &Option<LastSign>) -> String {
    match last_sign {
        None => format!("no worker for {job_type} has claimed or sent a heartbeat lately"),
        Some(sign) if sign.left => {
            format!("no worker for {job_type} is live; the last, {}, signed off", sign.who())
        }
        Some(sign) => {
            format!("no worker for {job_type} is live; the last, {}, fell silent", sign.who())
        }
    }
}
