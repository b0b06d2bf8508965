//! One job, followed row by row.

use super::{AuditResult, SubmittedJob, ensure};
use crate::simulation::RETRY_AFTER_MAX_S;
use engine::{
    ClaimId, ErrorCode, HistoryEntry, Jitter, Job, JsonText, LeaseToken, Policy, Status, Timestamp,
    WorkerId,
};
use std::time::Duration;

pub(super) struct JobWatch {
    pub(super) submitted_job: SubmittedJob,
    /// The caller's answer said that it is stored.
    pub(super) acknowledged: bool,
    /// An operator erased it, or may have.
    pub(super) erasable: bool,
    pub(super) vanished: bool,
    /// The last reading.
    pub(super) last_read: Option<Job>,
    /// Its due time, as read while it last waited. It orders jobs of one priority.
    pub(super) due_at_when_queued: Option<Timestamp>,
    pub(super) rows: Vec<HistoryEntry>,
    life: LifeWatch,
    /// Every claim of the job, in order: the n-th has fence n.
    pub(super) claims: Vec<ClaimWatch>,
}

/// The state of one life, counted from its rows.
#[derive(Default)]
struct LifeWatch {
    number: u32,
    attempts: u32,
    releases: u32,
    losses: u32,
    cancel_requested: bool,
    outcomes: u32,
    /// The first start that the auditor saw.
    started_at: Option<Timestamp>,
    /// The code of the last failure.
    error_code: Option<ErrorCode>,
}

/// One claim, from its row to the row that ended it.
pub(super) struct ClaimWatch {
    pub(super) step: usize,
    pub(super) worker: Option<WorkerId>,
    /// The worker's handle, where the auditor has learned it.
    pub(super) claim: Option<ClaimId>,
    /// The token, once a worker received it.
    pub(super) token: Option<LeaseToken>,
    /// Until when the worker has the job exclusively, by its answer.
    pub(super) promised_until: Timestamp,
    pub(super) closing: Option<Closing>,
    /// The ending that the store accepted, where the auditor knows it.
    pub(super) ending: Option<String>,
    /// Endings that were sent, and of which it is unknown whether they arrived.
    pub(super) unanswered_endings: Vec<String>,
}

/// The row that ended a claim.
pub(super) struct Closing {
    pub(super) step: usize,
    pub(super) to: Status,
    /// The sweeper ended it, not the worker.
    pub(super) by_sweeper: bool,
}

/// So many releases of one life cost no attempt.
const RELEASES_FREE: u32 = 20;

const SWEEPER_CODES: [&str; 3] = ["LEASE_EXPIRED", "WORKER_LOST", "HANDLER_TIMEOUT"];

impl JobWatch {
    pub(super) fn new(submitted_job: SubmittedJob, acknowledged: bool) -> Self {
        JobWatch {
            submitted_job,
            acknowledged,
            erasable: false,
            vanished: false,
            last_read: None,
            due_at_when_queued: None,
            rows: Vec::new(),
            life: LifeWatch::default(),
            claims: Vec::new(),
        }
    }

    pub(super) fn exists(&self) -> bool {
        self.last_read.is_some() && !self.vanished
    }

    pub(super) fn status(&self) -> Option<Status> {
        self.last_read.as_ref().filter(|_| !self.vanished).map(Job::status)
    }

    /// Checks that the job may be gone, because a read did not find it.
    pub(super) fn check_missing(
        &mut self,
        policy: &Policy,
        latest_possible: Timestamp,
    ) -> AuditResult {
        if self.vanished {
            return Ok(());
        }
        let Some(last_read) = &self.last_read else {
            return ensure(!self.acknowledged, "I1", || "an acknowledged job is not stored".into());
        };
        let ended = last_read
            .ended()
            .filter(|ended| last_read.status() != Status::Poisoned || ended.discarded_at.is_some());
        let since = ended.map(|ended| ended.discarded_at.unwrap_or(ended.at));
        let key_window =
            if self.submitted_job.key.is_some() { policy.key_window } else { Duration::ZERO };
        let kept_for = policy.retention.max(key_window);
        let purged = since.is_some_and(|since| since + kept_for <= latest_possible);
        ensure(self.erasable || purged, "I1", || {
            format!("{} vanished as {}", last_read.id(), last_read.status())
        })?;
        self.vanished = true;
        Ok(())
    }

