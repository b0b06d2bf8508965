//! The first key of a house: whoever can read the data folder can let others in.
//!
//! It is in two places, a file and the store, and the process may die between any two lines. The file comes first:
//! a secret in a file that the store does not know yet is put into the store by the next start, while a key whose
//! secret was never written down could not be used by anybody. Of many nodes that start at once on an empty database,
//! one makes it.

use crate::{opening, secret_file};
use anyhow::{Context, Result, bail};
use engine::{
    ApiKey, AuditEntry, AuditNote, CorrelationId, Grant, JobId, KeyName, KeySecret, Right, Scope,
    Timestamp,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{Clock, Dice, PAGE_MAX, Request, Store};
use tracing::warn;

/// What the file is called, in the folder of the store.
pub(crate) const NAME: &str = "admin.key";

/// Makes the first key where the store has none, and says where its secret is, if it is still there.
pub(crate) async fn ensure(
    store: &Arc<dyn Store>,
    folder: &Path,
    clock: &dyn Clock,
    dice: &dyn Dice,
) -> Result<Option<PathBuf>> {
    let path = folder.join(NAME);
    let keys = store.keys(None).await.context("the keys cannot be read")?;
    if !keys.is_empty() {
        return Ok(is_known(&path, &keys)?.then_some(path));
    }
    let secret = match read(&path)? {
        Some(secret) => secret,
        None => write(folder, &path, KeySecret::new(dice.roll(), [dice.roll(), dice.roll()]))?,
    };
    keep(store, &secret, FIRST_START, clock, dice).await?;
    if is_first(store, &secret).await? {
        return Ok(Some(path));
    }
    withdraw(store, &secret, clock, dice).await?;
    fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
    Ok(None)
}

/// Who made the first key, as the audit log has it.
const FIRST_START: &str = "first start";

/// Whether no other node was faster. Nodes take turns at this, but one that was stopped in its turn loses it and
/// may wake up later: then the order of the audit log decides, which is the same for everybody.
async fn is_first(store: &Arc<dyn Store>, secret: &KeySecret) -> Result<bool> {
    let noted = store.audit(&Scope::All, None, PAGE_MAX).await.context("the log cannot be read")?;
    let made = |entry: &&AuditEntry| &*entry.action == "key.create" && &*entry.who == FIRST_START;
    let first = noted.iter().filter(made).min_by_key(|entry| entry.number);
    Ok(first.is_none_or(|entry| *entry.target == *secret.id().to_string()))
}

/// Ends a key that came too late, before anybody was told of it.
async fn withdraw(
    store: &Arc<dyn Store>,
    secret: &KeySecret,
    clock: &dyn Clock,
    dice: &dyn Dice,
) -> Result<()> {
    let now = clock.read().wall;
    let key = ApiKey { revoked_at: Some(now), ..key_of(secret, FIRST_START, now)? };
    execute(store, noted("key.revoke", FIRST_START, key, now, dice)?).await
}

/// Whether there is a file and the secret in it opens anything. Another node may have made the
/// first key since it was written, or an operator revoked it. A file that other users can read or
/// replace stops the start; one that holds something else is the operator's affair.
fn is_known(path: &Path, keys: &[ApiKey]) -> Result<bool> {
    let Some(text) = secret_file::read(path)? else { return Ok(false) };
    let Some(secret) = KeySecret::parse(&text) else { return Ok(true) };
    let opens = |key: &ApiKey| key.digest == secret.digest() && key.revoked_at.is_none();
    let known = keys.iter().any(opens);
    if !known {
        warn!(path = %path.display(), "the key in this file opens nothing here: the store does not know it, or it was revoked");
    }
    Ok(known)
}

/// Makes another key that may do everything, for an operator who has lost the first.
pub(crate) async fn another(
    store: &Arc<dyn Store>,
    folder: &Path,
    clock: &dyn Clock,
    dice: &dyn Dice,
) -> Result<PathBuf> {
    let path = folder.join(NAME);
    if path.exists() {
        bail!("{} is there; move it away first, nothing is written over", path.display());
    }
    let secret = KeySecret::new(dice.roll(), [dice.roll(), dice.roll()]);
    let secret = write(folder, &path, secret)?;
    keep(store, &secret, "keys bootstrap", clock, dice).await?;
    Ok(path)
}

async fn keep(
    store: &Arc<dyn Store>,
    secret: &KeySecret,
    who: &'static str,
    clock: &dyn Clock,
    dice: &dyn Dice,
) -> Result<()> {
    execute(store, put(secret, who, clock.read().wall, dice)?).await
}

async fn execute(store: &Arc<dyn Store>, put: Request) -> Result<()> {
    let done = opening::execute(store.clone(), put).await.context("the key cannot be stored")?;
    done.map(drop).map_err(|refusal| anyhow::anyhow!("the key was refused: {refusal}"))
}

/// The key and the note about it, in one transaction.
fn put(secret: &KeySecret, who: &'static str, now: Timestamp, dice: &dyn Dice) -> Result<Request> {
    noted("key.create", who, key_of(secret, who, now)?, now, dice)
}

fn key_of(secret: &KeySecret, who: &'static str, now: Timestamp) -> Result<ApiKey> {
    Ok(ApiKey {
        id: secret.id(),
        name: KeyName::parse(KEY_NAME)?,
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
        revoked_at: None,
    })
}

const KEY_NAME: &str = "admin";

fn noted(
    action: &'static str,
    who: &'static str,
    key: ApiKey,
    now: Timestamp,
    dice: &dyn Dice,
) -> Result<Request> {
    let revoked = key.revoked_at.is_some();
    let detail = if revoked { engine::key_revocation(&key) } else { engine::key_grant(&key) };
    let note = AuditNote {
        who: who.into(),
        scope: Scope::All,
        action,
        target: key.id.to_string().into(),
        detail: Some(detail),
        correlation: CorrelationId::parse(&JobId::new(now, dice.roll()).to_string())?,
    };
    Ok(Request::put_key(&key).audited(note))
}

/// The secret that an earlier start has left, before it came to tell the store.
fn read(path: &Path) -> Result<Option<KeySecret>> {
    let Some(text) = secret_file::read(path)? else { return Ok(None) };
    KeySecret::parse(&text).map(Some).with_context(|| {
        let shown = path.display();
        format!("{shown} holds no key, and the store has none; move it away, and the next start makes one")
    })
}

fn write(folder: &Path, path: &Path, secret: KeySecret) -> Result<KeySecret> {
    secret_file::write(folder, path, &secret.expose())?;
    Ok(secret)
}

#[cfg(test)]
mod tests;
