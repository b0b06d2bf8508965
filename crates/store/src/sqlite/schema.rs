//! The schema of a store, for operators: which it is, and what brings it up to date.

use super::{
    doctor::visit,
    error::OpenError,
    open::{Files, MIGRATIONS, Role, SCHEMA, migrate as run, refuse_foreign, schema_of},
};
use crate::{Migration, Schema};
use std::{borrow::Cow, path::Path};

impl Schema {
    fn of(found: i64) -> Self {
        let numbered = (1..).zip(MIGRATIONS.iter());
        let missing = numbered.filter(|(number, _)| *number > found);
        let missing = missing.map(|(number, (name, sql))| Migration {
            number,
            name,
            sql: Cow::Borrowed(sql),
        });
        Schema { found, known: SCHEMA, missing: missing.collect() }
    }
}

/// Says which schema the store at `path` has; also while it is at work, and without changing it.
pub fn schema(path: &Path) -> Result<Schema, OpenError> {
    let (_, found) = visit(&Files::of_visitor(path)?)?;
    Ok(Schema::of(found))
}

/// Brings the store at `path` up to date, and says what that took. Refused while somebody has it.
pub fn migrate(path: &Path, holder: &str) -> Result<Schema, OpenError> {
    let files = Files::of_visitor(path)?;
    let _lock = files.take(holder)?;
    let unusable = |trouble| OpenError::unusable(path, trouble);
    let mut db = files.connect(Role::Writer).map_err(unusable)?;
    let found = schema_of(&db).map_err(unusable)?;
    // An empty file would become a store: that is what `open` is for.
    refuse_foreign(found, path)?;
    run(&mut db, path)?;
    Ok(Schema::of(found.1))
}
