//! One item of a page of reports. An item of the wrong kind is refused alone: the other reports of
//! the page must not be lost with it.

use crate::body::{Unreadable, read};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// An item as it arrived, read or not.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum PageItem<T> {
    /// It has the right shape.
    Read(T),
    /// It has not.
    #[serde(skip)]
    Misread(Misread),
}

/// An item that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    /// The job that it names, if it does.
    pub job_id: String,
    /// What is wrong with it. The pointer begins at the item.
    pub error: Unreadable,
}

impl<T> PageItem<T> {
    /// The item, or what is wrong with it.
    pub fn read(&self) -> Result<&T, &Unreadable> {
        match self {
            PageItem::Read(item) => Ok(item),
            PageItem::Misread(misread) => Err(&misread.error),
        }
    }

    /// The job that the item names, as it came.
    pub fn job_id<'a>(&'a self, of: impl FnOnce(&'a T) -> &'a str) -> &'a str {
        match self {
            PageItem::Read(item) => of(item),
            PageItem::Misread(misread) => &misread.job_id,
        }
    }
}

impl<T> From<T> for PageItem<T> {
    fn from(item: T) -> Self {
        PageItem::Read(item)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for PageItem<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get().as_bytes();
        Ok(match read(text) {
            Ok(item) => PageItem::Read(item),
            Err(error) => {
                PageItem::Misread(Misread { job_id: named_job(text), error: error.of_part() })
            }
        })
    }
}

/// The id in a bad item, so that the sender can recognise it in the answer.
fn named_job(item: &[u8]) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        job_id: String,
    }
    read::<Named>(item).map(|named| named.job_id).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::{HeartbeatRequest, ReleaseRequest, SettleRequest, Unreadable, read};

    #[test]
    fn a_list_of_fields_is_no_item_of_a_page_and_costs_no_other() {
        let page = read::<SettleRequest>(br#"{"items": [{}, ["x", "y"], {"jobId": 5}]}"#).unwrap();
        let wrong: Vec<_> = page.items.iter().map(|item| item.read().err().cloned()).collect();
        let said = |pointer: &str, detail: &str| {
            Some(Unreadable { pointer: Some(pointer.into()), detail: detail.into() })
        };
        let expected =
            [None, said("", "must be a JSON object"), said("/jobId", "must be a string")];
        assert_eq!(wrong, expected);
        assert_eq!(read::<SettleRequest>(br#"{"items": [{}, {}]}"#).unwrap().items.len(), 2);
        let page = read::<ReleaseRequest>(br#"{"items": [[]]}"#).unwrap();
        assert!(page.items[0].read().is_err());
        let page = read::<HeartbeatRequest>(br#"{"leases": [["x"], {"progress": [5]}]}"#).unwrap();
        assert!(page.leases[0].read().is_err());
        let item = page.leases[1].read().unwrap();
        assert!(item.progress.as_ref().unwrap().misread.is_some());
    }
}
