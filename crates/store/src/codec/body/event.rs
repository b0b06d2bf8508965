//! Announcements.

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
    let mut out = Encoder::begin_on(paper);
    (no, (kind, at)).write(&mut out);
    write_job(job, &mut out);
    seal(Kind::Event, number, out.bytes)
}

/// Which job an announcement is about, and when it happened.
pub(crate) fn event_about(number: i64, sealed: &[u8]) -> Result<(i64, Timestamp), Damage> {
    open(Kind::Event, number, sealed, |mut from| {
        let (no, (_, at)) = About::read(&mut from)?;
        Some((no, at))
    })
}

/// An announcement and its envelope, put together again.
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

/// What comes before the job: its number, what happened to it and when.
type About = (i64, (EventKind, Timestamp));
