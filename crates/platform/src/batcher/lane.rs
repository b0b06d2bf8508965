//! Submissions in order of arrival, and the overflow of a full lane.

use super::{
    Limits,
    submission::{Size, Submission},
};
use std::collections::VecDeque;

pub(super) struct Lane {
    /// Admitted submissions. They stay even when their callers leave.
    pub(super) submissions: VecDeque<Submission>,
    pub(super) admitted_size: Size,
    bytes_max: usize,
    /// Submissions above the bound, which are removed when their callers leave. Otherwise callers
    /// that come and go could fill the memory.
    pub(super) overflow: VecDeque<Submission>,
}

pub(super) struct BatchLoad<'a> {
    limits: &'a Limits,
    size: Size,
}

impl Lane {
    pub(super) fn new(bytes_max: usize) -> Self {
        Lane {
            submissions: VecDeque::new(),
            admitted_size: Size::default(),
            bytes_max,
            overflow: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, submission: Submission) {
        self.overflow.push_back(submission);
        self.admit();
    }

    /// Takes as many submissions from the front as fit into the batch.
    pub(super) fn take(&mut self, load: &mut BatchLoad<'_>) -> Vec<Submission> {
        let mut batch = Vec::new();
        while let Some(submission) = self.submissions.pop_front() {
            if submission.can_be_dropped() {
                self.release_size(&submission);
                continue;
            }
            if !load.try_add(submission.size) {
                self.submissions.push_front(submission);
                break;
            }
            self.release_size(&submission);
            batch.push(submission);
        }
        batch
    }

    /// Removes a submission from the overflow, because its caller no longer waits.
    pub(super) fn abandon(&mut self, number: u64) -> Option<Submission> {
        let index =
            self.overflow.binary_search_by_key(&number, |submission| submission.number).ok()?;
        self.overflow.remove(index)
    }

    /// Removes all submissions, the overflow included.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Submission> + use<> {
        self.admitted_size = Size::default();
        std::mem::take(&mut self.submissions).into_iter().chain(std::mem::take(&mut self.overflow))
    }

    fn release_size(&mut self, submission: &Submission) {
        self.admitted_size -= submission.size;
        self.admit();
    }

    /// Admits submissions from the overflow while they fit. One that is larger than the lane is
    /// admitted when the lane is empty.
    fn admit(&mut self) {
        while let Some(submission) = self.overflow.front()
            && (self.submissions.is_empty()
                || self.admitted_size.bytes + submission.size.bytes <= self.bytes_max)
        {
            self.admitted_size += submission.size;
            self.submissions.extend(self.overflow.pop_front());
        }
    }
}

impl<'a> BatchLoad<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        BatchLoad { limits, size: Size::default() }
    }

    /// Adds a submission if it fits. The first one always does: a submission above the limits of a
    /// batch is a batch of its own.
    fn try_add(&mut self, size: Size) -> bool {
        let mut sum = self.size;
        sum += size;
        let fits = sum.requests <= self.limits.batch_requests_max
            && sum.jobs <= self.limits.batch_jobs_max
            && sum.bytes <= self.limits.batch_bytes_max;
        let is_added = fits || self.size.requests == 0;
        if is_added {
            self.size = sum;
        }
        is_added
    }
}
