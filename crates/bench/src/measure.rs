//! The measures: our number, the number it is compared with, and the target.

use crate::{
    Backend, Settings, deep,
    figures::{Rounds, percentile_ms},
    http::streams,
    measure::{Group::*, Unit::*},
    table::thousands,
};
use std::{collections::HashMap, time::Duration};

/// Everything that can be measured, in the order of the table: the key in JSON, the group, the
/// unit, and the label, in which [`Numbers::measures`] replaces the placeholders.
const ALL: [(&str, Group, Unit, &str); 26] = [
    ("whole_lives", Throughput, JobsPerSecond, "whole lives"),
    ("whole_lives_one_by_one", Throughput, JobsPerSecond, "  submitted one by one"),
    ("submit_batches", Throughput, JobsPerSecond, "submit, batches of 1,000"),
    ("submit_one_by_one", Throughput, JobsPerSecond, "submit, one by one, 64 tasks"),
    ("submit_one_by_one_64", Throughput, JobsPerSecond, "  beside raw commits of 64"),
    ("drain", Throughput, JobsPerSecond, "drain a backlog"),
    ("http_enqueue", Throughput, RequestsPerSecond, "enqueue, 64 connections"),
    ("http_status", Throughput, RequestsPerSecond, "status, 64 connections"),
    ("http_lives", Throughput, JobsPerSecond, "whole lives"),
    ("idle_start_p50", Latency, Milliseconds, "idle, {start}, p50"),
    ("idle_start_p99", Latency, Milliseconds, "idle, {start}, p99"),
    ("submit_p50_half_load", Latency, Milliseconds, "submit p50, half load"),
    ("submit_p99_half_load", Latency, Milliseconds, "submit p99, half load"),
    ("submit_p99_saturated", Latency, Milliseconds, "submit p99, saturated"),
    ("http_enqueue_p99", Latency, Milliseconds, "enqueue p99"),
    ("http_status_p99", Latency, Milliseconds, "status p99"),
    ("http_stream_end_p50", Latency, Milliseconds, "end of {streams} streams, p50"),
    ("http_stream_end_p99", Latency, Milliseconds, "end of {streams} streams, p99"),
    ("drain_shallow", Depth, JobsPerSecond, "drain, {shallow} queued"),
    ("drain_deep", Depth, JobsPerSecond, "drain, {deep} queued *"),
    ("look_up_p50", Depth, Milliseconds, "status, {ended} ended, p50 *"),
    ("look_up_p99", Depth, Milliseconds, "status, {ended} ended, p99 *"),
    ("peak_memory", Size, Mebibytes, "peak memory, {deep} queued"),
    ("bytes_queued", Size, BytesPerJob, "on disk, queued"),
    ("bytes_ended", Size, BytesPerJob, "on disk, ended"),
    ("http_streams_memory", Size, Mebibytes, "memory for {streams} streams"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    /// What ours is compared with.
    RawStore,
}

/// The numbers of a run by their keys, round by round.
#[derive(Default)]
pub(crate) struct Numbers(HashMap<&'static str, [Rounds; 2]>);

impl Numbers {
    pub(crate) fn push(&mut self, side: Side, key: &'static str, number: f64) {
        self.0.entry(key).or_default()[side as usize].0.push(number);
    }

    pub(crate) fn push_times(
        &mut self,
        side: Side,
        [p50, p99]: [&'static str; 2],
        times: &[Duration],
    ) {
        self.push(side, p50, percentile_ms(times, 50.0));
        self.push(side, p99, percentile_ms(times, 99.0));
    }

    /// The measures that have numbers, in the order of the table.
    pub(crate) fn measures(mut self, settings: &Settings, backend: &Backend) -> Vec<Measure> {
        let jobs = |count: usize| thousands(count as f64);
        let (start, goal_of): (_, fn(&str) -> _) = match backend {
            Backend::Sqlite(_) => ("submit to start", goal_of),
            Backend::Postgres(_) => ("start at another node", goal_on_postgres),
        };
        let words = [
            ("{start}", start.to_owned()),
            ("{deep}", jobs(settings.deep)),
            ("{shallow}", jobs(deep::DrainPlan::of(settings.deep).shallow)),
            ("{ended}", jobs(settings.ended)),
            ("{streams}", streams::count(settings).to_string()),
        ];
        let measured = ALL.into_iter().filter_map(|(key, group, unit, label)| {
            let [ours, raw] = self.0.remove(key)?;
            let label =
                words.iter().fold(label.to_owned(), |label, (from, to)| label.replace(from, to));
            let raw = (!raw.0.is_empty()).then_some(raw);
            Some(Measure { key, group, label, unit, ours, raw, goal: goal_of(key) })
        });
        measured.collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// Its name in JSON.
    pub(crate) key: &'static str,
    pub(crate) group: Group,
    /// Its label in the table.
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) ours: Rounds,
    /// What it is compared with, round by round.
    pub(crate) raw: Option<Rounds>,
    pub(crate) goal: Option<Goal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Throughput,
    Latency,
    Depth,
    Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    JobsPerSecond,
    RequestsPerSecond,
    Milliseconds,
    BytesPerJob,
    Mebibytes,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// At least this ratio to the raw number.
    RatioAtLeast(f64),
    /// At most this ratio to the raw number.
    RatioAtMost(f64),
    /// At least this, in its unit.
    AtLeast(f64),
    /// At most this, in its unit.
    AtMost(f64),
}

impl Unit {
    /// The unit in the table, and in JSON.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Unit::JobsPerSecond => ("/s", "jobs/s"),
            Unit::RequestsPerSecond => ("/s", "requests/s"),
            Unit::Milliseconds => (" ms", "ms"),
            Unit::BytesPerJob => (" B/job", "bytes/job"),
            Unit::Mebibytes => (" MiB", "MiB"),
        }
    }
}

impl Measure {
    /// The ratio of our median to the raw one.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.raw.as_ref().map(|raw| self.ours.median() / raw.median())
    }

    /// The lowest and the highest of the rounds: of the ratio, or of ours where nothing is beside
    /// it.
    pub(crate) fn spread(&self) -> (f64, f64) {
        match &self.raw {
            Some(raw) => self.ours.over(raw).spread(),
            None => self.ours.spread(),
        }
    }

    /// Whether it meets its target, if it has one.
    pub(crate) fn is_met(&self) -> Option<bool> {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        self.goal.map(|goal| match goal {
            Goal::RatioAtLeast(least) => ratio >= least,
            Goal::RatioAtMost(most) => ratio <= most,
            Goal::AtLeast(least) => self.ours.median() >= least,
            Goal::AtMost(most) => self.ours.median() <= most,
        })
    }
}