    /// Checks that the stored job is the submitted one.
    pub(super) fn check_first_read(&self, job: &Job, payload: Option<&JsonText>) -> AuditResult {
        let envelope = &job.envelope;
        let own = envelope.tenant == self.submitted_job.tenant;
        ensure(own, "I18", || format!("{} went to {}", job.id(), envelope.tenant))?;
        let same = envelope.job_type == self.submitted_job.job_type
            && envelope.key.as_ref().map(|key| key.name.as_str())
                == self.submitted_job.key.as_deref()
            && envelope.subject.as_ref().map(|subject| subject.as_str())
                == self.submitted_job.subject.as_deref()
            && payload.is_some_and(|payload| payload.as_str() == self.submitted_job.payload);
        ensure(same, "I2", || format!("{} is not what was submitted", job.id()))
    }

    /// Checks one more row of history. The row is kept even when it breaks an invariant, so that
    /// the report shows it.
    pub(super) fn add_row(
        &mut self,
        row: HistoryEntry,
        job: &Job,
        policy: &Policy,
        step: usize,
    ) -> AuditResult {
        let result = self.check_row(&row, job, policy, step);
        self.rows.push(row);
        result
    }

    fn check_row(
        &mut self,
        row: &HistoryEntry,
        job: &Job,
        policy: &Policy,
        step: usize,
    ) -> AuditResult {
        let id = job.id();
        let before = self.rows.last();
        let expected = self.rows.len() as u64 + 1;
        ensure(row.seq == expected, "I5", || {
            format!("{id}: row {} where {expected} belongs", row.seq)
        })?;
        ensure(row.from == before.map(|row| row.to), "I5", || {
            format!("{id}: row {expected} begins elsewhere")
        })?;
        let earlier = before.map_or(row.at, |before| before.at);
        ensure(row.at >= earlier, "I5", || {
            format!("{id}: row {expected} is before the one before it")
        })?;
        let describe = |what: &str| format!("{id}, row {expected}: {what}");
        match (row.from, row.to) {
            (None, Status::Queued) => {}
            (Some(Status::Queued), Status::Running) => self.note_start(row, job, step)?,
            (Some(Status::Queued), Status::Cancelled) => {
                if row.error_code.as_ref().is_some_and(|code| code.as_str() == "JOB_EXPIRED") {
                    let late = self.expires_at().is_some_and(|expires| expires <= row.at);
                    ensure(late, "I4", || describe("expired before its time"))?;
                }
                self.life.cancel_requested |= row.error_code.is_none();
                self.note_outcome(&describe)?;
            }
            (Some(Status::Running), Status::Running) => {
                ensure(!self.life.cancel_requested, "I4", || {
                    describe("a cancel was requested twice")
                })?;
                self.life.cancel_requested = true;
            }
            (Some(Status::Running), to) => {
                self.note_attempt_end(row, job, policy, step)?;
                if to.is_ended() {
                    self.note_outcome(&describe)?;
                }
            }
            (Some(Status::Poisoned | Status::Failed | Status::Cancelled), Status::Queued) => {
                self.life = LifeWatch { number: self.life.number + 1, ..LifeWatch::default() };
            }
            (Some(Status::Poisoned), Status::Poisoned) => {}
            (from, to) => {
                ensure(false, "I4", || describe(&format!("{from:?} to {to} is not lawful")))?
            }
        }
        let failed = row.error_code.clone().or(self.life.error_code.take());
        self.life.error_code = failed.filter(|_| row.to != Status::Completed);
        Ok(())
    }

