//! Values as bytes and back: numbers as varints, texts with their length in front, what may be
//! absent behind a tag, and times by how far they are from the one before: most times of a job lie
//! close together. Nothing is believed when it is read. (Crates for this want serde, which the
//! engine's nouns have not.)

use engine::{JobId, Timestamp};
use std::time::Duration;

/// Bytes being written.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) bytes: Vec<u8>,
    /// The time that was written last.
    last: i64,
}

impl Out {
    /// Begins a body in the form that is written today, on paper that was used before.
    pub(crate) fn begin_on(mut paper: Vec<u8>) -> Self {
        paper.clear();
        paper.push(FORM);
        Out::after(paper)
    }

    /// Goes on behind what was written before.
    pub(crate) fn after(bytes: Vec<u8>) -> Self {
        Out { bytes, last: 0 }
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A number that may be negative: the sign goes to the lowest bit, so that small ones stay short.
    pub(crate) fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn time(&mut self, at: Timestamp) {
        let at = at.unix_ms();
        self.signed(at.wrapping_sub(self.last));
        self.last = at;
    }

    pub(crate) fn span(&mut self, span: Duration) {
        self.number(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.bytes.push(flag.into());
    }

    pub(crate) fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// Bytes being read. `None` means that they are not what we wrote.
pub(crate) struct In<'a> {
    bytes: &'a [u8],
    /// The time that was read last.
    last: i64,
}

/// The form of bodies: a later version may write another, and still reads this one.
const FORM: u8 = 1;

impl<'a> In<'a> {
    /// Begins to read a body.
    pub(crate) fn begin(bytes: &'a [u8]) -> Option<Self> {
        let mut read = In::from(bytes);
        (read.byte()? == FORM).then_some(read)
    }

    /// Reads what does not begin a body.
    pub(crate) fn from(bytes: &'a [u8]) -> Self {
        In { bytes, last: 0 }
    }

    /// What follows was written by itself: its first time stands alone.
    pub(crate) fn begin_times(&mut self) {
        self.last = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return None;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(crate) fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (slice, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(slice)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice(N)?.try_into().ok()
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        std::str::from_utf8(self.slice(length)?).ok()
    }

    pub(crate) fn time(&mut self) -> Option<Timestamp> {
        self.last = self.last.wrapping_add(self.signed()?);
        Timestamp::parse("", self.last).ok()
    }

    pub(crate) fn span(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(self.number()?))
    }

    pub(crate) fn id(&mut self) -> Option<JobId> {
        Some(JobId::from_bytes(self.array()?))
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A value that may be absent; the outer `None` is damage.
    pub(crate) fn maybe<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.flag()? { Some(Some(read(self)?)) } else { Some(None) }
    }

    /// The end: what is left over was not written by us.
    pub(crate) fn end<T>(self, value: T) -> Option<T> {
        self.bytes.is_empty().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_they_went() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Out::default();
            out.number(number);
            assert_eq!(In::from(&out.bytes).number(), Some(number));
        }
        for number in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut out = Out::default();
            out.signed(number);
            assert_eq!(In::from(&out.bytes).signed(), Some(number));
        }
    }

    #[test]
    fn times_come_back_as_they_went() {
        let times = [7, 1_800_000_000_000, 1_800_000_000_001, 0, Timestamp::MAX.unix_ms(), 3];
        let times = times.map(Timestamp::from_unix_ms);
        let mut out = Out::default();
        times.iter().for_each(|at| out.time(*at));
        let mut from = In::from(&out.bytes);
        assert!(times.iter().all(|at| from.time() == Some(*at)) && from.is_empty());
    }

    #[test]
    fn what_we_did_not_write_is_not_read() {
        assert_eq!(In::from(&[0xff; 10]).number(), None, "too large for 64 bits");
        assert_eq!(In::from(&[0xff; 20]).number(), None, "without an end");
        assert_eq!(In::from(&[5, b'a']).text(), None, "cut");
        assert_eq!(In::from(&[1, 0xff]).text(), None, "no UTF-8");
        assert_eq!(In::from(&[2]).flag(), None);
        assert_eq!(In::from(&[1]).end(()), None, "left over");
        assert!(In::begin(&[9]).is_none(), "another form");
    }
}
