//! Sheets: announcements that were written together lie together in one row of the table `outbox`.
//!
//! A row for each would cost as much as all the rest of a transition. A sheet is named by the number of
//! its first announcement, the others follow without a gap; each is sealed by itself, so that damage to
//! one is not damage to its neighbours.

use super::{
    body::{Told, event_onto},
    bytes::{Decoder, Encoder},
    seal::{Damage, Kind},
};

/// A sheet is full when it has as much as a page of the file can hold without spilling over.
const SHEET_BYTES: usize = 3_800;

/// A line of a sheet: a sealed announcement and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxLine<'a> {
    pub(crate) number: i64,
    pub(crate) sealed: &'a [u8],
}

/// Writes announcements down, in the order of their numbers.
#[derive(Default)]
pub(crate) struct OutboxPages {
    /// By the number of the first one.
    pub(crate) written: Vec<(i64, Vec<u8>)>,
    /// The last one may be written on.
    open: bool,
    /// The line that is being written.
    line: Vec<u8>,
}

impl OutboxPages {
    pub(crate) fn add(&mut self, number: i64, no: i64, (kind, at, job): Told<'_>) {
        let line = event_onto(std::mem::take(&mut self.line), number, no, (kind, at, job));
        self.add_line(OutboxLine { number, sealed: &line });
        self.line = line;
    }

    /// The next announcement does not follow the last one: it begins a new sheet.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    fn add_line(&mut self, line: OutboxLine<'_>) {
        let sheet = match self.written.last_mut() {
            Some((_, sheet)) if self.open && sheet.len() + line.sealed.len() < SHEET_BYTES => sheet,
            Some(_) | None => {
                self.written.push((line.number, Vec::with_capacity(SHEET_BYTES)));
                self.open = true;
                &mut self.written.last_mut().expect("it was just begun").1
            }
        };
        write(sheet, line);
    }

    /// A sheet with these lines, however long they are.
    pub(crate) fn one(lines: &[OutboxLine<'_>]) -> Vec<u8> {
        let mut sheet = Vec::new();
        lines.iter().for_each(|line| write(&mut sheet, *line));
        sheet
    }
}

fn write(sheet: &mut Vec<u8>, line: OutboxLine<'_>) {
    let mut out = Encoder::after(std::mem::take(sheet));
    out.number(line.sealed.len() as u64);
    out.bytes(line.sealed);
    *sheet = out.bytes;
}

/// The lines of the sheet whose first number is `first`.
pub(crate) fn lines(first: i64, sheet: &[u8]) -> Result<Vec<OutboxLine<'_>>, Damage> {
    let mut from = Decoder::from(sheet);
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
