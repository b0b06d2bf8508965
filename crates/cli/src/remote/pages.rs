//! Lists that come in pages.

use super::Session;
use crate::{
    args::PageArgs,
    style::{Style, StyledLine},
};
use anyhow::Result;
use client::{ClientError, ListQuery};
use wire::Page;

pub(crate) const PAGE_MAX: u32 = 1_000;

/// As many items as the user wants. A page may be short and still have a successor.
pub(crate) async fn fetch<T>(
    wanted: PageArgs,
    mut ask: impl AsyncFnMut(u32, Option<String>) -> Result<Page<T>, ClientError>,
) -> Result<Page<T>> {
    let mut whole = Page { items: Vec::new(), next_cursor: None };
    while let Some(top) = missing(wanted, whole.items.len()) {
        let page = ask(top, whole.next_cursor.take()).await?;
        whole.items.extend(page.items);
        whole.next_cursor = page.next_cursor;
        if whole.next_cursor.is_none() {
            break;
        }
    }
    Ok(whole)
}

/// How many to ask for next after `have` items; `None` when that is enough.
fn missing(wanted: PageArgs, have: usize) -> Option<u32> {
    if wanted.all {
        return Some(PAGE_MAX);
    }
    let missing = wanted.top.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX));
    (missing > 0).then_some(missing)
}

/// How many jobs match a filter, over at most so many pages, and whether the count is complete.
pub(crate) async fn count(
    session: &Session,
    filter: Option<String>,
    pages_max: u32,
) -> Result<(u64, bool)> {
    let mut query = ListQuery { filter, top: Some(PAGE_MAX), cursor: None };
    let mut jobs = 0;
    for _ in 0..pages_max {
        let page = session.client.list(&query).await?;
        jobs += page.items.len() as u64;
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return Ok((jobs, true));
        }
    }
    Ok((jobs, false))
}

/// A note that the list shows only the `shown` newest, where there are more.
pub(crate) fn more(shown: usize, next: Option<&String>) -> Option<StyledLine> {
    next.map(|_| {
        StyledLine::of(Style::Faint, format!("the newest {shown}; --all shows all, --top more"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_short_is_made_up_for_and_no_more() {
        assert_eq!(
            [0, 20, 50, 60].map(|have| missing(PageArgs { top: 50, all: false }, have)),
            [Some(50), Some(30), None, None]
        );
        assert_eq!(missing(PageArgs { top: 50, all: true }, 60), Some(PAGE_MAX));
    }
}
