//! The whole store at once: listings, counters, announcements, and whether every job ends.

use super::{AuditResult, Auditor, Violation, ensure, watch::JobWatch};
use engine::{EventKind, Filter, HistoryEntry, JobId, JobType, Scope, Status, Tenant, Timestamp};
use platform::{Error, Platform};
use std::collections::{BTreeMap, BTreeSet};
use store::{Counts, NumberedEvent, Query};

/// The announcements that were read so far.
#[derive(Default)]
pub(super) struct EventsRead {
    last: u64,
    ids: BTreeSet<(JobId, u64)>,
}

fn broken(error: Error) -> Violation {
    Violation { invariant: "I1", what: format!("a read failed: {error}") }
}

impl Auditor {
    /// What can be checked after every step: counters and announcements.
    pub(crate) fn audit_step_end(&mut self, platform: &Platform) -> AuditResult {
        self.audit_counts(platform)?;
        self.audit_events(platform)
    }

    /// The same without assumptions: every job is read again, and listed.
    pub(crate) fn audit_whole(&mut self, platform: &Platform) -> AuditResult {
        self.touch_everything();
        self.read_touched(platform)?;
        self.audit_listing(platform)?;
        self.audit_stranger(platform)?;
        self.audit_step_end(platform)
    }

    /// Every listed job was submitted, every acknowledged job is listed, newest first.
    fn audit_listing(&self, platform: &Platform) -> AuditResult {
        let mut query =
            Query { scope: Scope::All, filter: Filter::Everything, before: None, limit: 7 };
        let mut listed = BTreeSet::new();
        let mut last = Timestamp::MAX;
        loop {
            let page = pollster::block_on(platform.list(&query)).map_err(broken)?;
            for job in &page.jobs {
                let (id, created_at) = (job.id(), job.envelope.created_at);
                ensure(created_at <= last, "I2", || format!("{id} is out of order"))?;
                ensure(!listed.contains(&id), "I2", || format!("{id} is listed twice"))?;
                ensure(self.jobs.contains_key(&id), "I2", || format!("{id} was never submitted"))?;
                listed.insert(id);
                last = created_at;
            }
            query.before = page.next;
            if page.next.is_none() {
                break;
            }
        }
        let existing_jobs: BTreeSet<JobId> = self.existing_jobs().into_iter().collect();
        ensure(listed == existing_jobs, "I1", || "the listing and the jobs differ".into())
    }

    /// A listing by the stranger is empty.
    fn audit_stranger(&self, platform: &Platform) -> AuditResult {
        let scope = self.stranger.clone();
        let query = Query { scope, filter: Filter::Everything, before: None, limit: 1 };
        let page = pollster::block_on(platform.list(&query)).map_err(broken)?;
        ensure(page.jobs.is_empty(), "I18", || "a stranger was shown a listing".into())
    }

    /// Per tenant and type: submitted = queued + running + ended.
    fn audit_counts(&self, platform: &Platform) -> AuditResult {
        let mut counted: BTreeMap<(JobType, Tenant), Counts> = BTreeMap::new();
        for watch in self.jobs.values().filter(|watch| watch.last_read.is_some()) {
            let queue = (watch.submitted_job.job_type.clone(), watch.submitted_job.tenant.clone());
            count(counted.entry(queue).or_default(), watch);
        }
        for depth in pollster::block_on(platform.queues(&Scope::All)).map_err(broken)? {
            let queue = (depth.queue.job_type, depth.queue.tenant);
            let counted_here = counted.remove(&queue).unwrap_or_default();
            ensure(counted_here == depth.counts, "I16", || {
                format!(
                    "{queue:?}: the auditor counted {counted_here:?}, the store {:?}",
                    depth.counts
                )
            })?;
            let paused = self.paused.contains(&queue);
            ensure(depth.paused == paused, "I16", || format!("{queue:?}: paused {paused}?"))?;
        }
        ensure(counted.is_empty(), "I16", || format!("the store lists no queue for {counted:?}"))
    }

