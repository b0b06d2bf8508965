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
    state: Mutex<NotifierState>,
    wakeup: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NotifierState {
    /// Whether there was a notification since the last wait.
    pub(crate) was_notified: bool,
    /// Whether the waiting thread is to stop.
    pub(crate) should_stop: bool,
}

impl Notifier {
    pub(crate) fn notify(&self) {
        let was_set = std::mem::replace(&mut self.lock().was_notified, true);
        if !was_set {
            self.wakeup.notify_one();
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().should_stop = true;
        self.wakeup.notify_one();
    }

    pub(crate) fn wait(&self, timeout: Duration) -> NotifierState {
        let is_idle = |state: &mut NotifierState| !state.was_notified && !state.should_stop;
        let waited = self.wakeup.wait_timeout_while(self.lock(), timeout, is_idle);
        let (mut state, _) = waited.expect(UNPOISONED);
        let result = *state;
        state.was_notified = false;
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NotifierState> {
        self.state.lock().expect(UNPOISONED)
    }
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.notify();
    }
}

const UNPOISONED: &str = "no code panics while it holds the state of a notifier";

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
        let thread = self
            .thread
            .lock()
            .expect("no code panics while it holds the handle of the thread")
            .take();
        // The last owner of the node may be a future that this thread wakes and that is dropped
        // here. Then this is the thread itself, which cannot join itself.
        let other_thread = thread.filter(|thread| thread.thread().id() != thread::current().id());
        drop(other_thread.map(thread::JoinHandle::join)); // a panic was reported where it happened
    }
}

impl Drop for NotifiedThread {
    fn drop(&mut self) {
        self.stop();
    }
}
