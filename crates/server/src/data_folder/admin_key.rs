//! The first key of an installation: who can read the data folder can create keys for others.
//!
//! The secret is kept in a file and its key in the store, and the process may die between the two
//! writes. The file comes first: the next start puts a secret that the store does not know into the
//! store. In the other order, the store could hold a key whose secret was never written, which no
//! client could use. Of many nodes that start at once on an empty database, one makes the key.

use super::{FileError, secret_file};
use engine::{
    ApiKey, AuditEntry, AuditNote, CorrelationId, Grant, JobId, KeyName, KeySecret, Right, Scope,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{Clock, Notification, PAGE_MAX, RandomSource, Request, Store};
use tokio::task::spawn_blocking;
use tracing::warn;

/// Name of the file in the data folder.
pub const NAME: &str = "admin.key";

/// Makes admin keys: at the first start of the server, or for `consign keys bootstrap`.
pub struct AdminKeys<'a> {
    /// The store that holds the keys.
    pub store: &'a Arc<dyn Store>,
    /// The data folder, which holds the secret.
    pub folder: &'a Path,
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Makes the secret.
    pub random: &'a dyn RandomSource,
}

impl AdminKeys<'_> {
    /// Makes the first key where the store has none. Returns the path of its secret, if it is still
    /// there.
    pub async fn ensure(&self) -> Result<Option<PathBuf>, FileError> {
        let path = self.folder.join(NAME);
        let keys = self.store.keys(None).await;
        let keys = keys.map_err(FileError::caused("the keys cannot be read"))?;
        if !keys.is_empty() {
            return Ok(opens_live_key(&path, &keys)?.then_some(path));
        }
        let secret = match unstored_secret(&path)? {
            Some(secret) => secret,
            None => self.new_secret(&path)?,
        };
        self.store_key(&secret, FIRST_START, false).await?;
        if self.is_first(&secret).await? {
            return Ok(Some(path));
        }
        // Another node was first. This key is revoked before any client can have read its secret.
        self.store_key(&secret, FIRST_START, true).await?;
        fs::remove_file(&path)
            .map_err(FileError::caused(format!("{} cannot be removed", path.display())))?;
        Ok(None)
    }

    /// Makes another key with all rights, for an operator who has lost the first.
    pub async fn make_another(&self) -> Result<PathBuf, FileError> {
        let path = self.folder.join(NAME);
        if path.exists() {
            let shown = path.display();
            return Err(FileError::new(format!(
                "{shown} is there; move it away first, nothing is written over"
            )));
        }
        let secret = self.new_secret(&path)?;
        self.store_key(&secret, "keys bootstrap", false).await?;
        Ok(path)
    }

    fn new_secret(&self, path: &Path) -> Result<KeySecret, FileError> {
        let random = self.random;
        let secret = KeySecret::new(random.entropy(), [random.entropy(), random.entropy()]);
        secret_file::write(self.folder, path, &secret.expose())?;
        Ok(secret)
    }

    /// Whether no other node was faster. A startup lock lets nodes do this one after another, but a
    /// node that was paused loses the lock and may resume later. Then the order of the audit log
    /// decides, which is the same for all nodes.
    async fn is_first(&self, secret: &KeySecret) -> Result<bool, FileError> {
        let entries = self.store.audit(&Scope::All, None, PAGE_MAX).await;
        let entries = entries.map_err(FileError::caused("the log cannot be read"))?;
        let is_first_start =
            |entry: &&AuditEntry| &*entry.action == "key.create" && &*entry.who == FIRST_START;
        let first = entries.iter().filter(is_first_start).min_by_key(|entry| entry.number);
        Ok(first.is_none_or(|entry| *entry.target == *secret.id().to_string()))
    }

    /// Writes the key and its audit entry to the store, in one transaction.
    async fn store_key(
        &self,
        secret: &KeySecret,
        who: &'static str,
        revoked: bool,
    ) -> Result<(), FileError> {
        let now = self.clock.read().wall;
        let key = ApiKey {
            id: secret.id(),
            name: KeyName::parse("admin").expect("a plain name"),
            digest: secret.digest(),
            grant: Grant {
                scope: Scope::All,
                rights: [Right::Admin].into_iter().collect(),
                types: Vec::new(),
                subjects: Vec::new(),
            },
            created_at: now,
            created_by: who.into(),
            expires_at: None,
            revoked_at: revoked.then_some(now),
            rotated_at: None,
        };
        let (action, detail) = match revoked {
            true => ("key.revoke", engine::key_revocation(&key)),
            false => ("key.create", engine::key_grant(&key)),
        };
        let correlation = JobId::new(now, self.random.entropy()).to_string();
        let correlation = CorrelationId::parse(&correlation).expect("an id is a correlation");
        let note = AuditNote {
            who: who.into(),
            name: None,
            scope: Scope::All,
            action,
            target: key.id.to_string().into(),
            detail: Some(detail),
            correlation,
        };
        let put = Request::put_key(&key).audited(note);
        let store = self.store.clone();
        let put = move || store.execute(vec![put], Notification::default());
        let replies = spawn_blocking(put).await.map_err(FileError::caused(UNSTORED))?;
        let replies = replies.map_err(FileError::caused(UNSTORED))?;
        let reply = replies.into_iter().next().expect("one reply for each request");
        reply.map(drop).map_err(FileError::caused("the key was refused"))
    }
}

const UNSTORED: &str = "the key cannot be stored";

/// The actor of the first key in the audit log.
const FIRST_START: &str = "first start";

/// Whether the file exists and its secret opens a live key. Another node may have made the first
/// key since the file was written, or an operator may have revoked the key. A file that other users
/// can read or replace stops the start. A file with other content is the operator's affair.
fn opens_live_key(path: &Path, keys: &[ApiKey]) -> Result<bool, FileError> {
    let Some(text) = secret_file::read(path)? else { return Ok(false) };
    let Some(secret) = KeySecret::parse(&text) else { return Ok(true) };
    let is_live_key = |key: &ApiKey| key.digest == secret.digest() && key.revoked_at.is_none();
    let is_known = keys.iter().any(is_live_key);
    if !is_known {
        warn!(path = %path.display(), "the key in this file is not valid: the store does not know it, or it was revoked");
    }
    Ok(is_known)
}

/// The secret of an earlier start that died before it updated the store.
fn unstored_secret(path: &Path) -> Result<Option<KeySecret>, FileError> {
    let Some(text) = secret_file::read(path)? else { return Ok(None) };
    KeySecret::parse(&text).map(Some).ok_or_else(|| {
        let shown = path.display();
        FileError::new(format!("{shown} holds no key, and the store has none; move it away, and the next start makes one"))
    })
}

#[cfg(test)]
mod tests;