    /// Each transition that is announced is announced once, under one id, in order per job.
    fn audit_events(&mut self, platform: &Platform) -> AuditResult {
        while pollster::block_on(platform.number_events()).map_err(broken)? {}
        loop {
            let page = pollster::block_on(platform.events(self.events.last, 50)).map_err(broken)?;
            let Some(last) = page.last().map(|event| event.number) else { break };
            for event in &page {
                self.audit_event(event)?;
            }
            self.events.last = last;
        }
        let touched = |id: &JobId| self.touched.as_ref().is_none_or(|touched| touched.contains(id));
        for (id, watch) in self.jobs.iter().filter(|(id, _)| touched(id)) {
            let not_announced = |row: &&HistoryEntry| {
                row.from != Some(row.to) && !self.events.ids.contains(&(*id, row.seq))
            };
            let not_announced = watch.rows.iter().find(not_announced);
            ensure(not_announced.is_none(), "I10", || {
                format!("{id} was not announced: {not_announced:?}")
            })?;
        }
        Ok(())
    }

    fn audit_event(&mut self, numbered: &NumberedEvent) -> AuditResult {
        let (id, seq) = numbered.event.id();
        let expected = self.events.last + 1;
        ensure(numbered.number >= expected, "I10", || {
            format!("number {} came late", numbered.number)
        })?;
        let gap_free = numbered.number == self.events.ids.len() as u64 + 1;
        ensure(gap_free, "I10", || format!("number {} after a gap", numbered.number))?;
        ensure(self.events.ids.insert((id, seq)), "I10", || {
            format!("{id}.{seq} was announced twice")
        })?;
        let earlier_follows =
            self.events.ids.range((id, seq + 1)..=(id, u64::MAX)).next().is_some();
        ensure(!earlier_follows, "I10", || format!("{id}.{seq} comes after what followed it"))?;
        let Some(watch) = self.jobs.get(&id) else {
            return ensure(false, "I2", || format!("{id} was announced and never submitted"));
        };
        let index = usize::try_from(seq).unwrap_or(usize::MAX).saturating_sub(1);
        // A job may have been erased before its last rows were read.
        let Some(row) = watch.rows.get(index) else { return Ok(()) };
        let kind = numbered.event.kind;
        ensure(kind == kind_of(row), "I10", || format!("{id}.{seq} was announced as {kind:?}"))?;
        // An ended job does not change: the announcement of its end agrees with the job.
        let announced_job = &numbered.event.job;
        let read = watch
            .last_read
            .as_ref()
            .filter(|last_read| last_read.seq == seq && last_read.status().is_ended());
        let same =
            read.is_none_or(|read| read == announced_job) && announced_job.status() == row.to;
        ensure(same || watch.vanished, "I10", || {
            format!("{id}.{seq} was announced with another state of the job")
        })
    }

    /// Once the faults have stopped, every job ends.
    pub(crate) fn audit_all_ended(&self) -> AuditResult {
        let open =
            self.jobs.iter().find(|(_, watch)| watch.status().is_some_and(|s| !s.is_ended()));
        let open = open.map(|(id, watch)| (id, watch.status()));
        ensure(open.is_none(), "I12", || format!("{open:?} never ends"))
    }
}

fn count(counts: &mut Counts, watch: &JobWatch) {
    counts.submitted += 1;
    let Some(status) = watch.status() else {
        counts.erased += 1;
        return;
    };
    let last_read = watch.last_read.as_ref().expect("it has a status");
    let discarded = last_read.ended().is_some_and(|ended| ended.discarded_at.is_some());
    *match status {
        Status::Queued => &mut counts.queued,
        Status::Running => &mut counts.running,
        Status::Completed => &mut counts.completed,
        Status::Failed => &mut counts.failed,
        Status::Poisoned if discarded => &mut counts.discarded,
        Status::Poisoned => &mut counts.poisoned,
        Status::Cancelled => &mut counts.cancelled,
    } += 1;
}

fn kind_of(row: &HistoryEntry) -> EventKind {
    match (row.from, row.to) {
        (Some(Status::Running), Status::Queued) if row.error_code.is_some() => EventKind::Retrying,
        (Some(Status::Poisoned | Status::Failed | Status::Cancelled), Status::Queued) => {
            EventKind::Redriven
        }
        (_, Status::Queued) => EventKind::Queued,
        (_, Status::Running) => EventKind::Running,
        (_, Status::Completed) => EventKind::Completed,
        (_, Status::Failed) => EventKind::Failed,
        (_, Status::Poisoned) => EventKind::Poisoned,
        (_, Status::Cancelled) => EventKind::Cancelled,
    }
}
