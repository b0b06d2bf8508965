//! The reads of the memory store, and the pruning of rows that no read returns any more.

use super::tables::{Key, QueuePosition, Tables};
use crate::{
    codec::digest,
    cursor::Cursor,
    queue::{LiveWorkers, Queue, QueueDepth, WorkerSeen},
    store::{
        EVENTS_KEPT, NumberedEvent, Overdue, PAGE_MAX, Page, PoisonCounts, Query, Upcoming,
        WORKERS_KEPT, reported_codes,
    },
    workers::{Leases, list_workers},
};
use engine::{
    AuditEntry, Event, ExplainFacts, Job, JobId, JobType, Scope, Status, Timestamp, WorkerId,
    overdue,
};

impl Tables {
    pub(super) fn list(&self, query: &Query) -> Page {
        let limit = query.limit.clamp(1, PAGE_MAX);
        let cursor = |job: &Job| {
            let created_at = job.envelope.created_at.unix_ms().unsigned_abs();
            Cursor::new(created_at, u128::from_be_bytes(job.id().to_bytes()))
        };
        let older = |job: &&Job| query.before.is_none_or(|before| cursor(job) < before);
        let matching =
            |job: &&Job| query.scope.covers(&job.envelope.tenant) && query.filter.matches(job);
        let mut all: Vec<&Job> = self.jobs.values().filter(older).filter(matching).collect();
        all.sort_unstable_by_key(|job| std::cmp::Reverse(cursor(job)));
        let mut jobs: Vec<Job> = all.into_iter().take(limit + 1).cloned().collect();
        let has_more = jobs.len() > limit;
        jobs.truncate(limit);
        let next = jobs.last().filter(|_| has_more).map(cursor);
        Page { jobs, next }
    }

    pub(super) fn queues(&self, scope: &Scope) -> Vec<QueueDepth> {
        let visible = self.counts.iter().filter(|(queue, _)| scope.covers(&queue.tenant));
        let workers = self.workers(&Scope::All);
        let live = LiveWorkers::of(&workers, self.counts.keys());
        let depth = |queue: &Queue, counts| {
            let due: Vec<_> = self.due(queue).filter_map(|id| self.jobs[&id].run_at()).collect();
            QueueDepth {
                queue: queue.clone(),
                counts,
                due: due.len() as u64,
                oldest_due_at: due.into_iter().min(),
                paused: self.records.is_paused(queue),
                live_workers: live.count(queue),
            }
        };
        visible.map(|(queue, counts)| depth(queue, *counts)).collect()
    }

    pub(super) fn poison_counts(&self, scope: &Scope, job_type: Option<&JobType>) -> PoisonCounts {
        let waits = |job: &&Job| {
            let wanted = job_type.is_none_or(|wanted| job.envelope.job_type == *wanted);
            let waits = job.ended().is_some_and(|ended| ended.discarded_at.is_none());
            wanted && waits && job.status() == Status::Poisoned
        };
        let mut all = PoisonCounts { complete: true, ..PoisonCounts::default() };
        let visible = self.jobs.values().filter(|job| scope.covers(&job.envelope.tenant));
        for job in visible.filter(waits) {
            let failure = job.life.last_failure.as_ref();
            failure.iter().for_each(|last| all.add(&job.envelope.job_type, &last.code, 1));
        }
        let codes = all.counts.values().flatten();
        let groups: Vec<_> =
            codes.map(|(code, count)| (0, digest::of_error(code), *count)).collect();
        let (reported, complete) = reported_codes(&groups);
        all.complete = complete;
        all.counts.values_mut().for_each(|codes| {
            codes.retain(|code, _| reported.contains(&digest::of_error(code)));
        });
        all.counts.retain(|_, codes| !codes.is_empty());
        all
    }

    pub(super) fn workers(&self, scope: &Scope) -> Vec<WorkerSeen> {
        let mut leases = Leases::default();
        self.claims.values().flatten().for_each(|id| leases.count(&self.jobs[id]));
        list_workers(&self.workers, &leases, scope, self.now())
    }

