//! Compares the content of a disk after a crash with what the store had answered.

use super::{
    Stops,
    facts::Fact,
    open_counting,
    snapshot::{Snapshot, View, events},
    start,
    story::Story,
    with_causes,
};
use crate::{
    Answer, EVENTS_KEPT, Execute, Notification, Reply, Request, Sqlite, Store, StoreError,
    sqlite::{doctor, open::Files},
};
use crash_disk::Disk;
use engine::{
    Command, Entropy, JobDraft, JobId, NewJob, Scope, StepAnswer, Tenant, Timestamp, key_is_free,
};
use pollster::block_on;
use std::collections::{BTreeMap, BTreeSet};

/// Opens a disk after a crash, and compares.
pub(super) struct Checker<'a> {
    pub(super) story: &'a Story,
    /// How many calls had been answered.
    pub(super) answered: usize,
    /// Whether the next call was under way.
    pub(super) under_way: bool,
    /// The states that are allowed.
    pub(super) lawful: Vec<&'a Snapshot>,
}

pub(super) type Verdict<T = ()> = Result<T, String>;

impl<'a> Checker<'a> {
    /// A checker for a crash after `at` operations.
    pub(super) fn at(story: &'a Story, at: usize) -> Self {
        let lawful = story.lawful(at);
        Checker { story, answered: story.answered(at), under_way: lawful.len() > 1, lawful }
    }

    /// Returns the state of the store, if it is correct.
    pub(super) fn check(&self, disk: &Disk) -> Verdict<Snapshot> {
        let stops = Stops::default();
        let store = open_counting(disk, &stops)
            .map_err(|error| format!("it does not open: {}", with_causes(&error)))?;
        let found = into_verdict(Snapshot::read(&store))?;
        self.is_lawful(&found)?;
        self.keeps_facts(&found)?;
        examine(&store)?;
        self.continues_work(&store, &found)?;
        has_one_event_per_transition(&store, &found, self.now())?;
        drop(store);
        if stops.count() > 0 {
            return Err("the store wanted to end its process".into());
        }
        Ok(found)
    }

    /// The state must be exactly one of the allowed ones: nothing lost, nothing invented, nothing
    /// in part.
    fn is_lawful(&self, found: &Snapshot) -> Verdict {
        let broken = found.jobs.values().find(|view| !view.is_lawful());
        if let Some(view) = broken {
            return Err(format!("the history of {} cannot be: {view:?}", view.job.id()));
        }
        let numbers = found.events.windows(2);
        if numbers.into_iter().any(|pair| pair[1].number != pair[0].number + 1) {
            return Err("the events have a gap".into());
        }
        let differences: Vec<String> =
            self.lawful.iter().map_while(|snapshot| found.difference(snapshot)).collect();
        if differences.len() < self.lawful.len() {
            return Ok(());
        }
        Err(differences.join("\nand it is not the snapshot after the call that was under way:\n"))
    }

    /// Everything that the store had answered must still hold.
    fn keeps_facts(&self, found: &Snapshot) -> Verdict {
        let erased: BTreeSet<JobId> = self.facts().filter_map(Fact::erased).collect();
        for fact in self.facts() {
            let view = found.jobs.get(&fact.id()).map(|view| &**view);
            let kept = match view {
                Some(view) => fact.is_kept_by(view),
                // An erasure that was under way may have happened.
                None => erased.contains(&fact.id()) || self.erases_now(fact.id()),
            };
            if !kept {
                return Err(format!("the store answered {fact:?}, but there is {view:?}"));
            }
        }
        Ok(())
    }

