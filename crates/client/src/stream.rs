//! The life of a job as it happens, by server-sent events.

use crate::{Client, ClientError};
use reqwest::{Response, StatusCode};
use std::{collections::VecDeque, time::Duration};
use wire::StatusShape;

/// Somebody who listens to the events of one job.
pub struct Watching {
    client: Client,
    response: Option<Response>,
    /// What came and is not a whole line yet.
    rest: Vec<u8>,
    event: Event,
    ready: VecDeque<Told>,
}

/// What was told about a job.
#[derive(Clone, Debug)]
pub enum Told {
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
const LINE_MAX: usize = 1024 * 1024;

impl Client {
    /// Listens to a job, from the beginning or from what was heard last.
    pub async fn watch(&self, id: &str, heard: Option<&str>) -> Result<Watching, ClientError> {
        let mut request = self.endless(&["api", "jobs", id, "events"]);
        if let Some(heard) = heard {
            request = request.header("Last-Event-ID", heard);
        }
        let sent = tokio::time::timeout(SILENCE_MAX, self.send(request)).await;
        let response = sent.map_err(|_| self.timed_out())??;
        let over = response.status() == StatusCode::NO_CONTENT;
        let response = (!over).then_some(response);
        let (rest, event, ready) = (Vec::new(), Event::default(), VecDeque::new());
        Ok(Watching { client: self.clone(), response, rest, event, ready })
    }
}

impl Watching {
    /// What is told next; nothing when the story is over.
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
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
        if self.rest.len() > LINE_MAX {
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
                Told::Status { seq: id, status }
            }
            "error" => Told::Failed { detail: data },
            _ => return Ok(()),
        };
        self.ready.push_back(told);
        Ok(())
    }
}
