//! Nodes whose clocks are wrong.
//!
//! A node has no setting for its clock, and should have none: one that exists would be used. So the
//! test preloads `libfaketime`, which stands between a process and the C library. It moves the wall
//! clock and nothing else; the monotonic clock, by which a process measures spans, stays as it is.
//! The database has the true time.

use engine::Timestamp;
use std::{fs, path::PathBuf, time::Duration};

/// The error of a wrong clock.
const OFF: Duration = Duration::from_secs(600);
/// Tolerance for the time between a node's report and its reading.
const ROUGHLY: Duration = Duration::from_secs(60);

/// The clock of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeClock {
    Right,
    Fast,
    Slow,
}

impl NodeClock {
    /// The environment variables that give a process this clock.
    pub(super) fn variables(self) -> Vec<(String, String)> {
        let seconds = OFF.as_secs();
        let off = match self {
            NodeClock::Right => return Vec::new(),
            NodeClock::Fast => format!("+{seconds}"),
            NodeClock::Slow => format!("-{seconds}"),
        };
        let set = |name: &str, value: String| (name.to_owned(), value);
        vec![
            set("LD_PRELOAD", library().display().to_string()),
            set("FAKETIME", off),
            set("DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    /// Whether a process that reports the time `shown` has this clock.
    pub(super) fn is_shown(self, shown: Timestamp, now: Timestamp) -> bool {
        let off = match self {
            NodeClock::Right => 0,
            NodeClock::Fast => OFF.as_millis() as i64,
            NodeClock::Slow => -(OFF.as_millis() as i64),
        };
        let difference = shown.unix_ms() - now.unix_ms() - off;
        difference.unsigned_abs() < ROUGHLY.as_millis() as u64
    }
}

/// Debian has a folder for each architecture. A process has many threads, hence `MT`.
fn library() -> PathBuf {
    const NAME: &str = "faketime/libfaketimeMT.so.1";
    let below = |folder: &str| {
        let kinds = fs::read_dir(folder).into_iter().flatten().flatten();
        kinds.map(|kind| kind.path().join(NAME)).find(|path| path.exists())
    };
    let plain = ["/usr/lib", "/usr/local/lib"].map(|folder| PathBuf::from(folder).join(NAME));
    let found = below("/usr/lib").or_else(|| plain.into_iter().find(|path| path.exists()));
    found.expect(
        "libfaketime is missing; as root: apt-get install -y faketime (cargo xtask test does so)",
    )
}
