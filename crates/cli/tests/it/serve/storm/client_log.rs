//! The record of what clients were answered.

use super::JOB_TYPE;
use crate::serve::{Answer, Ask, Client, wait_for};
use engine::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

pub(crate) struct ClientLog {
    /// One for each server, all with a key that has all rights.
    clients: Vec<Client>,
    /// The next server for a client whose first one did not answer.
    next_client: AtomicUsize,
    acknowledged: AtomicUsize,
    producers_left: AtomicUsize,
    /// Producers may stop.
    producers_may_stop: AtomicBool,
    over: AtomicBool,
    /// A logical clock: grows with everything that is recorded.
    logical_time: AtomicUsize,
    records: Mutex<Records>,
}

#[derive(Default)]
pub(crate) struct Records {
    /// By subject, which is different for each job.
    pub(crate) submits: HashMap<Arc<str>, Submit>,
    /// The jobs that were acknowledged, in that order.
    pub(crate) acknowledged: Vec<String>,
    /// By job.
    pub(crate) claims: HashMap<String, Vec<Claim>>,
    /// By token.
    pub(crate) settles: HashMap<String, Settle>,
    pub(crate) counts: Counts,
}

/// One job, as its producer knows it.
#[derive(Default)]
pub(crate) struct Submit {
    pub(crate) has_key: bool,
    /// Every attempt fails.
    pub(crate) is_bad: bool,
    /// The earliest start, where it was sent with one.
    pub(crate) due: Option<Due>,
    /// The ids of all answers.
    pub(crate) answers: Vec<String>,
    /// The answers to cancels: the status, and whether the worker is to be notified.
    pub(crate) cancels: Vec<(String, bool)>,
}

/// When a job may start.
#[derive(Clone, Copy)]
pub(crate) enum Due {
    /// So long after it was submitted.
    After(Duration),
    /// At this moment.
    At(Timestamp),
}

pub(crate) struct Claim {
    pub(crate) token: String,
    pub(crate) attempt: u64,
    /// When its answer was read (logical clock).
    pub(crate) answered: usize,
}

pub(crate) struct Settle {
    pub(crate) job: String,
    pub(crate) attempt: u64,
    pub(crate) ending: Value,
    /// When it was first sent (logical clock).
    pub(crate) sent: usize,
    /// All answers: a status, or the code of a problem.
    pub(crate) answers: Vec<Result<String, String>>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) repeats: usize,
    pub(crate) cut_submits: usize,
    pub(crate) cut_claims: usize,
    pub(crate) unanswered: usize,
    /// Of these, answers that ask the client to come again.
    pub(crate) refused: usize,
    /// And answers of unknown outcome.
    pub(crate) unknown: usize,
    pub(crate) races: usize,
    pub(crate) cancels: usize,
    pub(crate) reads: usize,
    pub(crate) heartbeats: usize,
    pub(crate) releases: usize,
    pub(crate) late_reports: usize,
}

/// How long a client waits for an answer of a server that may be dead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The wait before the next try.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

impl ClientLog {
    pub(crate) fn new(clients: Vec<Client>, producers: usize) -> Self {
        ClientLog {
            clients,
            next_client: AtomicUsize::new(0),
            acknowledged: AtomicUsize::new(0),
            producers_left: AtomicUsize::new(producers),
            producers_may_stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
            logical_time: AtomicUsize::new(0),
            records: Mutex::default(),
        }
    }

