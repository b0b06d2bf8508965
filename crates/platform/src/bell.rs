//! A bell that one thread waits for and any may ring.

use std::{
    sync::{Arc, Condvar, Mutex},
    task::Wake,
    time::Duration,
};

#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<Rung>,
    heard: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rung {
    /// Somebody rang since it was last heard.
    pub(crate) rung: bool,
    /// There is nothing more to wait for, ever.
    pub(crate) stop: bool,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let was = std::mem::replace(&mut self.lock().rung, true);
        if !was {
            self.heard.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.heard.notify_one();
    }

    /// Waits until it rings, at most so long.
    pub(crate) fn wait(&self, longest: Duration) -> Rung {
        let quiet = |rung: &mut Rung| !rung.rung && !rung.stop;
        let waited = self.heard.wait_timeout_while(self.lock(), longest, quiet);
        let (mut rung, _) = waited.expect(UNPOISONED);
        let heard = *rung;
        rung.rung = false;
        heard
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Rung> {
        self.rung.lock().expect(UNPOISONED)
    }
}

/// A future may ring it.
impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

const UNPOISONED: &str = "nothing panics with the bell in hand";
