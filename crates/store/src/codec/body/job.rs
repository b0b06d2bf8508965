//! The changing part of a job; its envelope has a row of its own.

use super::open;
use crate::codec::{
    bytes::{Codec, Decoder, Encoder},
    inline_history::InlineHistory,
    seal::{Damage, Kind, seal},
};
use engine::{Envelope, Job};
use std::sync::Arc;

/// The sealed bytes of the changing part of a job and its inline history, in a reused buffer; the
/// envelope is stored elsewhere.
pub(crate) fn job_to_row_in(
    buffer: Vec<u8>,
    no: i64,
    job: &Job,
    recent: &InlineHistory,
) -> Vec<u8> {
    let mut out = Encoder::begin_in(buffer);
    write_job(job, &mut out);
    recent.write(&mut out);
    seal(Kind::Job, no, out.bytes)
}

/// Reassembles a job with its envelope.
pub(crate) fn job_from_row(
    no: i64,
    sealed: &[u8],
    envelope: Arc<Envelope>,
) -> Result<(Job, InlineHistory), Damage> {
    open(Kind::Job, no, sealed, |mut from| {
        let job = read_job(&mut from, envelope)?;
        let recent = InlineHistory::read(&mut from)?;
        from.end((job, recent))
    })
}

pub(super) fn read_job(from: &mut Decoder<'_>, envelope: Arc<Envelope>) -> Option<Job> {
    Some(Job {
        state: Codec::read(from)?,
        life: Codec::read(from)?,
        max_attempts: Codec::read(from)?,
        expires_at: Codec::read(from)?,
        fence: Codec::read(from)?,
        seq: Codec::read(from)?,
        version: Codec::read(from)?,
        changed_at: Codec::read(from)?,
        envelope,
    })
}

pub(super) fn write_job(job: &Job, out: &mut Encoder) {
    let Job { state, life, max_attempts, expires_at, fence, seq, version, changed_at, envelope: _ } =
        job;
    state.write(out);
    life.write(out);
    max_attempts.write(out);
    expires_at.write(out);
    fence.write(out);
    seq.write(out);
    version.write(out);
    changed_at.write(out);
}
