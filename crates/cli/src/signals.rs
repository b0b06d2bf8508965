//! How a process is asked to end, and what it says when it does.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What shells say of a process that was ended with Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// The three ways in which a process is asked to end. To be made within a runtime.
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
