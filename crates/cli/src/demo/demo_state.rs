//! The jobs and captions that the demo shows, and their state in the store.

use super::story::Demo;
use anyhow::Result;
use consign::{Job, JobId};
use engine::{Scope, Submitted, Timestamp};
use platform::{Explanation, SystemClock};
use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use store::{Clock, QueueDepth};

pub(crate) struct DemoState {
    clock: SystemClock,
    pub(crate) started_at: Timestamp,
    notes: Mutex<Notes>,
}

#[derive(Clone, Default)]
struct Notes {
    showcases: Vec<Showcase>,
    captions: Vec<Caption>,
}

/// A job that the demo shows in full. Its state is read from the store.
#[derive(Clone, Copy)]
pub(crate) struct Showcase {
    pub(crate) id: JobId,
    /// How often it was submitted again and answered with `duplicate: true`.
    pub(crate) duplicates: u32,
    /// The last such time.
    pub(crate) duplicate_at: Option<Timestamp>,
}

/// A sentence on the screen: what happens and why it matters.
#[derive(Clone)]
pub(crate) struct Caption {
    pub(crate) at: Timestamp,
    pub(crate) text: String,
}

impl DemoState {
    pub(crate) fn new() -> Self {
        let clock = SystemClock::new();
        let started_at = clock.read().wall;
        DemoState { clock, started_at, notes: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.read().wall
    }

    pub(crate) fn add_caption(&self, text: impl Into<String>) {
        let caption = Caption { at: self.now(), text: text.into() };
        self.lock().captions.push(caption);
    }

    /// Adds a job to the shown ones, or counts a duplicate submit.
    pub(crate) fn add_job(&self, submitted: &Submitted) {
        let mut notes = self.lock();
        let id = submitted.job_id;
        match notes.showcases.iter_mut().find(|showcase| showcase.id == id) {
            Some(showcase) if submitted.duplicate => {
                showcase.duplicates += 1;
                showcase.duplicate_at = Some(self.now());
            }
            Some(_) => {}
            None => notes.showcases.push(Showcase { id, duplicates: 0, duplicate_at: None }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no code panics while it holds the notes")
    }
}

pub(crate) struct DemoSnapshot {
    pub(crate) now: Timestamp,
    pub(crate) elapsed: Duration,
    pub(crate) queues: Vec<QueueDepth>,
    pub(crate) shown_jobs: Vec<ShownJob>,
    pub(crate) captions: Vec<Caption>,
}

pub(crate) struct ShownJob {
    pub(crate) showcase: Showcase,
    pub(crate) job: Job,
    pub(crate) explained: Explanation,
}

impl DemoSnapshot {
    pub(crate) async fn take(demo: &Demo) -> Result<Self> {
        let (now, Notes { showcases, captions }) = (demo.state.now(), demo.state.lock().clone());
        let mut shown_jobs = Vec::new();
        for showcase in showcases {
            let job = demo.node().job(&Scope::All, showcase.id).await?;
            let explained = demo.node().explain(&Scope::All, showcase.id).await?;
            shown_jobs.push(ShownJob { showcase, job, explained });
        }
        let queues = demo.node().queues(&Scope::All).await?;
        Ok(DemoSnapshot {
            now,
            elapsed: now.since(demo.state.started_at),
            queues,
            shown_jobs,
            captions,
        })
    }
}
