//! Keys: small tables, read as a whole by whoever keeps a door.

use super::{
    body::{Body, from_row, to_row},
    error::Trouble,
    load::blob,
    sql,
    writer::Writer,
};
use engine::{ApiKey, KeyId, SigningKey};
use rusqlite::Connection;

impl Writer {
    pub(super) fn put_key(&self, key: &ApiKey) -> Result<(), Trouble> {
        let no = number(key.id);
        self.db.prepare_cached(sql::API_KEY_PUT)?.execute((no, to_row(no, key)))?;
        Ok(())
    }

    pub(super) fn put_signing_key(&self, key: &SigningKey) -> Result<(), Trouble> {
        let no = number(key.id);
        self.db.prepare_cached(sql::SIGNING_KEY_PUT)?.execute((no, to_row(no, key)))?;
        Ok(())
    }
}

/// All API keys, oldest first.
pub(super) fn load_keys(db: &Connection) -> Result<Vec<ApiKey>, Trouble> {
    let mut keys: Vec<ApiKey> = load(db, sql::API_KEYS, |key: &ApiKey| key.id)?;
    keys.sort_by_key(|key| (key.created_at, key.id));
    Ok(keys)
}

/// All signing keys, oldest first.
pub(super) fn load_signing_keys(db: &Connection) -> Result<Vec<SigningKey>, Trouble> {
    let mut keys: Vec<SigningKey> = load(db, sql::SIGNING_KEYS, |key: &SigningKey| key.id)?;
    keys.sort_by_key(|key| (key.created_at, key.id));
    Ok(keys)
}

fn load<T: Body>(db: &Connection, sql: &str, id: impl Fn(&T) -> KeyId) -> Result<Vec<T>, Trouble> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
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
