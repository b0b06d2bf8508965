//! What SQLite does not say about its log.
//!
//! After a crash SQLite reads the log up to the first frame that is not whole, and takes the rest for a
//! transaction that was never finished. A flipped bit looks the same to it, and every commit behind it
//! would be forgotten without a word. But we sync every commit before the next one begins, so behind
//! a crash there can be the pieces of *one* transaction, and never two. Where there are two, the log is
//! damaged.
//!
//! What cannot be told from a crash: damage to the last transaction, and a log that was cut.

use std::io::{self, Read};

/// How many commits lie behind the first frame that is not whole, where that cannot be a crash.
pub(super) fn commits_out_of_reach(mut log: impl Read) -> io::Result<Option<u64>> {
    let mut head = [0; HEAD_BYTES];
    if !fill(&mut log, &mut head)? {
        return Ok(None); // empty, or a log that was only begun
    }
    let (mut reader, mut lost) = (Reader::new(&head), 0);
    let mut frame = vec![0; FRAME_HEAD_BYTES + reader.page_bytes];
    while fill(&mut log, &mut frame)? {
        if reader.is_lost_commit(&frame) {
            lost += 1;
        }
    }
    Ok(Some(lost).filter(|lost| *lost > 1))
}

const HEAD_BYTES: usize = 32;
const FRAME_HEAD_BYTES: usize = 24;
const PAGE_BYTES: usize = 4_096;

struct Reader {
    page_bytes: usize,
    big_endian: bool,
    /// What marks the frames of this log; frames of an earlier one may lie behind them.
    salts: Option<[u8; 8]>,
    sums: [u32; 2],
    /// Every frame so far is whole.
    whole: bool,
}

impl Reader {
    fn new(head: &[u8; HEAD_BYTES]) -> Self {
        let big_endian = head[3] & 1 == 1;
        let sums = sums([0, 0], &head[..24], big_endian);
        let whole = is_sum(sums, &head[24..32]);
        let page_bytes = number(&head[8..12]) as usize;
        let lawful = page_bytes.is_power_of_two() && (512..=65_536).contains(&page_bytes);
        Reader {
            page_bytes: if lawful { page_bytes } else { PAGE_BYTES },
            big_endian,
            // A head that is damaged marks nothing: the first frame has to say what it is.
            salts: whole.then(|| head[16..24].try_into().expect("eight bytes")),
            sums,
            whole,
        }
    }

    /// Whether `frame` ends a transaction that SQLite will not find.
    fn is_lost_commit(&mut self, frame: &[u8]) -> bool {
        let salts: [u8; 8] = frame[8..16].try_into().expect("eight bytes");
        let marked = *self.salts.get_or_insert(salts) == salts;
        let sums =
            sums(sums(self.sums, &frame[..8], self.big_endian), &frame[24..], self.big_endian);
        let goes_on = is_sum(sums, &frame[16..24]);
        self.whole &= marked && goes_on;
        self.sums = sums;
        let commits = number(&frame[4..8]) != 0;
        // The sum does not cover the marks: where it goes on, the frame is ours and a mark was damaged.
        (marked || goes_on) && commits && !self.whole
    }
}

/// SQLite's checksum over a log, which goes on from frame to frame.
fn sums([mut first, mut second]: [u32; 2], bytes: &[u8], big_endian: bool) -> [u32; 2] {
    let word = |bytes: &[u8]| {
        let word: [u8; 4] = bytes.try_into().expect("four bytes");
        if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    };
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
    }
    [first, second]
}

fn is_sum([first, second]: [u32; 2], bytes: &[u8]) -> bool {
    (number(&bytes[..4]), number(&bytes[4..8])) == (first, second)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// Fills `buffer`; a piece at the end that is too short to fill it is no frame.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
