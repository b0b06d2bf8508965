//! Clocks of nodes that are wrong.
//!
//! A node has no setting for its clock, and should have none: one that exists would be used. So the system lies to it:
//! `libfaketime` stands between a process and the C library and moves the wall clock, and only that; the monotonic
//! clock, by which a process measures spans, stays as it is. The database knows the true time.

use engine::Timestamp;
use std::{fs, path::PathBuf, time::Duration};

/// So far a node's clock may be off.
const OFF: Duration = Duration::from_secs(600);
/// Between what a node said of itself and when we read it.
const ROUGHLY: Duration = Duration::from_secs(60);

/// What a node believes of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    Right,
    Fast,
    Slow,
}

impl Watch {
    /// What has to stand in the environment of a process that believes it.
    pub(super) fn variables(self) -> Vec<(String, String)> {
        let seconds = OFF.as_secs();
        let off = match self {
            Watch::Right => return Vec::new(),
            Watch::Fast => format!("+{seconds}"),
            Watch::Slow => format!("-{seconds}"),
        };
        let set = |name: &str, value: String| (name.to_owned(), value);
        vec![
            set("LD_PRELOAD", library().display().to_string()),
            set("FAKETIME", off),
            set("DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    /// Whether a process that says that it is `shown` shows this watch.
    pub(super) fn is_shown(self, shown: Timestamp, now: Timestamp) -> bool {
        let off = match self {
            Watch::Right => 0,
            Watch::Fast => OFF.as_millis() as i64,
            Watch::Slow => -(OFF.as_millis() as i64),
        };
        let difference = shown.unix_ms() - now.unix_ms() - off;
        difference.unsigned_abs() < ROUGHLY.as_millis() as u64
    }
}

/// Debian keeps it in a folder for each kind of machine. A process has many threads, hence `MT`.
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