    fn note_start(&mut self, row: &HistoryEntry, job: &Job, step: usize) -> AuditResult {
        let id = job.id();
        self.life.attempts += 1;
        self.life.started_at = self.life.started_at.or(Some(row.at));
        ensure(row.attempt == self.life.attempts, "I8", || {
            format!("{id}: attempt {} was called {}", self.life.attempts, row.attempt)
        })?;
        ensure(self.life.attempts <= job.max_attempts, "I8", || {
            format!("{id}: attempt {} of {}", self.life.attempts, job.max_attempts)
        })?;
        ensure(row.at >= self.not_before(), "I13", || format!("{id} was started before its time"))?;
        let in_time = self.expires_at().is_none_or(|expires| row.at < expires);
        ensure(in_time, "I13", || format!("{id} was started after it expired"))?;
        self.claims.push(ClaimWatch {
            step,
            worker: row.worker.clone(),
            claim: None,
            token: None,
            promised_until: row.at,
            closing: None,
            ending: None,
            unanswered_endings: Vec::new(),
        });
        Ok(())
    }

    /// The earliest valid start, as far as an outside observer can know it.
    fn not_before(&self) -> Timestamp {
        let read =
            self.last_read.as_ref().filter(|last_read| last_read.seq == self.rows.len() as u64);
        let created = self.rows.first().map_or(Timestamp::default(), |row| row.at);
        let requested_start =
            self.submitted_job.run_at.or(self.submitted_job.delay.map(|delay| created + delay));
        match read.and_then(Job::run_at) {
            Some(run_at) => run_at,
            None if self.rows.len() == 1 => requested_start.unwrap_or_default(),
            None => Timestamp::default(),
        }
    }

    /// `expiresAt` counts for the first life only: a redrive clears it.
    fn expires_at(&self) -> Option<Timestamp> {
        self.submitted_job.expires_at.filter(|_| self.life.number == 0)
    }

    fn note_attempt_end(
        &mut self,
        row: &HistoryEntry,
        job: &Job,
        policy: &Policy,
        step: usize,
    ) -> AuditResult {
        let id = job.id();
        let code = row.error_code.as_ref().map(|code| code.as_str());
        let by_sweeper = code.is_some_and(|code| SWEEPER_CODES.contains(&code));
        let claim = self.claims.last_mut().expect("a running job was claimed");
        claim.closing = Some(Closing { step, to: row.to, by_sweeper });
        let promised = claim.promised_until;
        ensure(!by_sweeper || row.at >= promised, "I6", || {
            format!("{id}: {code:?} at {:?}, promised until {promised:?}", row.at)
        })?;
        let retried = row.to == Status::Queued;
        ensure(!(retried && self.life.cancel_requested), "I3", || {
            format!("{id} goes on after its cancel")
        })?;
        match code {
            Some("LEASE_EXPIRED" | "WORKER_LOST") => {
                self.life.losses += 1;
                let spent = self.life.losses >= policy.lost_workers_max;
                ensure(spent == (code == Some("WORKER_LOST")), "I8", || {
                    format!("{id}: {code:?} after {} lost workers in a row", self.life.losses)
                })?;
            }
            Some("HANDLER_TIMEOUT") => {}
            None if retried => self.note_release(row),
            Some(_) | None => self.life.losses = 0,
        }
        if row.message.as_deref() == Some("claim was not delivered") && !retried {
            self.forget_last_start();
        }
        let spent = self.life.attempts >= job.max_attempts;
        let counted = retried && code.is_some();
        ensure(!(counted && spent), "I8", || format!("{id} is retried with no attempt left"))
    }

    fn note_release(&mut self, row: &HistoryEntry) {
        if row.message.as_deref() == Some("claim was not delivered") {
            self.life.attempts -= 1;
            self.forget_last_start();
            return;
        }
        self.life.losses = 0;
        self.life.releases += 1;
        if self.life.releases <= RELEASES_FREE {
            self.life.attempts -= 1;
        }
    }

    /// The last claim reached no worker: if it was the first start, there was none.
    fn forget_last_start(&mut self) {
        let claim =
            |row: &&HistoryEntry| row.from == Some(Status::Queued) && row.to == Status::Running;
        let claimed_at = self.rows.iter().rev().find(claim).map(|row| row.at);
        self.life.started_at = self.life.started_at.filter(|at| Some(*at) != claimed_at);
    }

    fn note_outcome(&mut self, describe: &dyn Fn(&str) -> String) -> AuditResult {
        self.life.outcomes += 1;
        ensure(self.life.outcomes == 1, "I9", || describe("a second outcome of one life"))
    }

