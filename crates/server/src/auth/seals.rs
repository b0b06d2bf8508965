//! The keys that sign status addresses: which one signs, and when a new one is due.

use super::{
    CredentialLookup,
    cursors::{self, CursorOwner},
    signed::{Rotation, SignedRefused, Signer},
};
use crate::no::Reply;
use engine::{JobId, Timestamp};
use platform::{Credentials, Node};
use std::time::Duration;

/// Makes a new key where that is due.
pub(crate) async fn rotate(
    node: &Node,
    lifetime: Duration,
    now: Timestamp,
) -> Result<(), platform::Error> {
    let keys = node.signing_keys().await?;
    if Rotation::plan(&keys, lifetime, now).new_is_due {
        node.new_signing_key().await?;
    }
    Ok(())
}

/// The signature for one job; none while every key is revoked.
pub(crate) fn sign(node: &Node, job: JobId, expires_at: Timestamp) -> Option<String> {
    signer(&node.last_credentials()).sign(job, expires_at)
}

/// A cursor that tells nothing; none while every key is revoked.
pub(crate) fn seal_cursor(node: &Node, owner: CursorOwner<'_>, position: &[u8]) -> Option<String> {
    let signer = signer(&node.last_credentials());
    let (_, signing) = signer.keys();
    Some(cursors::seal(signing?, owner, position))
}

/// The position in a cursor that was sealed for this owner. A cursor that no known key opens may
/// have been sealed with one that another node made a moment ago.
pub(crate) async fn open_cursor(
    lookup: &CredentialLookup,
    node: &Node,
    owner: CursorOwner<'_>,
    text: &str,
) -> Reply<Option<Vec<u8>>> {
    let opened = cursors::open(signer(&node.last_credentials()).keys().0, owner, text);
    if opened.is_some() || !cursors::may_be_sealed(text) {
        return Ok(opened);
    }
    let credentials = lookup.look_for_unknown(node).await?;
    Ok(cursors::open(signer(&credentials).keys().0, owner, text))
}

/// Whether this opens that job now. A key that is not known may be one that another node made a
/// moment ago.
pub(crate) async fn verify(
    lookup: &CredentialLookup,
    node: &Node,
    job: JobId,
    sig: &str,
    now: Timestamp,
) -> Reply<Result<(), SignedRefused>> {
    let known = signer(&*lookup.current(node).await?).verify(job, sig, now);
    if known != Err(SignedRefused::UnknownKey) {
        return Ok(known);
    }
    let credentials = lookup.look_for_unknown(node).await?;
    Ok(signer(&credentials).verify(job, sig, now))
}

fn signer(credentials: &Credentials) -> Signer {
    Signer::new(credentials.signing_keys.clone())
}
