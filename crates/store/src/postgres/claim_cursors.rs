//! Where claims begin to scan.
//!
//! A claimed row leaves a dead entry in the index, and vacuum cannot remove it while an older
//! transaction stays open. To avoid walking over these entries again and again, a node remembers a
//! lower bound per queue and rank: the time below which no job was left. A job may still appear
//! below it, because another node put it back or committed it late. Therefore a scan starts from
//! the beginning of the index every few seconds.

use super::pending::PendingWrites;
use crate::codec::stored::rank_of;
use engine::{Priority, Timestamp};
use std::{collections::HashMap, time::Duration};

/// Ranks are the priorities, highest first.
pub(super) const RANKS: usize =
    Priority::HIGHEST.number() as usize - Priority::LOWEST.number() as usize + 1;

/// All ranks, typed like the column.
pub(super) fn ranks() -> Vec<i16> {
    (0..RANKS as i16).collect()
}

/// A queue is scanned from the beginning of the index this often.
const WHOLE_SCAN_EVERY: Duration = Duration::from_secs(5);
/// A job may be committed this much later than it became due and still be found at once: a submit
/// reads or predicts the time before it commits.
const LATE_MS: i64 = 2_000;

/// The lower bounds of all ranks of one queue.
#[derive(Clone, Copy)]
struct LowerBounds {
    by_rank: [i64; RANKS],
    /// When the last scan from the beginning was, by the node's monotonic clock.
    whole_scan: Duration,
}

/// What a node remembers about queues. These are hints: a claim that finds too little costs time
/// and loses no job.
#[derive(Default)]
pub(super) struct ClaimCursors {
    floors: HashMap<i64, LowerBounds>,
    /// When each queue was last served, counted in jobs. The queue that was served longest ago
    /// comes first.
    served: HashMap<i64, u64>,
    serves: u64,
}

/// The result of a scan of one queue.
pub(super) struct DueScanSummary {
    pub(super) queue: i64,
    /// Whether the scan began at the start of the index.
    pub(super) whole: bool,
    /// The last job that was found, if there may be more behind it.
    pub(super) until: Option<(usize, i64)>,
    pub(super) now: Timestamp,
    pub(super) at: Duration,
}

impl ClaimCursors {
    /// Where a scan begins in each rank of a queue, and whether that is the start of the index.
    pub(super) fn floors(&self, queue: i64, at: Duration) -> ([i64; RANKS], bool) {
        match self.floors.get(&queue) {
            Some(floors) if at.saturating_sub(floors.whole_scan) < WHOLE_SCAN_EVERY => {
                (floors.by_rank, false)
            }
            Some(_) | None => ([0; RANKS], true),
        }
    }

    pub(super) fn scanned(&mut self, scanned: &DueScanSummary) {
        let start = LowerBounds { by_rank: [0; RANKS], whole_scan: scanned.at };
        let floors = self.floors.entry(scanned.queue).or_insert(start);
        if scanned.whole {
            *floors = start;
        }
        let emptied = scanned.until.map_or(RANKS, |(rank, _)| rank);
        let late = scanned.now.unix_ms() - LATE_MS;
        for floor in &mut floors.by_rank[..emptied] {
            *floor = (*floor).max(late);
        }
        if let Some((rank, run_at)) = scanned.until {
            floors.by_rank[rank] = floors.by_rank[rank].max(run_at.min(late));
        }
    }

    /// Lowers the bounds for jobs that are queued from now on.
    pub(super) fn note(&mut self, pending: &PendingWrites) {
        for touched in pending.jobs.values() {
            let Some(run_at) = touched.now.job.run_at() else { continue };
            if let Some(floors) = self.floors.get_mut(&touched.now.queue) {
                let floor = &mut floors.by_rank[usize::from(rank_of(&touched.now.job))];
                *floor = (*floor).min(run_at.unix_ms());
            }
        }
    }

    pub(super) fn served(&self, queue: i64) -> u64 {
        self.served.get(&queue).copied().unwrap_or(0)
    }

    pub(super) fn serve(&mut self, queue: i64) {
        self.serves += 1;
        self.served.insert(queue, self.serves);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;
    const MIDDLE: usize = RANKS / 2;

    fn after(until: Option<(usize, i64)>) -> [i64; RANKS] {
        let (now, at) = (Timestamp::from_unix_ms(NOW), Duration::from_secs(100));
        let mut lines = ClaimCursors::default();
        lines.scanned(&DueScanSummary { queue: 1, whole: true, until, now, at });
        lines.floors(1, at).0
    }

    #[test]
    fn a_job_that_is_committed_a_moment_late_is_found() {
        let late = NOW - LATE_MS;
        assert_eq!(after(None), [late; RANKS], "nothing was left");
        let floors = after(Some((MIDDLE, NOW - 1)));
        assert_eq!(floors[MIDDLE], late, "others may still submit jobs that are due before that");
        assert_eq!(floors[MIDDLE + 1], 0, "no claim looked there");
    }

    #[test]
    fn a_scan_resumes_at_the_last_job_it_found() {
        let old = NOW - 10 * LATE_MS;
        assert_eq!(after(Some((MIDDLE, old)))[MIDDLE], old);
    }

    #[test]
    fn queues_are_rescanned_from_the_index_start_periodically() {
        let mut lines = ClaimCursors::default();
        let (now, at) = (Timestamp::from_unix_ms(NOW), Duration::from_secs(100));
        lines.scanned(&DueScanSummary { queue: 1, whole: true, until: None, now, at });
        assert!(!lines.floors(1, at).1);
        assert_eq!(lines.floors(1, at + WHOLE_SCAN_EVERY), ([0; RANKS], true));
    }
}
