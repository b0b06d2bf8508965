//! A bell that one thread waits for and any may ring.

use std::{
    io,
    sync::{Arc, Condvar, Mutex},
    task::Wake,
    thread,
    time::Duration,
};

#[derive(Default)]
pub(crate) struct Notifier {
    notified: Mutex<NotifierState>,
    heard: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NotifierState {
    /// Somebody rang since it was last heard.
    pub(crate) notified: bool,
    /// There is nothing more to wait for, ever.
    pub(crate) stop: bool,
}

impl Notifier {
    pub(crate) fn notify(&self) {
        let was = std::mem::replace(&mut self.lock().notified, true);
        if !was {
            self.heard.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.heard.notify_one();
    }

    pub(crate) fn wait(&self, longest: Duration) -> NotifierState {
        let quiet = |notified: &mut NotifierState| !notified.notified && !notified.stop;
        let waited = self.heard.wait_timeout_while(self.lock(), longest, quiet);
        let (mut notified, _) = waited.expect(UNPOISONED);
        let heard = *notified;
        notified.notified = false;
        heard
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NotifierState> {
        self.notified.lock().expect(UNPOISONED)
    }
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.notify();
    }
}

const UNPOISONED: &str = "nothing panics with the bell in hand";

/// A thread that does its rounds by a bell. Dropped, it stops.
pub(crate) struct BellThread {
    notifier: Arc<Notifier>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl BellThread {
    pub(crate) fn start(
        name: &str,
        notifier: Arc<Notifier>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(BellThread { notifier, thread: Mutex::new(Some(thread)) })
    }

    /// Stops the thread, and returns when it has ended its round and left.
    pub(crate) fn stop(&self) {
        self.notifier.stop();
        let thread = self.thread.lock().expect("nothing panics here").take();
        // The last one who knows the node may be a future that dies of what it is told. Then this
        // is the thread itself, which cannot wait for itself.
        let other = thread.filter(|thread| thread.thread().id() != thread::current().id());
        drop(other.map(thread::JoinHandle::join)); // a panic of the store was told where it happened
    }
}

impl Drop for BellThread {
    fn drop(&mut self) {
        self.stop();
    }
}
