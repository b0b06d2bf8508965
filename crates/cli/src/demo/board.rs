//! The jobs and captions that the story shows, and their state in the store.

use super::story::Demo;
use anyhow::Result;
use consign::{Explanation, Job, JobId, QueueDepth, Submitted};
use engine::Timestamp;
use platform::SystemClock;
use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use store::Clock;

pub(crate) struct Board {
    clock: SystemClock,
    pub(crate) began_at: Timestamp,
    notes: Mutex<Notes>,
}

#[derive(Clone, Default)]
struct Notes {
    shown: Vec<Showcase>,
    said: Vec<Caption>,
}

/// A job that the demo shows in full. Its state is read from the store.
#[derive(Clone, Copy)]
pub(crate) struct Showcase {
    pub(crate) id: JobId,
    /// How often it was submitted again and answered with `duplicate: true`.
    pub(crate) duplicates: u32,
    /// The last such time.
    pub(crate) again_at: Option<Timestamp>,
}

/// A sentence on the screen: what happens and why it matters.
#[derive(Clone)]
pub(crate) struct Caption {
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
        let said = Caption { at: self.now(), text: text.into() };
        self.lock().said.push(said);
    }

    /// Adds a job to the shown ones, or counts a duplicate submit.
    pub(crate) fn show(&self, submitted: &Submitted) {
        let mut notes = self.lock();
        let id = submitted.job_id;
        match notes.shown.iter_mut().find(|shown| shown.id == id) {
            Some(shown) if submitted.duplicate => {
                shown.duplicates += 1;
                shown.again_at = Some(self.now());
            }
            Some(_) => {}
            None => notes.shown.push(Showcase { id, duplicates: 0, again_at: None }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("nothing panics with the notes in hand")
    }
}

/// The state of the store at one moment.
pub(crate) struct DemoSnapshot {
    pub(crate) now: Timestamp,
    pub(crate) elapsed: Duration,
    pub(crate) queues: Vec<QueueDepth>,
    pub(crate) exhibits: Vec<ShownJob>,
    pub(crate) said: Vec<Caption>,
}

/// A shown job with its state in the store.
pub(crate) struct ShownJob {
    pub(crate) shown: Showcase,
    pub(crate) job: Job,
    pub(crate) explained: Explanation,
}

impl DemoSnapshot {
    pub(crate) async fn take(demo: &Demo) -> Result<Self> {
        let (now, Notes { shown, said }) = (demo.board.now(), demo.board.lock().clone());
        let mut exhibits = Vec::new();
        for shown in shown {
            let job = demo.consign.job(shown.id).await?;
            let explained = demo.consign.explain(shown.id).await?;
            exhibits.push(ShownJob { shown, job, explained });
        }
        let queues = demo.consign.queues().await?;
        Ok(DemoSnapshot { now, elapsed: now.since(demo.board.began_at), queues, exhibits, said })
    }
}
