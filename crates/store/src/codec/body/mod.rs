//! How each thing that is kept looks as bytes. The order of fields is the format: a new field goes to
//! the end, never between, and a body that stops before it was written when there was no such field. Where that
//! cannot be told apart, it takes a new form (`bytes::FORM`).

mod event;
mod fields;
mod job;
mod records;
mod settings;

pub(crate) use event::{Told, event_about, event_from_row, event_onto, event_to_row};
pub(crate) use fields::status_number;
pub(crate) use job::{job_from_row, job_onto};
pub(crate) use records::{record_from_row, record_to_row};
pub(crate) use settings::{COUNTS, Commit, Deltas, StoreMeta, StoredWorker, from_scope, to_scope};

use super::{
    bytes::{Codec, Decoder, Encoder},
    seal::{Damage, Kind, seal, unseal},
};
use crate::queue::{Counts, Queue};
use engine::{
    ApiKey, AuditEntry, Envelope, HistoryEntry, JobType, Policy, Scope, SigningKey, Step,
};

/// What fills a row of its own.
pub(crate) trait Body: Codec {
    const KIND: Kind;
}

macro_rules! bodies {
    ($($kind:ident: $body:ty),+) => { $(impl Body for $body { const KIND: Kind = Kind::$kind; })+ };
}
bodies! {
    Envelope: Envelope, History: HistoryEntry, Step: Step, Counts: Counts, Policy: Policy,
    Worker: StoredWorker, Commit: Commit, Fixture: StoreMeta, Queue: Queue, Pause: (JobType, Scope),
    ApiKey: ApiKey, SigningKey: SigningKey, Audit: AuditEntry
}

/// The sealed bytes of row `no`.
pub(crate) fn to_row<T: Body>(no: i64, value: &T) -> Vec<u8> {
    onto(Vec::with_capacity(160), no, value)
}

/// The same, on paper that was used before.
pub(crate) fn onto<T: Body>(paper: Vec<u8>, no: i64, value: &T) -> Vec<u8> {
    let mut out = Encoder::begin_on(paper);
    value.write(&mut out);
    seal(T::KIND, no, out.bytes)
}

/// What row `no` holds, if it is as it was written.
pub(crate) fn from_row<T: Body>(no: i64, sealed: &[u8]) -> Result<T, Damage> {
    open(T::KIND, no, sealed, whole)
}

/// Reads a sealed body.
fn open<'a, T>(
    kind: Kind,
    no: i64,
    sealed: &'a [u8],
    read: impl FnOnce(Decoder<'a>) -> Option<T>,
) -> Result<T, Damage> {
    let bytes = unseal(kind, no, sealed)?;
    Decoder::begin(bytes).and_then(read).ok_or(Damage { kind, no })
}

fn whole<T: Codec>(mut from: Decoder<'_>) -> Option<T> {
    let value = T::read(&mut from)?;
    from.end(value)
}

/// The bytes of a value, for a row that is sealed with more than them.
pub(crate) fn to_plain<T: Body>(value: &T) -> Vec<u8> {
    let mut out = Encoder::begin_on(Vec::new());
    value.write(&mut out);
    out.bytes
}

pub(crate) fn from_plain<T: Body>(bytes: &[u8]) -> Option<T> {
    Decoder::begin(bytes).and_then(whole)
}

#[cfg(test)]
mod tests;
