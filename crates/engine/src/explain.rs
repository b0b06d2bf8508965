//! Why is this job not running? A pure function of facts, so that every answer can be tested.

use crate::{
    job::{Job, State, Status},
    pause::Pause,
    text::{ErrorCode, JobType, WorkerId},
    time::Timestamp,
};

/// Facts about the surroundings of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainFacts {
    /// The store's clock.
    pub now: Timestamp,
    /// The pauses that stop its queue: of all tenants, of its own, or both.
    pub pauses: Vec<Pause>,
    /// Live workers that claim its type.
    pub live_workers: u64,
    /// Due jobs of its queue that come before it.
    pub ahead: u64,
    /// Running jobs of its type.
    pub running: u64,
    /// Slots of its type's ready-made handler, if that is limited.
    pub concurrency: Option<u32>,
    /// Its children that have not ended, if it waits for them.
    pub live_children: u64,
}

/// One reason, with what a person needs to act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is spelled out by its detail")]
pub enum Reason {
    NoLiveWorker { job_type: JobType },
    NotDue { run_at: Timestamp },
    RetryWait { run_at: Timestamp, attempt: u32, error_code: Option<ErrorCode> },
    QueuePaused { pause: Pause },
    BehindOthers { ahead: u64 },
    LimitReached { running: u64, limit: u32 },
    WaitingForChildren { live: u64, since: Timestamp },
    CancelRequested,
    Running { worker: WorkerId, since: Timestamp, lease_expires_at: Timestamp },
    Ended { status: Status, at: Timestamp },
}

impl Reason {
    /// The reason for a reader who sees one tenant. All tenants share the slots: the reader learns
    /// that they are taken, but not how many jobs of other tenants run beyond them.
    pub fn for_one_tenant(self) -> Self {
        if let Reason::LimitReached { limit, .. } = self {
            return Reason::LimitReached { running: limit.into(), limit };
        }
        self
    }
}

/// All reasons why `job` does not run now, the most lasting one first.
pub fn explain(job: &Job, facts: &ExplainFacts) -> Vec<Reason> {
    match &job.state {
        State::Queued { run_at } => reasons_of_queued(job, *run_at, facts),
        State::AwaitingChildren { since } => {
            vec![Reason::WaitingForChildren { live: facts.live_children, since: *since }]
        }
        State::Running(lease) => {
            let running = Reason::Running {
                worker: lease.worker.clone(),
                since: lease.started_at,
                lease_expires_at: lease.expires_at,
            };
            let cancel = job.life.cancel_requested.then_some(Reason::CancelRequested);
            std::iter::once(running).chain(cancel).collect()
        }
        State::Completed(ended)
        | State::Failed(ended)
        | State::Poisoned(ended)
        | State::Cancelled(ended) => vec![Reason::Ended { status: job.status(), at: ended.at }],
    }
}

fn reasons_of_queued(job: &Job, run_at: Timestamp, facts: &ExplainFacts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let job_type = &job.envelope.job_type;
    reasons.extend(facts.pauses.iter().map(|pause| Reason::QueuePaused { pause: pause.clone() }));
    if facts.live_workers == 0 {
        reasons.push(Reason::NoLiveWorker { job_type: job_type.clone() });
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
    // Only its position in the queue keeps it waiting, even if it is the first.
    if facts.ahead > 0 || reasons.is_empty() {
        reasons.push(Reason::BehindOthers { ahead: facts.ahead });
    }
    reasons
}

impl Reason {
    /// The contract's code.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::NoLiveWorker { .. } => "NO_LIVE_WORKER",
            Reason::NotDue { .. } => "NOT_DUE",
            Reason::RetryWait { .. } => "RETRY_WAIT",
            Reason::QueuePaused { .. } => "QUEUE_PAUSED",
            Reason::BehindOthers { .. } => "BEHIND_OTHERS",
            Reason::LimitReached { .. } => "LIMIT_REACHED",
            Reason::WaitingForChildren { .. } => "WAITING_FOR_CHILDREN",
            Reason::CancelRequested => "CANCEL_REQUESTED",
            Reason::Running { .. } => "RUNNING",
            Reason::Ended { .. } => "ENDED",
        }
    }

    /// A sentence for people. It has no times: the HTTP API and the command line format those.
    pub fn detail(&self) -> String {
        match self {
            Reason::NoLiveWorker { job_type } => {
                format!("no worker for {job_type} has claimed or sent a heartbeat lately")
            }
            Reason::NotDue { .. } => "it was scheduled for later".into(),
            Reason::RetryWait { attempt, error_code, .. } => match error_code {
                Some(code) => {
                    format!("attempt {attempt} failed with {code}; it waits for the next")
                }
                None => format!("attempt {attempt} failed; it waits for the next"),
            },
            Reason::QueuePaused { pause } => pause.sentence(),
            Reason::BehindOthers { ahead: 0 } => "it is next in line".into(),
            Reason::BehindOthers { ahead: 1 } => "1 due job comes before it".into(),
            Reason::BehindOthers { ahead } => format!("{ahead} due jobs come before it"),
            Reason::LimitReached { running, limit } => {
                format!("{running} jobs of its type are running, and {limit} may")
            }
            Reason::WaitingForChildren { live: 0, .. } => {
                "its last child has just ended; it is queued again within a second".into()
            }
            Reason::WaitingForChildren { live: 1, .. } => {
                "it waits for 1 child that has not ended".into()
            }
            Reason::WaitingForChildren { live, .. } => {
                format!("it waits for {live} children that have not ended")
            }
            Reason::CancelRequested => {
                "it was asked to stop; its worker has not answered yet".into()
            }
            Reason::Running { worker, .. } => format!("{worker} is running it"),
            Reason::Ended { status, .. } => format!("it has ended: {status}"),
        }
    }
}
