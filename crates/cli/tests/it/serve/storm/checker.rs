//! Reads the state of all jobs, and compares it with what clients were answered.

use super::client_log::{Claim, ClientLog, Counts, Due, Records, Settle, Submit, text};
use crate::serve::{Client, Connection};
use engine::Timestamp;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

/// The statistics of a storm.
#[derive(Debug, Default)]
pub(crate) struct StormStats {
    pub(crate) jobs: usize,
    unacknowledged: usize,
    /// By type and status.
    pub(crate) by_status: BTreeMap<(String, String), u64>,
    attempts: u64,
    lost_leases: usize,
    pub(crate) counts: Counts,
    /// The row of its history that is the outcome of each job.
    pub(crate) outcomes: Outcomes,
}

#[derive(Default)]
pub(crate) struct Outcomes(pub(crate) HashMap<String, u64>);

/// Prints a count only: there are too many to read.
impl fmt::Debug for Outcomes {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} outcomes", self.0.len())
    }
}

impl StormStats {
    /// A storm without faults would show nothing.
    pub(crate) fn check_coverage(&self) {
        let counts = &self.counts;
        for (what, times) in [
            ("repeats", counts.repeats),
            ("submits were cut off", counts.cut_submits),
            ("claims were cut off", counts.cut_claims),
            ("requests were not answered", counts.unanswered),
            ("heartbeats", counts.heartbeats),
            ("releases", counts.releases),
            ("late reports", counts.late_reports),
        ] {
            assert!(times > 0, "no {what}");
        }
        let completed = |((_, status), times): (&(String, String), &u64)| {
            if status == "Completed" { *times } else { 0 }
        };
        let completed: u64 = self.by_status.iter().map(completed).sum();
        assert!(completed * 10 > self.jobs as u64 * 8, "most is done: {:?}", self.by_status);
    }
}

pub(crate) fn check(client: &Client, client_log: &ClientLog) -> StormStats {
    let jobs = all_jobs(client);
    let mut records = client_log.records();
    let mut stats = StormStats { jobs: jobs.len(), ..StormStats::default() };
    check_acknowledged_jobs(&jobs, &records, &mut stats);
    let mut connection = client.connect().unwrap();
    for job in &jobs {
        let id = text(&job["jobId"]);
        let history = history_of(client, &mut connection, &id);
        check_history(job, &history);
        check_submit(&records.submits[job["subjectId"].as_str().unwrap()], job, &history);
        let status = (text(&job["jobType"]), text(&job["status"]));
        *stats.by_status.entry(status).or_default() += 1;
        stats.attempts += job["attempt"].as_u64().unwrap();
        stats.outcomes.0.insert(id, history.len() as u64);
    }
    let jobs = jobs.iter().map(|job| (text(&job["jobId"]), job)).collect();
    for settle in records.settles.values() {
        check_reports(settle, &jobs);
    }
    check_tokens(&records);
    check_leases(&records);
    stats.lost_leases = records
        .settles
        .values()
        .flat_map(|settle| &settle.answers)
        .filter(|answer| answer.is_err())
        .count();
    stats.counts = std::mem::take(&mut records.counts);
    stats
}

/// Every job of the storm, page by page. The store has no others.
fn all_jobs(client: &Client) -> Vec<Value> {
    let (mut jobs, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/api/jobs?top=500{cursor}")).send().ok(200);
        jobs.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return jobs,
        }
    }
}

/// I1, I2, I11: an acknowledged job exists, under the acknowledged id, and once.
fn check_acknowledged_jobs(jobs: &[Value], records: &Records, stats: &mut StormStats) {
    let mut by_subject: HashMap<&str, Vec<&str>> = HashMap::new();
    for job in jobs {
        let subject = job["subjectId"].as_str().unwrap();
        by_subject.entry(subject).or_default().push(job["jobId"].as_str().unwrap());
    }
    for (subject, submit) in &records.submits {
        let there = by_subject.remove(&**subject).unwrap_or_default();
        assert!(
            there.len() <= 1,
            "{subject} was sent once, or with a key, and is there as {there:?}"
        );
        assert!(!submit.has_key || !submit.answers.is_empty(), "{subject} was given up");
        for id in &submit.answers {
            assert_eq!(there, [id], "{subject} was acknowledged as {id}");
        }
        if submit.answers.is_empty() {
            stats.unacknowledged += there.len();
        }
    }
    assert!(by_subject.is_empty(), "no client sent these: {by_subject:?}");
}

fn history_of(client: &Client, connection: &mut Connection, id: &str) -> Vec<Value> {
    let answer = connection.send(client.get(&format!("/api/jobs/{id}/history"))).unwrap();
    answer.ok(200)["items"].as_array().unwrap().clone()
}

