//! A job as a ready-made handler gets it.

use wire::JobShape;

/// One attempt at one job, for a program or an address that knows nothing of us.
#[derive(Clone)]
pub struct Errand {
    /// The job as `GET /api/jobs/{id}` shows it, with its payload: what is handed over.
    pub json: String,
    /// Its name.
    pub job_id: String,
    /// Which kind of work it is.
    pub job_type: String,
    /// What it belongs to.
    pub correlation_id: String,
    /// What it is about.
    pub subject_id: Option<String>,
    /// The trace that it was handed over in.
    pub traceparent: Option<String>,
    /// 1 during the first attempt.
    pub attempt: u32,
    /// How often it was redriven: the number of its life.
    pub redrive_count: u32,
}

impl Errand {
    /// The errand that running `job` is. Its shape should have its payload.
    pub fn new(job: &JobShape) -> Self {
        let json = serde_json::to_string(job);
        Errand {
            json: json.expect("the shapes of the wire can always be written"),
            job_id: job.base.job_id.clone(),
            job_type: job.base.job_type.clone(),
            correlation_id: job.base.correlation_id.clone(),
            subject_id: job.base.subject_id.clone(),
            traceparent: job.more.traceparent.clone(),
            attempt: job.base.attempt,
            redrive_count: job.base.redrive_count,
        }
    }
}
