//! The life of a job as it happens, over broken connections and servers that start again.

use super::{Session, show::trying_again};
use anyhow::{Result, bail};
use client::{ClientError, JobStream, StreamEvent};
use engine::Backoff;
use std::time::Duration;
use wire::StatusShape;

pub(crate) struct Follow<'a> {
    session: &'a Session,
    job: &'a str,
    /// The number of the last transition that was heard.
    heard: Option<String>,
    stream: Option<JobStream>,
    phase: Phase,
    pauses: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody has answered yet: what is wrong now is wrong from the beginning.
    First,
    Listening,
    /// The connection broke, and that was said.
    Lost,
    Over,
}

pub(crate) enum Heard {
    /// How the job is, after the transition of that number.
    Status { seq: String, status: Box<StatusShape> },
    /// Nobody tells anything; it is being tried again.
    Lost { why: String },
    /// The job has ended, and all was told.
    Over,
}

const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(250), Duration::from_secs(5));
/// So many pauses are ten minutes: a server that is gone for longer does not come back.
const PAUSES_MAX: u32 = 123;

impl<'a> Follow<'a> {
    pub(crate) fn new(session: &'a Session, job: &'a str) -> Self {
        Follow { session, job, heard: None, stream: None, phase: Phase::First, pauses: 0 }
    }

    /// Waits for the end of the job, and gives how it was then.
    pub(crate) async fn follow_to_end(mut self) -> Result<StatusShape> {
        let mut last = None;
        loop {
            match self.next().await? {
                Heard::Status { status, .. } => last = Some(status),
                Heard::Lost { why } => trying_again(&why),
                Heard::Over => return Ok(*last.expect("a story is over when its end was told")),
            }
        }
    }

    /// What is told next. To be awaited to its end: half of a wait would begin anew.
    pub(crate) async fn next(&mut self) -> Result<Heard> {
        loop {
            if self.phase == Phase::Over {
                return Ok(Heard::Over);
            }
            match self.listen().await {
                Ok(Some(heard)) => return Ok(heard),
                Ok(None) => self.stream = None, // the door closed politely
                Err(error) if self.phase != Phase::First && error.is_worth_repeating() => {
                    self.stream = None;
                    if self.pauses > PAUSES_MAX {
                        return Err(error.into());
                    }
                    if self.phase == Phase::Listening {
                        self.phase = Phase::Lost;
                        return Ok(Heard::Lost { why: error.to_string() });
                    }
                }
                Err(error) => return Err(error.into()),
            }
            self.pause().await?;
        }
    }

    async fn pause(&mut self) -> Result<()> {
        if self.pauses > PAUSES_MAX {
            bail!("the server tells nothing of the job any more, and that it has not ended");
        }
        self.pauses += 1;
        tokio::time::sleep(BACKOFF.ceiling(self.pauses)).await;
        Ok(())
    }

    /// The next event; nothing where the stream ended before the job did.
    async fn listen(&mut self) -> Result<Option<Heard>, ClientError> {
        if self.stream.is_none() {
            self.stream = Some(self.session.client.watch(self.job, self.heard.as_deref()).await?);
        }
        let stream = self.stream.as_mut().expect("it was opened above");
        let (seq, status) = match stream.next().await? {
            Some(StreamEvent::Status { seq, status }) => (seq, status),
            Some(StreamEvent::Failed { .. }) => return Ok(None),
            None => return self.look().await,
        };
        self.heard = Some(seq.clone());
        Ok(Some(self.told(seq, status)))
    }

    /// A stream that ends says nothing about the job: whoever came back after the end is told by nobody.
    async fn look(&mut self) -> Result<Option<Heard>, ClientError> {
        let status = self.session.client.status(self.job).await?;
        if status.completed_at.is_none() {
            return Ok(None);
        }
        let seq = self.heard.clone().unwrap_or_default();
        Ok(Some(self.told(seq, Box::new(status))))
    }

    fn told(&mut self, seq: String, status: Box<StatusShape>) -> Heard {
        let ended = status.completed_at.is_some();
        self.phase = if ended { Phase::Over } else { Phase::Listening };
        self.pauses = 0;
        Heard::Status { seq, status }
    }
}
