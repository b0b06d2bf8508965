//! Outbox pages: one row of the table `outbox` holds several events that were written together.
//!
//! A row for each event would cost as much as all the rest of a transition. The key of a page is
//! the number of its first event, and the others follow without a gap. Each is sealed by itself, so
//! that damage to one does not affect its neighbours.

use super::{
    body::{EventParts, event_to_row_in},
    bytes::{Decoder, Encoder},
    seal::{Damage, Kind},
};

/// The most bytes of a page: as much as a page of the database file holds without an overflow page.
const PAGE_BYTES: usize = 3_800;

/// An entry of an outbox page: a sealed event and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxEntry<'a> {
    pub(crate) number: i64,
    pub(crate) sealed: &'a [u8],
}

/// Writes events in the order of their numbers.
#[derive(Default)]
pub(crate) struct OutboxPages {
    /// Pages by the number of their first event.
    pub(crate) written: Vec<(i64, Vec<u8>)>,
    /// Whether the last page takes more entries.
    accepts_more: bool,
    /// A reused buffer for one entry.
    entry: Vec<u8>,
}

impl OutboxPages {
    pub(crate) fn add(&mut self, number: i64, no: i64, (kind, at, job): EventParts<'_>) {
        let entry = event_to_row_in(std::mem::take(&mut self.entry), number, no, (kind, at, job));
        self.add_entry(OutboxEntry { number, sealed: &entry });
        self.entry = entry;
    }

    /// Closes the last page: the next event's number does not follow, so it begins a new page.
    pub(crate) fn close(&mut self) {
        self.accepts_more = false;
    }

    fn add_entry(&mut self, entry: OutboxEntry<'_>) {
        let page = match self.written.last_mut() {
            Some((_, page))
                if self.accepts_more && page.len() + entry.sealed.len() < PAGE_BYTES =>
            {
                page
            }
            Some(_) | None => {
                self.written.push((entry.number, Vec::with_capacity(PAGE_BYTES)));
                self.accepts_more = true;
                &mut self.written.last_mut().expect("it was just begun").1
            }
        };
        write(page, entry);
    }

    /// A page with these entries, however long they are.
    pub(crate) fn one(entries: &[OutboxEntry<'_>]) -> Vec<u8> {
        let mut page = Vec::new();
        entries.iter().for_each(|entry| write(&mut page, *entry));
        page
    }
}

fn write(page: &mut Vec<u8>, entry: OutboxEntry<'_>) {
    let mut out = Encoder::appending_to(std::mem::take(page));
    out.number(entry.sealed.len() as u64);
    out.bytes(entry.sealed);
    *page = out.bytes;
}

/// The entries of the page whose first number is `first`.
pub(crate) fn entries(first: i64, page: &[u8]) -> Result<Vec<OutboxEntry<'_>>, Damage> {
    let mut from = Decoder::from(page);
    let mut entries = Vec::new();
    let mut number = first;
    while !from.is_empty() {
        let entry = read(&mut from, number).ok_or(Damage { kind: Kind::Event, no: number })?;
        entries.push(entry);
        number += 1;
    }
    if entries.is_empty() {
        return Err(Damage { kind: Kind::Event, no: first });
    }
    Ok(entries)
}

fn read<'a>(from: &mut Decoder<'a>, number: i64) -> Option<OutboxEntry<'a>> {
    let length = usize::try_from(from.number()?).ok()?;
    Some(OutboxEntry { number, sealed: from.slice(length)? })
}
