//! One type and its runner.

use consign::{Duty, Runner, SLOTS, StartError, Working};
use engine::{Policy, ReadyMade};
use platform::Node;
use std::{sync::Arc, time::Duration};

/// Where the jobs of one type are carried out, as its policy wants it.
pub(super) struct Post {
    handler: Option<ReadyMade>,
    concurrency: Option<u32>,
    pub(super) timeout: Duration,
    /// Nothing where the handler is not allowed.
    pub(super) working: Option<Working>,
}

impl Post {
    pub(super) async fn start(
        node: &Arc<Node>,
        name: String,
        duty: Duty,
        policy: &Policy,
    ) -> Result<Self, StartError> {
        let slots = policy.concurrency.map_or(SLOTS, |slots| slots as usize);
        let runner = Runner::new(node).name(name).with(duty.slots(slots));
        Ok(Post { working: Some(runner.start().await?), ..Post::vacant(policy) })
    }

    /// Nobody is there, and nobody will be before the policy changes.
    pub(super) fn vacant(policy: &Policy) -> Self {
        let (handler, concurrency) = (policy.handler.clone(), policy.concurrency);
        Post { handler, concurrency, timeout: policy.timeout, working: None }
    }

    /// Whether it is still what the policy wants. What else a policy says is asked with every claim.
    pub(super) fn suits(&self, policy: &Policy) -> bool {
        self.handler == policy.handler && self.concurrency == policy.concurrency
    }
}
