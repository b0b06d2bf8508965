//! Lists within their bounds: reading stops at the first item over the bound.
//!
//! A list that is read whole and counted afterwards costs its sender two bytes an item, and the
//! server a hundred times as much.

use crate::body::TOO_MANY;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// Reads a list of at most `MAX` items.
pub(crate) fn at_most<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(AtMost::<T, MAX>(PhantomData))
}

/// Reads a list of at most `MAX` items, or null.
pub(crate) fn at_most_or_null<'de, D, T, const MAX: usize>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let read = Option::<Bounded<T, MAX>>::deserialize(deserializer)?;
    Ok(read.map(|Bounded(items)| items))
}

struct Bounded<T, const MAX: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        at_most::<_, T, MAX>(deserializer).map(Bounded)
    }
}

struct AtMost<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for AtMost<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while items.len() < MAX {
            let Some(item) = list.next_element()? else { return Ok(items) };
            items.push(item);
        }
        // Refused where the item begins: nothing of it is read.
        list.next_element::<OneTooMany<MAX>>()?;
        Ok(items)
    }
}

/// The first item over the bound.
struct OneTooMany<const MAX: usize>;

impl<'de, const MAX: usize> Deserialize<'de> for OneTooMany<MAX> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(format!("{TOO_MANY}, expected at most {MAX} entries")))
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        BatchRequest, BulkRequest, ClaimRequest, HeartbeatRequest, KeyRequest, ReleaseRequest,
        SettleRequest, TypePolicy, Unreadable, read,
    };
    use serde::de::DeserializeOwned;

    /// Sends `count` empty items and then invalid JSON. A reader that stops at the bound never
    /// reaches that.
    fn sent<T: DeserializeOwned>(before: &str, item: &str, count: usize) -> Option<Unreadable> {
        let list = vec![item; count].join(",");
        read::<T>(format!("{before}[{list} no JSON").as_bytes()).err()
    }

    #[track_caller]
    fn check<T: DeserializeOwned>(before: &str, item: &str, max: usize, pointer: &str) {
        let over = sent::<T>(before, item, max + 1).expect("it is over the bound");
        let expected = (Some(pointer), format!("must be at most {max} entries"));
        assert_eq!((over.pointer.as_deref(), over.detail), (expected.0, expected.1), "{before}");
        let exactly = format!("{before}[{}]", vec![item; max + 1].join(","));
        let exactly = read::<T>(exactly.as_bytes()).err().expect("it is over the bound, too");
        assert_eq!(exactly.pointer.as_deref(), Some(pointer), "{before}");
        let within = sent::<T>(before, item, max).expect("it is no JSON");
        assert_eq!(within.pointer, None, "{before}: {}", within.detail);
    }

    #[test]
    fn reading_stops_at_the_first_item_over_the_bound_of_every_list() {
        check::<HeartbeatRequest>(r#"{"leases":"#, "{}", 1_000, "/leases");
        check::<SettleRequest>(r#"{"items":"#, "{}", 1_000, "/items");
        check::<ReleaseRequest>(r#"{"items":"#, "{}", 1_000, "/items");
        check::<BatchRequest>(r#"{"jobs":"#, "{}", 1_000, "/jobs");
        check::<ClaimRequest>(r#"{"jobTypes":"#, r#""a""#, 100, "/jobTypes");
        check::<BulkRequest>(r#"{"jobIds":"#, r#""a""#, 1_000, "/jobIds");
        check::<KeyRequest>(r#"{"scopes":"#, r#""a""#, 100, "/scopes");
        check::<KeyRequest>(r#"{"types":"#, r#""a""#, 100, "/types");
        check::<KeyRequest>(r#"{"subjects":"#, r#""a""#, 100, "/subjects");
        check::<TypePolicy>(r#"{"handler":{"exec":"#, r#""a""#, 64, "/handler/exec");
    }
}
