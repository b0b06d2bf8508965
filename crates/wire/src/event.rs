//! Events about jobs, as CloudEvents 1.0.

use crate::{extended::Extended, status::JobStatus, time::Rfc3339};
use engine::Event;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CloudEvent {
    /// The version of the standard.
    pub specversion: String,
    /// `{jobId}.{seq}`: the same in every delivery of the event.
    pub id: String,
    /// The source of the event.
    pub source: String,
    /// `consign.job.…`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The job it is about.
    pub subject: String,
    /// When it happened.
    pub time: Rfc3339,
    /// The media type of the data.
    pub datacontenttype: String,
    /// Ties together everything that one request caused.
    pub correlationid: String,
    /// The trace context of the submit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The job right after the transition.
    pub data: EventData,
}

/// The status of the job after the transition, and what an event adds.
pub type EventData = Extended<JobStatus, EventDurations>;

/// What an event has beside the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDurations {
    /// How long this life took from its first start to its end.
    pub duration_ms: Option<u64>,
    /// How long this life waited for its first start.
    pub wait_ms: Option<u64>,
}

impl From<&Event> for CloudEvent {
    fn from(event: &Event) -> Self {
        let (job_id, seq) = event.id();
        let envelope = &event.job.envelope;
        CloudEvent {
            specversion: "1.0".into(),
            id: format!("{job_id}.{seq}"),
            source: "/api/jobs".into(),
            kind: format!("consign.job.{}", event.kind.as_str()),
            subject: job_id.to_string(),
            time: event.at.into(),
            datacontenttype: "application/json".into(),
            correlationid: envelope.correlation.to_string(),
            traceparent: envelope.traceparent.as_ref().map(ToString::to_string),
            data: data(event),
        }
    }
}

fn data(event: &Event) -> EventData {
    let extension =
        EventDurations { duration_ms: event.took().map(ms), wait_ms: event.waited().map(ms) };
    Extended { base: JobStatus::from(&event.job).with_tenant(&event.job), extension }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
