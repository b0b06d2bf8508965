//! What is wrong with queues, workers and types: pure, from what the server said to what an operator hears.

use super::finding::{Finding, quoted};
use crate::remote::{Standing, ago, span, standing};
use engine::Timestamp;
use std::{collections::BTreeMap, time::Duration};
use wire::{QueueShape, TypeShape, WorkerShape, WorkerState};

/// What a server said about its work.
#[derive(Default)]
pub(super) struct House {
    pub(super) queues: Vec<QueueShape>,
    pub(super) workers: Vec<WorkerShape>,
    pub(super) types: Vec<TypeShape>,
    /// Why jobs of a type are poisoned: how many by code.
    pub(super) reasons: BTreeMap<String, BTreeMap<String, u64>>,
    /// Whether jobs of types that nobody declared are refused.
    pub(super) strict: bool,
}

pub(super) fn look(house: &House, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    for queue in &house.queues {
        findings.extend(stuck(house, queue, now));
        findings.extend(poisoned(house, queue));
        findings.extend(undeclared(house, queue));
    }
    if findings.is_empty() {
        let what = format!("queues: {}, and nothing waits in vain", house.queues.len());
        findings.push(Finding::well("queue", what));
    }
    findings.extend(workers(house, now));
    findings
}

/// Jobs that wait, and will go on waiting.
fn stuck(house: &House, queue: &QueueShape, now: Timestamp) -> Option<Finding> {
    let name = &queue.job_type;
    let age = queue.oldest_age_seconds.map(Duration::from_secs);
    let oldest = age.map_or(String::new(), |age| format!(" (oldest {})", span(age)));
    Some(match standing(queue) {
        Standing::Open => return None,
        Standing::Paused => {
            let resume = format!("consign queues resume {}", quoted(name));
            let what = format!("queue {name}: paused");
            match queue.queued {
                0 => Finding::note("queue", format!("{what}; nothing waits in it")).run("", resume),
                count => Finding::wrong("queue", format!("{what}, and {}{oldest}", waits(count)))
                    .run("who did it, and when", "consign audit")
                    .run("let its jobs start", resume),
            }
        }
        Standing::NoWorker => {
            let them = if queue.due == 1 { "it" } else { "them" };
            let what = format!("queue {name}: {} and no worker asks for {them}", waits(queue.due));
            let what = format!("{what}{oldest}{}", last_worker(house, name, now));
            nobody(house, Finding::wrong("queue", what), name)
        }
        Standing::Old => {
            let what = format!(
                "queue {name}: {} although {} is at work{oldest}",
                waits(queue.due),
                workers_said(queue.live_workers)
            );
            Finding::wrong("queue", what)
                .run("more workers or more slots; who works", "consign workers")
        }
    })
}

fn waits(count: u64) -> String {
    if count == 1 { "1 job waits".into() } else { format!("{count} jobs wait") }
}

fn workers_said(count: u64) -> String {
    if count == 1 { "1 worker".into() } else { format!("each of {count} workers") }
}

fn nobody(house: &House, finding: Finding, name: &str) -> Finding {
    let has_handler = |shown: &&TypeShape| shown.job_type == name && shown.policy.handler.is_some();
    if house.types.iter().any(|shown| has_handler(&shown)) {
        let run = format!("consign types {}", quoted(name));
        return finding
            .run("its ready-made handler should take them; the server's log says why not", run);
    }
    let run = format!("consign work --type {} --exec ./handler", quoted(name));
    finding.run("start its workers; for now", run)
}

/// Who was there last.
fn last_worker(house: &House, name: &str, now: Timestamp) -> String {
    let theirs = house.workers.iter().filter(|worker| worker.job_types.iter().any(|of| of == name));
    let last = theirs.max_by_key(|worker| worker.last_seen_at);
    last.map_or(String::new(), |worker| {
        format!("; the last was {}, seen {}", placed(worker), ago(worker.last_seen_at, now))
    })
}

fn placed(worker: &WorkerShape) -> String {
    match &worker.host {
        Some(host) => format!("{} on {host}", worker.worker_id),
        None => worker.worker_id.clone(),
    }
}

fn poisoned(house: &House, queue: &QueueShape) -> Option<Finding> {
    let (name, count) = (&queue.job_type, queue.poisoned);
    if count == 0 {
        return None;
    }
    let reasons = house.reasons.get(name);
    let told = reasons.into_iter().flatten().map(|(code, count)| format!("{code} {count}"));
    let told: Vec<String> = told.collect();
    let told = if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) };
    let are = if count == 1 {
        "1 job waits for a person"
    } else {
        &format!("{count} jobs wait for a person")
    };
    let mut finding = Finding::wrong("poison", format!("queue {name}: {are}{told}"))
        .run("which, and why", format!("consign poison --type {}", quoted(name)));
    for code in reasons.into_iter().flat_map(BTreeMap::keys) {
        let run = format!("consign poison redrive --type {} --error-code {code}", quoted(name));
        finding = finding.run("when the cause is mended", run);
    }
    Some(finding)
}