/// I3 to I5, I8, I9: one outcome, at the end of a history without gaps that only has valid
/// transitions.
fn check_history(job: &Value, history: &[Value]) {
    let attempts_max = job["maxAttempts"].as_u64().unwrap();
    for (number, row) in history.iter().enumerate() {
        assert_eq!(row["seq"], number + 1, "{history:#?}");
        let before = number.checked_sub(1).map(|before| &history[before]);
        assert_eq!(
            &row["from"],
            before.map_or(&Value::Null, |before| &before["to"]),
            "{history:#?}"
        );
        assert!(is_valid_transition(row["from"].as_str(), &text(&row["to"])), "{history:#?}");
        assert!(
            before.is_none_or(|before| time(&before["at"]) <= time(&row["at"])),
            "{history:#?}"
        );
        assert!(row["attempt"].as_u64().unwrap() <= attempts_max, "{history:#?}");
    }
    assert_eq!(history.last().unwrap()["to"], job["status"], "{job} {history:#?}");
    assert_eq!(history.iter().filter(|row| is_end(&row["to"])).count(), 1, "{history:#?}");
    assert!(has_ended(job), "{job}");
    assert!(job["attempt"].as_u64().unwrap() <= attempts_max, "{job}");
}

/// The arrows of `docs/state-machine.md`, without redrives, which a storm does not have.
fn is_valid_transition(from: Option<&str>, to: &str) -> bool {
    match from {
        None => to == "Queued",
        Some("Queued") => ["Running", "Cancelled"].contains(&to),
        // Progress and cancel requests do not change the state.
        Some("Running") => true,
        Some(_) => false,
    }
}

fn is_end(status: &Value) -> bool {
    ["Completed", "Failed", "Poisoned", "Cancelled"].contains(&status.as_str().unwrap())
}

pub(crate) fn has_ended(job: &Value) -> bool {
    is_end(&job["status"])
}

pub(crate) fn time(value: &Value) -> Timestamp {
    wire::parse_time("at", value.as_str().unwrap()).unwrap()
}

/// I3, I8, I13: not started early, poisoned where every attempt fails, and cancelled where a cancel
/// was acknowledged.
fn check_submit(submit: &Submit, job: &Value, history: &[Value]) {
    let started = history.iter().find(|row| row["to"] == "Running").map(|row| time(&row["at"]));
    let due = match submit.due {
        None => None,
        Some(Due::After(wait)) => Some(time(&history[0]["at"]) + wait),
        Some(Due::At(moment)) => Some(moment),
    };
    let is_early = due.zip(started).is_some_and(|(due, started)| started < due);
    assert!(!is_early, "due at {due:?}: {history:#?}");
    if submit.is_bad {
        assert!(["Poisoned", "Cancelled"].contains(&job["status"].as_str().unwrap()), "{job}");
    }
    for (status, is_requested) in &submit.cancels {
        match (status.as_str(), is_requested) {
            ("Cancelled", _) => assert_eq!(job["status"], "Cancelled", "{history:#?}"),
            // The worker that runs it may have finished it; no worker starts it again.
            ("Running", true) => assert_eq!(job["cancelRequested"], true, "{job}"),
            (_, _) => panic!("a cancel was answered with {status} and {is_requested}"),
        }
    }
}

/// An accepted report holds, and every repetition got the same answer.
fn check_reports(settle: &Settle, jobs: &HashMap<String, &Value>) {
    let [first, others @ ..] = &settle.answers[..] else { return };
    assert!(others.iter().all(|answer| answer == first), "{:?}", settle.answers);
    let job = jobs[&settle.job];
    let Ok(status) = first else { return };
    let expected_status = match (settle.ending["outcome"].as_str(), &settle.ending["retryable"]) {
        (Some("completed"), _) => "Completed",
        (Some("failed"), Value::Bool(false)) => "Failed",
        (_, _) => {
            assert!(["Queued", "Poisoned", "Cancelled"].contains(&status.as_str()), "{status}");
            return;
        }
    };
    assert_eq!(
        (status.as_str(), job["status"].as_str()),
        (expected_status, Some(expected_status)),
        "{job}"
    );
    assert_eq!(job["attempt"], settle.attempt, "what ended it was its last attempt: {job}");
}

/// I6, I7: at most one token per attempt had accepted reports.
fn check_tokens(records: &Records) {
    let mut taken = HashSet::new();
    for settle in records.settles.values().filter(|settle| settle.answers.iter().any(Result::is_ok))
    {
        let attempt = (&settle.job, settle.attempt);
        assert!(taken.insert(attempt), "two tokens settled {attempt:?}");
    }
}

/// I6, I7: a report that was first sent after another worker got the job was refused.
fn check_leases(records: &Records) {
    for (token, settle) in &records.settles {
        if !settle.answers.iter().any(Result::is_ok) {
            continue;
        }
        let later = |claim: &&Claim| claim.token != *token && claim.answered < settle.sent;
        let claims = &records.claims[&settle.job];
        let own = claims.iter().find(|claim| claim.token == *token).unwrap();
        let beaten = claims.iter().filter(later).find(|claim| claim.attempt > own.attempt);
        assert!(beaten.is_none(), "{} was held by two at a time", settle.job);
    }
}

