//! One job, followed row by row.

use super::{SubmittedJob, Verdict, ensure};
use crate::simulation::RETRY_AFTER_MAX_S;
use engine::{
    ClaimId, ErrorCode, HistoryEntry, Jitter, Job, JsonText, LeaseToken, Policy, Status, Timestamp,
    WorkerId,
};
use std::time::Duration;

pub(super) struct Watch {
    pub(super) asked: SubmittedJob,
    /// The caller's answer said that it is stored.
    pub(super) acknowledged: bool,
    /// An operator erased it, or may have.
    pub(super) erasable: bool,
    pub(super) vanished: bool,
    /// The last reading.
    pub(super) seen: Option<Job>,
    /// Its due time, as read while it last waited: its place among its equals.
    pub(super) waited_from: Option<Timestamp>,
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
    pub(super) closed: Option<Closing>,
    /// The ending that is known to stand.
    pub(super) ending: Option<String>,
    /// Endings that were sent, and of which it is unknown whether they arrived.
    pub(super) unsure: Vec<String>,
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

const OURS: [&str; 3] = ["LEASE_EXPIRED", "WORKER_LOST", "HANDLER_TIMEOUT"];

impl Watch {
    pub(super) fn new(asked: SubmittedJob, acknowledged: bool) -> Self {
        Watch {
            asked,
            acknowledged,
            erasable: false,
            vanished: false,
            seen: None,
            waited_from: None,
            rows: Vec::new(),
            life: LifeWatch::default(),
            claims: Vec::new(),
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.seen.is_some() && !self.vanished
    }

    pub(super) fn status(&self) -> Option<Status> {
        self.seen.as_ref().filter(|_| !self.vanished).map(Job::status)
    }

    /// The job is not found.
    pub(super) fn missing(&mut self, policy: &Policy, at_most: Timestamp) -> Verdict {
        if self.vanished {
            return Ok(());
        }
        let Some(seen) = &self.seen else {
            return ensure(!self.acknowledged, "I1", || "an acknowledged job is not stored".into());
        };
        let ended = seen
            .ended()
            .filter(|ended| seen.status() != Status::Poisoned || ended.discarded_at.is_some());
        let since = ended.map(|ended| ended.discarded_at.unwrap_or(ended.at));
        let key_window = if self.asked.key.is_some() { policy.key_window } else { Duration::ZERO };
        let kept_for = policy.retention.max(key_window);
        let purged = since.is_some_and(|since| since + kept_for <= at_most);
        ensure(self.erasable || purged, "I1", || {
            format!("{} vanished as {}", seen.id(), seen.status())
        })?;
        self.vanished = true;
        Ok(())
    }

    /// The stored job is the submitted one.
    pub(super) fn first_sight(&self, job: &Job, payload: Option<&JsonText>) -> Verdict {
        let envelope = &job.envelope;
        let own = envelope.tenant == self.asked.tenant;
        ensure(own, "I18", || format!("{} went to {}", job.id(), envelope.tenant))?;
        let same = envelope.job_type == self.asked.job_type
            && envelope.key.as_ref().map(|key| key.name.as_str()) == self.asked.key.as_deref()
            && envelope.subject.as_ref().map(|subject| subject.as_str())
                == self.asked.subject.as_deref()
            && payload.is_some_and(|payload| payload.as_str() == self.asked.payload);
        ensure(same, "I2", || format!("{} is not what was submitted", job.id()))
    }

    /// One more row of history. It is kept even when it breaks an invariant: that is the row to
    /// look at.
    pub(super) fn row(
        &mut self,
        row: HistoryEntry,
        job: &Job,
        policy: &Policy,
        step: usize,
    ) -> Verdict {
        let verdict = self.judge(&row, job, policy, step);
        self.rows.push(row);
        verdict
    }

    fn judge(&mut self, row: &HistoryEntry, job: &Job, policy: &Policy, step: usize) -> Verdict {
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
        let say = |what: &str| format!("{id}, row {expected}: {what}");
        match (row.from, row.to) {
            (None, Status::Queued) => {}
            (Some(Status::Queued), Status::Running) => self.started(row, job, step)?,
            (Some(Status::Queued), Status::Cancelled) => {
                if row.error_code.as_ref().is_some_and(|code| code.as_str() == "JOB_EXPIRED") {
                    let late = self.expires_at().is_some_and(|expires| expires <= row.at);
                    ensure(late, "I4", || say("expired before its time"))?;
                }
                self.life.cancel_requested |= row.error_code.is_none();
                self.ended(&say)?;
            }
            (Some(Status::Running), Status::Running) => {
                ensure(!self.life.cancel_requested, "I4", || say("a cancel was requested twice"))?;
                self.life.cancel_requested = true;
            }
            (Some(Status::Running), to) => {
                self.attempt_ended(row, job, policy, step)?;
                if to.is_ended() {
                    self.ended(&say)?;
                }
            }
            (Some(Status::Poisoned | Status::Failed | Status::Cancelled), Status::Queued) => {
                self.life = LifeWatch { number: self.life.number + 1, ..LifeWatch::default() };
            }
            (Some(Status::Poisoned), Status::Poisoned) => {}
            (from, to) => ensure(false, "I4", || say(&format!("{from:?} to {to} is not lawful")))?,
        }
        let failed = row.error_code.clone().or(self.life.error_code.take());
        self.life.error_code = failed.filter(|_| row.to != Status::Completed);
        Ok(())
    }

    fn started(&mut self, row: &HistoryEntry, job: &Job, step: usize) -> Verdict {
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
            closed: None,
            ending: None,
            unsure: Vec::new(),
        });
        Ok(())
    }