    fn facts(&self) -> impl Iterator<Item = &'a Fact> {
        self.story.answer_facts(self.answered)
    }

    fn erases_now(&self, id: JobId) -> bool {
        let under_way = self.story.calls.get(self.answered).filter(|_| self.under_way);
        under_way.is_some_and(|call| call.answer_facts.iter().any(|fact| fact.erased() == Some(id)))
    }

    /// The latest time that the store can have: the call that was under way may have moved it.
    fn now(&self) -> Timestamp {
        self.story.time_after(self.answered + usize::from(self.under_way))
    }

    /// A repeated request must get its first answer, and new work must be accepted.
    fn continues_work(&self, store: &Sqlite, found: &Snapshot) -> Verdict {
        let now = self.now();
        let mut probes = vec![new_work()];
        let mut holders: BTreeMap<_, Vec<JobId>> = BTreeMap::new();
        for fact in self.facts() {
            if let Fact::Submitted(new, answer) = fact
                && let Some(key) = &new.key
            {
                let name = (&new.job_type, &new.tenant, key.name.as_str());
                holders.entry(name).or_default().push(answer.job_id);
            }
        }
        for fact in self.facts() {
            let Some(view) = found.jobs.get(&fact.id()) else { continue };
            match fact {
                Fact::Submitted(new, answer) if !answer.duplicate => {
                    let key = new.key.as_ref().map(|key| key.name.as_str());
                    let holders = holders.get(&(&new.job_type, &new.tenant, key.unwrap_or("")));
                    probes.extend(self.key_again(found, new, view, now, holders));
                }
                Fact::Submitted(..) => {}
                Fact::Settled { id, command, status } => {
                    let expected =
                        Answer::Job(engine::Answer::Settled { status: *status, parent: None });
                    probes.push(Probe::command(*id, command.clone(), expected));
                }
                Fact::StepDone { id, token, name, result } => {
                    if view.job.lease().is_some_and(|lease| lease.token == *token) {
                        let command = Command::BeginStep { token: *token, name: name.clone() };
                        let step = StepAnswer::Done(result.clone());
                        let expected = Answer::Job(engine::Answer::Step(step));
                        probes.push(Probe::command(*id, command, expected));
                    }
                }
                Fact::Saw(_) | Fact::Erased(_) => {}
            }
        }
        let requests = probes.iter().map(|probe| probe.request.clone()).collect();
        let replies = into_verdict(store.execute(requests, Notification::default()))?;
        for (probe, reply) in probes.iter().zip(replies) {
            if !(probe.accepts)(&reply) {
                return Err(format!("{:?} was answered by {reply:?}", probe.request));
            }
        }
        Ok(())
    }

    fn key_again(
        &self,
        found: &Snapshot,
        new: &NewJob,
        view: &View,
        now: Timestamp,
        holders: Option<&Vec<JobId>>,
    ) -> Option<Probe> {
        let holders = holders?.clone();
        let policy = found.policies.get(&new.job_type).cloned().unwrap_or_default();
        if new.key.is_none() || key_is_free(&view.job, &policy, now) {
            return None;
        }
        let mut again = new.clone();
        again.id = JobId::new(now, Entropy(u128::from_be_bytes(new.id.to_bytes()).rotate_left(17)));
        let accepts = move |reply: &Reply| match reply {
            Ok(Answer::Submitted(all)) => all[0].duplicate && holders.contains(&all[0].job_id),
            _ => false,
        };
        Some(Probe { request: Request::Submit(vec![again]), accepts: Box::new(accepts) })
    }
}

/// A request to a store after a crash, and which replies are correct.
struct Probe {
    request: Request,
    accepts: Box<dyn Fn(&Reply) -> bool>,
}

impl Probe {
    fn command(id: JobId, command: Command, expected: Answer) -> Self {
        let request = Request::Command { scope: Scope::All, id, command };
        Probe { request, accepts: Box::new(move |reply| reply.as_ref() == Ok(&expected)) }
    }
}

