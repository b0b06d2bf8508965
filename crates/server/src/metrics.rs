//! Metrics in Prometheus' text format.

use crate::auth::{CredentialFailure, CredentialFailures};
use platform::{QueueSummary, TenantSummary};
use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
};

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

/// The page has at most so many series of job types, and of tenants; the rest is one more.
const TYPES_MAX: usize = 500;
const TENANTS_MAX: usize = 50;
/// The label of the rest: no type and no tenant begins with an underscore.
const REST: &str = "_other";

/// Writes the gauges of these queues, the largest ones by name.
pub(crate) fn write_queues(page: &mut String, queues: &[QueueSummary]) {
    let rows = queues.iter().map(|queue| Row {
        label: queue.job_type.to_string(),
        queued: queue.queued,
        due: queue.due,
        running: queue.running,
        poisoned: queue.poisoned,
        oldest_age_seconds: queue.oldest_age.map_or(0, |age| age.as_secs()),
        live_workers: queue.live_workers,
    });
    write_gauges(page, ("queue", "job_type"), &GAUGES, bounded(rows.collect(), TYPES_MAX));
}

/// Writes the gauges of these tenants, the largest ones by name. A worker may serve many tenants,
/// so that workers are not counted here.
pub(crate) fn write_tenants(page: &mut String, tenants: &[TenantSummary]) {
    let rows = tenants.iter().map(|sums| Row {
        label: sums.tenant.to_string(),
        queued: sums.queued,
        due: sums.due,
        running: sums.running,
        poisoned: sums.poisoned,
        oldest_age_seconds: sums.oldest_age.map_or(0, |age| age.as_secs()),
        live_workers: 0,
    });
    write_gauges(page, ("tenant", "tenant"), &GAUGES[..5], bounded(rows.collect(), TENANTS_MAX));
}

/// The numbers under one label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    label: String,
    queued: u64,
    due: u64,
    running: u64,
    poisoned: u64,
    oldest_age_seconds: u64,
    live_workers: u64,
}

impl Row {
    fn jobs(&self) -> u64 {
        self.queued + self.running + self.poisoned
    }

    /// Adds another row: sums of jobs, the greater age, and of workers the greater number, because
    /// one worker may stand in both.
    fn add(&mut self, other: &Row) {
        self.queued += other.queued;
        self.due += other.due;
        self.running += other.running;
        self.poisoned += other.poisoned;
        self.oldest_age_seconds = self.oldest_age_seconds.max(other.oldest_age_seconds);
        self.live_workers = self.live_workers.max(other.live_workers);
    }
}

/// The rows with the most jobs, at most `max`, in the order of their labels, and one row of the
/// rest.
fn bounded(mut rows: Vec<Row>, max: usize) -> Vec<Row> {
    if rows.len() > max {
        rows.sort_by(|a, b| b.jobs().cmp(&a.jobs()).then_with(|| a.label.cmp(&b.label)));
        let mut rest = Row { label: REST.into(), ..Row::default() };
        rows.drain(max..).for_each(|row| rest.add(&row));
        rows.sort_by(|a, b| a.label.cmp(&b.label));
        rows.push(rest);
    }
    rows
}

fn write_gauges(page: &mut String, (of, label): (&str, &str), gauges: &[Gauge], rows: Vec<Row>) {
    for (name, help, value) in gauges {
        let name = format!("consign_{of}_{name}");
        family(page, &name, "gauge", help);
        for row in &rows {
            // A type and a tenant have no character that would need to be escaped.
            line(page, &format!("{name}{{{label}=\"{}\"}} {}", row.label, value(row)));
        }
    }
}

/// One number of each row: its name, help and value.
type Gauge = (&'static str, &'static str, fn(&Row) -> u64);

const GAUGES: [Gauge; 6] = [
    ("queued", "Jobs that wait, due or not", |row| row.queued),
    ("due", "Jobs that wait and could start now", |row| row.due),
    ("running", "Jobs that a worker holds", |row| row.running),
    ("poisoned", "Poisoned jobs that wait for an operator", |row| row.poisoned),
    ("oldest_age_seconds", "How long the oldest due job has waited", |row| row.oldest_age_seconds),
    ("live_workers", "Workers that claim the type", |row| row.live_workers),
];

fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    line(page, &format!("# HELP {name} {help}"));
    line(page, &format!("# TYPE {name} {kind}"));
}

fn line(page: &mut String, text: &str) {
    writeln!(page, "{text}").expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: usize, queued: u64) -> Row {
        Row { label: format!("t{label:03}"), queued, live_workers: 1, ..Row::default() }
    }

    #[test]
    fn the_largest_rows_keep_their_names_and_the_rest_is_one() {
        let rows = || (0..60).map(|n| row(n, n as u64)).collect::<Vec<_>>();
        let kept = bounded(rows(), 50);
        assert_eq!(kept.len(), 51);
        assert_eq!(kept[..50], rows()[10..]);
        let rest = Row { label: "_other".into(), queued: 45, live_workers: 1, ..Row::default() };
        assert_eq!(kept[50], rest);
        assert_eq!(bounded(rows(), 60), rows(), "nothing is left");
    }

    #[test]
    fn a_page_of_ten_thousand_tenants_is_bounded() {
        let mut page = String::new();
        let rows = (0..10_000).map(|n| row(n, 1)).collect();
        write_gauges(&mut page, ("tenant", "tenant"), &GAUGES[..5], bounded(rows, TENANTS_MAX));
        assert_eq!(page.lines().count(), 5 * (2 + TENANTS_MAX + 1));
        assert!(page.contains("\nconsign_tenant_queued{tenant=\"_other\"} 9950\n"), "{page}");
        assert!(!page.contains("live_workers"), "a worker has no tenant of its own");
    }
}
