//! Policies, workers and counters.

use super::Body;
use crate::{
    form::{
        bytes::{In, Out},
        seal::Kind,
    },
    queue::{Counts, Queue},
};
use engine::{
    Backoff, ExecCommand, HandlerUrl, Host, Jitter, Job, JobType, JsonText, Policy, ReadyMade,
    Scope, Tenant, Timestamp,
};
use std::{collections::BTreeMap, sync::Arc};

impl Body for Policy {
    const KIND: Kind = Kind::Policy;

    fn write(&self, out: &mut Out) {
        out.number(self.max_attempts.into());
        out.span(self.lease);
        out.span(self.timeout);
        out.span(self.backoff.base);
        out.number(self.backoff.factor_hundredths.into());
        out.span(self.backoff.max);
        out.flag(match self.backoff.jitter {
            Jitter::Full => true,
            Jitter::None => false,
        });
        out.number(self.lost_workers_max.into());
        out.span(self.key_window);
        out.span(self.retention);
        out.maybe(self.max_queued, Out::number);
        out.maybe(self.concurrency, |out, slots| out.number(slots.into()));
        // Nothing is said of them where there is neither, as before there were any.
        if self.schema.is_some() || self.handler.is_some() {
            out.maybe(self.schema.as_ref(), |out, schema| out.text(schema.as_str()));
            out.maybe(self.handler.as_ref(), write_handler);
        }
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        let mut policy = Policy {
            max_attempts: from.small()?,
            lease: from.span()?,
            timeout: from.span()?,
            backoff: Backoff {
                base: from.span()?,
                factor_hundredths: from.small()?,
                max: from.span()?,
                jitter: if from.flag()? { Jitter::Full } else { Jitter::None },
            },
            lost_workers_max: from.small()?,
            key_window: from.span()?,
            retention: from.span()?,
            max_queued: from.maybe(In::number)?,
            concurrency: from.maybe(In::small)?,
            schema: None,
            handler: None,
        };
        if !from.is_empty() {
            policy.schema = from.maybe(|from| Some(JsonText::from_stored(from.text()?)))?;
            policy.handler = from.maybe(read_handler)?;
        }
        Some(policy)
    }
}

/// The first word says which; the numbers are on disk and never change.
fn write_handler(out: &mut Out, handler: &ReadyMade) {
    match handler {
        ReadyMade::Http(url) => {
            out.number(0);
            out.text(url.as_str());
        }
        ReadyMade::Exec(command) => {
            out.number(1);
            out.number(command.words().len() as u64);
            command.words().iter().for_each(|word| out.text(word));
        }
    }
}

fn read_handler(from: &mut In<'_>) -> Option<ReadyMade> {
    match from.number()? {
        0 => Some(ReadyMade::Http(HandlerUrl::parse(from.text()?).ok()?)),
        1 => {
            let count = from.number()?;
            let words = (0..count).map(|_| from.text()).collect::<Option<Vec<_>>>()?;
            Some(ReadyMade::Exec(ExecCommand::parse(&words).ok()?))
        }
        _ => None,
    }
}

/// A worker as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) host: Option<Host>,
    /// Shared: every listing copies those of all workers.
    pub(crate) job_types: Arc<[JobType]>,
    pub(crate) seen_at: Timestamp,
    /// It signed off, and gave no sign of life since.
    pub(crate) left: bool,
}

impl Body for Seen {
    const KIND: Kind = Kind::Worker;

    fn write(&self, out: &mut Out) {
        out.maybe(self.host.as_ref(), |out, host| out.text(host.as_str()));
        out.number(self.job_types.len() as u64);
        self.job_types.iter().for_each(|job_type| out.text(job_type.as_str()));
        out.time(self.seen_at);
        out.flag(self.left);
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        let host = from.maybe(|from| Host::parse(from.text()?).ok())?;
        let count = from.number()?;
        let job_type = |from: &mut In<'_>| JobType::parse(from.text()?).ok();
        let job_types = (0..count).map(|_| job_type(from)).collect::<Option<_>>()?;
        Some(Seen { host, job_types, seen_at: from.time()?, left: from.flag()? })
    }
}

/// A scope as a column: a tenant's name cannot be `*`.
pub(crate) fn to_scope(scope: &Scope) -> &str {
    match scope {
        Scope::One(tenant) => tenant.as_str(),
        Scope::All => "*",
    }
}

pub(crate) fn from_scope(column: &str) -> Option<Scope> {
    if column == "*" { Some(Scope::All) } else { Some(Scope::One(Tenant::parse(column).ok()?)) }
}

/// What the jobs of one commit did to the counts of their queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deltas(pub(crate) BTreeMap<i64, [i64; COUNTS]>);

/// How many numbers there are in [`Counts`].
pub(crate) const COUNTS: usize = 9;

