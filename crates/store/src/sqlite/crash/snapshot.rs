//! All that can be read from a store.

use crate::{Counts, NumberedEvent, PAGE_MAX, Query, Queue, Store, StoreError};
use engine::{
    AuditEntry, Filter, HistoryEntry, Job, JobId, JobType, JsonText, Policy, Scope, Status,
};
use pollster::block_on;
use std::{collections::BTreeMap, sync::Arc};

/// What readers see at one moment. Snapshots are compared as a whole, so that any difference
/// counts.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Snapshot {
    pub(super) jobs: BTreeMap<JobId, Arc<View>>,
    pub(super) events: Arc<Vec<NumberedEvent>>,
    pub(super) policies: BTreeMap<JobType, Policy>,
    /// The audit log, newest first.
    audit: Arc<Vec<AuditEntry>>,
    /// The counters of each queue, and whether it is paused.
    queues: Vec<(Queue, Counts, bool)>,
}

/// One job with all its rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub(super) job: Job,
    pub(super) payload: JsonText,
    pub(super) history: Vec<HistoryEntry>,
}

impl Snapshot {
    pub(super) fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let mut snapshot = Snapshot::default();
        for id in ids(store)? {
            snapshot.read_job(store, id)?;
        }
        snapshot.read_events(store)?;
        snapshot.read_settings(store)?;
        Ok(snapshot)
    }

    /// Reads one job again.
    pub(super) fn read_job(&mut self, store: &dyn Store, id: JobId) -> Result<(), StoreError> {
        match View::read(store, id)? {
            Some(view) => drop(self.jobs.insert(id, Arc::new(view))),
            None => drop(self.jobs.remove(&id)),
        }
        Ok(())
    }

    /// Reads the events again.
    pub(super) fn read_events(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        self.events = Arc::new(events(store)?);
        Ok(())
    }

    /// Reads settings and counters again.
    pub(super) fn read_settings(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        self.policies = block_on(store.policies())?;
        self.audit = Arc::new(block_on(store.audit(&Scope::All, None, PAGE_MAX))?);
        let depths = block_on(store.queues(&Scope::All))?;
        let reported = depths.into_iter().map(|depth| (depth.queue, depth.counts, depth.paused));
        self.queues = reported.collect();
        Ok(())
    }

    /// The first difference to `other`, for a failure message.
    pub(super) fn difference(&self, other: &Snapshot) -> Option<String> {
        if let Some(id) = other.jobs.keys().find(|id| !self.jobs.contains_key(id)) {
            return Some(format!("job {id} is not there"));
        }
        if let Some(id) = self.jobs.keys().find(|id| !other.jobs.contains_key(id)) {
            return Some(format!("job {id} should not be there"));
        }
        for (id, view) in &self.jobs {
            let wanted = &other.jobs[id];
            if view != wanted {
                return Some(format!("job {id} is\n    {view:?}\n  and should be\n    {wanted:?}"));
            }
        }
        if self.events != other.events {
            let (are, should) = (self.events.len(), other.events.len());
            return Some(format!("the {are} events are not the {should} that were read"));
        }
        if self.audit != other.audit {
            let (are, should) = (self.audit.len(), other.audit.len());
            return Some(format!(
                "the {are} entries of the audit log are not the {should} that were read"
            ));
        }
        (self != other).then(|| {
            let Snapshot { queues, policies, .. } = self;
            format!(
                "settings or counters are\n    {queues:?} {policies:?}\n  and should be\n    {:?} {:?}",
                other.queues, other.policies
            )
        })
    }
}

impl View {
    fn read(store: &dyn Store, id: JobId) -> Result<Option<Self>, StoreError> {
        let Some(job) = block_on(store.job(&Scope::All, id))? else { return Ok(None) };
        let payload = block_on(store.payload(&Scope::All, id))?.expect("its job is there");
        Ok(Some(View { job, payload, history: block_on(store.history(&Scope::All, id, 0))? }))
    }

    /// I4, I5, I9: the history has no gap, each transition is allowed, it ends in the job's status,
    /// and each life has one ending.
    pub(super) fn is_lawful(&self) -> bool {
        let mut at: Option<Status> = None;
        let in_order = self.history.iter().zip(1..).all(|(row, seq)| {
            let follows = row.seq == seq && row.from == at;
            let was_ended = at.is_some_and(Status::is_ended);
            let stays_ended = !was_ended || row.to == Status::Queued || Some(row.to) == at;
            at = Some(row.to);
            follows && stays_ended
        });
        let times = self.history.is_sorted_by_key(|row| row.at);
        in_order
            && times
            && self.job.seq == self.history.len() as u64
            && at == Some(self.job.status())
    }
}

fn ids(store: &dyn Store) -> Result<Vec<JobId>, StoreError> {
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let query =
            Query { scope: Scope::All, filter: Filter::Everything, before, limit: PAGE_MAX };
        let page = block_on(store.list(&query))?;
        ids.extend(page.jobs.iter().map(Job::id));
        before = page.next;
        if before.is_none() {
            return Ok(ids);
        }
    }
}

pub(super) fn events(store: &dyn Store) -> Result<Vec<NumberedEvent>, StoreError> {
    let mut events: Vec<NumberedEvent> = Vec::new();
    loop {
        let after = events.last().map_or(0, |last| last.number);
        let page = block_on(store.events(after, PAGE_MAX))?;
        let last = page.len() < PAGE_MAX;
        events.extend(page);
        if last {
            return Ok(events);
        }
    }
}
