//! Encodes values as bytes and decodes them. Numbers are varints, texts have their length in front,
//! optional values a tag. A time is written as its distance from the time before it, because most
//! times of a job lie close together. Decoding trusts nothing. (Crates for this need serde, which
//! the engine's types do not implement.)

use engine::{JobId, Timestamp};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A value that can be part of a body.
pub(crate) trait Codec: Sized {
    fn write(&self, out: &mut Encoder);
    /// `None` means that the bytes are not what [`Codec::write`] wrote.
    fn read(from: &mut Decoder<'_>) -> Option<Self>;
}

/// Writes values.
#[derive(Default)]
pub(crate) struct Encoder {
    pub(crate) bytes: Vec<u8>,
    /// The last time written.
    last: i64,
}

impl Encoder {
    /// Begins a body in the present form, in a reused buffer.
    pub(crate) fn begin_in(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.push(FORMAT);
        Encoder::appending_to(buffer)
    }

    /// Appends to `bytes`.
    pub(crate) fn appending_to(bytes: Vec<u8>) -> Self {
        Encoder { bytes, last: 0 }
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn list<'a, T: Codec + 'a>(&mut self, items: impl ExactSizeIterator<Item = &'a T>) {
        self.number(items.len() as u64);
        items.for_each(|item| item.write(self));
    }
}

/// Reads values.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    /// The last time read.
    last: i64,
}

/// The version of the body format. A later version may write another, and still reads this one.
const FORMAT: u8 = 1;

impl<'a> Decoder<'a> {
    /// Begins to read a body.
    pub(crate) fn begin(bytes: &'a [u8]) -> Option<Self> {
        let mut read = Decoder::from(bytes);
        (read.byte()? == FORMAT).then_some(read)
    }

    /// Reads bytes that do not begin a body.
    pub(crate) fn from(bytes: &'a [u8]) -> Self {
        Decoder { bytes, last: 0 }
    }

    /// Resets the time: the next value was encoded on its own, so its first time is absolute.
    pub(crate) fn begin_times(&mut self) {
        self.last = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes.split_off_first().copied()
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

    pub(crate) fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        self.bytes.split_off(..length)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        std::str::from_utf8(self.slice(length)?).ok()
    }

    /// A list with its length in front.
    pub(crate) fn list<T: Codec, C: FromIterator<T>>(&mut self) -> Option<C> {
        let count = self.number()?;
        (0..count).map(|_| T::read(self)).collect()
    }

    /// Ends the body: we never write trailing bytes, so any are damage.
    pub(crate) fn end<T>(self, value: T) -> Option<T> {
        self.bytes.is_empty().then_some(value)
    }
}

/// Implements [`Codec`] by a pair of expressions per type.
macro_rules! codecs {
    ($($type:ty $([$($generic:tt)+])?:
        |$value:ident, $out:ident| $write:expr, |$from:ident| $read:expr;)+) => {$(
        impl $(<$($generic)+>)? Codec for $type {
            fn write(&self, $out: &mut Encoder) {
                let $value = self;
                $write;
            }

            fn read($from: &mut Decoder<'_>) -> Option<Self> {
                $read
            }
        }
    )+};
}
pub(crate) use codecs;

codecs! {
    u64: |number, out| out.number(*number), |from| from.number();
    u32: |number, out| out.number((*number).into()), |from| u32::try_from(from.number()?).ok();
    u8: |number, out| out.number((*number).into()), |from| u8::try_from(from.number()?).ok();
    // Zigzag: the sign goes to the lowest bit, so that small numbers stay short.
    i64: |number, out| out.number(((number << 1) ^ (number >> 63)) as u64), |from| {
        let number = from.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    };
    u128: |number, out| out.bytes(&number.to_be_bytes()),
        |from| Codec::read(from).map(u128::from_be_bytes);
    bool: |flag, out| out.bytes.push((*flag).into()), |from| match from.byte()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    [u8; N] [const N: usize]: |bytes, out| out.bytes(bytes), |from| from.slice(N)?.try_into().ok();
    JobId: |id, out| id.to_bytes().write(out), |from| Codec::read(from).map(JobId::from_bytes);
    Timestamp: |at, out| {
        at.unix_ms().wrapping_sub(out.last).write(out);
        out.last = at.unix_ms();
    }, |from| {
        from.last = from.last.wrapping_add(i64::read(from)?);
        Timestamp::parse("", from.last).ok()
    };
    Duration: |span, out| out.number(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
        |from| from.number().map(Duration::from_millis);
    Box<str>: |text, out| out.text(text), |from| from.text().map(Into::into);
    Arc<str>: |text, out| out.text(text), |from| from.text().map(Into::into);
    Vec<T> [T: Codec]: |items, out| out.list(items.iter()), |from| from.list();
    Arc<[T]> [T: Codec]: |items, out| out.list(items.iter()), |from| from.list();
    [i64; N] [const N: usize]: |numbers, out| numbers.iter().for_each(|number| number.write(out)), |from| {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = i64::read(from)?;
        }
        Some(numbers)
    };
    BTreeMap<K, V> [K: Codec + Ord, V: Codec]: |map, out| {
        out.number(map.len() as u64);
        map.iter().for_each(|(key, value)| {
            key.write(out);
            value.write(out);
        });
    }, |from| from.list::<(K, V), _>();
    // The outer `None` means damage.
    Option<T> [T: Codec]: |value, out| {
        value.is_some().write(out);
        value.iter().for_each(|value| value.write(out));
    }, |from| if bool::read(from)? { T::read(from).map(Some) } else { Some(None) };
    (A, B) [A: Codec, B: Codec]: |pair, out| {
        pair.0.write(out);
        pair.1.write(out);
    }, |from| Some((A::read(from)?, B::read(from)?));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_they_went() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Encoder::default();
            out.number(number);
            assert_eq!(Decoder::from(&out.bytes).number(), Some(number));
        }
        for number in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut out = Encoder::default();
            number.write(&mut out);
            assert_eq!(i64::read(&mut Decoder::from(&out.bytes)), Some(number));
        }
    }

    #[test]
    fn times_come_back_as_they_went() {
        let times = [7, 1_800_000_000_000, 1_800_000_000_001, 0, Timestamp::MAX.unix_ms(), 3];
        let times = times.map(Timestamp::from_unix_ms);
        let mut out = Encoder::default();
        times.iter().for_each(|at| at.write(&mut out));
        let mut from = Decoder::from(&out.bytes);
        assert!(times.iter().all(|at| Timestamp::read(&mut from) == Some(*at)) && from.is_empty());
    }

    #[test]
    fn the_decoder_refuses_malformed_bytes() {
        assert_eq!(Decoder::from(&[0xff; 10]).number(), None, "too large for 64 bits");
        assert_eq!(Decoder::from(&[0xff; 20]).number(), None, "without an end");
        assert_eq!(Decoder::from(&[5, b'a']).text(), None, "cut");
        assert_eq!(Decoder::from(&[1, 0xff]).text(), None, "no UTF-8");
        assert_eq!(bool::read(&mut Decoder::from(&[2])), None);
        assert_eq!(Decoder::from(&[1]).end(()), None, "left over");
        assert!(Decoder::begin(&[9]).is_none(), "another form");
    }
}
