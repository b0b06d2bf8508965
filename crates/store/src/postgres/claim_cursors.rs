//! Where claims begin to scan.
//!
//! A claimed row leaves a dead entry in the index, and vacuum cannot remove it while an older
//! transaction stays open. To avoid walking over these entries again and again, a node remembers a
//! lower bound per queue and rank: the time below which no job was left. A job may still appear
//! below it, because another node put it back or committed it late. Therefore a scan starts at the
//! start of the index every few seconds.

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

/// A queue is scanned from the start of the index this often.
const FULL_SCAN_EVERY: Duration = Duration::from_secs(5);
/// A job may be committed this much later than it became due and still be found at once: a submit
/// reads or predicts the time before it commits.
const LATE_MS: i64 = 2_000;

/// The lower bounds of all ranks of one queue.
#[derive(Clone, Copy)]
struct LowerBounds {
    by_rank: [i64; RANKS],
    /// When the queue was last scanned from the start of the index, by the node's monotonic clock.
    full_scan_at: Duration,
}

/// What a node remembers about queues. These are hints: a claim that finds too little costs time
/// and loses no job.
#[derive(Default)]
pub(super) struct ClaimCursors {
    lower_bounds: HashMap<i64, LowerBounds>,
    /// A logical clock: the number of jobs that claims have taken here so far.
    serve_count: u64,
    /// When each queue was last served, by that clock. The queue that was served longest ago comes
    /// first.
    last_served: HashMap<i64, u64>,
}

/// The result of a scan of one queue.
pub(super) struct DueScanSummary {
    pub(super) queue: i64,
    /// Whether the scan began at the start of the index.
    pub(super) from_start: bool,
    /// Rank and due time of the last job that was found, if there may be more behind it.
    pub(super) last_found: Option<(usize, i64)>,
    pub(super) now: Timestamp,
    pub(super) scanned_at: Duration,
}

impl ClaimCursors {
    /// Where a scan begins in each rank of a queue, and whether that is the start of the index.
    pub(super) fn lower_bounds(&self, queue: i64, scanned_at: Duration) -> ([i64; RANKS], bool) {
        match self.lower_bounds.get(&queue) {
            Some(lower_bounds)
                if scanned_at.saturating_sub(lower_bounds.full_scan_at) < FULL_SCAN_EVERY =>
            {
                (lower_bounds.by_rank, false)
            }
            Some(_) | None => ([0; RANKS], true),
        }
    }

    pub(super) fn note_scan(&mut self, summary: &DueScanSummary) {
        let start = LowerBounds { by_rank: [0; RANKS], full_scan_at: summary.scanned_at };
        let lower_bounds = self.lower_bounds.entry(summary.queue).or_insert(start);
        if summary.from_start {
            *lower_bounds = start;
        }
        let exhausted_ranks = summary.last_found.map_or(RANKS, |(rank, _)| rank);
        let late = summary.now.unix_ms() - LATE_MS;
        for bound in &mut lower_bounds.by_rank[..exhausted_ranks] {
            *bound = (*bound).max(late);
        }
        if let Some((rank, run_at)) = summary.last_found {
            lower_bounds.by_rank[rank] = lower_bounds.by_rank[rank].max(run_at.min(late));
        }
    }

    /// Lowers the bounds for jobs that are queued from now on.
    pub(super) fn note_queued(&mut self, pending: &PendingWrites) {
        for changed in pending.jobs.values() {
            let Some(run_at) = changed.after.job.run_at() else { continue };
            if let Some(lower_bounds) = self.lower_bounds.get_mut(&changed.after.queue) {
                let bound = &mut lower_bounds.by_rank[usize::from(rank_of(&changed.after.job))];
                *bound = (*bound).min(run_at.unix_ms());
            }
        }
    }

    pub(super) fn last_served(&self, queue: i64) -> u64 {
        self.last_served.get(&queue).copied().unwrap_or(0)
    }

    pub(super) fn note_served(&mut self, queue: i64) {
        self.serve_count += 1;
        self.last_served.insert(queue, self.serve_count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;
    const MIDDLE: usize = RANKS / 2;

    fn after(last_found: Option<(usize, i64)>) -> [i64; RANKS] {
        let (now, scanned_at) = (Timestamp::from_unix_ms(NOW), Duration::from_secs(100));
        let mut cursors = ClaimCursors::default();
        cursors.note_scan(&DueScanSummary {
            queue: 1,
            from_start: true,
            last_found,
            now,
            scanned_at,
        });
        cursors.lower_bounds(1, scanned_at).0
    }

    #[test]
    fn a_job_that_is_committed_a_moment_late_is_found() {
        let late = NOW - LATE_MS;
        assert_eq!(after(None), [late; RANKS], "nothing was left");
        let lower_bounds = after(Some((MIDDLE, NOW - 1)));
        assert_eq!(
            lower_bounds[MIDDLE], late,
            "others may still submit jobs that are due before that"
        );
        assert_eq!(lower_bounds[MIDDLE + 1], 0, "no claim looked there");
    }

    #[test]
    fn a_scan_resumes_at_the_last_job_it_found() {
        let old = NOW - 10 * LATE_MS;
        assert_eq!(after(Some((MIDDLE, old)))[MIDDLE], old);
    }

    #[test]
    fn queues_are_rescanned_from_the_index_start_periodically() {
        let mut cursors = ClaimCursors::default();
        let (now, scanned_at) = (Timestamp::from_unix_ms(NOW), Duration::from_secs(100));
        cursors.note_scan(&DueScanSummary {
            queue: 1,
            from_start: true,
            last_found: None,
            now,
            scanned_at,
        });
        assert!(!cursors.lower_bounds(1, scanned_at).1);
        assert_eq!(cursors.lower_bounds(1, scanned_at + FULL_SCAN_EVERY), ([0; RANKS], true));
    }
}
