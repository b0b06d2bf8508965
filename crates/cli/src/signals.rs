//! Signals that end a process, and its exit code then.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code that shells use after Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// The three signals that ask a process to end. Its constructor needs a runtime.
pub(crate) struct Signals([Signal; 3]);

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let (int, term, hup) =
            (SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup());
        Ok(Signals([signal(int)?, signal(term)?, signal(hup)?]))
    }

    pub(crate) async fn any(&mut self) {
        let [int, term, hup] = &mut self.0;
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hup.recv() => {}
        }
    }
}
