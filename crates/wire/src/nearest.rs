//! Suggests the name that was probably meant, for a name that is not known.

use strsim::osa_distance;

/// Longer names are no typing errors, and would take long to compare.
const NAME_BYTES_MAX: usize = 128;
/// A shorter prefix says too little.
const PREFIX_BYTES_MIN: usize = 4;

/// The candidate nearest to `name`, if any is near: by edit distance, or because `name` only adds
/// to it (`retentionSeconds`, `retention`).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let distance_max = 1 + name.chars().count() / 4;
    let compared = candidates.into_iter().map(|candidate| {
        let is_prefix = candidate.len() >= PREFIX_BYTES_MIN && name.starts_with(candidate);
        (osa_distance(name, candidate), is_prefix, candidate)
    });
    let near = compared.filter(|(distance, is_prefix, _)| *distance <= distance_max || *is_prefix);
    near.min_by_key(|(distance, _, candidate)| (*distance, *candidate))
        .map(|(_, _, candidate)| candidate)
}

/// `; did you mean …?`, or nothing.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let names = ["listen", "store", "log", "limits", "behind_proxy"];
        for (typed, meant) in [
            ("lisen", Some("listen")),
            ("litsen", Some("listen")),
            ("stroe", Some("store")),
            ("behindproxy", Some("behind_proxy")),
            ("logs", Some("log")),
            ("limitsBytes", Some("limits")),
            ("database", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), meant, "{typed}");
        }
    }
}
