//! Lists that come in pages.

use super::{Style, StyledLine};
use crate::args::PageArgs;
use anyhow::Result;
use client::ClientError;
use wire::Page;

pub(crate) const PAGE_MAX: u32 = 1_000;

/// As many items as the user wants. A page may be short and still have a successor.
pub(crate) async fn fetch<T>(
    page_args: PageArgs,
    mut fetch_page: impl AsyncFnMut(u32, Option<String>) -> Result<Page<T>, ClientError>,
) -> Result<Page<T>> {
    let mut result = Page { items: Vec::new(), next_cursor: None };
    while let Some(top) = next_top(page_args, result.items.len()) {
        let page = fetch_page(top, result.next_cursor.take()).await?;
        result.items.extend(page.items);
        result.next_cursor = page.next_cursor;
        if result.next_cursor.is_none() {
            break;
        }
    }
    Ok(result)
}

/// How many to ask for next after `item_count` items; `None` when that is enough.
fn next_top(page_args: PageArgs, item_count: usize) -> Option<u32> {
    if page_args.all {
        return Some(PAGE_MAX);
    }
    let next_top = page_args.top.saturating_sub(u32::try_from(item_count).unwrap_or(u32::MAX));
    (next_top > 0).then_some(next_top)
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
            [0, 20, 50, 60]
                .map(|item_count| next_top(PageArgs { top: 50, all: false }, item_count)),
            [Some(50), Some(30), None, None]
        );
        assert_eq!(next_top(PageArgs { top: 50, all: true }, 60), Some(PAGE_MAX));
    }
}
