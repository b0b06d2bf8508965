//! Checks of queues, workers and types: pure functions from the server's answers to findings.

use super::{DoctorReport, quoted};
use crate::remote::{QueueHealth, ago, pause_text, queue_health, resume_command, span};
use engine::{Timestamp, counted};
use std::{collections::BTreeMap, time::Duration};
use wire::{QueueStatus, TypeWithPolicy, WorkerState, WorkerStatus};

#[derive(Default)]
pub(super) struct ServerState {
    pub(super) queues: Vec<QueueStatus>,
    pub(super) workers: Vec<WorkerStatus>,
    pub(super) types: Vec<TypeWithPolicy>,
    /// Counts of poisoned jobs by type and code.
    pub(super) reasons: BTreeMap<String, BTreeMap<String, u64>>,
    /// Whether the server refuses jobs of types that were not declared.
    pub(super) strict_types: bool,
}

pub(super) fn examine(report: &mut DoctorReport, server_state: &ServerState, now: Timestamp) {
    let findings_before = report.0.len();
    for queue in &server_state.queues {
        report_stuck(report, server_state, queue, now);
        report_pauses(report, queue, now);
        report_poisoned(report, server_state, queue);
        report_undeclared(report, server_state, queue);
    }
    let well = format!("queues: {}, and nothing waits in vain", server_state.queues.len());
    report.well_since(findings_before, "queue", well);
    report_workers(report, server_state, now);
}

/// Reports jobs that wait and will not start.
fn report_stuck(
    report: &mut DoctorReport,
    server_state: &ServerState,
    queue: &QueueStatus,
    now: Timestamp,
) {
    let name = &queue.job_type;
    let age = queue.oldest_age_seconds.map(Duration::from_secs);
    let oldest = age.map_or(String::new(), |age| format!(" (oldest {})", span(age)));
    match queue_health(queue) {
        QueueHealth::Open | QueueHealth::PartlyPaused => {}
        QueueHealth::Paused => report_paused(report, queue, &oldest),
        QueueHealth::NoWorker => {
            let waits = waits(queue.due);
            let them = if queue.due == 1 { "it" } else { "them" };
            let last = last_worker(server_state, name, now);
            let what = format!("queue {name}: {waits} and no worker asks for {them}{oldest}{last}");
            let is_ready_made =
                |shown: &TypeWithPolicy| shown.job_type == *name && shown.policy.handler.is_some();
            let (say, run) = if server_state.types.iter().any(is_ready_made) {
                let say = "its ready-made handler should take them; the server's log says why not";
                (say, format!("consign types {}", quoted(name)))
            } else {
                let run = format!("consign work --type {} --exec ./handler", quoted(name));
                ("start its workers; for now", run)
            };
            report.wrong("queue", what).run(say, run);
        }
        QueueHealth::Old => {
            let waits = waits(queue.due);
            let at_work = counted(queue.live_workers, "worker is", "workers are");
            let what = format!("queue {name}: {waits} although {at_work} at work{oldest}");
            let say = "more workers or more slots; who works";
            report.wrong("queue", what).run(say, "consign workers");
        }
    }
}

fn report_paused(report: &mut DoctorReport, queue: &QueueStatus, oldest: &str) {
    let name = &queue.job_type;
    let resume = resume_command(&quoted(name), None);
    if queue.queued == 0 {
        let unknown = if queue.known { "" } else { ", and no job, worker or type has its name" };
        let what = format!("queue {name}: paused; nothing waits in it{unknown}");
        report.note("queue", what).run("", resume);
        return;
    }
    let what = format!("queue {name}: paused, and {}{oldest}", waits(queue.queued));
    report.wrong("queue", what).run("let its jobs start", resume);
}

/// Says who paused a queue, and why. The pause of one tenant does not show in the sums of all.
fn report_pauses(report: &mut DoctorReport, queue: &QueueStatus, now: Timestamp) {
    let name = &queue.job_type;
    for pause in &queue.pauses {
        let what = format!("queue {name}: {}", pause_text(pause, now));
        let finding = report.note("queue", what);
        if !queue.paused {
            finding.run("", resume_command(&quoted(name), Some(&pause.tenant)));
        }
    }
}

fn waits(count: u64) -> String {
    counted(count, "job waits", "jobs wait")
}

fn last_worker(server_state: &ServerState, name: &str, now: Timestamp) -> String {
    let of_queue = server_state
        .workers
        .iter()
        .filter(|worker| worker.job_types.iter().any(|job_type| job_type == name));
    let last = of_queue.max_by_key(|worker| worker.last_seen_at);
    last.map_or(String::new(), |worker| {
        format!(
            "; the last was {}, seen {}",
            worker_and_host(worker),
            ago(worker.last_seen_at, now)
        )
    })
}

fn worker_and_host(worker: &WorkerStatus) -> String {
    match &worker.host {
        Some(host) => format!("{} on {host}", worker.worker_id),
        None => worker.worker_id.clone(),
    }
}

