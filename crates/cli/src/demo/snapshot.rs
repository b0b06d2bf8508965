//! What the store says at one moment.

use super::{
    board::{Notes, Said, Shown},
    story::Shop,
};
use anyhow::Result;
use consign::{Explained, Job, QueueDepth};
use engine::Timestamp;
use std::time::Duration;

pub(crate) struct Snapshot {
    pub(crate) now: Timestamp,
    pub(crate) elapsed: Duration,
    pub(crate) queues: Vec<QueueDepth>,
    pub(crate) exhibits: Vec<Exhibit>,
    pub(crate) said: Vec<Said>,
}

/// A job on show, as it is.
pub(crate) struct Exhibit {
    pub(crate) shown: Shown,
    pub(crate) job: Job,
    pub(crate) explained: Explained,
}

impl Snapshot {
    pub(crate) async fn take(shop: &Shop) -> Result<Self> {
        let (now, Notes { shown, said }) = (shop.board.now(), shop.board.notes());
        let mut exhibits = Vec::new();
        for shown in shown {
            let job = shop.consign.job(shown.id).await?;
            let explained = shop.consign.explain(shown.id).await?;
            exhibits.push(Exhibit { shown, job, explained });
        }
        let queues = shop.consign.queues().await?;
        Ok(Snapshot { now, elapsed: now.since(shop.board.began_at), queues, exhibits, said })
    }
}
