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

/// What an audit read, and every broken promise that it found.
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
        let told = self.broken.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.broken.is_empty(), "{} broken promises:\n{told}", self.broken.len());
    }
}

/// Reads the store at `path` after its process has ended. `all_ended` says whether every job should
/// have ended.
pub(crate) fn audit(path: &Path, ledger: &ClientLog, all_ended: bool) -> Audit {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let health = store::examine(path, clock.read().wall, &mut |_| {}).unwrap();
    let options = Options { free_disk_bytes_min: 0, ..Options::default() };
    let store = Sqlite::open(path, clock.clone(), random.clone(), options).unwrap();
    let platform = Platform::new(Arc::new(store), clock, random, Settings::default());
    let mut auditor = Auditor {
        platform,
        ledger,
        found: BTreeMap::new(),
        announced: BTreeMap::new(),
        audit: Audit { broken: ledger.broken.clone(), ..Audit::default() },
    };
    auditor.read_announcements();
    auditor.check_health(&health);
    auditor.check_names();
    for id in auditor.found.clone().into_values() {
        auditor.check_job(id, all_ended);
    }
    auditor.check_promises();
    auditor.audit
}

struct Auditor<'a> {
    platform: Platform,
    ledger: &'a ClientLog,
    /// All jobs, by name.
    found: BTreeMap<u64, JobId>,
    /// The announcements of outcomes, by job: the numbers of their transitions.
    announced: BTreeMap<JobId, Vec<u64>>,
    audit: Audit,
}

impl Auditor<'_> {
    fn broken(&mut self, what: String) {
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
                self.broken(format!("I10: the announcements after {after} have a gap"));
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
                if let Some(first) = self.found.insert(name, job.id()) {
                    self.broken(format!("I11: {name} is two jobs, {first} and {}", job.id()));
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
            self.broken(format!("the doctor found {finding}"));
        }
        let (told, found) = (self.found.len() as u64, health.live_jobs + health.ended_jobs);
        if told != found {
            self.broken(format!("I10: {told} jobs were announced, and there are {found}"));
        }
        let queues = block_on(self.platform.queues(&Scope::All)).unwrap();
        let counted: u64 = queues.iter().map(|queue| queue.counts.submitted).sum();
        if counted != found {
            self.broken(format!("I16: {counted} jobs were counted, and there are {found}"));
        }
    }

    /// Acknowledged jobs exist, refused ones do not, and unknown ones may do either.
    fn check_names(&mut self) {
        for (name, id) in &self.ledger.acknowledged {
            if self.found.get(name) != Some(id) {
                self.broken(format!("I1: {name} was acknowledged as {id} and is not there"));
            }
        }
        for (name, id) in self.found.clone() {
            let known = self.ledger.acknowledged.contains_key(&name);
            if !known && !self.ledger.unknown.contains(&name) {
                self.broken(format!("I2: {name} is {id}, and no client was told that it would be"));
            }
        }
    }

    fn check_job(&mut self, id: JobId, all_ended: bool) {
        let job = match block_on(self.platform.job(&Scope::All, id)) {
            Ok(job) => job,
            Err(error) => return self.broken(format!("I1: {id} cannot be read: {error}")),
        };
        let name = job.envelope.correlation.as_str().parse().expect("a name of ours");
        let found = block_on(self.platform.payload(&Scope::All, id));
        if !found.is_ok_and(|found| found.as_str() == payload(name)) {
            self.broken(format!("I1: {id} has lost its payload"));
        }
        if all_ended && !job.status().is_ended() {
            self.broken(format!("I12: {id} is {} and should have ended", job.status()));
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
        let begun = rows.first().is_some_and(|row| row.from.is_none() && row.to == Status::Queued);
        let ends = rows.last().is_some_and(|row| (row.seq, row.to) == (job.seq, job.status()));
        if !(numbered && chained && begun && ends) {
            self.broken(format!("I5: the history of {} is {rows:?}", job.id()));
        }
    }

    /// Each life that ended has one outcome, and it was announced once.
    fn check_outcomes(&mut self, job: &Job, rows: &[HistoryEntry]) {
        let ended = |status: Option<Status>| status.is_some_and(Status::is_ended);
        let ends = rows.iter().filter(|row| row.to.is_ended() && !ended(row.from));
        let ends: Vec<u64> = ends.map(|row| row.seq).collect();
        let lives = u64::from(job.life.redrive_count) + u64::from(job.status().is_ended());
        if ends.len() as u64 != lives {
            self.broken(format!("I9: {} ended {} times in {lives} lives", job.id(), ends.len()));
        }
        let announced = self.announced.remove(&job.id()).unwrap_or_default();
        if announced != ends {
            self.broken(format!("I10: {} ended at {ends:?}, told {announced:?}", job.id()));
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
            let told = self.ledger.leases.get(&token).is_some_and(|given| given.job == job.id());
            if !fits || !told || !ended_by.insert(token) {
                self.broken(format!("I7: {token:?} ended {} at {}", job.id(), pair[1].seq));
            }
        }
    }

    /// Every lease and verdict that a caller received is in the history.
    fn check_promises(&mut self) {
        let mut histories: BTreeMap<JobId, Vec<HistoryEntry>> = BTreeMap::new();
        for (token, given) in &self.ledger.leases {
            let rows = histories.entry(given.job).or_insert_with(|| {
                block_on(self.platform.history(&Scope::All, given.job, 0)).unwrap_or_default()
            });
            let told = (self.ledger.settled.get(token), self.ledger.lost.contains(token));
            if let Err(what) = kept(rows, token, given, told) {
                self.audit.broken.push(format!("{what}: {token:?} of {}", given.job));
            }
        }
    }
}

fn kept(
    rows: &[HistoryEntry],
    token: &LeaseToken,
    given: &KnownLease,
    (told, lost): (Option<&Status>, bool),
) -> Result<(), &'static str> {
    let claims = rows.iter().filter(|row| row.from == Some(Status::Queued));
    let mut claims = claims.filter(|row| row.to == Status::Running);
    let begun = claims.nth(usize::try_from(token.fence).unwrap() - 1).ok_or("I6: no such claim")?;
    if begun.worker.as_ref().map(|worker| worker.as_str()) != Some(&given.worker) {
        return Err("I6: another worker has it");
    }
    let left = rows.iter().find(|row| row.seq > begun.seq && row.to != Status::Running);
    let ours = left.filter(|row| row.settled.is_some_and(|(settled, _)| settled == *token));
    if ours.is_none() && left.is_some_and(|row| row.at.unix_ms() < given.until_ms) {
        return Err("I6: it was taken away before its time");
    }
    if lost && ours.is_some() {
        return Err("I7: it was called lost, and counted");
    }
    if told.is_some() && ours.map(|row| row.to).as_ref() != told {
        return Err("I1: a report was acknowledged and is not there");
    }
    Ok(())
}
