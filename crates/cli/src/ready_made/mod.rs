//! The ready-made handlers of a server: for each type whose policy names one, a runner of this node's own.
//!
//! Policies may change at any time, by any node, so they are looked at again and again: a runner is started, changed
//! or stopped within a few seconds, and what it has under way ends in peace.

pub(crate) mod duty;
mod kit;
mod post;
pub(crate) mod signing;

pub(crate) use kit::Kit;
pub(crate) use signing::NAME as SIGNING_KEY;

use anyhow::Result;
use engine::{JobType, Policy, ReadyMade};
use platform::Node;
use post::Post;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tracing::warn;

/// So often it is looked whether a policy has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether all shall end, and how long that may take.
type Asked = watch::Receiver<Option<Duration>>;

/// The runners at work. Dropped, they give back what they have not finished.
pub(crate) struct ReadyMadeHandlers {
    ending: watch::Sender<Option<Duration>>,
    /// One task; a set ends what is in it when it is dropped.
    following: JoinSet<()>,
}

impl ReadyMadeHandlers {
    /// Starts what the policies ask for, and follows them from then on. `name` is how its workers are called.
    pub(crate) async fn start(node: &Arc<Node>, kit: Kit, name: String) -> Result<Self> {
        let (ending, asked) = watch::channel(None);
        let mut posts = Posts {
            node: node.clone(),
            kit,
            name,
            number: 0,
            held: BTreeMap::new(),
            leaving: JoinSet::new(),
            asked,
        };
        posts.adjust(node.policies().await?).await;
        let mut following = JoinSet::new();
        following.spawn(posts.follow());
        Ok(ReadyMadeHandlers { ending, following })
    }

    /// Takes no more jobs, waits for those under way, and gives back what does not end in time.
    /// Called again, it may leave them less time.
    pub(crate) async fn stop(&mut self, grace: Duration) {
        self.ending.send_replace(Some(grace));
        while self.following.join_next().await.is_some() {}
    }
}

struct Posts {
    node: Arc<Node>,
    kit: Kit,
    name: String,
    /// Of the last runner: two that overlap must not have one name.
    number: usize,
    held: BTreeMap<JobType, Post>,
    leaving: JoinSet<()>,
    asked: Asked,
}

impl Posts {
    async fn follow(mut self) {
        let mut asked = self.asked.clone();
        loop {
            tokio::select! {
                biased;
                () = ended(&mut asked) => break,
                () = sleep(LOOK_EVERY) => {}
            }
            match self.node.policies().await {
                Ok(policies) => self.adjust(policies).await,
                Err(error) => warn!(%error, "the policies could not be looked at"),
            }
            while self.leaving.try_join_next().is_some() {}
        }
        for (job_type, post) in std::mem::take(&mut self.held) {
            self.dismiss(job_type, post);
        }
        while self.leaving.join_next().await.is_some() {}
    }

    /// Sees to it that there is a runner for each type that wants one, and no other.
    async fn adjust(&mut self, policies: BTreeMap<JobType, Policy>) {
        let is_stale = |job_type: &JobType, post: &mut Post| {
            policies.get(job_type).is_none_or(|policy| !post.suits(policy))
        };
        let stale: Vec<_> = self.held.extract_if(.., is_stale).collect();
        stale.into_iter().for_each(|(job_type, post)| self.dismiss(job_type, post));
        for (job_type, policy) in policies {
            let Some(handler) = policy.handler.clone() else { continue };
            if let Some(post) = self.held.get_mut(&job_type) {
                post.allow(policy.timeout);
            } else {
                self.fill(job_type, &handler, &policy).await;
            }
        }
    }

    async fn fill(&mut self, job_type: JobType, handler: &ReadyMade, policy: &Policy) {
        let duty = match self.kit.duty(&job_type, handler) {
            Ok(duty) => duty,
            Err(why) => {
                warn!(%job_type, %why, "the ready-made handler is not run, and its jobs wait");
                self.held.insert(job_type, Post::vacant(policy));
                return;
            }
        };
        self.number += 1;
        let name = match self.number {
            1 => self.name.clone(),
            number => format!("{}-{number}", self.name),
        };
        match Post::start(&self.node, name, duty, policy).await {
            Ok(post) => drop(self.held.insert(job_type, post)),
            // The next look tries again.
            Err(error) => warn!(%job_type, %error, "the ready-made handler could not be started"),
        }
    }

    fn dismiss(&mut self, job_type: JobType, post: Post) {
        self.leaving.spawn(post.leave(job_type, self.asked.clone()));
    }
}

async fn ended(asked: &mut Asked) {
    // Whoever cannot ask any more is gone.
    drop(asked.wait_for(Option::is_some).await);
}
