//! What the story has put on show, for those who draw it.

use consign::{JobId, Submitted};
use engine::Timestamp;
use platform::SystemClock;
use std::sync::{Mutex, MutexGuard};
use store::Clock;

pub(crate) struct Board {
    clock: SystemClock,
    pub(crate) began_at: Timestamp,
    notes: Mutex<Notes>,
}

#[derive(Clone, Default)]
pub(crate) struct Notes {
    pub(crate) shown: Vec<Shown>,
    pub(crate) said: Vec<Said>,
}

/// A job that people should look at. What has become of it is the store's to say.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) id: JobId,
    /// How often it was handed over again and answered with `duplicate: true`.
    pub(crate) duplicates: u32,
    /// When that was last.
    pub(crate) again_at: Option<Timestamp>,
}

/// A sentence about what happens and why it matters.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) at: Timestamp,
    pub(crate) text: String,
}

impl Board {
    pub(crate) fn new() -> Self {
        let clock = SystemClock::new();
        let began_at = clock.read().wall;
        Board { clock, began_at, notes: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.read().wall
    }

    pub(crate) fn say(&self, text: impl Into<String>) {
        let said = Said { at: self.now(), text: text.into() };
        self.lock().said.push(said);
    }

    /// Puts a job on show, or counts that it was handed over once more.
    pub(crate) fn show(&self, submitted: &Submitted) {
        let mut notes = self.lock();
        let id = submitted.job_id;
        match notes.shown.iter_mut().find(|shown| shown.id == id) {
            Some(shown) if submitted.duplicate => {
                shown.duplicates += 1;
                shown.again_at = Some(self.now());
            }
            Some(_) => {}
            None => notes.shown.push(Shown { id, duplicates: 0, again_at: None }),
        }
    }

    pub(crate) fn notes(&self) -> Notes {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("nothing panics with the notes in hand")
    }
}
