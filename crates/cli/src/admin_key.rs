//! The first key of a house: whoever can read the data folder can let others in.
//!
//! It is in two places, a file and the store, and the process may die between any two lines. The file comes first:
//! a secret in a file that the store does not know yet is put into the store by the next start, while a key whose
//! secret was never written down could not be used by anybody.

use crate::secret_file;
use anyhow::{Context, Result, bail};
use engine::{
    ApiKey, AuditNote, CorrelationId, Grant, JobId, KeyName, KeySecret, Right, Scope, Timestamp,
};
use std::path::{Path, PathBuf};
use store::{Clock, Dice, Request, Store};
use tracing::warn;

/// What the file is called, in the folder of the store.
pub(crate) const NAME: &str = "admin.key";

/// Makes the first key where the store has none, and says where its secret is, if it is still there.
pub(crate) async fn ensure(
    store: &dyn Store,
    folder: &Path,
    clock: &dyn Clock,
    dice: &dyn Dice,
) -> Result<Option<PathBuf>> {
    let path = folder.join(NAME);
    let keys = store.keys().await.context("the keys cannot be read")?;
    if !keys.is_empty() {
        return Ok(path.exists().then_some(path).filter(|path| is_known(path, &keys)));
    }
    let secret = match read(&path)? {
        Some(secret) => secret,
        None => write(folder, &path, KeySecret::new(dice.roll(), [dice.roll(), dice.roll()]))?,
    };
    keep(store, &secret, "first start", clock, dice).await?;
    Ok(Some(path))
}

/// Whether the secret in the file opens anything. Another node may have made the first key since it was written, or
/// somebody revoked it; what cannot be read is the operator's affair.
fn is_known(path: &Path, keys: &[ApiKey]) -> bool {
    let Ok(Some(secret)) = read(path) else { return true };
    let opens = |key: &ApiKey| key.digest == secret.digest() && key.revoked_at.is_none();
    let known = keys.iter().any(opens);
    if !known {
        warn!(path = %path.display(), "the key in this file opens nothing here: the store does not know it, or it was revoked");
    }
    known
}

/// Makes another key that may do everything, for an operator who has lost the first.
pub(crate) async fn another(
    store: &dyn Store,
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
    store: &dyn Store,
    secret: &KeySecret,
    who: &'static str,
    clock: &dyn Clock,
    dice: &dyn Dice,
) -> Result<()> {
    let put = put(secret, who, clock.read().wall, dice)?;
    let answers = store.execute(vec![put]).await.context("the key cannot be stored")?;
    for answer in answers {
        answer.map_err(|refusal| anyhow::anyhow!("the key was refused: {refusal}"))?;
    }
    Ok(())
}

/// The key and the note about it, in one transaction.
fn put(secret: &KeySecret, who: &'static str, now: Timestamp, dice: &dyn Dice) -> Result<Request> {
    let name = "admin";
    let key = ApiKey {
        id: secret.id(),
        name: KeyName::parse(name)?,
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
    };
    let note = AuditNote {
        who: who.into(),
        scope: Scope::All,
        action: "key.create",
        target: key.id.to_string().into(),
        detail: Some(name.into()),
        correlation: CorrelationId::parse(&JobId::new(now, dice.roll()).to_string())?,
    };
    Ok(Request::Record { note, request: Some(Box::new(Request::PutKey(key))) })
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
