//! How each thing that is kept looks as bytes. The order of fields is the format: a new field goes to
//! the end, never between, and a body that stops before it was written when there was no such field. Where that
//! cannot be told apart, it takes a new form (`bytes::FORM`).

mod credentials;
mod history;
mod job;
mod records;
mod settings;

pub(crate) use history::{
    Told, event_about, event_from_row, event_onto, event_to_row, status_number,
};
pub(crate) use job::{job_from_row, job_onto};
pub(crate) use records::{record_from_row, record_to_row};
pub(crate) use settings::{COUNTS, Commit, Deltas, HouseRow, Seen, from_scope, to_scope};

use super::{
    bytes::{In, Out},
    seal::{Damage, Kind, seal, unseal},
};

/// Something with a form on disk.
pub(crate) trait Body: Sized {
    const KIND: Kind;
    fn write(&self, out: &mut Out);
    fn read(from: &mut In<'_>) -> Option<Self>;
}

/// The sealed bytes of row `no`.
pub(crate) fn to_row<T: Body>(no: i64, value: &T) -> Vec<u8> {
    onto(Vec::with_capacity(160), no, value)
}

/// The same, on paper that was used before.
pub(crate) fn onto<T: Body>(paper: Vec<u8>, no: i64, value: &T) -> Vec<u8> {
    let mut out = Out::begin_on(paper);
    value.write(&mut out);
    seal(T::KIND, no, out.bytes)
}

/// What row `no` holds, if it is as it was written.
pub(crate) fn from_row<T: Body>(no: i64, sealed: &[u8]) -> Result<T, Damage> {
    let bytes = unseal(T::KIND, no, sealed)?;
    from_plain(bytes).ok_or(Damage { kind: T::KIND, no })
}

/// The bytes of a value, for a row that is sealed with more than them.
pub(crate) fn to_plain<T: Body>(value: &T) -> Vec<u8> {
    let mut out = Out::begin_on(Vec::new());
    value.write(&mut out);
    out.bytes
}

pub(crate) fn from_plain<T: Body>(bytes: &[u8]) -> Option<T> {
    let mut from = In::begin(bytes)?;
    let value = T::read(&mut from)?;
    from.end(value)
}

#[cfg(test)]
mod tests;
