//! History rows, steps and announcements.

use super::{
    Body,
    job::{read_job, read_token, write_job, write_token},
};
use crate::form::{
    bytes::{In, Out},
    seal::{Damage, Kind, seal, unseal},
};
use engine::{
    EndingDigest, Envelope, ErrorCode, Event, EventKind, HistoryEntry, Job, JsonText, Status, Step,
    StepName, Timestamp, WorkerId,
};
use std::sync::Arc;

impl Body for HistoryEntry {
    const KIND: Kind = Kind::History;

    fn write(&self, out: &mut Out) {
        out.number(self.seq);
        out.time(self.at);
        out.maybe(self.from, write_status);
        write_status(out, self.to);
        out.number(self.attempt.into());
        out.maybe(self.worker.as_ref(), |out, worker| out.text(worker.as_str()));
        out.maybe(self.error_code.as_ref(), |out, code| out.text(code.as_str()));
        out.maybe(self.message.as_deref(), Out::text);
        out.maybe(self.settled.as_ref(), |out, (token, ending)| {
            write_token(token, out);
            out.bytes(&ending.0);
        });
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some(HistoryEntry {
            seq: from.number()?,
            at: from.time()?,
            from: from.maybe(read_status)?,
            to: read_status(from)?,
            attempt: from.small()?,
            worker: from.maybe(|from| WorkerId::parse(from.text()?).ok())?,
            error_code: from.maybe(|from| ErrorCode::parse(from.text()?).ok())?,
            message: from.maybe(|from| Some(from.text()?.into()))?,
            settled: from.maybe(|from| Some((read_token(from)?, EndingDigest(from.array()?))))?,
        })
    }
}

fn write_status(out: &mut Out, status: Status) {
    out.number(status_number(status));
}

fn read_status(from: &mut In<'_>) -> Option<Status> {
    let number = from.number()?;
    Status::ALL.into_iter().find(|status| status_number(*status) == number)
}

/// What a status is on disk.
pub(crate) fn status_number(status: Status) -> u64 {
    match status {
        Status::Queued => 0,
        Status::Running => 1,
        Status::Completed => 2,
        Status::Failed => 3,
        Status::Poisoned => 4,
        Status::Cancelled => 5,
    }
}

impl Body for Step {
    const KIND: Kind = Kind::Step;

    fn write(&self, out: &mut Out) {
        out.text(self.name.as_str());
        out.time(self.begun_at);
        out.maybe(self.result.as_ref(), |out, result| out.text(result.as_str()));
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some(Step {
            name: StepName::parse(from.text()?).ok()?,
            begun_at: from.time()?,
            result: from.maybe(|from| Some(JsonText::from_stored(from.text()?)))?,
        })
    }
}

/// The sealed bytes of an announcement about job `no`; its envelope is kept elsewhere.
pub(crate) fn event_to_row(number: i64, no: i64, event: &Event) -> Vec<u8> {
    event_onto(Vec::new(), number, no, (event.kind, event.at, &event.job))
}

/// What an announcement says, and of which job.
pub(crate) type Told<'a> = (EventKind, Timestamp, &'a Job);

/// The same, on paper that was used before.
pub(crate) fn event_onto(
    paper: Vec<u8>,
    number: i64,
    no: i64,
    (kind, at, job): Told<'_>,
) -> Vec<u8> {
    let mut out = Out::begin_on(paper);
    out.signed(no);
    out.number(kind_number(kind));
    out.time(at);
    write_job(job, &mut out);
    seal(Kind::Event, number, out.bytes)
}

/// Which job an announcement is about, and when it happened.
pub(crate) fn event_about(number: i64, sealed: &[u8]) -> Result<(i64, Timestamp), Damage> {
    let bytes = unseal(Kind::Event, number, sealed)?;
    let read = || {
        let mut from = In::begin(bytes)?;
        let (no, _) = (from.signed()?, read_kind(&mut from)?);
        Some((no, from.time()?))
    };
    read().ok_or(Damage { kind: Kind::Event, no: number })
}

/// An announcement and its envelope, put together again.
pub(crate) fn event_from_row(
    number: i64,
    sealed: &[u8],
    envelope: Arc<Envelope>,
) -> Result<Event, Damage> {
    let bytes = unseal(Kind::Event, number, sealed)?;
    let read = || {
        let mut from = In::begin(bytes)?;
        let (_, kind) = (from.signed()?, read_kind(&mut from)?);
        let at = from.time()?;
        let job = read_job(&mut from, envelope)?;
        from.end(Event { kind, at, job })
    };
    read().ok_or(Damage { kind: Kind::Event, no: number })
}

const KINDS: [EventKind; 8] = [
    EventKind::Queued,
    EventKind::Running,
    EventKind::Retrying,
    EventKind::Completed,
    EventKind::Failed,
    EventKind::Poisoned,
    EventKind::Cancelled,
    EventKind::Redriven,
];

fn kind_number(kind: EventKind) -> u64 {
    KINDS.iter().position(|known| *known == kind).expect("every kind is listed") as u64
}

fn read_kind(from: &mut In<'_>) -> Option<EventKind> {
    KINDS.get(usize::try_from(from.number()?).ok()?).copied()
}