    /// The earliest valid start, as far as an outside observer can know it.
    fn not_before(&self) -> Timestamp {
        let read = self.seen.as_ref().filter(|seen| seen.seq == self.rows.len() as u64);
        let created = self.rows.first().map_or(Timestamp::default(), |row| row.at);
        let asked = self.asked.run_at.or(self.asked.delay.map(|delay| created + delay));
        match read.and_then(Job::run_at) {
            Some(run_at) => run_at,
            None if self.rows.len() == 1 => asked.unwrap_or_default(),
            None => Timestamp::default(),
        }
    }

    /// `expiresAt` counts for the first life only: a redrive clears it.
    fn expires_at(&self) -> Option<Timestamp> {
        self.asked.expires_at.filter(|_| self.life.number == 0)
    }

    fn attempt_ended(
        &mut self,
        row: &HistoryEntry,
        job: &Job,
        policy: &Policy,
        step: usize,
    ) -> Verdict {
        let id = job.id();
        let code = row.error_code.as_ref().map(|code| code.as_str());
        let by_sweeper = code.is_some_and(|code| OURS.contains(&code));
        let claim = self.claims.last_mut().expect("a running job was claimed");
        claim.closed = Some(Closing { step, to: row.to, by_sweeper });
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
            None if retried => self.given_back(row),
            Some(_) | None => self.life.losses = 0,
        }
        if row.message.as_deref() == Some("claim was not delivered") && !retried {
            self.not_started();
        }
        let spent = self.life.attempts >= job.max_attempts;
        let counted = retried && code.is_some();
        ensure(!(counted && spent), "I8", || format!("{id} is retried with no attempt left"))
    }

    fn given_back(&mut self, row: &HistoryEntry) {
        if row.message.as_deref() == Some("claim was not delivered") {
            self.life.attempts -= 1;
            self.not_started();
            return;
        }
        self.life.losses = 0;
        self.life.releases += 1;
        if self.life.releases <= RELEASES_FREE {
            self.life.attempts -= 1;
        }
    }

    /// The last claim reached no worker: if it was the first start, there was none.
    fn not_started(&mut self) {
        let claim =
            |row: &&HistoryEntry| row.from == Some(Status::Queued) && row.to == Status::Running;
        let claimed_at = self.rows.iter().rev().find(claim).map(|row| row.at);
        self.life.started_at = self.life.started_at.filter(|at| Some(*at) != claimed_at);
    }

    fn ended(&mut self, say: &dyn Fn(&str) -> String) -> Verdict {
        self.life.outcomes += 1;
        ensure(self.life.outcomes == 1, "I9", || say("a second outcome of one life"))
    }

    /// The status agrees with the history, and with earlier readings.
    pub(super) fn reading(&mut self, job: Job, policy: &Policy) -> Verdict {
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
        ensure(job.life.attempt == self.given_back_when_cancelled(&job), "I8", || {
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
        if let Some(seen) = &self.seen {
            ensure(job.version >= seen.version, "I15", || format!("{id}: its version went back"))?;
            let silent = job.version == seen.version;
            ensure(!silent || job.status() == seen.status(), "I15", || {
                format!("{id}: silent change")
            })?;
        }
        self.retry_wait(&job, policy)?;
        self.waited_from =
            job.run_at().or(self.waited_from.filter(|_| job.status() == Status::Running));
        self.seen = Some(job);
        Ok(())
    }

    /// A release that meets a cancel request gives its attempt back as well, and ends the job.
    fn given_back_when_cancelled(&self, job: &Job) -> u32 {
        let last = self.rows.last();
        let free = match last.and_then(|row| row.message.as_deref()) {
            Some("released" | "snoozed") => self.life.releases < RELEASES_FREE,
            Some("claim was not delivered") => true,
            Some(_) | None => false,
        };
        self.life.attempts - u32::from(free && job.status() == Status::Cancelled)
    }

    fn retry_wait(&self, job: &Job, policy: &Policy) -> Verdict {
        let (Some(run_at), Some(row)) = (job.run_at(), self.rows.last()) else { return Ok(()) };
        if row.from != Some(Status::Running) {
            return Ok(());
        }
        let wait = run_at.since(row.at);
        let ceiling = longest_wait(policy, row.attempt);
        let by_policy = match row.error_code.as_ref().map(|code| code.as_str()) {
            Some(code) if OURS.contains(&code) => true,
            Some(_) | None => wait > Duration::from_secs(RETRY_AFTER_MAX_S),
        };
        let lawful = match policy.backoff.jitter {
            Jitter::None => wait == ceiling,
            Jitter::Full => wait <= ceiling,
        };
        ensure(!by_policy || lawful, "I12", || format!("{}: waits for {wait:?}", job.id()))
    }
}

/// base × factor^(attempt − 1), at most max: the contract's formula, computed independently.
fn longest_wait(policy: &Policy, attempt: u32) -> Duration {
    let backoff = &policy.backoff;
    let doublings = attempt.saturating_sub(1).min(16);
    assert_eq!(backoff.factor_hundredths, 200, "the worlds of this simulation double");
    backoff.max.min(backoff.base * 2_u32.pow(doublings))
}
