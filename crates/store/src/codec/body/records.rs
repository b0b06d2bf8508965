//! A record as a sealed row: its version and its body.

use crate::{
    codec::{
        body::to_scope,
        bytes::{Decoder, Encoder},
        digest,
        seal::{Damage, Kind, seal, unseal},
    },
    record::{Record, RecordName},
};

/// The kind and number in the seal of a record. Records have no numbers: the digest of the name
/// ties the row to its record.
fn seal_key(name: &RecordName) -> (Kind, i64) {
    (name.kind.seal(), digest::of_name(&[name.kind.as_str(), to_scope(&name.scope), &name.key]))
}

pub(crate) fn record_to_row(record: &Record) -> Vec<u8> {
    let (kind, no) = seal_key(&record.name);
    let mut out = Encoder::default();
    out.number(record.version);
    out.bytes(&record.body);
    seal(kind, no, out.bytes)
}

pub(crate) fn record_from_row(name: RecordName, sealed: &[u8]) -> Result<Record, Damage> {
    let (kind, no) = seal_key(&name);
    let bytes = unseal(kind, no, sealed)?;
    let mut from = Decoder::from(bytes);
    let version = from.number().ok_or(Damage { kind, no })?;
    Ok(Record { name, version, body: from.rest().into() })
}
