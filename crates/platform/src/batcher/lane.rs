//! Submissions in the order in which they came, and who is held in front when there are too many.

use super::{
    Limits,
    submission::{Size, Submission},
};
use std::collections::VecDeque;

pub(super) struct Lane {
    /// These have their place, whatever becomes of their callers.
    pub(super) submissions: VecDeque<Submission>,
    pub(super) inside: Size,
    bytes_max: usize,
    /// These are as good as still with their callers, and leave with them: else callers who come and
    /// go could fill the memory.
    pub(super) held: VecDeque<Submission>,
}

pub(super) struct Load<'a> {
    limits: &'a Limits,
    taken: Size,
}

impl Lane {
    pub(super) fn new(bytes_max: usize) -> Self {
        Lane {
            submissions: VecDeque::new(),
            inside: Size::default(),
            bytes_max,
            held: VecDeque::new(),
        }
    }

    pub(super) fn enter(&mut self, submission: Submission) {
        self.held.push_back(submission);
        self.let_in();
    }

    /// Takes from the front what the batch has room for.
    pub(super) fn take(&mut self, load: &mut Load<'_>) -> Vec<Submission> {
        let mut taken = Vec::new();
        while let Some(submission) = self.submissions.pop_front() {
            if submission.is_pointless() {
                self.left(&submission);
                continue;
            }
            if !load.takes(submission.size) {
                self.submissions.push_front(submission);
                break;
            }
            self.left(&submission);
            taken.push(submission);
        }
        taken
    }

    /// Sends a submission away that is still held; its caller does not wait any more.
    pub(super) fn abandon(&mut self, number: u64) -> Option<Submission> {
        let place = self.held.binary_search_by_key(&number, |submission| submission.number).ok()?;
        self.held.remove(place)
    }

    /// Everybody who waits, out of the door.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Submission> + use<> {
        self.inside = Size::default();
        std::mem::take(&mut self.submissions).into_iter().chain(std::mem::take(&mut self.held))
    }

    fn left(&mut self, submission: &Submission) {
        self.inside -= submission.size;
        self.let_in();
    }

    /// Lets in who fits. A submission that is larger than the lane comes in when it is empty.
    fn let_in(&mut self) {
        while let Some(submission) = self.held.front()
            && (self.submissions.is_empty()
                || self.inside.bytes + submission.size.bytes <= self.bytes_max)
        {
            self.inside += submission.size;
            self.submissions.extend(self.held.pop_front());
        }
    }
}

impl<'a> Load<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Load { limits, taken: Size::default() }
    }

    /// Takes a submission in if it fits. The first one always does: what is larger than a batch is
    /// one.
    fn takes(&mut self, size: Size) -> bool {
        let mut sum = self.taken;
        sum += size;
        let fits = sum.requests <= self.limits.batch_requests_max
            && sum.jobs <= self.limits.batch_jobs_max
            && sum.bytes <= self.limits.batch_bytes_max;
        let taken = fits || self.taken.requests == 0;
        if taken {
            self.taken = sum;
        }
        taken
    }
}