fn new_work() -> Probe {
    let draft = JobDraft { job_type: "probe".into(), ..JobDraft::default() };
    let context = engine::SubmitContext {
        id: JobId::new(start(), Entropy(1)),
        tenant: Tenant::parse("probe").expect("lawful"),
        entropy: Entropy(2),
        payload_bytes_max: 100,
    };
    let new = draft.check(context).expect("lawful");
    let accepts = |reply: &Reply| match reply {
        Ok(Answer::Submitted(all)) => !all[0].duplicate,
        _ => false,
    };
    Probe { request: Request::Submit(vec![new]), accepts: Box::new(accepts) }
}

impl Fact {
    pub(super) fn id(&self) -> JobId {
        match self {
            Fact::Submitted(_, answer) => answer.job_id,
            Fact::Saw(job) => job.id(),
            Fact::Settled { id, .. } | Fact::StepDone { id, .. } | Fact::Erased(id) => *id,
        }
    }

    fn erased(&self) -> Option<JobId> {
        match self {
            Fact::Erased(id) => Some(*id),
            Fact::Submitted(..) | Fact::Saw(_) | Fact::Settled { .. } | Fact::StepDone { .. } => {
                None
            }
        }
    }

    /// Whether a job in the store agrees with this fact.
    fn is_kept_by(&self, view: &View) -> bool {
        let envelope = &view.job.envelope;
        match self {
            Fact::Submitted(new, _) => {
                let same = (&envelope.tenant, &envelope.job_type) == (&new.tenant, &new.job_type);
                same && view.payload == new.payload && envelope.subject == new.subject
            }
            Fact::Saw(job) => {
                let row = usize::try_from(job.seq - 1).ok().and_then(|n| view.history.get(n));
                let unchanged = view.job.seq > job.seq || view.job.status() == job.status();
                row.is_some_and(|row| row.to == job.status())
                    && view.job.version >= job.version
                    && envelope == &job.envelope
                    && unchanged
            }
            Fact::Settled { command, status, .. } => {
                let token = command.token().expect("a settle shows it");
                let mut records = view.history.iter().filter_map(|row| row.record_of(token));
                records.next().is_some_and(|record| record.status == *status)
                    && records.next().is_none()
            }
            Fact::StepDone { .. } => true, // requested afterwards
            Fact::Erased(_) => false,
        }
    }
}

/// The doctor must find nothing.
fn examine(store: &Sqlite) -> Verdict {
    let health = health(&store.files)?;
    if health.is_empty() { Ok(()) } else { Err(format!("the doctor finds {}", health.join("; "))) }
}

/// The damage that the doctor finds.
pub(super) fn health(files: &Files) -> Verdict<Vec<String>> {
    let examined = doctor::examine_files(files, start(), &mut |_| {});
    let health = examined.map_err(|error| format!("the doctor fails: {}", with_causes(&error)))?;
    Ok(health.findings.into_iter().filter(|f| f.damage).map(|f| f.what).collect())
}

/// After all events are numbered, each transition that is announced must have exactly one event, as
/// long as events are kept.
fn has_one_event_per_transition(store: &Sqlite, found: &Snapshot, now: Timestamp) -> Verdict {
    into_verdict(block_on(store.number_events(1_000_000)))?;
    let events = into_verdict(events(store))?;
    let mut events_by_id = BTreeMap::new();
    for numbered in &events {
        if events_by_id.insert(numbered.event.id(), &numbered.event).is_some() {
            return Err(format!("{:?} is announced twice", numbered.event.id()));
        }
    }
    for view in found.jobs.values() {
        let rows = view.history.iter().filter(|row| row.from != Some(row.to));
        for row in rows.filter(|row| row.at + EVENTS_KEPT > now) {
            let event = events_by_id.get(&(view.job.id(), row.seq));
            if !event.is_some_and(|e| e.at == row.at && e.job.status() == row.to) {
                return Err(format!("{row:?} of {} is announced as {event:?}", view.job.id()));
            }
        }
    }
    Ok(())
}

pub(super) fn into_verdict<T>(answer: Result<T, StoreError>) -> Verdict<T> {
    answer.map_err(|error| format!("the store fails: {}", with_causes(&error)))
}
