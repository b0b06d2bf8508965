//! Follows the life of a job across broken connections and server restarts.

use super::{Session, print_trying_again};
use anyhow::{Result, bail};
use client::{ClientError, JobStream, StreamEvent};
use engine::Backoff;
use std::time::Duration;
use wire::JobStatus;

pub(crate) struct Follow<'a> {
    session: &'a Session,
    job: &'a str,
    /// The number of the last transition that was received.
    last_seq: Option<String>,
    stream: Option<JobStream>,
    phase: Phase,
    pauses: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No answer yet: an error now is permanent.
    Connecting,
    Listening,
    /// The connection broke, and the caller knows.
    Lost,
}

pub(crate) enum FollowEvent {
    /// The status of the job after the transition with that number. That of an ended job is the
    /// last event.
    Status { seq: String, status: Box<JobStatus> },
    /// No server answers; the next try follows.
    Lost { reason: String },
}

const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(250), Duration::from_secs(5));
/// So many pauses are ten minutes: a server that is gone for longer does not come back.
const PAUSES_MAX: u32 = 123;

impl<'a> Follow<'a> {
    pub(crate) fn new(session: &'a Session, job: &'a str) -> Self {
        Follow { session, job, last_seq: None, stream: None, phase: Phase::Connecting, pauses: 0 }
    }

    /// Waits for the end of the job, and returns its last status.
    pub(crate) async fn follow_to_end(mut self) -> Result<JobStatus> {
        loop {
            match self.next().await? {
                FollowEvent::Status { status, .. } if status.completed_at.is_some() => {
                    return Ok(*status);
                }
                FollowEvent::Status { .. } => {}
                FollowEvent::Lost { reason } => print_trying_again(&reason),
            }
        }
    }

    /// The next event. Callers await it to its end: a dropped future starts its wait anew.
    pub(crate) async fn next(&mut self) -> Result<FollowEvent> {
        loop {
            match self.next_event().await {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => self.stream = None, // the server closed the stream in order
                Err(error) if self.phase != Phase::Connecting && error.is_worth_repeating() => {
                    self.stream = None;
                    if self.pauses > PAUSES_MAX {
                        return Err(error.into());
                    }
                    if self.phase == Phase::Listening {
                        self.phase = Phase::Lost;
                        return Ok(FollowEvent::Lost { reason: error.to_string() });
                    }
                }
                Err(error) => return Err(error.into()),
            }
            self.pause().await?;
        }
    }

    async fn pause(&mut self) -> Result<()> {
        if self.pauses > PAUSES_MAX {
            bail!("the server sends no more events of the job, and says that it has not ended");
        }
        self.pauses += 1;
        tokio::time::sleep(BACKOFF.ceiling(self.pauses)).await;
        Ok(())
    }

    /// The next event; `None` where the stream ended before the job did.
    async fn next_event(&mut self) -> Result<Option<FollowEvent>, ClientError> {
        if self.stream.is_none() {
            self.stream =
                Some(self.session.client.watch(self.job, self.last_seq.as_deref()).await?);
        }
        let stream = self.stream.as_mut().expect("the stream was opened above");
        let (seq, status) = match stream.next().await? {
            Some(StreamEvent::Status { seq, status }) => (seq, status),
            Some(StreamEvent::Failed { .. }) => return Ok(None),
            None => return self.read_status().await,
        };
        self.last_seq = Some(seq.clone());
        Ok(Some(self.event_for(seq, status)))
    }

    /// Reads the status. A stream that ends says nothing about the job: a client that reconnects
    /// after the job's end gets no event.
    async fn read_status(&mut self) -> Result<Option<FollowEvent>, ClientError> {
        let status = self.session.client.status(self.job).await?;
        if status.completed_at.is_none() {
            return Ok(None);
        }
        let seq = self.last_seq.clone().unwrap_or_default();
        Ok(Some(self.event_for(seq, Box::new(status))))
    }

    fn event_for(&mut self, seq: String, status: Box<JobStatus>) -> FollowEvent {
        self.phase = Phase::Listening;
        self.pauses = 0;
        FollowEvent::Status { seq, status }
    }
}
