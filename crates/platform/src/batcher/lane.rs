//! Calls in the order in which they came, and who is held in front when there are too many.

use super::{
    Limits,
    call::{Call, Size},
};
use std::collections::VecDeque;

pub(super) struct Lane {
    /// These have their place, whatever becomes of their callers.
    calls: VecDeque<Call>,
    inside: Size,
    bytes_max: usize,
    /// These are as good as still with their callers, and leave with them: else callers who come and
    /// go could fill the memory.
    held: VecDeque<Call>,
}

/// What a batch has taken so far.
pub(super) struct Load<'a> {
    limits: &'a Limits,
    taken: Size,
}

impl Lane {
    pub(super) fn new(bytes_max: usize) -> Self {
        Lane { calls: VecDeque::new(), inside: Size::default(), bytes_max, held: VecDeque::new() }
    }

    pub(super) fn enter(&mut self, call: Call) {
        self.held.push_back(call);
        self.let_in();
    }

    /// Takes from the front what the batch has room for.
    pub(super) fn take(&mut self, load: &mut Load<'_>) -> Vec<Call> {
        let mut taken = Vec::new();
        while let Some(call) = self.calls.pop_front() {
            if call.is_pointless() {
                self.left(&call);
                continue;
            }
            if !load.takes(call.size) {
                self.calls.push_front(call);
                break;
            }
            self.left(&call);
            taken.push(call);
        }
        taken
    }

    /// Sends a call away that is still held; its caller does not wait any more.
    pub(super) fn abandon(&mut self, number: u64) -> Option<Call> {
        let place = self.held.binary_search_by_key(&number, |call| call.number).ok()?;
        self.held.remove(place)
    }

    /// Everybody who waits, out of the door.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Call> + use<> {
        self.inside = Size::default();
        std::mem::take(&mut self.calls).into_iter().chain(std::mem::take(&mut self.held))
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn requests(&self) -> usize {
        self.inside.requests
    }

    pub(super) fn bytes(&self) -> usize {
        self.inside.bytes
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    fn left(&mut self, call: &Call) {
        self.inside -= call.size;
        self.let_in();
    }

    /// Lets in who fits. A call that is larger than the lane comes in when it is empty.
    fn let_in(&mut self) {
        while let Some(call) = self.held.front()
            && (self.calls.is_empty() || self.inside.bytes + call.size.bytes <= self.bytes_max)
        {
            self.inside += call.size;
            self.calls.extend(self.held.pop_front());
        }
    }
}

impl<'a> Load<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Load { limits, taken: Size::default() }
    }

    /// Takes a call in if it fits. The first one always does: what is larger than a batch is one.
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
