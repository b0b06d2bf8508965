//! Metrics in Prometheus' text format.

use crate::auth::{CredentialFailure, CredentialFailures};
use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
};
use wire::QueueStatus;

/// The number of answers by class of status.
#[derive(Default)]
pub(crate) struct Metrics {
    answers: [AtomicU64; 5],
}

impl Metrics {
    pub(crate) fn count(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Writes what this node answered to all callers.
    pub(crate) fn write_requests(&self, page: &mut String, failures: &CredentialFailures) {
        family(page, "consign_http_requests_total", "counter", "Requests by class of answer");
        for (class, count) in self.answers.iter().enumerate() {
            let (class, count) = (class + 1, count.load(Ordering::Relaxed));
            line(page, &format!("consign_http_requests_total{{class=\"{class}xx\"}} {count}"));
        }
        let name = "consign_failed_credentials_total";
        family(page, name, "counter", "Rejected credentials, by what was wrong");
        for (failure, reason) in CredentialFailure::ALL {
            let count = failures.total(failure);
            line(page, &format!("{name}{{reason=\"{reason}\"}} {count}"));
        }
    }
}

/// Writes the gauges of these queues.
pub(crate) fn write_queues(page: &mut String, queues: &[QueueStatus]) {
    for (name, help, value) in GAUGES {
        let name = format!("consign_queue_{name}");
        family(page, &name, "gauge", help);
        for queue in queues {
            // A job type has no character that would need to be escaped.
            let (job_type, value) = (&queue.job_type, value(queue));
            line(page, &format!("{name}{{job_type=\"{job_type}\"}} {value}"));
        }
    }
}

/// One number of each queue: its name, help and value.
type Gauge = (&'static str, &'static str, fn(&QueueStatus) -> u64);

const GAUGES: [Gauge; 6] = [
    ("queued", "Jobs that wait, due or not", |queue| queue.queued),
    ("due", "Jobs that wait and could start now", |queue| queue.due),
    ("running", "Jobs that a worker holds", |queue| queue.running),
    ("poisoned", "Poisoned jobs that wait for an operator", |queue| queue.poisoned),
    ("oldest_age_seconds", "How long the oldest due job has waited", |queue| {
        queue.oldest_age_seconds.unwrap_or(0)
    }),
    ("live_workers", "Workers that claim the type", |queue| queue.live_workers),
];

fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    line(page, &format!("# HELP {name} {help}"));
    line(page, &format!("# TYPE {name} {kind}"));
}

fn line(page: &mut String, text: &str) {
    writeln!(page, "{text}").expect("writing to a string does not fail");
}
