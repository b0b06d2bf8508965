//! The bytes of each stored type. The order of fields is the format: a new field goes to the end,
//! never between others. A body that ends before a field was written before that field existed.
//! Where that is ambiguous, the body takes a new form (`bytes::FORMAT`).

mod event;
mod fields;
mod job;
mod records;
mod settings;

pub(crate) use event::{EventParts, event_about, event_from_row, event_to_row, event_to_row_in};
pub(crate) use fields::status_number;
pub(crate) use job::{job_from_row, job_to_row_in};
pub(crate) use records::{record_from_row, record_to_row};
pub(crate) use settings::{COUNTS, Commit, Deltas, StoreMeta, StoredWorker, from_scope, to_scope};

use super::{
    bytes::{Codec, Decoder, Encoder},
    seal::{Damage, Kind, seal, unseal},
};
use crate::queue::{Counts, Queue};
use engine::{
    ApiKey, AuditEntry, Envelope, FilePolicy, HistoryEntry, KeyUse, Pause, Policy, SigningKey,
    Step, WebhookKey,
};

/// A type that fills a row of its own.
pub(crate) trait Body: Codec {
    const KIND: Kind;
}

macro_rules! bodies {
    ($($kind:ident: $body:ty),+) => { $(impl Body for $body { const KIND: Kind = Kind::$kind; })+ };
}
bodies! {
    Envelope: Envelope, History: HistoryEntry, Step: Step, Counts: Counts, Policy: Policy,
    Worker: StoredWorker, Commit: Commit, StoreMeta: StoreMeta, Queue: Queue, Pause: Pause,
    ApiKey: ApiKey, SigningKey: SigningKey, Audit: AuditEntry, FilePolicy: FilePolicy,
    WebhookKey: WebhookKey, KeyUse: KeyUse
}

/// The sealed bytes of row `no`.
pub(crate) fn to_row<T: Body>(no: i64, value: &T) -> Vec<u8> {
    to_row_in(Vec::with_capacity(160), no, value)
}

/// The same, in a reused buffer.
pub(crate) fn to_row_in<T: Body>(buffer: Vec<u8>, no: i64, value: &T) -> Vec<u8> {
    let mut out = Encoder::begin_in(buffer);
    value.write(&mut out);
    seal(T::KIND, no, out.bytes)
}

/// The value of row `no`, if it is as it was written.
pub(crate) fn from_row<T: Body>(no: i64, sealed: &[u8]) -> Result<T, Damage> {
    open(T::KIND, no, sealed, read_to_end)
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

fn read_to_end<T: Codec>(mut from: Decoder<'_>) -> Option<T> {
    let value = T::read(&mut from)?;
    from.end(value)
}

/// The unsealed bytes of a value, for a row that seals more than them.
pub(crate) fn to_plain<T: Body>(value: &T) -> Vec<u8> {
    let mut out = Encoder::begin_in(Vec::new());
    value.write(&mut out);
    out.bytes
}

pub(crate) fn from_plain<T: Body>(bytes: &[u8]) -> Option<T> {
    Decoder::begin(bytes).and_then(read_to_end)
}

#[cfg(test)]
mod tests;
