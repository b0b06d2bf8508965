//! Keys: small tables, read as a whole by whoever keeps a door.

use super::{
    body::{Body, from_row, to_row, to_scope},
    error::Trouble,
    load::blob,
    sql,
    writer::Writer,
};
use crate::store::{Answer, Reply};
use engine::{ApiKey, KeyId, Scope, SigningKey};
use rusqlite::{Connection, Params};

impl Writer {
    /// Replaces a key, or adds one where its tenant may have another.
    pub(super) fn put_key(&self, key: &ApiKey) -> Result<Reply, Trouble> {
        // A key for all tenants may have made keys of any.
        let kept = match &key.grant.scope {
            Scope::All => load_keys(&self.db)?,
            one @ Scope::One(_) => load_keys_of(&self.db, one)?,
        };
        if kept.iter().all(|kept| kept.id != key.id) {
            match self.limits.room_for_key(kept.iter(), &key.grant.scope, self.now()) {
                Ok(None) => {}
                Ok(Some(ended)) => {
                    self.db.prepare_cached(sql::API_KEY_DROP)?.execute([number(ended)])?;
                }
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let no = number(key.id);
        let values = (no, to_scope(&key.grant.scope), to_row(no, key));
        self.db.prepare_cached(sql::API_KEY_PUT)?.execute(values)?;
        Ok(Ok(Answer::Done))
    }

    pub(super) fn put_signing_key(&self, key: &SigningKey) -> Result<(), Trouble> {
        let no = number(key.id);
        self.db.prepare_cached(sql::SIGNING_KEY_PUT)?.execute((no, to_row(no, key)))?;
        Ok(())
    }
}

/// All API keys, oldest first.
pub(super) fn load_keys(db: &Connection) -> Result<Vec<ApiKey>, Trouble> {
    let mut keys: Vec<ApiKey> = load(db, sql::API_KEYS, [], |key: &ApiKey| key.id)?;
    keys.sort_by_key(|key| (key.created_at, key.id));
    Ok(keys)
}

/// The API keys of one tenant, or those of all tenants together, oldest first.
pub(super) fn load_keys_of(db: &Connection, scope: &Scope) -> Result<Vec<ApiKey>, Trouble> {
    let mut keys = load(db, sql::API_KEYS_OF, [to_scope(scope)], |key: &ApiKey| key.id)?;
    if keys.iter().any(|key| key.grant.scope != *scope) {
        return Err(Trouble::Impossible("a key is kept under another's tenant"));
    }
    keys.sort_by_key(|key| (key.created_at, key.id));
    Ok(keys)
}

/// All signing keys, oldest first.
pub(super) fn load_signing_keys(db: &Connection) -> Result<Vec<SigningKey>, Trouble> {
    let mut keys: Vec<SigningKey> = load(db, sql::SIGNING_KEYS, [], |key: &SigningKey| key.id)?;
    keys.sort_by_key(|key| (key.created_at, key.id));
    Ok(keys)
}

fn load<T: Body>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    id: impl Fn(&T) -> KeyId,
) -> Result<Vec<T>, Trouble> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let no = row.get(0)?;
        let key: T = from_row(no, blob(row, 1)?)?;
        if number(id(&key)) != no {
            return Err(Trouble::Impossible("a key is kept under another's id"));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// The same 64 bits, as SQLite has them.
fn number(id: KeyId) -> i64 {
    id.0.cast_signed()
}
