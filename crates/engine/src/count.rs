//! Counts in sentences for people.

use std::fmt::Display;

/// The number with the words that fit it: `1 job waits`, `2 jobs wait`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, more: &str) -> String {
    let words = if count == N::from(1) { one } else { more };
    format!("{count} {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_none_is_plural() {
        let jobs = |count: u64| counted(count, "job", "jobs");
        assert_eq!([0, 1, 2, 21].map(jobs), ["0 jobs", "1 job", "2 jobs", "21 jobs"]);
    }
}
