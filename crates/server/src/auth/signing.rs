//! Signing and sealing with the keys that all nodes share, and their rotation.

use super::{
    cursors::{self, CursorOwner},
    url_signing::{self, SignedRefused},
};
use crate::{AppState, error::Reply};
use engine::{JobId, Timestamp};
use platform::Node;

/// Makes a new key, if one is due.
pub(crate) async fn rotate(node: &Node, now: Timestamp) -> Result<(), platform::Error> {
    if url_signing::new_is_due(&node.signing_keys().await?, now) {
        node.new_signing_key().await?;
    }
    Ok(())
}

/// The signature for one job; `None` while every key is revoked.
pub(crate) fn sign(node: &Node, job: JobId, expires_at: Timestamp) -> Option<String> {
    url_signing::sign(&node.last_credentials().signing_keys, job, expires_at)
}

/// An opaque cursor; `None` while every key is revoked.
pub(crate) fn seal_cursor(node: &Node, owner: CursorOwner<'_>, position: &[u8]) -> Option<String> {
    let credentials = node.last_credentials();
    Some(cursors::seal(url_signing::signing_key(&credentials.signing_keys)?, owner, position))
}

/// The position in a cursor that was sealed for this owner. If no known key opens a cursor, another
/// node may have just made its key.
pub(crate) async fn open_cursor(
    app: &AppState,
    owner: CursorOwner<'_>,
    text: &str,
) -> Reply<Option<Vec<u8>>> {
    let position = cursors::open(&app.node.last_credentials().signing_keys, owner, text);
    if position.is_some() || !cursors::may_be_sealed(text) {
        return Ok(position);
    }
    let credentials = app.authenticator.credentials.read_for_unknown(&app.node).await?;
    Ok(cursors::open(&credentials.signing_keys, owner, text))
}

/// Whether this signature opens that job now. An unknown key may be one that another node has just
/// made.
pub(crate) async fn verify(
    app: &AppState,
    job: JobId,
    sig: &str,
) -> Reply<Result<(), SignedRefused>> {
    let (lookup, now) = (&app.authenticator.credentials, app.now());
    let credentials = lookup.current(&app.node).await?;
    let verified = url_signing::verify(&credentials.signing_keys, job, sig, now);
    if verified != Err(SignedRefused::UnknownKey) {
        return Ok(verified);
    }
    let credentials = lookup.read_for_unknown(&app.node).await?;
    Ok(url_signing::verify(&credentials.signing_keys, job, sig, now))
}
