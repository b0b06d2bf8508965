//! Lists that come page by page.

use super::Session;
use crate::ink::{Line, Tone};
use anyhow::Result;
use client::ListQuery;

/// The most that a page holds.
pub(crate) const PAGE_MAX: u32 = 1_000;

/// How many to ask for next where `have` are there; nothing when that is enough.
pub(crate) fn missing(all: bool, top: u32, have: usize) -> Option<u32> {
    if all {
        return Some(PAGE_MAX);
    }
    let missing = top.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX));
    (missing > 0).then_some(missing)
}

/// How many jobs were counted, and whether those are all.
pub(crate) struct Counted {
    pub(crate) jobs: u64,
    pub(crate) all: bool,
}

/// Counts the jobs that a filter means, over so many pages at most.
pub(crate) async fn count(
    session: &Session,
    filter: Option<String>,
    pages_max: u32,
) -> Result<Counted> {
    let mut query = ListQuery { filter, top: Some(PAGE_MAX), cursor: None };
    let mut jobs = 0;
    for _ in 0..pages_max {
        let page = session.client.list(&query).await?;
        jobs += page.items.len() as u64;
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return Ok(Counted { jobs, all: true });
        }
    }
    Ok(Counted { jobs, all: false })
}

/// Says that there are more than the `shown` newest.
pub(crate) fn more(shown: usize) -> Line {
    Line::of(Tone::Faint, format!("the newest {shown}; --all shows all, --top more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_short_is_made_up_for_and_no_more() {
        assert_eq!(
            [0, 20, 50, 60].map(|have| missing(false, 50, have)),
            [Some(50), Some(30), None, None]
        );
        assert_eq!(missing(true, 50, 60), Some(PAGE_MAX));
    }
}
