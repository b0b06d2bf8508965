//! Consign running over one store: the verbs, the batcher in front of the store, the maintenance
//! thread, and the peer watcher.

use crate::{
    Batcher, ClaimWait, Limits, Platform, Settings, Waiting, Watch, Writes, maintenance,
    membership::{Membership, new_node_id},
    notifier::NotifiedThread,
    peer_watcher,
};
use engine::{ClaimRequest, JobId, Scope};
use std::{io, ops::Deref, sync::Arc};
use store::{Clock, Execute, NodeStatus, RandomSource, Store};

/// One process that accepts jobs, gives them to workers and runs maintenance.
///
/// All verbs of [`Platform`] can be called on it.
pub struct Node {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    membership: Arc<Membership>,
    maintenance: NotifiedThread,
    /// Only where there may be other nodes.
    peer_watcher: Option<NotifiedThread>,
}

impl Node {
    /// Starts a node over `store`.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
    ) -> io::Result<Self> {
        Node::start_with(store.clone(), store, clock, random, settings)
    }

    /// The same, where batches go through `execute`: tests inject faults there.
    pub fn start_with(
        execute: Arc<dyn Execute>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
    ) -> io::Result<Self> {
        let (shared, writers) = (store.is_shared(), store.writers());
        let id = settings.node_id.clone().unwrap_or_else(|| new_node_id(&*clock, &*random));
        let membership = Arc::new(Membership::new(id, clock.read().wall));
        let limits = Limits { writers, ..Limits::default() };
        let batcher = Arc::new(Batcher::start(execute, limits)?);
        // Assumes other nodes until the first heartbeat shows whether there are any.
        batcher.set_has_peers(shared);
        let writes = Writes::Batched(batcher.clone());
        let platform = Arc::new(Platform::with_writes(writes, store, clock, random, settings));
        if shared {
            platform.settings_cache.set_member(membership.clone());
        }
        let peer_watcher = || peer_watcher::start(platform.clone(), batcher.clone());
        let peer_watcher = shared.then(peer_watcher).transpose()?;
        let maintenance =
            maintenance::start(platform.clone(), batcher.clone(), membership.clone())?;
        Ok(Node { platform, batcher, membership, maintenance, peer_watcher })
    }

    /// The node's id: unique to this run.
    pub fn id(&self) -> &str {
        &self.membership.id
    }

    /// Notes the address that this node listens at, for [`Node::nodes`] of every node.
    pub fn set_address(&self, address: String) {
        self.membership.set_address(address);
    }

    /// Whether other nodes may serve the same store.
    pub fn is_shared(&self) -> bool {
        self.platform.store.is_shared()
    }

    /// All nodes that serve the store, this one included, oldest first, as of about a second ago.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.membership.nodes()
    }

    /// The verbs.
    pub fn platform(&self) -> &Arc<Platform> {
        &self.platform
    }

    /// Claims, and waits until there is something to claim.
    pub fn claim_waiting(&self, scope: Scope, claim_request: ClaimRequest) -> ClaimWait {
        self.batcher.claim_waiting(scope, claim_request)
    }

    /// Watches a job for changes. Call this before you read the job.
    pub fn watch(&self, id: JobId) -> Watch {
        self.batcher.watch(id)
    }

    /// What waits for a batch or for work now.
    pub fn waiting(&self) -> Waiting {
        self.batcher.waiting()
    }

    /// The number of watches now.
    pub fn watches(&self) -> usize {
        self.batcher.watchers().count()
    }

    /// Announces that this node will end, and leaves leadership to another node. It goes on with
    /// everything else.
    pub fn drain(&self) {
        self.membership.drain();
        self.platform.notifier.notify();
    }

    /// Accepts nothing new, finishes what waits, and stops. Watches report that the node is closed.
    /// Blocking.
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