fn undeclared(house: &House, queue: &QueueShape) -> Option<Finding> {
    let name = &queue.job_type;
    let declared = house.types.iter().any(|shown| shown.job_type == *name && shown.declared);
    if !house.strict || declared || queue.queued == 0 {
        return None;
    }
    let what = format!("type {name}: nobody declared it, and strict_types refuses new jobs of it");
    Some(
        Finding::wrong("type", what)
            .run("declare it", format!("consign types set {}", quoted(name))),
    )
}

/// So many lost workers are told one by one.
const LOST_TOLD_MAX: usize = 10;

/// A worker that was stopped in order looks like one that died. Only the queue that misses it tells which it was,
/// so this alone is not wrong.
fn workers(house: &House, now: Timestamp) -> Vec<Finding> {
    let is_lost = |worker: &&WorkerShape| worker.state == WorkerState::Lost;
    let lost: Vec<&WorkerShape> = house.workers.iter().filter(is_lost).collect();
    let live = house.workers.len() - lost.len();
    let mut findings = vec![Finding::well("workers", format!("workers: {live} live"))];
    findings.extend(lost.iter().take(LOST_TOLD_MAX).map(|worker| {
        let (of, seen) = (worker.job_types.join(", "), ago(worker.last_seen_at, now));
        let what = format!("worker {} ({of}): lost, last seen {seen}", placed(worker));
        Finding::note("worker", what).run(
            "fine where it was stopped; else look at its log, and who is there",
            "consign workers",
        )
    }));
    if lost.len() > LOST_TOLD_MAX {
        let what = format!("workers: {} more are lost", lost.len() - LOST_TOLD_MAX);
        findings.push(Finding::note("worker", what).run("", "consign workers"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Level, *};
    use wire::Moment;

    fn now() -> Timestamp {
        Timestamp::from_unix_ms(1_794_787_200_000)
    }

    fn queue(due: u64, live_workers: u64) -> QueueShape {
        QueueShape {
            job_type: "email".into(),
            queued: due,
            due,
            oldest_age_seconds: (due > 0).then_some(720),
            running: 0,
            poisoned: 0,
            paused: false,
            live_workers,
        }
    }

    fn lost_worker() -> WorkerShape {
        WorkerShape {
            worker_id: "w1".into(),
            host: Some("machine-1".into()),
            job_types: vec!["email".into()],
            running: 0,
            last_seen_at: Moment(Timestamp::from_unix_ms(now().unix_ms() - 720_000)),
            state: WorkerState::Lost,
        }
    }

    #[track_caller]
    fn told(house: House, expected: &[&str]) {
        let findings = look(&house, now());
        let wrong = findings.iter().filter(|finding| finding.level == Level::Wrong);
        let lines: Vec<String> = wrong.flat_map(Finding::lines).map(|line| line.text()).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_house_that_works_is_well() {
        told(House { queues: vec![queue(14, 2)], ..House::default() }, &[]);
        told(House { workers: vec![lost_worker()], ..House::default() }, &[]);
    }

    #[test]
    fn jobs_that_nobody_asks_for_are_found_with_who_was_there_last() {
        told(
            House { queues: vec![queue(14, 0)], workers: vec![lost_worker()], ..House::default() },
            &[
                "✗ queue email: 14 jobs wait and no worker asks for them (oldest 12 min); the last was w1 on \
                 machine-1, seen 12 min ago",
                "  → start its workers; for now: consign work --type email --exec ./handler",
            ],
        );
    }

    #[test]
    fn a_pause_and_poison_are_found_with_what_mends_them() {
        let queue = QueueShape { paused: true, poisoned: 3, ..queue(1, 1) };
        let reasons = BTreeMap::from([("NO_PAGE".to_owned(), 3)]);
        told(
            House {
                queues: vec![queue],
                reasons: BTreeMap::from([("email".to_owned(), reasons)]),
                ..House::default()
            },
            &[
                "✗ queue email: paused, and 1 job waits (oldest 12 min)",
                "  → who did it, and when: consign audit",
                "  → let its jobs start: consign queues resume email",
                "✗ queue email: 3 jobs wait for a person: NO_PAGE 3",
                "  → which, and why: consign poison --type email",
                "  → when the cause is mended: consign poison redrive --type email --error-code NO_PAGE",
            ],
        );
    }

    #[test]
    fn a_type_that_strictness_forgot_is_found() {
        told(
            House { queues: vec![queue(1, 1)], strict: true, ..House::default() },
            &[
                "✗ type email: nobody declared it, and strict_types refuses new jobs of it",
                "  → declare it: consign types set email",
            ],
        );
    }
}
