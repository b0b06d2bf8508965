//! Consign at work over one store: the verbs, the batcher in front of the store, the clockwork, and a lookout for
//! what other nodes do.

use crate::{
    Batcher, ClaimWait, Limits, Platform, Settings, Waiting, Watch, Writes, maintenance,
    membership::Membership, notifier::BellThread, peer_watcher,
};
use engine::{ClaimRequest, JobId, Scope};
use std::{io, ops::Deref, sync::Arc};
use store::{Clock, Execute, NodeStatus, RandomSource, Store};

/// One process that takes jobs in, gives them out and sees to what time demands.
///
/// All verbs of [`Platform`] can be called on it.
pub struct Node {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    membership: Arc<Membership>,
    maintenance: BellThread,
    /// Only where there may be other nodes.
    peer_watcher: Option<BellThread>,
}

impl Node {
    /// Sets everything in motion over `store`.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
    ) -> io::Result<Self> {
        Node::start_with(store.clone(), store, clock, random, settings)
    }

    /// The same, where batches go through `execute`: how tests inject faults.
    pub fn start_with(
        execute: Arc<dyn Execute>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
    ) -> io::Result<Self> {
        let (shared, writers) = (store.is_shared(), store.writers());
        let membership = Arc::new(Membership::new(&*clock, &*random));
        let limits = Limits { writers, ..Limits::default() };
        let batcher = Arc::new(Batcher::start(execute, limits)?);
        // Other nodes are taken for granted until the maintenance loop has looked.
        batcher.be_in_company(shared);
        let writes = Writes::Batched(batcher.clone());
        let platform = Arc::new(Platform::with_writes(writes, store, clock, random, settings));
        if shared {
            platform.settings_cache.join(membership.clone());
        }
        let peer_watcher = || peer_watcher::start(platform.clone(), batcher.clone());
        let peer_watcher = shared.then(peer_watcher).transpose()?;
        let maintenance =
            maintenance::start(platform.clone(), batcher.clone(), membership.clone())?;
        Ok(Node { platform, batcher, membership, maintenance, peer_watcher })
    }

    /// What it is called, while it runs and never again.
    pub fn id(&self) -> &str {
        &self.membership.id
    }

    /// Whether other nodes may serve the same store.
    pub fn is_shared(&self) -> bool {
        self.platform.store.is_shared()
    }

    /// Everybody who serves the store, this node included, oldest first, as of about a second ago.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.membership.nodes()
    }

    /// The verbs.
    pub fn platform(&self) -> &Arc<Platform> {
        &self.platform
    }

    /// Claims, and waits until there is something to claim.
    pub fn stand(&self, scope: Scope, claim_request: ClaimRequest) -> ClaimWait {
        self.batcher.stand(scope, claim_request)
    }

    /// Wants to know when something happens to a job. Begin before you read it.
    pub fn watch(&self, id: JobId) -> Watch {
        self.batcher.watch(id)
    }

    /// What waits for a batch or for work now.
    pub fn waiting(&self) -> Waiting {
        self.batcher.waiting()
    }

    /// How many watch a job now.
    pub fn watches(&self) -> usize {
        self.batcher.watchers().count()
    }

    /// Says that it will end, and leaves the chores of all to another node. It goes on with everything else.
    pub fn drain(&self) {
        self.membership.drain();
        self.platform.notifier.notify();
    }

    /// Takes nothing new, finishes what waits, and stops; whoever watches a job learns so. This blocks.
    pub fn close(&self) {
        self.maintenance.stop();
        if let Some(peer_watcher) = &self.peer_watcher {
            peer_watcher.stop();
        }
        self.batcher.close();
    }
}

impl Deref for Node {
    type Target = Platform;

    fn deref(&self) -> &Platform {
        &self.platform
    }
}
