//! Pages of the audit log: a page reads a bounded number of entries, so it may be short, or empty,
//! and still have a next page.

use crate::{Error, Platform};
use engine::{AuditEntry, AuditFilter, Scope};
use store::PAGE_MAX;

/// The most entries that one page reads.
const ENTRIES_READ_MAX: usize = 10 * PAGE_MAX;

/// A query for a page of the audit log.
#[derive(Clone, Debug)]
pub struct AuditQuery {
    /// A tenant's entries, or all.
    pub scope: Scope,
    /// The condition that the entries meet.
    pub filter: AuditFilter,
    /// Only entries with a smaller number: the `next` of the page before.
    pub before: Option<u64>,
    /// At most so many entries, and never more than [`PAGE_MAX`].
    pub limit: usize,
}

/// A page of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    /// The `before` of the next page; `None` after the last.
    pub next: Option<u64>,
}

impl Platform {
    /// A page of the audit log, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditPage, Error> {
        let limit = query.limit.clamp(1, PAGE_MAX);
        // Without a condition every entry that is read is wanted.
        let stride = if query.filter == AuditFilter::default() { limit } else { PAGE_MAX };
        let mut page = AuditPage { entries: Vec::new(), next: self.audit_start(query).await? };
        for _ in 0..ENTRIES_READ_MAX / PAGE_MAX {
            let entries = self.store.audit(&query.scope, page.next, stride).await?;
            let is_last = entries.len() < stride;
            for entry in entries {
                if query.filter.is_before(&entry) {
                    page.next = None;
                    return Ok(page);
                }
                page.next = Some(entry.number).filter(|number| *number > 1);
                page.entries.extend(query.filter.matches(&entry).then_some(entry));
                if page.entries.len() == limit {
                    return Ok(page);
                }
            }
            if is_last || page.next.is_none() {
                page.next = None;
                return Ok(page);
            }
        }
        Ok(page)
    }

    /// The number below which the page begins. Entries are in the order of their times, so that a
    /// search by halves finds the last one before `to`, however long the log is.
    async fn audit_start(&self, query: &AuditQuery) -> Result<Option<u64>, Error> {
        if query.filter.to.is_none() {
            return Ok(query.before);
        }
        let newest = self.newest_below(&query.scope, query.before).await?;
        let Some(newest) = newest.filter(|entry| query.filter.is_after(entry)) else {
            return Ok(query.before);
        };
        // No entry below `low` is too new, and the newest one below `high` is.
        let (mut low, mut high) = (1, newest.number + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.newest_below(&query.scope, Some(middle)).await? {
                Some(entry) if query.filter.is_after(&entry) => high = entry.number + 1,
                Some(_) | None => low = middle,
            }
        }
        Ok(Some(low))
    }

    async fn newest_below(
        &self,
        scope: &Scope,
        before: Option<u64>,
    ) -> Result<Option<AuditEntry>, Error> {
        Ok(self.store.audit(scope, before, 1).await?.into_iter().next())
    }
}