fn numbers(counts: &Counts) -> [u64; COUNTS] {
    let Counts { submitted, queued, running, completed, failed, .. } = *counts;
    let Counts { poisoned, discarded, cancelled, erased, .. } = *counts;
    [submitted, queued, running, completed, failed, poisoned, discarded, cancelled, erased]
}

fn counts(numbers: [u64; COUNTS]) -> Counts {
    let [submitted, queued, running, completed, failed, poisoned, discarded, cancelled, erased] =
        numbers;
    Counts { submitted, queued, running, completed, failed, poisoned, discarded, cancelled, erased }
}

impl Deltas {
    /// Remembers that the counts of `queue` went from `before` to `after`.
    pub(crate) fn add(&mut self, queue: i64, before: &Counts, after: &Counts) {
        let deltas = self.0.entry(queue).or_default();
        for ((delta, was), is) in deltas.iter_mut().zip(numbers(before)).zip(numbers(after)) {
            *delta += is as i64 - was as i64;
        }
    }

    /// Counts one change of one job: from what it was to what it is.
    pub(crate) fn count(&mut self, queue: i64, before: Option<&Job>, after: Option<&Job>) {
        // Counts do not go below zero; what one change makes of a thousand of each is the same.
        let some = counts([1_000; COUNTS]);
        let mut changed = some;
        changed.count(before, after);
        self.add(queue, &some, &changed);
    }

    /// Applies the changes to `all`; `None` where they do not fit, so that something is damaged.
    pub(crate) fn apply(&self, all: &mut BTreeMap<i64, Counts>) -> Option<()> {
        for (queue, deltas) in &self.0 {
            let entry = all.entry(*queue).or_default();
            let mut sums = numbers(entry);
            for (sum, delta) in sums.iter_mut().zip(deltas) {
                *sum = sum.checked_add_signed(*delta)?;
            }
            *entry = counts(sums);
        }
        Some(())
    }
}

/// What a commit leaves behind beside its rows: the time and the last numbers it used, and what it did
/// to the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) at: Timestamp,
    pub(crate) last_no: i64,
    pub(crate) last_event: i64,
    pub(crate) deltas: Deltas,
}

impl Body for Commit {
    const KIND: Kind = Kind::Commit;

    fn write(&self, out: &mut Out) {
        out.time(self.at);
        out.signed(self.last_no);
        out.signed(self.last_event);
        self.deltas.write(out);
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some(Commit {
            at: from.time()?,
            last_no: from.signed()?,
            last_event: from.signed()?,
            deltas: Deltas::read(from)?,
        })
    }
}

/// What the house knows of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HouseRow {
    /// Raised by a restore, so that no lease from before is believed.
    pub(crate) epoch: u32,
    /// Announcements up to this number are published.
    pub(crate) numbered: i64,
    /// Jobs up to this number are in `listing`.
    pub(crate) listed: i64,
}

impl Body for HouseRow {
    const KIND: Kind = Kind::House;

    fn write(&self, out: &mut Out) {
        out.number(self.epoch.into());
        out.signed(self.numbered);
        out.signed(self.listed);
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some(HouseRow { epoch: from.small()?, numbered: from.signed()?, listed: from.signed()? })
    }
}

impl Body for Queue {
    const KIND: Kind = Kind::Queue;

    fn write(&self, out: &mut Out) {
        out.text(self.job_type.as_str());
        out.text(self.tenant.as_str());
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        let job_type = JobType::parse(from.text()?).ok()?;
        Some(Queue { job_type, tenant: Tenant::parse(from.text()?).ok()? })
    }
}

/// A queue that nobody may claim from.
impl Body for (JobType, Scope) {
    const KIND: Kind = Kind::Pause;

    fn write(&self, out: &mut Out) {
        out.text(self.0.as_str());
        out.text(to_scope(&self.1));
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some((JobType::parse(from.text()?).ok()?, from_scope(from.text()?)?))
    }
}

impl Deltas {
    fn write(&self, out: &mut Out) {
        out.number(self.0.len() as u64);
        for (queue, deltas) in &self.0 {
            out.signed(*queue);
            deltas.iter().for_each(|delta| out.signed(*delta));
        }
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        let count = from.number()?;
        let mut all = BTreeMap::new();
        for _ in 0..count {
            let queue = from.signed()?;
            let mut deltas = [0; COUNTS];
            for delta in &mut deltas {
                *delta = from.signed()?;
            }
            all.insert(queue, deltas);
        }
        Some(Deltas(all))
    }
}

impl Body for Counts {
    const KIND: Kind = Kind::Counts;

    fn write(&self, out: &mut Out) {
        numbers(self).into_iter().for_each(|number| out.number(number));
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        let mut numbers = [0; COUNTS];
        for number in &mut numbers {
            *number = from.number()?;
        }
        Some(counts(numbers))
    }
}
