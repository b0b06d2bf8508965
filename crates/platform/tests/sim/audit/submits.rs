//! What producers submitted, and the answers they got; idempotency keys above all.

use super::{AuditResult, Auditor, ensure, watch::JobWatch};
use engine::{JobId, JobType, Status, Submitted, Tenant, Timestamp};
use platform::Error;
use std::time::Duration;

/// A job as a producer submitted it.
#[derive(Clone, Debug)]
pub(crate) struct SubmittedJob {
    pub(crate) tenant: Tenant,
    pub(crate) job_type: JobType,
    pub(crate) key: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) payload: String,
    pub(crate) run_at: Option<Timestamp>,
    pub(crate) delay: Option<Duration>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) priority: i64,
}

impl SubmittedJob {
    fn same_content(&self, other: &SubmittedJob) -> bool {
        (&self.subject, &self.payload) == (&other.subject, &other.payload)
    }

    fn same_key(&self, other: &SubmittedJob) -> bool {
        self.key.is_some()
            && (&self.tenant, &self.job_type, &self.key)
                == (&other.tenant, &other.job_type, &other.key)
    }
}

impl Auditor {
    /// Records a producer's answer. Called before the read, so that the jobs are expected.
    pub(crate) fn record_submits(
        &mut self,
        submitted_jobs: &[SubmittedJob],
        answer: &Result<Vec<Submitted>, Error>,
    ) {
        match answer {
            Ok(answers) => {
                for (submitted_job, answer) in submitted_jobs.iter().zip(answers) {
                    self.touch(answer.job_id);
                    if !answer.duplicate {
                        self.expect(answer.job_id, submitted_job, true);
                    }
                }
            }
            Err(Error::OutcomeUnknown { jobs, .. }) => {
                for (submitted_job, id) in submitted_jobs.iter().zip(jobs) {
                    self.expect(*id, submitted_job, false);
                    self.touch(*id);
                }
            }
            // A definite failure: if the job exists all the same, it is unexpected, and I2 breaks.
            Err(Error::Refused(_) | Error::Store(_)) => {}
        }
    }

    fn expect(&mut self, id: JobId, submitted_job: &SubmittedJob, acknowledged: bool) {
        self.jobs.insert(id, JobWatch::new(submitted_job.clone(), acknowledged));
    }

    /// The same, after the read: were keys respected?
    pub(crate) fn audit_submits(
        &self,
        submitted_jobs: &[SubmittedJob],
        answer: &Result<Vec<Submitted>, Error>,
    ) -> AuditResult {
        match answer {
            Ok(answers) => {
                for (submitted_job, answer) in submitted_jobs.iter().zip(answers) {
                    if answer.duplicate {
                        self.check_same_job(submitted_job, answer.job_id)?;
                    } else {
                        self.check_key_is_unique(submitted_job, answer.job_id)?;
                        self.check_queue_limit(submitted_job)?;
                    }
                }
                Ok(())
            }
            Err(Error::Refused(refusal)) if refusal.code() == "IDEMPOTENCY_KEY_REUSED" => {
                let differs = |watch: &&JobWatch, submitted_job: &SubmittedJob| {
                    watch.exists()
                        && watch.submitted_job.same_key(submitted_job)
                        && !watch.submitted_job.same_content(submitted_job)
                };
                let reused = |submitted_job: &SubmittedJob| {
                    self.jobs.values().any(|w| differs(&w, submitted_job))
                };
                // Within one list two jobs may share a key, too.
                let is_reused_within = submitted_jobs
                    .iter()
                    .any(|a| submitted_jobs.iter().any(|b| a.same_key(b) && !a.same_content(b)));
                ensure(is_reused_within || submitted_jobs.iter().any(reused), "I11", || {
                    "a fresh key was refused".into()
                })
            }
            Err(Error::OutcomeUnknown { jobs, .. }) => {
                for (submitted_job, id) in submitted_jobs.iter().zip(jobs) {
                    if self.jobs.get(id).is_some_and(JobWatch::exists) {
                        self.check_key_is_unique(submitted_job, *id)?;
                    }
                }
                Ok(())
            }
            Err(Error::Refused(_) | Error::Store(_)) => Ok(()),
        }
    }

    /// The queue was not full. Jobs that started or were retried since do not count: the jobs of
    /// one step are judged by what waits after it.
    fn check_queue_limit(&self, submitted_job: &SubmittedJob) -> AuditResult {
        let Some(max) = self.policies[&submitted_job.job_type].max_queued else { return Ok(()) };
        let new_jobs = self.jobs.values().filter(|watch| {
            let same = (&watch.submitted_job.tenant, &watch.submitted_job.job_type)
                == (&submitted_job.tenant, &submitted_job.job_type);
            same && watch.status() == Some(Status::Queued) && watch.rows.len() == 1
        });
        let new_jobs = new_jobs.count() as u64;
        ensure(new_jobs <= max, "I17", || format!("{new_jobs} jobs wait where {max} may"))
    }

    fn check_same_job(&self, submitted_job: &SubmittedJob, id: JobId) -> AuditResult {
        let first = self.jobs.get(&id).filter(|watch| watch.exists());
        let same = first.is_some_and(|first| {
            first.submitted_job.same_key(submitted_job)
                && first.submitted_job.same_content(submitted_job)
        });
        ensure(same, "I11", || format!("{id} is called a duplicate, but is another job"))?;
        let ended = first.and_then(|first| first.last_read.as_ref()?.ended_at());
        let window = self.policies[&submitted_job.job_type].key_window;
        let free = ended.is_some_and(|ended| ended + window <= self.latest);
        ensure(!free, "I11", || format!("{id} still has a key whose time is over"))
    }

    /// No other job had the key when this job began.
    fn check_key_is_unique(&self, submitted_job: &SubmittedJob, id: JobId) -> AuditResult {
        let window = self.policies[&submitted_job.job_type].key_window;
        let Some(submitted_at) = self.jobs[&id].rows.first().map(|row| row.at) else {
            return Ok(());
        };
        for (other, watch) in &self.jobs {
            if *other == id || !watch.exists() || !watch.submitted_job.same_key(submitted_job) {
                continue;
            }
            let last_read = watch.last_read.as_ref().expect("it is there");
            let since = last_read.envelope.created_at;
            let free = last_read.ended_at().is_some_and(|ended| ended + window <= submitted_at);
            // A redriven job goes on without its key when another job took the key meanwhile.
            let has_lost_key = self.jobs.iter().any(|(third, watch)| {
                let queued_rows = watch.rows.iter().filter(|row| row.to == Status::Queued);
                let mut queued_rows = queued_rows.filter(|row| row.from != Some(Status::Running));
                *third != id
                    && third != other
                    && watch.submitted_job.same_key(submitted_job)
                    && queued_rows.any(|row| since < row.at && row.at <= submitted_at)
            });
            ensure(since > submitted_at || free || has_lost_key, "I11", || {
                format!("{other} and {id} share a key")
            })?;
        }
        Ok(())
    }
}
