//! The schema version of a store, and its migration, for operators.

use super::{
    doctor::open_read_only,
    error::OpenError,
    open::{Files, MIGRATIONS, Role, migrate as run, refuse_foreign, schema_of},
};
use crate::Schema;
use std::{borrow::Cow, path::Path};

/// Returns the schema version of the store at `path`. Works while the store is in use, and does not
/// change it.
pub fn schema(path: &Path) -> Result<Schema, OpenError> {
    let (_, version) = open_read_only(&Files::for_external_reader(path)?)?;
    Ok(Schema::of(version, MIGRATIONS, Cow::Borrowed))
}

/// Migrates the store at `path`, and returns the schema version it had. Refused while another
/// process has the store open.
pub fn migrate(path: &Path, holder: &str) -> Result<Schema, OpenError> {
    let files = Files::for_external_reader(path)?;
    let _lock = files.lock(holder)?;
    let unusable = |error| OpenError::unusable(path, error);
    let mut db = files.connect(Role::Writer).map_err(unusable)?;
    let before = schema_of(&db).map_err(unusable)?;
    // An empty file would become a store, which only `open` may do.
    refuse_foreign(before, path)?;
    run(&mut db, path)?;
    Ok(Schema::of(before.1, MIGRATIONS, Cow::Borrowed))
}