/// All targets, in one place. A missed target is a task, not an error.
pub(crate) fn goal_of(key: &str) -> Option<Goal> {
    Some(match key {
        "whole_lives" | "drain" => Goal::RatioAtLeast(0.5),
        // 64 callers can share a commit by 64 at most, and the raw one has 1,000.
        "submit_one_by_one" => Goal::RatioAtLeast(0.4),
        // Storing and starting a job is one commit of ours; waking threads is the rest.
        "idle_start_p50" => Goal::RatioAtMost(2.5),
        "idle_start_p99" => Goal::AtMost(10.0),
        "submit_p99_half_load" | "submit_p99_saturated" => Goal::AtMost(25.0),
        "drain_deep" => Goal::RatioAtLeast(0.8),
        "peak_memory" => Goal::AtMost(150.0),
        // What a durable job costs beside the echo: a commit shared by 64, and its row.
        "http_enqueue" => Goal::RatioAtLeast(0.2),
        "http_status" => Goal::RatioAtLeast(0.5),
        "http_lives" => Goal::AtLeast(10_000.0),
        "http_stream_end_p99" => Goal::AtMost(100.0),
        "http_streams_memory" => Goal::AtMost(95.0), // 100 MB
        _ => return None,
    })
}

/// The same for PostgreSQL: each number contains a round trip over a socket.
pub(crate) fn goal_on_postgres(key: &str) -> Option<Goal> {
    Some(match key {
        "whole_lives" => Goal::RatioAtLeast(0.5),
        "drain" => Goal::RatioAtLeast(0.6),
        "submit_one_by_one" => Goal::RatioAtLeast(0.25),
        // A job is stored, another node is notified, and claims it.
        "idle_start_p50" => Goal::RatioAtMost(4.0),
        "idle_start_p99" => Goal::AtMost(20.0),
        "drain_deep" => Goal::RatioAtLeast(0.8),
        // One more index page is allowed.
        "look_up_p50" => Goal::RatioAtMost(1.5),
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) fn example(key: &'static str, ours: &[f64], raw: Option<&[f64]>) -> Measure {
    Measure {
        key,
        group: Group::Throughput,
        label: key.replace('_', " "),
        unit: Unit::JobsPerSecond,
        ours: Rounds(ours.to_vec()),
        raw: raw.map(|raw| Rounds(raw.to_vec())),
        goal: goal_of(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_or_missed() {
        let met = |key, ours: f64, raw| example(key, &[ours], raw).is_met();
        assert_eq!(met("drain", 50.0, Some(&[100.0][..])), Some(true));
        assert_eq!(met("drain", 49.0, Some(&[100.0])), Some(false));
        assert_eq!(met("idle_start_p50", 3.0, Some(&[1.0])), Some(false));
        assert_eq!(met("peak_memory", 20.0, None), Some(true));
        assert_eq!(met("http_lives", 10_000.0, None), Some(true));
        assert_eq!(met("http_lives", 9_999.0, None), Some(false));
        assert_eq!(met("bytes_ended", 20.0, None), None);
    }

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let measure = example("drain", &[1.0, 9.0, 2.0], Some(&[4.0, 4.0, 5.0]));
        assert_eq!(measure.ratio(), Some(0.5));
        assert_eq!(measure.spread(), (0.25, 2.25));
    }
}
