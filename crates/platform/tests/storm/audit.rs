//! Compares the content of the file with the answers that callers got.

use crate::{
    client_log::{ClientLog, KnownLease},
    producer::payload,
};
use engine::{EventKind, HistoryEntry, Job, JobId, LeaseToken, Scope, Status};
use platform::{Platform, Settings, SystemClock, SystemRandom};
use pollster::block_on;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};
use store::{Clock, Health, Options, PAGE_MAX, Sqlite};

/// What an audit read, and every broken invariant that it found.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) jobs: usize,
    pub(crate) rows: usize,
    pub(crate) outcomes: usize,
    pub(crate) broken: Vec<String>,
}

impl Audit {
    #[track_caller]
    pub(crate) fn must_be_clean(&self) {
        let broken = self.broken.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.broken.is_empty(), "{} broken invariants:\n{broken}", self.broken.len());
    }
}

/// Reads the store at `path` after its process has ended. `all_ended` says whether every job should
/// have ended.
pub(crate) fn audit(path: &Path, client_log: &ClientLog, all_ended: bool) -> Audit {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let health = store::examine(path, clock.read().wall, &mut |_| {}).unwrap();
    let options = Options { free_disk_bytes_min: 0, ..Options::default() };
    let store = Sqlite::open(path, clock.clone(), random.clone(), options).unwrap();
    let platform = Platform::new(Arc::new(store), clock, random, Settings::default());
    let mut auditor = Auditor {
        platform,
        client_log,
        jobs: BTreeMap::new(),
        announced: BTreeMap::new(),
        audit: Audit { broken: client_log.broken.clone(), ..Audit::default() },
    };
    auditor.read_announcements();
    auditor.check_health(&health);
    auditor.check_names();
    for id in auditor.jobs.clone().into_values() {
        auditor.check_job(id, all_ended);
    }
    auditor.check_promises();
    auditor.audit
}

struct Auditor<'a> {
    platform: Platform,
    client_log: &'a ClientLog,
    /// All jobs, by name.
    jobs: BTreeMap<u64, JobId>,
    /// The announcements of outcomes, by job: the numbers of their transitions.
    announced: BTreeMap<JobId, Vec<u64>>,
    audit: Audit,
}

