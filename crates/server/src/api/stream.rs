//! The transitions of a job as server-sent events.
//!
//! Every transition is sent once, with the status right after it. A client that reconnects names
//! the last event that it saw. It gets the rest: the transitions since then, and the progress of a
//! job that has not changed otherwise. An event is named by its transition, so the same progress
//! may be sent twice.

use super::status::status_of;
use crate::{
    auth::PresentedCredential,
    context::RequestContext,
    error::{ApiError, Reply},
    extract::Id,
    waiting::WaitingSlot,
};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use engine::{FieldProblem, Job, JobId};
use futures_util::stream::unfold;
use platform::{Changed, Watch};
use serde_json::json;
use std::{collections::VecDeque, convert::Infallible, time::Duration};
use tokio::time::sleep;

/// How often an empty comment line is sent, so that both sides notice when the other is gone. At
/// the same interval the stream polls, because a watch is only a hint.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) async fn events(context: RequestContext, Id(id): Id, request: Parts) -> Reply<Response> {
    let last_seen = last_event_id(&request.headers)?;
    let watch = context.node().watch(id);
    let job = context.job(id).await?;
    // By the standard, 204 tells a browser not to reconnect: it has seen the end.
    if job.status().is_ended() && last_seen.is_some_and(|seq| seq >= job.seq) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let (slot, credential) =
        (context.waiting_slot(Some(&job))?, PresentedCredential::with(&request));
    credential.protect_connection().await;
    let version = match last_seen {
        Some(seq) => version_at(&context, id, seq).await?.unwrap_or(0),
        None => 0,
    };
    let stream = StreamState {
        context,
        credential,
        id,
        watch,
        last_sent: last_seen.unwrap_or(0),
        last_version: version,
        frames: VecDeque::new(),
        phase: if last_seen.is_some() { Phase::Read } else { Phase::SendCurrent },
        _slot: slot,
    };
    let body = unfold(stream, async |mut stream| {
        let frame = stream.next().await?;
        Some((Ok::<Bytes, Infallible>(frame), stream))
    });
    let kind = HeaderValue::from_static("text/event-stream");
    Ok(([(header::CONTENT_TYPE, kind)], Body::from_stream(body)).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Reply<Option<u64>> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().map(str::trim).and_then(|text| text.parse().ok());
    let wrong = || FieldProblem::new("lastEventId", "must be the id of an event of this stream");
    Ok(Some(number.ok_or_else(wrong)?))
}

/// The version that the job had right after transition `seq`, if the store still keeps it.
async fn version_at(context: &RequestContext, id: JobId, seq: u64) -> Reply<Option<u64>> {
    let events = context.node().events_of_job(context.scope(), id, seq.saturating_sub(1)).await?;
    Ok(events.first().filter(|event| event.job.seq == seq).map(|event| event.job.version))
}

/// The state of one stream: what was sent, and what comes next.
struct StreamState {
    context: RequestContext,
    /// Checked again before each send: a key may end before its streams do.
    credential: PresentedCredential,
    id: JobId,
    watch: Watch,
    /// The last transition that was sent.
    last_sent: u64,
    /// The last version that was sent.
    last_version: u64,
    frames: VecDeque<Bytes>,
    phase: Phase,
    _slot: WaitingSlot,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A new stream sends the current state first.
    SendCurrent,
    /// Read what has happened since.
    Read,
    /// Nothing new: wait.
    Wait,
    /// The job has ended, or the server drains.
    Ended,
}

impl StreamState {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            match self.phase {
                Phase::Ended => return None,
                Phase::SendCurrent | Phase::Read => {
                    if let Err(error) = self.read_changes().await {
                        self.fail(&error);
                    }
                }
                Phase::Wait => tokio::select! {
                    changed = self.watch.changed() => self.phase = match changed {
                        Changed::Touched => Phase::Read,
                        Changed::Closed => Phase::Ended,
                    },
                    () = self.context.app.closed() => self.phase = Phase::Ended,
                    () = sleep(KEEPALIVE_INTERVAL) => {
                        self.phase = Phase::Read;
                        return Some(Bytes::from_static(b": still here\n\n"));
                    }
                },
            }
        }
    }

    async fn read_changes(&mut self) -> Reply<()> {
        let context = &self.context;
        self.credential.check_still_valid(&context.app).await?;
        let job = context.job(self.id).await?;
        while self.phase == Phase::Read && job.seq > self.last_sent {
            let (node, scope) = (self.context.node(), self.context.scope());
            let missed = node.events_of_job(scope, self.id, self.last_sent).await?;
            let mut missed = missed.iter().filter(|event| event.job.seq < job.seq).peekable();
            if missed.peek().is_none() {
                break;
            }
            missed.for_each(|event| self.send(&event.job));
        }
        if job.version != self.last_version {
            self.send(&job);
        }
        self.phase = if job.status().is_ended() { Phase::Ended } else { Phase::Wait };
        Ok(())
    }

    fn send(&mut self, job: &Job) {
        let data = serde_json::to_string(&status_of(&self.context.caller, job));
        let data = data.expect("a status is texts and numbers");
        self.frames.push_back(format!("id: {}\nevent: status\ndata: {data}\n\n", job.seq).into());
        (self.last_sent, self.last_version) = (job.seq, job.version);
    }

    /// Tells the client that the stream broke, and with which code.
    fn fail(&mut self, error: &ApiError) {
        let correlation = &self.context.correlation.id;
        error.log(correlation);
        let code = error.problem(correlation).error_code;
        let data = json!({ "errorCode": code, "correlationId": correlation.as_str() });
        self.frames.push_back(format!("event: error\ndata: {data}\n\n").into());
        self.phase = Phase::Ended;
    }
}
