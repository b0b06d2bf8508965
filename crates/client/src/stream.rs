//! The life of a job as it happens, by server-sent events.
//!
//! This module parses the stream itself. The crates for it hold events of any size and skip
//! comments, so they would allow neither a bound nor a check of the server's keep-alive.

use crate::{Client, ClientError};
use reqwest::{Response, StatusCode};
use std::{collections::VecDeque, time::Duration};
use wire::JobStatus;

/// A subscription to the events of one job.
pub struct JobStream {
    client: Client,
    response: Option<Response>,
    /// Bytes that are not a whole line yet.
    rest: Vec<u8>,
    event: SseEvent,
    ready: VecDeque<StreamEvent>,
}

/// An event about a job.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// The status, and the number of the transition that led to it.
    Status {
        /// Sent as `last_event_id` to resume the stream.
        seq: String,
        /// The status.
        status: Box<JobStatus>,
    },
    /// The stream failed.
    Failed {
        /// `{"errorCode", "correlationId"}`, as it came.
        detail: String,
    },
}

/// An event that arrives line by line.
#[derive(Default)]
struct SseEvent {
    id: String,
    name: String,
    data: String,
}

/// The server sends at least a comment every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(35);
/// A longer event is no status.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

impl Client {
    /// Subscribes to a job, from the beginning or after the event `last_event_id`.
    pub async fn watch(
        &self,
        id: &str,
        last_event_id: Option<&str>,
    ) -> Result<JobStream, ClientError> {
        let mut request = self.stream_request(&["api", "jobs", id, "events"]);
        if let Some(last_event_id) = last_event_id {
            request = request.header("Last-Event-ID", last_event_id);
        }
        let sent = tokio::time::timeout(SILENCE_MAX, self.send(request)).await;
        let response = sent.map_err(|_| self.timed_out())??;
        let over = response.status() == StatusCode::NO_CONTENT;
        let response = (!over).then_some(response);
        let (rest, event, ready) = (Vec::new(), SseEvent::default(), VecDeque::new());
        Ok(JobStream { client: self.clone(), response, rest, event, ready })
    }
}

impl JobStream {
    /// The next event; `None` when the stream is over.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        loop {
            if let Some(received) = self.ready.pop_front() {
                return Ok(Some(received));
            }
            let Some(response) = &mut self.response else { return Ok(None) };
            let chunk = tokio::time::timeout(SILENCE_MAX, response.chunk()).await;
            let chunk = chunk.map_err(|_| self.client.timed_out())?;
            match chunk.map_err(|error| self.client.failed(error))? {
                Some(bytes) => self.receive(&bytes)?,
                None => self.response = None,
            }
        }
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.line(line.trim_end_matches(['\r', '\n']))?;
        }
        let SseEvent { id, name, data } = &self.event;
        if self.rest.len() + id.len() + name.len() + data.len() > EVENT_BYTES_MAX {
            return Err(self.client.unexpected_response(StatusCode::OK));
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), ClientError> {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = value.into(),
            "event" => self.event.name = value.into(),
            "data" => self.event.data.push_str(value),
            _ if line.is_empty() => return self.finish_event(),
            _ => {} // a comment, or an unknown field
        }
        Ok(())
    }

    fn finish_event(&mut self) -> Result<(), ClientError> {
        let SseEvent { id, name, data } = std::mem::take(&mut self.event);
        let received = match name.as_str() {
            "status" => {
                let status = serde_json::from_str(&data);
                let status = status.map_err(|_| self.client.unexpected_response(StatusCode::OK))?;
                StreamEvent::Status { seq: id, status }
            }
            "error" => StreamEvent::Failed { detail: data },
            _ => return Ok(()),
        };
        self.ready.push_back(received);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    /// Subscribes to a server that sends `beginning` once, and then `more` until the client hangs
    /// up.
    async fn receive_from(
        beginning: &'static str,
        more: &'static str,
    ) -> Result<StreamEvent, ClientError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            stream.write_all(format!("{head}{beginning}").as_bytes()).await.unwrap();
            while stream.write_all(more.as_bytes()).await.is_ok() {}
        };
        let client = async {
            let mut watching = Client::new(&address, None).unwrap().watch("j", None).await?;
            Ok(watching.next().await?.unwrap())
        };
        tokio::select! {
            received = client => received,
            () = server => panic!("the listener is gone"),
        }
    }

    #[tokio::test]
    async fn an_event_is_complete_at_its_empty_line() {
        let received =
            receive_from(": still here\n\nid: 7\r\nevent: error\r\ndata:{}\r\n\r\n", ":\n\n").await;
        assert!(matches!(received, Ok(StreamEvent::Failed { detail }) if detail == "{}"));
    }

    #[tokio::test]
    async fn an_endless_event_or_line_is_refused() {
        let line: &str = "data: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
        for more in [line, line.trim_end()] {
            let received = receive_from("event: status\n", more).await;
            assert!(
                matches!(received, Err(ClientError::UnexpectedResponse { .. })),
                "{received:?}"
            );
        }
    }
}
