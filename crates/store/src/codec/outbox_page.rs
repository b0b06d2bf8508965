//! Outbox pages: one row of the table `outbox` holds several announcements that were written
//! together.
//!
//! A row for each announcement would cost as much as all the rest of a transition. The key of a
//! page is the number of its first announcement, and the others follow without a gap. Each is
//! sealed by itself, so that damage to one does not affect its neighbours.

use super::{
    body::{EventParts, event_to_row_in},
    bytes::{Decoder, Encoder},
    seal::{Damage, Kind},
};

/// The most bytes of a page: as much as a page of the database file holds without an overflow page.
const PAGE_BYTES: usize = 3_800;

/// A line of an outbox page: a sealed announcement and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxLine<'a> {
    pub(crate) number: i64,
    pub(crate) sealed: &'a [u8],
}

/// Writes announcements in the order of their numbers.
#[derive(Default)]
pub(crate) struct OutboxPages {
    /// Pages by the number of their first announcement.
    pub(crate) written: Vec<(i64, Vec<u8>)>,
    /// Whether the last page takes more lines.
    open: bool,
    /// A reused buffer for one line.
    line: Vec<u8>,
}

impl OutboxPages {
    pub(crate) fn add(&mut self, number: i64, no: i64, (kind, at, job): EventParts<'_>) {
        let line = event_to_row_in(std::mem::take(&mut self.line), number, no, (kind, at, job));
        self.add_line(OutboxLine { number, sealed: &line });
        self.line = line;
    }

    /// Closes the last page: the next announcement's number does not follow, so it begins a new
    /// page.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    fn add_line(&mut self, line: OutboxLine<'_>) {
        let page = match self.written.last_mut() {
            Some((_, page)) if self.open && page.len() + line.sealed.len() < PAGE_BYTES => page,
            Some(_) | None => {
                self.written.push((line.number, Vec::with_capacity(PAGE_BYTES)));
                self.open = true;
                &mut self.written.last_mut().expect("it was just begun").1
            }
        };
        write(page, line);
    }

    /// A page with these lines, however long they are.
    pub(crate) fn one(lines: &[OutboxLine<'_>]) -> Vec<u8> {
        let mut page = Vec::new();
        lines.iter().for_each(|line| write(&mut page, *line));
        page
    }
}

fn write(page: &mut Vec<u8>, line: OutboxLine<'_>) {
    let mut out = Encoder::after(std::mem::take(page));
    out.number(line.sealed.len() as u64);
    out.bytes(line.sealed);
    *page = out.bytes;
}

/// The lines of the page whose first number is `first`.
pub(crate) fn lines(first: i64, page: &[u8]) -> Result<Vec<OutboxLine<'_>>, Damage> {
    let mut from = Decoder::from(page);
    let mut lines = Vec::new();
    let mut number = first;
    while !from.is_empty() {
        let line = read(&mut from, number).ok_or(Damage { kind: Kind::Event, no: number })?;
        lines.push(line);
        number += 1;
    }
    if lines.is_empty() {
        return Err(Damage { kind: Kind::Event, no: first });
    }
    Ok(lines)
}

fn read<'a>(from: &mut Decoder<'a>, number: i64) -> Option<OutboxLine<'a>> {
    let length = usize::try_from(from.number()?).ok()?;
    Some(OutboxLine { number, sealed: from.slice(length)? })
}
