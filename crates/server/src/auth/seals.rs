//! The keys that sign status addresses, known by heart and renewed in time.

use super::signed::{Rotation, SignedRefused, Signer};
use engine::{JobId, Timestamp};
use platform::Node;
use std::{sync::RwLock, time::Duration};

/// What signs, and what is believed.
#[derive(Default)]
pub(crate) struct Seals {
    signer: RwLock<Option<Signer>>,
    reading: tokio::sync::Mutex<()>,
}

impl Seals {
    /// Reads the keys, and makes a new one where that is due.
    pub(crate) async fn read(
        &self,
        node: &Node,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<(), platform::Error> {
        // One after the other: an older reading must not be put over a newer one.
        let _turn = self.reading.lock().await;
        let mut keys = node.signing_keys().await?;
        if Rotation::plan(&keys, lifetime, now).new_is_due {
            keys.push(node.new_signing_key().await?);
        }
        *self.signer.write().expect(UNPOISONED) = Some(Signer::new(keys));
        Ok(())
    }

    /// The signature for one job; none while every key is revoked.
    pub(crate) fn sign(&self, job: JobId, expires_at: Timestamp) -> Option<String> {
        self.signer.read().expect(UNPOISONED).as_ref()?.sign(job, expires_at)
    }

    /// Whether this opens that job now.
    pub(crate) fn verify(
        &self,
        job: JobId,
        sig: &str,
        now: Timestamp,
    ) -> Result<(), SignedRefused> {
        match &*self.signer.read().expect(UNPOISONED) {
            Some(signer) => signer.verify(job, sig, now),
            None => unreachable!("they are read before the door opens"),
        }
    }
}

const UNPOISONED: &str = "nothing panics with the seals in hand";