fn report_poisoned(report: &mut DoctorReport, server_state: &ServerState, queue: &QueueStatus) {
    let name = &queue.job_type;
    if queue.poisoned == 0 {
        return;
    }
    let reasons = server_state.reasons.get(name).into_iter().flatten();
    let counts: Vec<_> = reasons.clone().map(|(code, count)| format!("{code} {count}")).collect();
    let colon = if counts.is_empty() { "" } else { ": " };
    let waits = waits(queue.poisoned);
    let what = format!("queue {name}: {waits} for a person{colon}{}", counts.join(", "));
    let name = quoted(name);
    let finding = report.wrong("poison", what);
    finding.run("which, and why", format!("consign poison --type {name}"));
    for (code, _) in reasons {
        let run = format!("consign poison redrive --type {name} --error-code {code}");
        finding.run("when the cause is mended", run);
    }
}

fn report_undeclared(report: &mut DoctorReport, server_state: &ServerState, queue: &QueueStatus) {
    let name = &queue.job_type;
    let is_declared =
        server_state.types.iter().any(|shown| shown.job_type == *name && shown.declared);
    if server_state.strict_types && !is_declared && queue.queued > 0 {
        let what =
            format!("type {name}: it is not declared, and strict_types refuses new jobs of it");
        let declare = format!("consign types set {}", quoted(name));
        report.wrong("type", what).run("declare it", declare);
    }
}

/// At most so many lost workers are listed one by one.
const LOST_LISTED_MAX: usize = 10;

/// A worker that was stopped in order signed off and is not listed. A lost one may have been taken
/// away on purpose. Only a queue without workers shows the difference, so it alone is a note.
fn report_workers(report: &mut DoctorReport, server_state: &ServerState, now: Timestamp) {
    let is_lost = |worker: &&WorkerStatus| worker.state == WorkerState::Lost;
    let lost: Vec<&WorkerStatus> = server_state.workers.iter().filter(is_lost).collect();
    report.well("workers", format!("workers: {} live", server_state.workers.len() - lost.len()));
    for worker in lost.iter().take(LOST_LISTED_MAX) {
        let (types, seen) = (worker.job_types.join(", "), ago(worker.last_seen_at, now));
        let what = format!("worker {} ({types}): lost, last seen {seen}", worker_and_host(worker));
        let say = "it ended without signing off: look at its log, and who is there";
        report.note("worker", what).run(say, "consign workers");
    }
    if lost.len() > LOST_LISTED_MAX {
        let more = counted(lost.len() - LOST_LISTED_MAX, "more is lost", "more are lost");
        let what = format!("workers: {more}");
        report.note("worker", what).run("", "consign workers");
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::finding::{Finding, Level},
        *,
    };
    use wire::Rfc3339;

    fn now() -> Timestamp {
        Timestamp::from_unix_ms(1_794_787_200_000)
    }

    fn queue(due: u64, live_workers: u64) -> QueueStatus {
        QueueStatus {
            job_type: "email".into(),
            queued: due,
            due,
            oldest_age_seconds: (due > 0).then_some(720),
            running: 0,
            poisoned: 0,
            paused: false,
            pauses: Vec::new(),
            live_workers,
            known: true,
        }
    }

    fn lost_worker() -> WorkerStatus {
        WorkerStatus {
            worker_id: "w1".into(),
            host: Some("machine-1".into()),
            job_types: vec!["email".into()],
            running: 0,
            last_seen_at: Rfc3339(Timestamp::from_unix_ms(now().unix_ms() - 720_000)),
            state: WorkerState::Lost,
        }
    }

    #[track_caller]
    fn check(server_state: ServerState, expected: &[&str]) {
        let mut report = DoctorReport::default();
        examine(&mut report, &server_state, now());
        let wrong = report.0.iter().filter(|finding| finding.level == Level::Wrong);
        let lines: Vec<String> = wrong.flat_map(Finding::lines).map(|line| line.text()).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_doctor_finds_nothing_wrong_with_served_queues() {
        check(ServerState { queues: vec![queue(14, 2)], ..ServerState::default() }, &[]);
        check(ServerState { workers: vec![lost_worker()], ..ServerState::default() }, &[]);
    }

    #[test]
    fn jobs_without_workers_are_found_with_the_last_worker() {
        check(
            ServerState {
                queues: vec![queue(14, 0)],
                workers: vec![lost_worker()],
                ..ServerState::default()
            },
            &[
                "✗ queue email: 14 jobs wait and no worker asks for them (oldest 12 min); the last was w1 on \
                 machine-1, seen 12 min ago",
                "  → start its workers; for now: consign work --type email --exec ./handler",
            ],
        );
    }

    #[test]
    fn a_pause_and_poison_are_found_with_what_mends_them() {
        let queue = QueueStatus { paused: true, poisoned: 3, ..queue(1, 1) };
        let reasons = BTreeMap::from([("NO_PAGE".to_owned(), 3)]);
        check(
            ServerState {
                queues: vec![queue],
                reasons: BTreeMap::from([("email".to_owned(), reasons)]),
                ..ServerState::default()
            },
            &[
                "✗ queue email: paused, and 1 job waits (oldest 12 min)",
                "  → let its jobs start: consign queues resume email",
                "✗ queue email: 3 jobs wait for a person: NO_PAGE 3",
                "  → which, and why: consign poison --type email",
                "  → when the cause is mended: consign poison redrive --type email --error-code NO_PAGE",
            ],
        );
    }

    #[test]
    fn a_type_that_strictness_forgot_is_found() {
        check(
            ServerState { queues: vec![queue(1, 1)], strict_types: true, ..ServerState::default() },
            &[
                "✗ type email: it is not declared, and strict_types refuses new jobs of it",
                "  → declare it: consign types set email",
            ],
        );
    }
}
