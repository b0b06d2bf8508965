//! Records with their versions, for changes that depend on what a record says now.

use crate::{Error, Platform};
use engine::Scope;
use store::{RecordBody, StoreError};

impl Platform {
    /// The record under this key and its version; version 0 where there is none.
    pub(crate) async fn record<T: RecordBody>(
        &self,
        scope: &Scope,
        key: &str,
    ) -> Result<(u64, Option<T>), Error> {
        let records = self.store.records(T::RECORD, Some(scope), key).await?;
        let Some(record) = records.into_iter().find(|record| *record.name.key == *key) else {
            return Ok((0, None));
        };
        let value = record.read().ok_or(StoreError::Damaged(None))?;
        Ok((record.version, Some(value)))
    }
}
