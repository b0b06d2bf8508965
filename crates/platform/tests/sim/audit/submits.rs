//! What producers submitted, and the answers they got; idempotency keys above all.

use super::{Auditor, Verdict, ensure, watch::Watch};
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
    pub(crate) fn submitted(
        &mut self,
        asked: &[SubmittedJob],
        heard: &Result<Vec<Submitted>, Error>,
    ) {
        match heard {
            Ok(answers) => {
                for (asked, answer) in asked.iter().zip(answers) {
                    self.touch(answer.job_id);
                    if !answer.duplicate {
                        self.expect(answer.job_id, asked, true);
                    }
                }
            }
            Err(Error::OutcomeUnknown { jobs, .. }) => {
                for (asked, id) in asked.iter().zip(jobs) {
                    self.expect(*id, asked, false);
                    self.touch(*id);
                }
            }
            // A definite failure: if the job exists all the same, it is unexpected, and I2 breaks.
            Err(Error::Refused(_) | Error::Store(_)) => {}
        }
    }

    fn expect(&mut self, id: JobId, asked: &SubmittedJob, acknowledged: bool) {
        self.jobs.insert(id, Watch::new(asked.clone(), acknowledged));
    }

    /// The same, after the read: were keys respected?
    pub(crate) fn audit_submits(
        &self,
        asked: &[SubmittedJob],
        heard: &Result<Vec<Submitted>, Error>,
    ) -> Verdict {
        match heard {
            Ok(answers) => {
                for (asked, answer) in asked.iter().zip(answers) {
                    if answer.duplicate {
                        self.is_the_same_job(asked, answer.job_id)?;
                    } else {
                        self.has_the_key_alone(asked, answer.job_id)?;
                        self.had_room(asked)?;
                    }
                }
                Ok(())
            }
            Err(Error::Refused(refusal)) if refusal.code() == "IDEMPOTENCY_KEY_REUSED" => {
                let differs = |watch: &&Watch, asked: &SubmittedJob| {
                    watch.is_there()
                        && watch.asked.same_key(asked)
                        && !watch.asked.same_content(asked)
                };
                let reused = |asked: &SubmittedJob| self.jobs.values().any(|w| differs(&w, asked));
                // Within one list two jobs may share a key, too.
                let among =
                    asked.iter().any(|a| asked.iter().any(|b| a.same_key(b) && !a.same_content(b)));
                ensure(among || asked.iter().any(reused), "I11", || {
                    "a fresh key was refused".into()
                })
            }
            Err(Error::OutcomeUnknown { jobs, .. }) => {
                for (asked, id) in asked.iter().zip(jobs) {
                    if self.jobs.get(id).is_some_and(Watch::is_there) {
                        self.has_the_key_alone(asked, *id)?;
                    }
                }
                Ok(())
            }
            Err(Error::Refused(_) | Error::Store(_)) => Ok(()),
        }
    }

    /// The queue was not full. Jobs that started or were retried since do not count: the jobs of
    /// one step are judged by what waits after it.
    fn had_room(&self, asked: &SubmittedJob) -> Verdict {
        let Some(max) = self.policies[&asked.job_type].max_queued else { return Ok(()) };
        let fresh = self.jobs.values().filter(|watch| {
            let same =
                (&watch.asked.tenant, &watch.asked.job_type) == (&asked.tenant, &asked.job_type);
            same && watch.status() == Some(Status::Queued) && watch.rows.len() == 1
        });
        let fresh = fresh.count() as u64;
        ensure(fresh <= max, "I17", || format!("{fresh} jobs wait where {max} may"))
    }

    fn is_the_same_job(&self, asked: &SubmittedJob, id: JobId) -> Verdict {
        let first = self.jobs.get(&id).filter(|watch| watch.is_there());
        let same = first
            .is_some_and(|first| first.asked.same_key(asked) && first.asked.same_content(asked));
        ensure(same, "I11", || format!("{id} is called a duplicate, but is another job"))?;
        let ended = first.and_then(|first| first.seen.as_ref()?.ended_at());
        let window = self.policies[&asked.job_type].key_window;
        let free = ended.is_some_and(|ended| ended + window <= self.latest);
        ensure(!free, "I11", || format!("{id} still has a key whose time is over"))
    }

    /// No other job had the key when this job began.
    fn has_the_key_alone(&self, asked: &SubmittedJob, id: JobId) -> Verdict {
        let window = self.policies[&asked.job_type].key_window;
        let Some(born) = self.jobs[&id].rows.first().map(|row| row.at) else { return Ok(()) };
        for (other, watch) in &self.jobs {
            if *other == id || !watch.is_there() || !watch.asked.same_key(asked) {
                continue;
            }
            let seen = watch.seen.as_ref().expect("it is there");
            let since = seen.envelope.created_at;
            let free = seen.ended_at().is_some_and(|ended| ended + window <= born);
            // A redriven job goes on without its key when another job took the key meanwhile.
            let lost = self.jobs.iter().any(|(third, watch)| {
                let begun = watch.rows.iter().filter(|row| row.to == Status::Queued);
                let mut begun = begun.filter(|row| row.from != Some(Status::Running));
                *third != id
                    && third != other
                    && watch.asked.same_key(asked)
                    && begun.any(|row| since < row.at && row.at <= born)
            });
            ensure(since > born || free || lost, "I11", || {
                format!("{other} and {id} share a key")
            })?;
        }
        Ok(())
    }
}
