//! Consign at work over one store: the verbs, the batcher in front of the store, and the clockwork.

use crate::{Batcher, Clockwork, Limits, Platform, Settings, Standing, Watch};
use engine::{JobId, Scope, Wish};
use std::{io, ops::Deref, sync::Arc};
use store::{Clock, Dice, Store};

/// One process that takes jobs in, gives them out and sees to what time demands.
///
/// All verbs of [`Platform`] can be called on it.
pub struct Node {
    platform: Arc<Platform>,
    batcher: Arc<Batcher>,
    clockwork: Clockwork,
}

impl Node {
    /// Sets everything in motion over `store`.
    pub fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        settings: Settings,
    ) -> io::Result<Self> {
        let batcher = Arc::new(Batcher::start(store, Limits::default())?);
        let platform = Arc::new(Platform::new(batcher.clone(), clock, dice, settings));
        let clockwork = Clockwork::start(platform.clone(), batcher.clone())?;
        Ok(Node { platform, batcher, clockwork })
    }

    /// The verbs.
    pub fn platform(&self) -> &Arc<Platform> {
        &self.platform
    }

    /// Claims, and waits until there is something to claim.
    pub fn stand(&self, scope: Scope, wish: Wish) -> Standing {
        self.batcher.stand(scope, wish)
    }

    /// Wants to know when something happens to a job. Begin before you read it.
    pub fn watch(&self, id: JobId) -> Watch {
        self.batcher.watch(id)
    }

    /// Takes nothing new, finishes what waits, and stops; whoever watches a job learns so. This blocks.
    pub fn close(&self) {
        self.clockwork.stop();
        self.batcher.close();
    }
}

impl Deref for Node {
    type Target = Platform;

    fn deref(&self) -> &Platform {
        &self.platform
    }
}