impl Auditor<'_> {
    fn note_broken(&mut self, what: String) {
        self.audit.broken.push(what);
    }

    /// Announcements name every job, so no id is needed.
    fn read_announcements(&mut self) {
        while block_on(self.platform.number_events()).unwrap() {}
        let mut after = 0;
        loop {
            let page = block_on(self.platform.events(after, PAGE_MAX)).unwrap();
            let Some(last) = page.last() else { break };
            let (first, expected) = (page[0].number, after + 1);
            if first != expected || last.number != after + page.len() as u64 {
                self.note_broken(format!("I10: the announcements after {after} have a gap"));
            }
            after = last.number;
            for numbered in page {
                self.read_announcement(numbered.event.kind, &numbered.event.job);
            }
        }
    }

    fn read_announcement(&mut self, kind: EventKind, job: &Job) {
        let name = job.envelope.correlation.as_str().parse().expect("a name of ours");
        match kind {
            EventKind::Queued if job.seq > 1 => {} // released
            EventKind::Queued => {
                if let Some(first) = self.jobs.insert(name, job.id()) {
                    self.note_broken(format!("I11: {name} is two jobs, {first} and {}", job.id()));
                }
            }
            EventKind::Running | EventKind::Retrying | EventKind::Redriven => {}
            EventKind::Completed
            | EventKind::Failed
            | EventKind::Poisoned
            | EventKind::Cancelled => self.announced.entry(job.id()).or_default().push(job.seq),
        }
    }

    fn check_health(&mut self, health: &Health) {
        for finding in health.findings.iter().filter(|finding| finding.damage) {
            self.note_broken(format!("the doctor found {finding}"));
        }
        let (announced, stored) = (self.jobs.len() as u64, health.live_jobs + health.ended_jobs);
        if announced != stored {
            self.note_broken(format!(
                "I10: {announced} jobs were announced, and there are {stored}"
            ));
        }
        let queues = block_on(self.platform.queues(&Scope::All)).unwrap();
        let counted: u64 = queues.iter().map(|queue| queue.counts.submitted).sum();
        if counted != stored {
            self.note_broken(format!("I16: {counted} jobs were counted, and there are {stored}"));
        }
    }

    /// Acknowledged jobs exist, refused ones do not, and unknown ones may do either.
    fn check_names(&mut self) {
        for (name, id) in &self.client_log.acknowledged {
            if self.jobs.get(name) != Some(id) {
                self.note_broken(format!("I1: {name} was acknowledged as {id} and is not there"));
            }
        }
        for (name, id) in self.jobs.clone() {
            let known = self.client_log.acknowledged.contains_key(&name);
            if !known && !self.client_log.unknown.contains(&name) {
                self.note_broken(format!(
                    "I2: {name} is {id}, and no client got an answer that allows it"
                ));
            }
        }
    }

    fn check_job(&mut self, id: JobId, all_ended: bool) {
        let job = match block_on(self.platform.job(&Scope::All, id)) {
            Ok(job) => job,
            Err(error) => return self.note_broken(format!("I1: {id} cannot be read: {error}")),
        };
        let name = job.envelope.correlation.as_str().parse().expect("a name of ours");
        let stored = block_on(self.platform.payload(&Scope::All, id));
        if !stored.is_ok_and(|stored| stored.as_str() == payload(name)) {
            self.note_broken(format!("I1: {id} has lost its payload"));
        }
        if all_ended && !job.status().is_ended() {
            self.note_broken(format!("I12: {id} is {} and should have ended", job.status()));
        }
        let rows = block_on(self.platform.history(&Scope::All, id, 0)).unwrap_or_default();
        self.check_rows(&job, &rows);
        self.check_outcomes(&job, &rows);
        self.check_leases(&job, &rows);
        self.audit.jobs += 1;
        self.audit.rows += rows.len();
    }

    /// The history has no gaps, does not go back, and agrees with the job.
    fn check_rows(&mut self, job: &Job, rows: &[HistoryEntry]) {
        let numbered = rows.iter().zip(1..).all(|(row, seq)| row.seq == seq);
        let chained = rows
            .windows(2)
            .all(|pair| pair[1].from == Some(pair[0].to) && pair[1].at >= pair[0].at);
        let begins = rows.first().is_some_and(|row| row.from.is_none() && row.to == Status::Queued);
        let ends = rows.last().is_some_and(|row| (row.seq, row.to) == (job.seq, job.status()));
        if !(numbered && chained && begins && ends) {
            self.note_broken(format!("I5: the history of {} is {rows:?}", job.id()));
        }
    }

    /// Each life that ended has one outcome, and it was announced once.
    fn check_outcomes(&mut self, job: &Job, rows: &[HistoryEntry]) {
        let ended = |status: Option<Status>| status.is_some_and(Status::is_ended);
        let ends = rows.iter().filter(|row| row.to.is_ended() && !ended(row.from));
        let ends: Vec<u64> = ends.map(|row| row.seq).collect();
        let lives = u64::from(job.life.redrive_count) + u64::from(job.status().is_ended());
        if ends.len() as u64 != lives {
            self.note_broken(format!(
                "I9: {} ended {} times in {lives} lives",
                job.id(),
                ends.len()
            ));
        }
        let announced = self.announced.remove(&job.id()).unwrap_or_default();
        if announced != ends {
            self.note_broken(format!(
                "I10: {} ended at {ends:?}, announced {announced:?}",
                job.id()
            ));
        }
        self.audit.outcomes += ends.len();
    }

    /// No two leases at one time: a worker had its lease until the time in its answer, unless it
    /// ended the lease itself. A lease that no worker received is ended by none.
    fn check_leases(&mut self, job: &Job, rows: &[HistoryEntry]) {
        let mut ended_by = BTreeSet::new();
        let mut fence = 0;
        for pair in rows.windows(2) {
            if (pair[0].from, pair[0].to) == (Some(Status::Queued), Status::Running) {
                fence += 1;
            }
            let Some((token, _)) = pair[1].settled else { continue };
            let fits = pair[1].from == Some(Status::Running) && token.fence == fence;
            let is_known =
                self.client_log.leases.get(&token).is_some_and(|lease| lease.job == job.id());
            if !fits || !is_known || !ended_by.insert(token) {
                self.note_broken(format!("I7: {token:?} ended {} at {}", job.id(), pair[1].seq));
            }
        }
    }

    /// Every lease and verdict that a caller received is in the history.
    fn check_promises(&mut self) {
        let mut histories: BTreeMap<JobId, Vec<HistoryEntry>> = BTreeMap::new();
        for (token, lease) in &self.client_log.leases {
            let rows = histories.entry(lease.job).or_insert_with(|| {
                block_on(self.platform.history(&Scope::All, lease.job, 0)).unwrap_or_default()
            });
            let answers =
                (self.client_log.settled.get(token), self.client_log.lost.contains(token));
            if let Err(what) = check_lease_kept(rows, token, lease, answers) {
                self.audit.broken.push(format!("{what}: {token:?} of {}", lease.job));
            }
        }
    }
}

fn check_lease_kept(
    rows: &[HistoryEntry],
    token: &LeaseToken,
    lease: &KnownLease,
    (settled, lost): (Option<&Status>, bool),
) -> Result<(), &'static str> {
    let claims = rows.iter().filter(|row| row.from == Some(Status::Queued));
    let mut claims = claims.filter(|row| row.to == Status::Running);
    let claim_row =
        claims.nth(usize::try_from(token.fence).unwrap() - 1).ok_or("I6: no such claim")?;
    if claim_row.worker.as_ref().map(|worker| worker.as_str()) != Some(&lease.worker) {
        return Err("I6: another worker has it");
    }
    let next_row = rows.iter().find(|row| row.seq > claim_row.seq && row.to != Status::Running);
    let settled_row = next_row.filter(|row| row.settled.is_some_and(|(by, _)| by == *token));
    if settled_row.is_none() && next_row.is_some_and(|row| row.at.unix_ms() < lease.until_ms) {
        return Err("I6: it was taken away before its time");
    }
    if lost && settled_row.is_some() {
        return Err("I7: it was called lost, and counted");
    }
    if settled.is_some() && settled_row.map(|row| row.to).as_ref() != settled {
        return Err("I1: a report was acknowledged and is not there");
    }
    Ok(())
}
