//! A notifier that one thread waits for and any thread may notify.

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
    /// Whether there was a notification since the last wait.
    pub(crate) notified: bool,
    /// Whether the waiting thread is to stop.
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

/// A thread that works in rounds and waits for a notifier between them. Dropping it stops it.
pub(crate) struct NotifiedThread {
    notifier: Arc<Notifier>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl NotifiedThread {
    pub(crate) fn start(
        name: &str,
        notifier: Arc<Notifier>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(NotifiedThread { notifier, thread: Mutex::new(Some(thread)) })
    }

    /// Stops the thread, and returns when it has finished its round.
    pub(crate) fn stop(&self) {
        self.notifier.stop();
        let thread = self.thread.lock().expect("nothing panics here").take();
        // The last owner of the node may be a future that this thread wakes and that is dropped
        // here. Then this is the thread itself, which cannot join itself.
        let other = thread.filter(|thread| thread.thread().id() != thread::current().id());
        drop(other.map(thread::JoinHandle::join)); // a panic was reported where it happened
    }
}

impl Drop for NotifiedThread {
    fn drop(&mut self) {
        self.stop();
    }
}