    /// The status agrees with the history, and with earlier readings.
    pub(super) fn check_read(&mut self, job: Job, policy: &Policy) -> AuditResult {
        let id = job.id();
        ensure(!self.vanished, "I3", || format!("{id} came back after it was gone"))?;
        let last = self.rows.last();
        ensure(last.is_some_and(|row| row.to == job.status()), "I5", || {
            format!("{id} is {}, its history ends with {last:?}", job.status())
        })?;
        ensure(job.seq == self.rows.len() as u64, "I5", || format!("{id}: rows are missing"))?;
        ensure(job.life.redrive_count == self.life.number, "I9", || {
            format!("{id}: lives miscounted")
        })?;
        ensure(job.status().is_ended() == (self.life.outcomes == 1), "I9", || {
            format!("{id}: outcomes")
        })?;
        ensure(job.life.attempt == self.expected_attempt(&job), "I8", || {
            format!("{id}: attempt is {}, counted were {}", job.life.attempt, self.life.attempts)
        })?;
        ensure(job.life.cancel_requested == self.life.cancel_requested, "I3", || {
            format!("{id}: the cancel was forgotten or invented")
        })?;
        ensure(job.life.started_at == self.life.started_at, "I4", || {
            format!("{id}: startedAt is {:?}, not {:?}", job.life.started_at, self.life.started_at)
        })?;
        let code = job.life.last_failure.as_ref().map(|failure| &failure.code);
        ensure(code == self.life.error_code.as_ref(), "I4", || {
            format!("{id}: errorCode is {code:?}, not {:?}", self.life.error_code)
        })?;
        if let Some(last_read) = &self.last_read {
            ensure(job.version >= last_read.version, "I15", || {
                format!("{id}: its version went back")
            })?;
            let is_unchanged = job.version == last_read.version;
            ensure(!is_unchanged || job.status() == last_read.status(), "I15", || {
                format!("{id}: silent change")
            })?;
        }
        self.check_retry_wait(&job, policy)?;
        self.due_at_when_queued =
            job.run_at().or(self.due_at_when_queued.filter(|_| job.status() == Status::Running));
        self.last_read = Some(job);
        Ok(())
    }

    /// A release that meets a cancel request gives its attempt back as well, and ends the job.
    fn expected_attempt(&self, job: &Job) -> u32 {
        let last = self.rows.last();
        let costs_no_attempt = match last.and_then(|row| row.message.as_deref()) {
            Some("released" | "snoozed") => self.life.releases < RELEASES_FREE,
            Some("claim was not delivered") => true,
            Some(_) | None => false,
        };
        self.life.attempts - u32::from(costs_no_attempt && job.status() == Status::Cancelled)
    }

    fn check_retry_wait(&self, job: &Job, policy: &Policy) -> AuditResult {
        let (Some(run_at), Some(row)) = (job.run_at(), self.rows.last()) else { return Ok(()) };
        if row.from != Some(Status::Running) {
            return Ok(());
        }
        let wait = run_at.since(row.at);
        let ceiling = longest_wait(policy, row.attempt);
        let by_policy = match row.error_code.as_ref().map(|code| code.as_str()) {
            Some(code) if SWEEPER_CODES.contains(&code) => true,
            Some(_) | None => wait > Duration::from_secs(RETRY_AFTER_MAX_S),
        };
        let lawful = match policy.backoff.jitter {
            Jitter::None => wait == ceiling,
            Jitter::Equal => (ceiling / 2..=ceiling).contains(&wait),
            Jitter::Full => wait <= ceiling,
        };
        ensure(!by_policy || lawful, "I12", || format!("{}: waits for {wait:?}", job.id()))
    }
}

/// base × factor^(attempt − 1), at most max: the contract's formula, computed independently.
fn longest_wait(policy: &Policy, attempt: u32) -> Duration {
    let backoff = &policy.backoff;
    let doublings = attempt.saturating_sub(1).min(16);
    assert_eq!(backoff.factor_hundredths, 200, "the policies of this simulation double the wait");
    backoff.max.min(backoff.base * 2_u32.pow(doublings))
}
