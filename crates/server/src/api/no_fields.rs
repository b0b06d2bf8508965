//! The body of a request that has nothing to say beyond its address.

use serde::Deserialize;
use wire::SettingBody;

/// No field at all. A route without settings reads its body as this, so that a caller who sends
/// one (`{"dryRun": true}`) hears that it is not known, and nothing is done.
#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct NoFields {}

impl SettingBody for NoFields {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_object_says_nothing_and_any_field_is_refused() {
        assert!(wire::read_setting::<NoFields>(b"{}").is_ok());
        let Err(no) = wire::read_setting::<NoFields>(br#"{"dryRun": true}"#) else {
            panic!("a field was read")
        };
        assert_eq!(no.pointer.as_deref(), Some("/dryRun"));
        assert!(wire::read_setting::<NoFields>(b"[]").is_err());
        assert!(wire::read_setting::<NoFields>(b"null").is_err());
    }
}
