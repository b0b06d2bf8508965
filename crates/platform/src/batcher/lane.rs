//! Submissions in order of arrival, and those that are held in front of a full lane.

use super::{
    Limits,
    submission::{Size, Submission},
};
use std::collections::VecDeque;

pub(super) struct Lane {
    /// Admitted submissions. They stay even when their callers leave.
    pub(super) submissions: VecDeque<Submission>,
    pub(super) inside: Size,
    bytes_max: usize,
    /// Held submissions, which leave with their callers. Otherwise callers that come and go could
    /// fill the memory.
    pub(super) held: VecDeque<Submission>,
}

pub(super) struct BatchLoad<'a> {
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

    /// Takes as many submissions from the front as fit into the batch.
    pub(super) fn take(&mut self, load: &mut BatchLoad<'_>) -> Vec<Submission> {
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

    /// Removes a submission that is still held; its caller no longer waits.
    pub(super) fn abandon(&mut self, number: u64) -> Option<Submission> {
        let place = self.held.binary_search_by_key(&number, |submission| submission.number).ok()?;
        self.held.remove(place)
    }

    /// Removes all submissions, held ones included.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Submission> + use<> {
        self.inside = Size::default();
        std::mem::take(&mut self.submissions).into_iter().chain(std::mem::take(&mut self.held))
    }

    fn left(&mut self, submission: &Submission) {
        self.inside -= submission.size;
        self.let_in();
    }

    /// Admits held submissions that fit. One that is larger than the lane is admitted when the lane
    /// is empty.
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

impl<'a> BatchLoad<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        BatchLoad { limits, taken: Size::default() }
    }

    /// Adds a submission if it fits. The first one always does: a submission above the limits of a
    /// batch is a batch of its own.
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