/// The checker finds what it looks for.
#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn job(id: &str, status: &str) -> Value {
        json!({"jobId": id, "subjectId": "s", "status": status, "attempt": 1, "maxAttempts": 3})
    }

    fn acknowledged(ids: &[&str]) -> Records {
        let answers = ids.iter().map(|id| (*id).into()).collect();
        let submits = [("s".into(), Submit { has_key: true, answers, ..Submit::default() })].into();
        Records { submits, ..Records::default() }
    }

    fn row(seq: usize, from: &Value, to: &str) -> Value {
        let at = format!("2026-11-15T08:00:00.{seq:03}Z");
        json!({"seq": seq, "from": from, "to": to, "attempt": 1, "at": at})
    }

    fn settle(attempt: u64, sent: usize) -> Settle {
        let (job, ending) = ("a".into(), json!({"outcome": "completed"}));
        Settle { job, attempt, ending, sent, answers: vec![Ok("Completed".into())] }
    }

    fn claim(token: &str, attempt: u64, answered: usize) -> Claim {
        Claim { token: token.into(), attempt, answered }
    }

    #[test]
    fn a_job_that_matches_its_acknowledgements_passes() {
        let jobs = [job("a", "Completed")];
        check_acknowledged_jobs(&jobs, &acknowledged(&["a", "a"]), &mut StormStats::default());
        let history = [
            row(1, &Value::Null, "Queued"),
            row(2, &json!("Queued"), "Running"),
            row(3, &json!("Running"), "Completed"),
        ];
        check_history(&jobs[0], &history);
    }

    #[test]
    #[should_panic(expected = "was acknowledged as a")]
    fn a_lost_job_is_found() {
        check_acknowledged_jobs(&[], &acknowledged(&["a"]), &mut StormStats::default());
    }

    #[test]
    #[should_panic(expected = "and is there as")]
    fn a_second_job_under_one_key_is_found() {
        let jobs = [job("a", "Completed"), job("b", "Completed")];
        check_acknowledged_jobs(&jobs, &acknowledged(&["a"]), &mut StormStats::default());
    }

    #[test]
    #[should_panic(expected = "no client sent these")]
    fn an_invented_job_is_found() {
        let jobs = [job("a", "Completed")];
        check_acknowledged_jobs(&jobs, &Records::default(), &mut StormStats::default());
    }

    #[test]
    #[should_panic(expected = "left: Number(3)")]
    fn a_gap_in_a_history_is_found() {
        let history = [row(1, &Value::Null, "Queued"), row(3, &json!("Queued"), "Completed")];
        check_history(&job("a", "Completed"), &history);
    }

    #[test]
    #[should_panic(expected = "Failed")]
    fn a_second_outcome_is_found() {
        let history = [
            row(1, &Value::Null, "Queued"),
            row(2, &json!("Queued"), "Cancelled"),
            row(3, &json!("Cancelled"), "Failed"),
        ];
        check_history(&job("a", "Failed"), &history);
    }

    #[test]
    #[should_panic(expected = "2026-11-15T08:00:00.009Z")]
    fn a_history_that_goes_back_in_time_is_found() {
        let mut history = [row(1, &Value::Null, "Queued"), row(2, &json!("Queued"), "Cancelled")];
        history[0]["at"] = json!("2026-11-15T08:00:00.009Z");
        check_history(&job("a", "Cancelled"), &history);
    }

    /// Submitted at 1 ms, started at 2 ms.
    fn check_wanted(submit: &Submit, status: &str) {
        let history = [row(1, &Value::Null, "Queued"), row(2, &json!("Queued"), "Running")];
        check_submit(submit, &job("a", status), &history);
    }

    #[test]
    #[should_panic(expected = "due at")]
    fn an_early_start_is_found() {
        let due = |millis| Submit {
            due: Some(Due::After(Duration::from_millis(millis))),
            ..Submit::default()
        };
        check_wanted(&due(1), "Completed");
        check_wanted(&due(2), "Completed");
    }

    #[test]
    #[should_panic(expected = "Completed")]
    fn a_bad_job_that_went_well_is_found() {
        check_wanted(&Submit { is_bad: true, ..Submit::default() }, "Completed");
    }

    #[test]
    #[should_panic(expected = "Completed")]
    fn a_cancelled_job_that_went_on_is_found() {
        let cancels = vec![("Cancelled".into(), false)];
        check_wanted(&Submit { cancels, ..Submit::default() }, "Completed");
    }

    #[test]
    #[should_panic(expected = "two tokens settled")]
    fn two_reports_of_one_attempt_are_found() {
        let settles = [("t".into(), settle(1, 1)), ("u".into(), settle(1, 2))].into();
        check_tokens(&Records { settles, ..Records::default() });
    }

    #[test]
    #[should_panic(expected = "was held by two at a time")]
    fn a_lease_that_outlives_the_next_is_found() {
        let claims = vec![claim("t", 1, 1), claim("u", 2, 2)];
        let settles = [("t".into(), settle(1, 3))].into();
        let claims = [("a".into(), claims)].into();
        check_leases(&Records { settles, claims, ..Records::default() });
    }

    #[test]
    #[should_panic(expected = "Poisoned")]
    fn a_report_that_does_not_hold_is_found() {
        let job = job("a", "Poisoned");
        check_reports(&settle(1, 1), &[("a".into(), &job)].into());
    }
}
