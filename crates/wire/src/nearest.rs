//! The name that was probably meant, where a name is not known.

use std::mem;

/// Longer names are no slips, and would take long to measure.
const NAME_BYTES_MAX: usize = 128;
/// A shorter beginning says too little.
const BEGINNING_BYTES_MIN: usize = 4;

/// The candidate that is nearest to `name`, if any is near at all: by its letters, or because
/// `name` only adds to it (`retentionSeconds`, `retention`).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let far = 1 + name.chars().count() / 4;
    let measured = candidates.into_iter().map(|candidate| {
        let adds = candidate.len() >= BEGINNING_BYTES_MIN && name.starts_with(candidate);
        (distance(name, candidate), adds, candidate)
    });
    let near = measured.filter(|(distance, adds, _)| *distance <= far || *adds);
    near.min_by_key(|(distance, _, candidate)| (*distance, *candidate))
        .map(|(_, _, candidate)| candidate)
}

/// `; did you mean …?`, or nothing.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// How many letters have to be put in, taken out, replaced, or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = mem::replace(&mut last, row);
    }
    last[b.len()]
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

    #[test]
    fn distances_are_counted_in_letters() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("ä", "a", 1),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
