//! The latest rows of a job's history, kept in the job's own row.
//!
//! Every transition writes that row anyway; a separate history row would cost as much as the
//! transition itself. Only a long history has rows of its own: those that no longer fit here move
//! to the table `history`.

use super::{
    bytes::{Codec, Decoder, Encoder},
    seal::{Damage, Kind},
};
use engine::HistoryEntry;

/// The most rows that are kept with the job.
const ROWS_MAX: usize = 8;
/// The most bytes, for rows with long messages: each heartbeat writes the whole job row.
const BYTES_MAX: usize = 768;

/// The rows in encoded form, oldest first: they are copied more often than they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InlineHistory {
    count: usize,
    bytes: Vec<u8>,
}

/// A row of history, and the number of its event, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HistoryRow {
    pub(crate) entry: HistoryEntry,
    pub(crate) event: Option<i64>,
}

impl InlineHistory {
    /// Adds a row. Returns the rows that had to make room for it: they need rows of their own.
    pub(crate) fn add(
        &mut self,
        no: i64,
        entry: &HistoryEntry,
        event: Option<i64>,
    ) -> Result<Vec<HistoryRow>, Damage> {
        let mut moved = Vec::new();
        if self.count >= ROWS_MAX || self.bytes.len() >= BYTES_MAX {
            moved = std::mem::take(self).rows(no)?;
        }
        self.push(entry, event);
        Ok(moved)
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// A copy with space for another row.
    pub(crate) fn copy(&self) -> Self {
        let mut bytes = Vec::with_capacity(self.bytes.len() + 128);
        bytes.extend_from_slice(&self.bytes);
        InlineHistory { count: self.count, bytes }
    }

    pub(crate) fn push(&mut self, entry: &HistoryEntry, event: Option<i64>) {
        let mut out = Encoder::appending_to(std::mem::take(&mut self.bytes));
        event.write(&mut out);
        entry.write(&mut out);
        self.bytes = out.bytes;
        self.count += 1;
    }

    /// All rows, oldest first.
    pub(crate) fn rows(&self, no: i64) -> Result<Vec<HistoryRow>, Damage> {
        let mut from = Decoder::from(&self.bytes);
        let row = |from: &mut Decoder<'_>| {
            from.begin_times();
            Some(HistoryRow { event: Codec::read(from)?, entry: Codec::read(from)? })
        };
        let rows: Option<Vec<_>> = (0..self.count).map(|_| row(&mut from)).collect();
        rows.and_then(|rows| from.end(rows)).ok_or(Damage { kind: Kind::Job, no })
    }

    pub(crate) fn write(&self, out: &mut Encoder) {
        out.number(self.count as u64);
        out.bytes(&self.bytes);
    }

    /// Consumes the rest of the body.
    pub(crate) fn read(from: &mut Decoder<'_>) -> Option<Self> {
        let count = usize::try_from(from.number()?).ok()?;
        let bytes = from.rest().to_vec();
        Some(InlineHistory { count, bytes })
    }
}
