//! The codec of events.

use super::{
    job::{read_job, write_job},
    open,
};
use crate::codec::{
    bytes::{Codec, Encoder},
    seal::{Damage, Kind, seal},
};
use engine::{Envelope, Event, EventKind, Job, Timestamp};
use std::sync::Arc;

/// The sealed bytes of an event about job `no`; the envelope is stored elsewhere.
pub(crate) fn event_to_row(number: i64, no: i64, event: &Event) -> Vec<u8> {
    event_to_row_in(Vec::new(), number, no, (event.kind, event.at, &event.job))
}

/// The parts of an event: its kind, its time and its job.
pub(crate) type EventParts<'a> = (EventKind, Timestamp, &'a Job);

/// The same, in a reused buffer.
pub(crate) fn event_to_row_in(
    buffer: Vec<u8>,
    number: i64,
    no: i64,
    (kind, at, job): EventParts<'_>,
) -> Vec<u8> {
    let mut out = Encoder::begin_in(buffer);
    (no, (kind, at)).write(&mut out);
    write_job(job, &mut out);
    seal(Kind::Event, number, out.bytes)
}

/// The job that an event is about, and its time.
pub(crate) fn event_about(number: i64, sealed: &[u8]) -> Result<(i64, Timestamp), Damage> {
    open(Kind::Event, number, sealed, |mut from| {
        let (no, (_, at)) = About::read(&mut from)?;
        Some((no, at))
    })
}

/// Reassembles an event with its envelope.
pub(crate) fn event_from_row(
    number: i64,
    sealed: &[u8],
    envelope: Arc<Envelope>,
) -> Result<Event, Damage> {
    open(Kind::Event, number, sealed, |mut from| {
        let (_, (kind, at)) = About::read(&mut from)?;
        let job = read_job(&mut from, envelope)?;
        from.end(Event { kind, at, job })
    })
}

/// The fields before the job: its number, the kind of the event and its time.
type About = (i64, (EventKind, Timestamp));
