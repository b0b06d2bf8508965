//! Where claims begin to look.
//!
//! A row that was claimed leaves a dead entry in the index, and while some transaction elsewhere stays open nobody
//! can clear it away. So that claims do not walk over all of them again and again, a node remembers for each line, a
//! queue and a rank, below which time there was nothing left. A job may still appear below it: one that another
//! node put back, or committed late. So a line is looked at from its very beginning every few seconds.

use super::pending::PendingWrites;
use crate::codec::stored::rank_of;
use engine::{Priority, Timestamp};
use std::{collections::HashMap, time::Duration};

/// Ranks are the priorities, the highest first.
pub(super) const RANKS: usize =
    Priority::HIGHEST.number() as usize - Priority::LOWEST.number() as usize + 1;

/// All ranks, as a column has them.
pub(super) fn ranks() -> Vec<i16> {
    (0..RANKS as i16).collect()
}

/// A line is looked at from its beginning this often.
const WHOLE_LOOK_EVERY: Duration = Duration::from_secs(5);
/// A job may be committed so much later than it became due and still be found at once: whoever hands it over reads or foresees
/// the time first.
const LATE_MS: i64 = 2_000;

/// Floors of all lines of one queue.
#[derive(Clone, Copy)]
struct LowerBounds {
    by_rank: [i64; RANKS],
    /// When it was last looked at from the beginning, by the node's own clock.
    whole_look: Duration,
}

/// Everything a node remembers about lines. Hints only: a claim that finds too little costs time and no job.
#[derive(Default)]
pub(super) struct ClaimCursors {
    floors: HashMap<i64, LowerBounds>,
    /// When each queue was last served, counted in jobs: whoever waited longest comes first.
    served: HashMap<i64, u64>,
    serves: u64,
}

/// What a look at one queue came to.
pub(super) struct DueScanSummary {
    pub(super) queue: i64,
    /// Whether it was looked at from its beginning.
    pub(super) whole: bool,
    /// The last job that was found, if there may be more behind it.
    pub(super) until: Option<(usize, i64)>,
    pub(super) now: Timestamp,
    pub(super) at: Duration,
}

impl ClaimCursors {
    /// Where to begin in each line of a queue, and whether that is the very beginning.
    pub(super) fn floors(&self, queue: i64, at: Duration) -> ([i64; RANKS], bool) {
        match self.floors.get(&queue) {
            Some(floors) if at.saturating_sub(floors.whole_look) < WHOLE_LOOK_EVERY => {
                (floors.by_rank, false)
            }
            Some(_) | None => ([0; RANKS], true),
        }
    }

    pub(super) fn looked(&mut self, looked: &DueScanSummary) {
        let start = LowerBounds { by_rank: [0; RANKS], whole_look: looked.at };
        let floors = self.floors.entry(looked.queue).or_insert(start);
        if looked.whole {
            *floors = start;
        }
        let emptied = looked.until.map_or(RANKS, |(rank, _)| rank);
        let late = looked.now.unix_ms() - LATE_MS;
        for floor in &mut floors.by_rank[..emptied] {
            *floor = (*floor).max(late);
        }
        if let Some((rank, run_at)) = looked.until {
            floors.by_rank[rank] = floors.by_rank[rank].max(run_at.min(late));
        }
    }

    /// Jobs that wait from now on, maybe below a floor.
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
        lines.looked(&DueScanSummary { queue: 1, whole: true, until, now, at });
        lines.floors(1, at).0
    }

    #[test]
    fn a_job_that_is_committed_a_moment_late_is_found() {
        let late = NOW - LATE_MS;
        assert_eq!(after(None), [late; RANKS], "nothing was left");
        let floors = after(Some((MIDDLE, NOW - 1)));
        assert_eq!(floors[MIDDLE], late, "others may still hand over what is due before that");
        assert_eq!(floors[MIDDLE + 1], 0, "nobody looked there");
    }

    #[test]
    fn what_was_walked_over_is_not_walked_over_again() {
        let old = NOW - 10 * LATE_MS;
        assert_eq!(after(Some((MIDDLE, old)))[MIDDLE], old);
    }

    #[test]
    fn a_line_is_looked_at_from_its_beginning_again_and_again() {
        let mut lines = ClaimCursors::default();
        let (now, at) = (Timestamp::from_unix_ms(NOW), Duration::from_secs(100));
        lines.looked(&DueScanSummary { queue: 1, whole: true, until: None, now, at });
        assert!(!lines.floors(1, at).1);
        assert_eq!(lines.floors(1, at + WHOLE_LOOK_EVERY), ([0; RANKS], true));
    }
}
