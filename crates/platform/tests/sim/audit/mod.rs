//! The auditor. It knows the contract, and what callers sent and received, but nothing of the code.
//!
//! After every step it reads the jobs that the step can have touched and compares. After every
//! fault, and now and then, it reads the whole store again. `docs/invariants.md` lists I1 to I21.

mod claims;
mod reports;
mod steps;
mod submits;
mod watch;
mod whole;

pub(crate) use claims::SentClaim;
pub(crate) use submits::SubmittedJob;

use claims::Fairness;
use engine::{JobId, JobType, Policy, Scope, Tenant, Timestamp};
use platform::Platform;
use std::collections::{BTreeMap, BTreeSet};
use watch::JobWatch;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

pub(crate) type AuditResult = Result<(), Violation>;

pub(crate) fn ensure(
    holds: bool,
    invariant: &'static str,
    what: impl FnOnce() -> String,
) -> AuditResult {
    if holds { Ok(()) } else { Err(Violation { invariant, what: what() }) }
}

/// What an outside observer knows about the simulation.
pub(crate) struct Auditor {
    /// The policy of each type: set once, at the beginning.
    policies: BTreeMap<JobType, Policy>,
    jobs: BTreeMap<JobId, JobWatch>,
    /// Queues that operators paused.
    paused: BTreeSet<(JobType, Tenant)>,
    fairness: Fairness,
    steps: BTreeMap<(JobId, &'static str), steps::StepWatch>,
    events: whole::EventsRead,
    /// A scope that covers no job.
    stranger: Scope,
    /// The number of the step that is being audited.
    step: usize,
    /// Jobs that the step can have touched; `None` when it could have been any.
    touched: Option<BTreeSet<JobId>>,
    /// The latest time in any row: the store's clock is at least there.
    latest: Timestamp,
    /// A time that the store's clock cannot have passed.
    latest_possible: Timestamp,
}

impl Auditor {
    pub(crate) fn new(policies: BTreeMap<JobType, Policy>) -> Self {
        Auditor {
            policies,
            jobs: BTreeMap::new(),
            paused: BTreeSet::new(),
            fairness: Fairness::default(),
            steps: BTreeMap::new(),
            events: whole::EventsRead::default(),
            stranger: Scope::One(Tenant::parse("stranger").expect("lawful")),
            step: 0,
            touched: Some(BTreeSet::new()),
            latest: Timestamp::default(),
            latest_possible: Timestamp::default(),
        }
    }

    /// Begins a step. `latest_possible` is a time that the store's clock cannot have passed.
    pub(crate) fn begin(&mut self, step: usize, latest_possible: Timestamp) {
        self.step = step;
        self.latest_possible = self.latest_possible.max(latest_possible);
        self.touched = Some(BTreeSet::new());
    }

    /// Adds a job that this step can have touched.
    pub(crate) fn touch(&mut self, id: JobId) {
        if let Some(touched) = &mut self.touched {
            touched.insert(id);
        }
    }

    /// Notes that it is unknown which jobs this step has touched.
    pub(crate) fn touch_everything(&mut self) {
        self.touched = None;
    }

    pub(crate) fn pause(&mut self, job_type: &JobType, tenant: &Tenant) {
        self.paused.insert((job_type.clone(), tenant.clone()));
    }

    pub(crate) fn resume(&mut self, job_type: &JobType, tenant: Option<&Tenant>) {
        self.paused.retain(|(paused, owner)| {
            paused != job_type || tenant.is_some_and(|tenant| tenant != owner)
        });
    }

    /// Forgets how long queues waited: the process died and restarted.
    pub(crate) fn reset_fairness(&mut self) {
        self.fairness = Fairness::default();
    }

    /// Allows a job to be gone: an operator erased it, or tried to and got no answer.
    pub(crate) fn expect_erasure(&mut self, id: JobId) {
        if let Some(watch) = self.jobs.get_mut(&id) {
            watch.erasable = true;
        }
        self.touch(id);
    }

    /// Reads and checks the jobs that the step can have touched.
    pub(crate) fn read_touched(&mut self, platform: &Platform) -> AuditResult {
        let ids: Vec<JobId> = match &self.touched {
            Some(touched) => touched.iter().copied().collect(),
            None => self.jobs.keys().copied().collect(),
        };
        for id in ids {
            self.read_job(platform, id)?;
        }
        Ok(())
    }

    fn read_job(&mut self, platform: &Platform, id: JobId) -> AuditResult {
        let job = pollster::block_on(platform.job(&Scope::All, id)).ok();
        let Some(watch) = self.jobs.get_mut(&id) else {
            return ensure(job.is_none(), "I2", || format!("{id} was never submitted"));
        };
        let policy = &self.policies[&watch.submitted_job.job_type];
        // An unchanged job was checked against the stranger already; a listing as the stranger
        // repeats that.
        if job.is_none() || job != watch.last_read {
            let is_shown = pollster::block_on(platform.job(&self.stranger, id)).is_ok();
            ensure(!is_shown, "I18", || format!("{id} was shown to a stranger"))?;
        }
        let Some(job) = job else {
            return watch.check_missing(policy, self.latest_possible);
        };
        if watch.last_read.is_none() {
            let payload = pollster::block_on(platform.payload(&Scope::All, id)).ok();
            watch.check_first_read(&job, payload.as_ref())?;
        }
        let after = watch.rows.len() as u64;
        let rows = pollster::block_on(platform.history(&Scope::All, id, after)).unwrap_or_default();
        for row in rows {
            self.latest = self.latest.max(row.at);
            watch.add_row(row, &job, policy, self.step)?;
        }
        watch.check_read(job, policy)
    }

    /// The state of every job, in words.
    pub(crate) fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (id, watch) in &self.jobs {
            for row in &watch.rows {
                let code = row.error_code.as_ref().map_or("", |code| code.as_str());
                let from = row.from.map_or("-", |status| status.as_str());
                lines.push(format!("{id} row {}: {from} to {} {code}", row.seq, row.to));
            }
            lines.extend(
                watch.vanished.then(|| format!("{id} is gone, erasable: {}", watch.erasable)),
            );
        }
        lines
    }

    /// Shortens ids, numbered in order of submission: j1, j2, …
    pub(crate) fn shortened(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (number, id) in self.jobs.keys().enumerate() {
            text = text.replace(&id.to_string(), &format!("j{}", number + 1));
        }
        text
    }

    /// Jobs that are known to exist, for actors to choose from.
    pub(crate) fn existing_jobs(&self) -> Vec<JobId> {
        self.jobs.iter().filter(|(_, watch)| watch.exists()).map(|(id, _)| *id).collect()
    }
}
