//! The life of a job as it happens, by server-sent events.
//!
//! Read by ourselves: the crates for it hold an event of any size and pass over comments, so that
//! neither a bound nor the server's signs of life could be seen from outside.

use crate::{Client, ClientError};
use reqwest::{Response, StatusCode};
use std::{collections::VecDeque, time::Duration};
use wire::StatusShape;

/// Somebody who listens to the events of one job.
pub struct JobStream {
    client: Client,
    response: Option<Response>,
    /// What came and is not a whole line yet.
    rest: Vec<u8>,
    event: Event,
    ready: VecDeque<StreamEvent>,
}

/// What was told about a job.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// How it is, and the number of the transition that made it so.
    Status {
        /// To be sent by whoever comes back.
        seq: String,
        /// How it is.
        status: Box<StatusShape>,
    },
    /// The stream failed.
    Failed {
        /// `{"errorCode", "correlationId"}`, as it came.
        detail: String,
    },
}

/// An event whose lines come one by one.
#[derive(Default)]
struct Event {
    id: String,
    name: String,
    data: String,
}

/// The server says something every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(35);
/// No status is so long.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

impl Client {
    /// Listens to a job, from the beginning or from what was heard last.
    pub async fn watch(&self, id: &str, heard: Option<&str>) -> Result<JobStream, ClientError> {
        let mut request = self.endless(&["api", "jobs", id, "events"]);
        if let Some(heard) = heard {
            request = request.header("Last-Event-ID", heard);
        }
        let sent = tokio::time::timeout(SILENCE_MAX, self.send(request)).await;
        let response = sent.map_err(|_| self.timed_out())??;
        let over = response.status() == StatusCode::NO_CONTENT;
        let response = (!over).then_some(response);
        let (rest, event, ready) = (Vec::new(), Event::default(), VecDeque::new());
        Ok(JobStream { client: self.clone(), response, rest, event, ready })
    }
}

impl JobStream {
    /// What is told next; nothing when the story is over.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Ok(Some(told));
            }
            let Some(response) = &mut self.response else { return Ok(None) };
            let chunk = tokio::time::timeout(SILENCE_MAX, response.chunk()).await;
            let chunk = chunk.map_err(|_| self.client.timed_out())?;
            match chunk.map_err(|error| self.client.failed(error))? {
                Some(bytes) => self.hear(&bytes)?,
                None => self.response = None,
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.line(line.trim_end_matches(['\r', '\n']))?;
        }
        let Event { id, name, data } = &self.event;
        if self.rest.len() + id.len() + name.len() + data.len() > EVENT_BYTES_MAX {
            return Err(self.client.strange(StatusCode::OK));
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
            _ if line.is_empty() => return self.whole(),
            _ => {} // a comment, or what we do not know
        }
        Ok(())
    }

    fn whole(&mut self) -> Result<(), ClientError> {
        let Event { id, name, data } = std::mem::take(&mut self.event);
        let told = match name.as_str() {
            "status" => {
                let status = serde_json::from_str(&data);
                let status = status.map_err(|_| self.client.strange(StatusCode::OK))?;
                StreamEvent::Status { seq: id, status }
            }
            "error" => StreamEvent::Failed { detail: data },
            _ => return Ok(()),
        };
        self.ready.push_back(told);
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

    /// Listens to a server that sends `beginning` once and then `more` for as long as it is heard.
    async fn told_by(
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
            told = client => told,
            () = server => panic!("whoever listens is gone"),
        }
    }

    #[tokio::test]
    async fn an_event_is_told_once_its_empty_line_has_come() {
        let told =
            told_by(": still here\n\nid: 7\r\nevent: error\r\ndata:{}\r\n\r\n", ":\n\n").await;
        assert!(matches!(told, Ok(StreamEvent::Failed { detail }) if detail == "{}"));
    }

    #[tokio::test]
    async fn what_never_ends_is_not_kept() {
        let line: &str = "data: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
        for more in [line, line.trim_end()] {
            let told = told_by("event: status\n", more).await;
            assert!(matches!(told, Err(ClientError::Strange { .. })), "{told:?}");
        }
    }
}