    pub(crate) fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap()
    }

    pub(crate) fn now(&self) -> usize {
        self.logical_time.fetch_add(1, Ordering::SeqCst)
    }

    /// The server that a client asks first.
    pub(crate) fn node_client(&self, number: usize) -> &Client {
        &self.clients[number % self.clients.len()]
    }

    /// The servers in turn.
    pub(crate) fn any_client(&self) -> &Client {
        self.node_client(self.next_client.fetch_add(1, Ordering::SeqCst))
    }

    /// One answer, if one came; a 503 counts as none.
    pub(crate) fn try_ask(&self, ask: Ask) -> io::Result<Answer> {
        let answer = ask.within(ANSWER_TIMEOUT).try_send().and_then(|answer| match answer.status {
            503 => Err(self.note_refusal(&answer)),
            _ => Ok(answer),
        });
        if answer.is_err() {
            self.records().counts.unanswered += 1;
            thread::sleep(RETRY_INTERVAL);
        }
        answer
    }

    fn note_refusal(&self, answer: &Answer) -> io::Error {
        assert!(answer.header("retry-after").is_some(), "{:?}", answer.headers);
        let code = text(&answer.json()["errorCode"]);
        let counts = &mut self.records().counts;
        match code.as_str() {
            "OUTCOME_UNKNOWN" => counts.unknown += 1,
            "STORE_UNAVAILABLE" => counts.refused += 1,
            _ => panic!("{}", answer.text()),
        }
        io::ErrorKind::NotConnected.into()
    }

    /// Repeats the request until a server answers it.
    pub(crate) fn ask(&self, ask: &Ask) -> Answer {
        let first = self.try_ask(ask.clone()).ok();
        first.unwrap_or_else(|| {
            wait_for("a server answers", || self.try_ask(ask.clone().at(self.any_client())).ok())
        })
    }

    /// Sends the request, and closes the connection without waiting for the answer.
    pub(crate) fn cut(&self, ask: &Ask) {
        drop(ask.cut()); // whether it arrives is left open on purpose
    }

    pub(crate) fn acknowledge(&self, subject: &Arc<str>, job: &str) {
        let mut records = self.records();
        let answers = &mut records.submits.get_mut(subject).unwrap().answers;
        answers.push(job.into());
        if answers.len() == 1 {
            records.acknowledged.push(job.into());
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(crate) fn producer_is_done(&self) {
        self.producers_left.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn producers_left(&self) -> usize {
        self.producers_left.load(Ordering::SeqCst)
    }

    pub(crate) fn stop_producing(&self) {
        self.producers_may_stop.store(true, Ordering::SeqCst);
    }

    pub(crate) fn may_stop_producing(&self) -> bool {
        self.producers_may_stop.load(Ordering::SeqCst) || self.is_over()
    }

    /// The flag that ends all clients.
    pub(crate) fn over(&self) -> &AtomicBool {
        &self.over
    }

    pub(crate) fn stop_all_clients(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(crate) fn claim_ask(
        &self,
        node_client: &Client,
        worker: &str,
        claim: &str,
        max: usize,
        lease: u64,
    ) -> Ask {
        node_client.post("/api/work/claim").json(&json!({
            "workerId": worker, "claimId": claim, "jobTypes": [JOB_TYPE], "max": max,
            "waitSeconds": 1, "leaseSeconds": lease,
        }))
    }

    pub(crate) fn note_cancel(&self, subject: &str, status: &Value) {
        let mut records = self.records();
        records.counts.cancels += 1;
        let answer = (text(&status["status"]), status["cancelRequested"] == true);
        records.submits.get_mut(subject).unwrap().cancels.push(answer);
    }

    /// Records the jobs of a claim; the same lease may come twice, under the same claim id.
    pub(crate) fn note_claim(&self, answer: &Answer) -> Vec<Value> {
        let jobs = answer.ok(200)["jobs"].as_array().unwrap().clone();
        let answered = self.now();
        let mut records = self.records();
        for job in &jobs {
            let token = text(&job["lease"]["token"]);
            let attempt = job["attempt"].as_u64().unwrap();
            let claims = records.claims.entry(text(&job["jobId"])).or_default();
            if claims.iter().all(|claim| claim.token != token) {
                claims.push(Claim { token, attempt, answered });
            }
        }
        jobs
    }

    /// Reports an ending until it is answered, and returns the answer.
    pub(crate) fn settle(&self, job: &Value, ending: &Value) -> Result<String, String> {
        let (id, token) = (text(&job["jobId"]), text(&job["lease"]["token"]));
        let mut item = json!({"jobId": id, "token": token});
        item.as_object_mut().unwrap().extend(ending.as_object().unwrap().clone());
        let (sent, attempt) = (self.now(), job["attempt"].as_u64().unwrap());
        self.records().settles.entry(token.clone()).or_insert_with(|| Settle {
            job: id,
            attempt,
            ending: ending.clone(),
            sent,
            answers: Vec::new(),
        });
        let ask = self.any_client().post("/api/work/settle").json(&json!({"items": [item]}));
        let result = item_result(&self.ask(&ask).ok(200)["items"][0]);
        self.records().settles.get_mut(&token).unwrap().answers.push(result.clone());
        result
    }
}

/// The result of an item.
pub(crate) fn item_result(item: &Value) -> Result<String, String> {
    match item["status"].as_str() {
        Some(status) => Ok(status.into()),
        None => Err(text(&item["problem"]["errorCode"])),
    }
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).into()
}
