//! Finds damage in SQLite's log that SQLite does not report.
//!
//! After a crash SQLite reads the log up to the first incomplete frame, and takes the rest for an
//! unfinished transaction. A flipped bit looks the same to it, and it would drop every commit
//! behind that bit without an error. But the store syncs every commit before the next one begins,
//! so behind a crash there can be the pieces of *one* transaction, and never of two. If there are
//! two, the log is damaged.
//!
//! Two kinds of damage look like a crash and are not found: damage to the last transaction, and a
//! log that was cut.

use std::io::{self, Read};

/// How many commits lie behind the first incomplete frame, if a crash cannot explain that.
pub(super) fn commits_out_of_reach(mut log: impl Read) -> io::Result<Option<u64>> {
    let mut head = [0; HEAD_BYTES];
    if !fill(&mut log, &mut head)? {
        return Ok(None); // empty, or a log that was only begun
    }
    let (mut reader, mut lost) = (WalReader::new(&head), 0);
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
/// Where the salts of a frame begin.
const SALTS_AT: usize = 8;
/// No disk writes less than this at once.
const SECTOR_BYTES: usize = 512;

struct WalReader {
    page_bytes: usize,
    big_endian: bool,
    /// The salts of this log's frames; frames of an earlier log may lie behind them.
    salts: Option<[u8; 8]>,
    sums: [u32; 2],
    /// The checksum that the previous frame states for itself, damaged or not.
    stated_sums: [u32; 2],
    /// Whether every frame so far is valid.
    is_valid_so_far: bool,
    /// Where the next frame begins.
    offset: usize,
}

impl WalReader {
    fn new(head: &[u8; HEAD_BYTES]) -> Self {
        let big_endian = head[3] & 1 == 1;
        let sums = sums([0, 0], &head[..24], big_endian);
        let is_valid_so_far = is_sum(sums, &head[24..32]);
        let page_bytes = number(&head[8..12]) as usize;
        let lawful = page_bytes.is_power_of_two() && (512..=65_536).contains(&page_bytes);
        WalReader {
            page_bytes: if lawful { page_bytes } else { PAGE_BYTES },
            big_endian,
            // A damaged header has no valid salts, so they are taken from the first frame.
            salts: is_valid_so_far.then(|| head[16..24].try_into().expect("eight bytes")),
            sums,
            stated_sums: [number(&head[24..28]), number(&head[28..32])],
            is_valid_so_far,
            offset: HEAD_BYTES,
        }
    }

    /// Whether `frame` ends a transaction that SQLite will not find.
    fn is_lost_commit(&mut self, frame: &[u8]) -> bool {
        let salts: [u8; 8] = frame[8..16].try_into().expect("eight bytes");
        let has_salts = *self.salts.get_or_insert(salts) == salts;
        let sums =
            sums(sums(self.sums, &frame[..8], self.big_endian), &frame[24..], self.big_endian);
        let continues = is_sum(sums, &frame[16..24]);
        self.is_valid_so_far &= has_salts && continues;
        self.sums = sums;
        let commits = number(&frame[4..8]) != 0 && !self.is_half_written(frame);
        self.stated_sums = [number(&frame[16..20]), number(&frame[20..24])];
        self.offset += frame.len();
        // The checksum does not cover the salts: if it continues, the frame is of this log and its
        // salts are damaged.
        (has_salts || continues) && commits && !self.is_valid_so_far
    }

    /// Whether a crash may have left `frame` with the salts of this log and the beginning of an
    /// earlier log's frame, which ended a transaction long ago. That happens where a sector border
    /// lies between the two, and only the second half of one write reached the disk.
    fn is_half_written(&self, frame: &[u8]) -> bool {
        let split = (self.offset + SALTS_AT).is_multiple_of(SECTOR_BYTES);
        let own = sums(
            sums(self.stated_sums, &frame[..8], self.big_endian),
            &frame[24..],
            self.big_endian,
        );
        split && !is_sum(own, &frame[16..24])
    }
}

/// SQLite's checksum over a log, which continues from frame to frame.
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

/// Fills `buffer`; a rest at the end that is too short for it is no frame.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALTS: [u8; 8] = [7; 8];

    /// A log of this many transactions of two frames each.
    fn log(transactions: u32) -> Vec<u8> {
        let mut log = vec![0; HEAD_BYTES];
        log[3] = 1; // sums of big-endian words
        log[8..12].copy_from_slice(&(PAGE_BYTES as u32).to_be_bytes());
        log[16..24].copy_from_slice(&SALTS);
        let mut sum = sums([0, 0], &log[..24], true);
        log[24..28].copy_from_slice(&sum[0].to_be_bytes());
        log[28..32].copy_from_slice(&sum[1].to_be_bytes());
        for number in 0..transactions * 2 {
            let commits = if number % 2 == 1 { 99u32 } else { 0 };
            let start = [(number + 1).to_be_bytes(), commits.to_be_bytes()].concat();
            let page = vec![number as u8; PAGE_BYTES];
            sum = sums(sums(sum, &start, true), &page, true);
            let sum = [sum[0].to_be_bytes(), sum[1].to_be_bytes()].concat();
            log.extend([&start[..], &SALTS, &sum, &page].concat());
        }
        log
    }

    fn frame(number: usize) -> usize {
        HEAD_BYTES + number * (FRAME_HEAD_BYTES + PAGE_BYTES)
    }

    /// The first frame whose salts begin a sector.
    fn split_frame() -> usize {
        (0..).find(|n| (frame(*n) + SALTS_AT).is_multiple_of(SECTOR_BYTES)).unwrap()
    }

    #[test]
    fn commits_behind_a_flipped_bit_are_counted() {
        let sound = log(40);
        assert_eq!(commits_out_of_reach(&sound[..]).unwrap(), None);
        for number in [0, 10, split_frame(), 75] {
            let mut rotten = sound.clone();
            rotten[frame(number) + 500] ^= 1;
            let lost = commits_out_of_reach(&rotten[..]).unwrap().expect("it is seen");
            assert!(lost + 1 >= 40 - number as u64 / 2, "{lost} of those behind frame {number}");
        }
    }

    /// A crash test found this: one transaction over the frames of an earlier log. One of its
    /// frames was not written, and one was half written.
    #[test]
    fn a_frame_that_was_written_in_half_is_no_second_commit() {
        let split = split_frame();
        let mut torn = log(split as u32 / 2 + 2);
        for number in split - 3..split + 2 {
            torn[frame(number) + 4..frame(number) + 8].fill(0); // all of one transaction
        }
        torn[frame(split - 3) + 500] ^= 1;
        let last = frame(split + 3);
        assert_eq!(commits_out_of_reach(&torn[..last]).unwrap(), None, "one commit");
        torn[frame(split) + 7] = 98; // what an earlier log said here
        assert_eq!(commits_out_of_reach(&torn[..last]).unwrap(), None, "still one");
        torn[frame(split - 1) + 7] = 99;
        assert_eq!(commits_out_of_reach(&torn[..last]).unwrap(), Some(2), "this was no tear");
    }
}