    pub(super) fn explain_facts(&self, scope: &Scope, id: JobId) -> Option<(Job, ExplainFacts)> {
        let job = self.visible(scope, id)?;
        let queue = Queue::of(job);
        let position = QueuePosition::of(job);
        let before = |other: &JobId| QueuePosition::of(&self.jobs[other]) < position;
        let same_type = |other: &&Queue| other.job_type == queue.job_type;
        let running = self.counts.iter().filter(|(other, _)| same_type(other));
        let workers = self.workers(&Scope::All);
        let explain_facts = ExplainFacts {
            now: self.now(),
            pauses: self.records.pauses_of(&queue),
            live_workers: LiveWorkers::of(&workers, [&queue]).count(&queue),
            ahead: self.due(&queue).filter(before).count() as u64,
            running: running.map(|(_, counts)| counts.running).sum(),
            concurrency: self.records.policy(&queue.job_type).concurrency,
            live_children: if job.awaits_children() { self.live_children(job) } else { 0 },
        };
        Some((job.clone(), explain_facts))
    }

    pub(super) fn overdue(&self, limit: usize) -> Vec<Overdue> {
        let overdue_jobs = self.jobs.values().filter_map(|job| {
            let command = overdue(job, self.records.policy(&job.envelope.job_type), self.now())?;
            Some(Overdue { id: job.id(), command })
        });
        let waits_in_vain = |job: &&Job| job.awaits_children() && self.live_children(job) == 0;
        let parents = self.jobs.values().filter(waits_in_vain).filter_map(Overdue::children_ended);
        parents.chain(overdue_jobs).take(self.rules.overdue_max(limit)).collect()
    }

    pub(super) fn next_due(&self, after: Timestamp) -> Upcoming {
        let waiting = self.ready.values().flatten().map(|position| position.run_at);
        Upcoming { now: self.now(), due_at: waiting.filter(|due_at| *due_at > after).min() }
    }

    pub(super) fn number_events(&mut self, limit: usize) -> usize {
        let count = limit.min(self.outbox.len());
        self.numbered.extend(self.outbox.drain(..count));
        self.last_number += count as u64;
        count
    }

    pub(super) fn events(&self, after: u64, limit: usize) -> Vec<NumberedEvent> {
        let dropped = self.last_number - self.numbered.len() as u64;
        let numbered = (dropped + 1..).zip(&self.numbered);
        let wanted = numbered.filter(|(number, _)| *number > after).take(limit.min(PAGE_MAX));
        wanted.map(|(number, event)| NumberedEvent { number, event: event.clone() }).collect()
    }

    pub(super) fn events_of_job(&self, scope: &Scope, id: JobId, after: u64) -> Vec<Event> {
        if self.visible(scope, id).is_none() {
            return Vec::new();
        }
        let all = self.numbered.iter().chain(&self.outbox);
        let wanted = |event: &&Event| event.job.id() == id && event.job.seq > after;
        all.filter(wanted).take(PAGE_MAX).cloned().collect()
    }

    pub(super) fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Vec<AuditEntry> {
        let older = |entry: &&AuditEntry| before.is_none_or(|before| entry.number < before);
        let visible = |entry: &&AuditEntry| *scope == Scope::All || *scope == entry.scope;
        let newest_first = self.audit.iter().rev().filter(older).filter(visible);
        newest_first.take(limit.min(PAGE_MAX)).cloned().collect()
    }

    pub(super) fn prune_leftovers(&mut self, limit: usize) -> usize {
        let keys = self.expired_keys(limit);
        for key in &keys {
            self.keys.remove(key);
        }
        let events = self.old_events(limit - keys.len());
        self.numbered.drain(..events);
        let workers = self.gone_workers(limit - keys.len() - events);
        for worker in &workers {
            self.workers.remove(worker);
        }
        keys.len() + events + workers.len()
    }

    fn expired_keys(&self, limit: usize) -> Vec<Key> {
        let expired = |key: &&Key| self.holder(key).is_none();
        self.keys.keys().filter(expired).take(limit).cloned().collect()
    }

    fn old_events(&self, limit: usize) -> usize {
        let old = |event: &&Event| event.at + EVENTS_KEPT <= self.now();
        self.numbered.iter().take(limit).take_while(old).count()
    }

    fn gone_workers(&self, limit: usize) -> Vec<(Scope, WorkerId)> {
        let all = self.workers(&Scope::All).into_iter();
        let gone = all.filter(|seen| !seen.live && seen.seen_at + WORKERS_KEPT <= self.now());
        gone.take(limit).map(|seen| (seen.scope, seen.worker)).collect()
    }
}
