//! Settings of the tests, from the environment.

/// The base of all random seeds. `cargo xtask test` derives it from the commit's hash, so that each
/// commit runs other cases; without it they are always the same.
pub(crate) fn seed_base() -> u64 {
    setting("CONSIGN_SEED").unwrap_or(0)
}

pub(crate) fn setting(name: &str) -> Option<u64> {
    text(name).map(|text| text.parse().expect("a whole number"))
}

#[expect(clippy::disallowed_methods, reason = "settings of the person who runs the test")]
pub(crate) fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
