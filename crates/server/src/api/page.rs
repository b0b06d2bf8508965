//! Pages of lists that are assembled in memory: queues, types, keys, workers, history.
//!
//! Each item has a key, and a list is in the order of its keys. A cursor is the key of the last
//! item of its page. So it stays valid whatever items come or go, and reveals nothing that its page
//! did not show.

use super::list::{top, wrong_cursor};
use crate::{error::Reply, extract::QueryParams};
use engine::{hex, unhex_all};
use store::PAGE_MAX;
use wire::Page;

/// Which page of a list is wanted.
pub(super) struct PageQuery {
    top: usize,
    after: Option<Vec<u8>>,
}

/// No key is longer.
const KEY_BYTES_MAX: usize = 1_024;

impl PageQuery {
    pub(super) fn of(params: &QueryParams) -> Reply<Self> {
        Self::with(params, &[])
    }

    /// The same for a short list, which is one page unless the client says how long a page is.
    pub(super) fn or_all(params: &QueryParams) -> Reply<Self> {
        let is_sized = ["top", "$top"].iter().any(|name| params.get(name).is_some());
        let query = Self::of(params)?;
        Ok(if is_sized { query } else { PageQuery { top: PAGE_MAX, ..query } })
    }

    /// Reads the page parameters of a list that also takes the parameters `more`.
    pub(super) fn with(params: &QueryParams, extra_params: &[&str]) -> Reply<Self> {
        params.refuse_unknown(&[&["top", "$top", "cursor"], extra_params].concat())?;
        let key = |text| key_of(text).ok_or_else(wrong_cursor);
        let after = params.get("cursor").map(key).transpose()?;
        Ok(PageQuery { top: top(params)?, after })
    }

    /// The number after which the page begins, in a list whose keys are numbers.
    pub(super) fn after_number(&self) -> u64 {
        let digits = self.after.iter().flatten().take(size_of::<u64>());
        digits.fold(0, |number, digit| number << 8 | u64::from(*digit))
    }

    /// Cuts the page out of all items.
    pub(super) fn page_of<T, S>(
        self,
        items: Vec<T>,
        key: impl Fn(&T) -> Vec<u8>,
        convert: impl Fn(&T) -> S,
    ) -> Page<S> {
        let mut keyed: Vec<(Vec<u8>, T)> =
            items.into_iter().map(|item| (key(&item), item)).collect();
        keyed.retain(|(key, _)| self.after.as_ref().is_none_or(|after| key > after));
        keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
        let has_more = keyed.len() > self.top;
        keyed.truncate(self.top);
        let next_cursor = keyed.last().filter(|_| has_more).map(|(key, _)| hex(key));
        Page { items: keyed.iter().map(|(_, item)| convert(item)).collect(), next_cursor }
    }
}

fn key_of(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > 2 * KEY_BYTES_MAX {
        return None;
    }
    unhex_all(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(top: usize, cursor: Option<&str>) -> PageQuery {
        PageQuery { top, after: cursor.map(|text| key_of(text).expect("it is a cursor")) }
    }

    #[test]
    fn pages_are_sorted_and_hold_every_item() {
        let items = || vec!["c", "a", "e", "b", "d"];
        let (mut all_items, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let key = |item: &&str| item.as_bytes().to_vec();
            let page = query(2, cursor.as_deref()).page_of(items(), key, |item| *item);
            all_items.extend(page.items);
            pages += 1;
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((all_items, pages), (vec!["a", "b", "c", "d", "e"], 3));
    }

    #[test]
    fn a_cursor_stays_good_when_its_item_is_gone() {
        let page =
            query(9, Some("62")).page_of(vec!["a", "c"], |item| item.as_bytes().to_vec(), |i| *i);
        assert_eq!((page.items, page.next_cursor), (vec!["c"], None));
    }

    #[test]
    fn only_a_cursor_is_read_as_one() {
        for bad in ["", "6", "6G", "6A", "-1", "6 ", "\u{0}\u{0}"] {
            assert_eq!(key_of(bad), None, "{bad:?}");
        }
        assert_eq!(key_of(&"a".repeat(2 * KEY_BYTES_MAX + 2)), None);
        assert_eq!(key_of("00ff"), Some(vec![0, 255]));
        assert_eq!(hex(&[0, 255]), "00ff");
        assert_eq!(query(1, Some("0000000000000007")).after_number(), 7);
        assert_eq!(query(1, None).after_number(), 0);
    }
}
