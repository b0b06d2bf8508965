//! What clients were told, written down as they heard it.

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

pub(crate) struct Book {
    /// One for each server, all with a key that opens everything.
    doors: Vec<Client>,
    /// Whom somebody asks who got no answer where it asked first.
    next_door: AtomicUsize,
    acknowledged: AtomicUsize,
    producers_left: AtomicUsize,
    /// Nobody needs to hand over more.
    enough: AtomicBool,
    over: AtomicBool,
    /// Grows with everything that is written down.
    moment: AtomicUsize,
    pages: Mutex<Pages>,
}

#[derive(Default)]
pub(crate) struct Pages {
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
    /// Not before, where it was sent with a time.
    pub(crate) due: Option<Due>,
    /// The ids of all answers.
    pub(crate) told: Vec<String>,
    /// What was answered to who cancelled it: the status, and whether the worker is to be told.
    pub(crate) cancels: Vec<(String, bool)>,
}

/// When a job may start.
#[derive(Clone, Copy)]
pub(crate) enum Due {
    /// So long after it was taken in.
    After(Duration),
    /// At this moment.
    At(Timestamp),
}

pub(crate) struct Claim {
    pub(crate) token: String,
    pub(crate) attempt: u64,
    /// When its answer was read.
    pub(crate) answered: usize,
}

pub(crate) struct Settle {
    pub(crate) job: String,
    pub(crate) attempt: u64,
    pub(crate) ending: Value,
    /// When it was sent for the first time.
    pub(crate) sent: usize,
    /// All answers: a status, or the code of a problem.
    pub(crate) told: Vec<Result<String, String>>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) repeats: usize,
    pub(crate) cut_submits: usize,
    pub(crate) cut_claims: usize,
    pub(crate) unanswered: usize,
    /// Of these, how many were told that they had better come again.
    pub(crate) refused: usize,
    /// And that nobody knows.
    pub(crate) unknown: usize,
    pub(crate) races: usize,
    pub(crate) cancels: usize,
    pub(crate) reads: usize,
    pub(crate) heartbeats: usize,
    pub(crate) releases: usize,
    pub(crate) overslept: usize,
}

/// How long a client waits for an answer of a server that may be dead.
const WITHIN: Duration = Duration::from_secs(5);
/// And before it asks again.
const BREATH: Duration = Duration::from_millis(10);

impl Book {
    pub(crate) fn new(doors: Vec<Client>, producers: usize) -> Self {
        Book {
            doors,
            next_door: AtomicUsize::new(0),
            acknowledged: AtomicUsize::new(0),
            producers_left: AtomicUsize::new(producers),
            enough: AtomicBool::new(false),
            over: AtomicBool::new(false),
            moment: AtomicUsize::new(0),
            pages: Mutex::default(),
        }
    }

    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }

    pub(crate) fn now(&self) -> usize {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    /// Where a client asks first; each has its own.
    pub(crate) fn door(&self, number: usize) -> &Client {
        &self.doors[number % self.doors.len()]
    }

    /// Each in turn.
    pub(crate) fn any_door(&self) -> &Client {
        self.door(self.next_door.fetch_add(1, Ordering::SeqCst))
    }

    /// One answer, if one came; a server that cannot is as good as none.
    pub(crate) fn try_ask(&self, ask: Ask) -> io::Result<Answer> {
        let asked = ask.within(WITHIN).try_send().and_then(|answer| match answer.status {
            503 => Err(self.note_refusal(&answer)),
            _ => Ok(answer),
        });
        if asked.is_err() {
            self.pages().counts.unanswered += 1;
            thread::sleep(BREATH);
        }
        asked
    }

    fn note_refusal(&self, answer: &Answer) -> io::Error {
        assert!(answer.header("retry-after").is_some(), "{:?}", answer.headers);
        let code = text(&answer.json()["errorCode"]);
        let counts = &mut self.pages().counts;
        match code.as_str() {
            "OUTCOME_UNKNOWN" => counts.unknown += 1,
            "STORE_UNAVAILABLE" => counts.refused += 1,
            _ => panic!("{}", answer.text()),
        }
        io::ErrorKind::NotConnected.into()
    }

    /// Asks the same until it is answered, by whoever can.
    pub(crate) fn ask(&self, ask: &Ask) -> Answer {
        let first = self.try_ask(ask.clone()).ok();
        first.unwrap_or_else(|| {
            wait_for("somebody answers", || self.try_ask(ask.clone().at(self.any_door())).ok())
        })
    }

    /// Sends the request, and hangs up without waiting for the answer.
    pub(crate) fn cut(&self, ask: &Ask) {
        drop(ask.cut()); // whether it arrives is part of the game
    }

    pub(crate) fn acknowledge(&self, subject: &Arc<str>, job: &str) {
        let mut pages = self.pages();
        let told = &mut pages.submits.get_mut(subject).unwrap().told;
        told.push(job.into());
        if told.len() == 1 {
            pages.acknowledged.push(job.into());
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
        self.enough.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.enough.load(Ordering::SeqCst) || self.is_over()
    }

    /// What sends everybody home.
    pub(crate) fn over(&self) -> &AtomicBool {
        &self.over
    }

    pub(crate) fn send_everybody_home(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(crate) fn claim_ask(
        &self,
        door: &Client,
        worker: &str,
        claim: &str,
        max: usize,
        lease: u64,
    ) -> Ask {
        door.post("/api/work/claim").json(&json!({
            "workerId": worker, "claimId": claim, "jobTypes": [JOB_TYPE], "max": max,
            "waitSeconds": 1, "leaseSeconds": lease,
        }))
    }

    pub(crate) fn note_cancel(&self, subject: &str, status: &Value) {
        let mut pages = self.pages();
        pages.counts.cancels += 1;
        let told = (text(&status["status"]), status["cancelRequested"] == true);
        pages.submits.get_mut(subject).unwrap().cancels.push(told);
    }

    /// Writes down what a claim brought; the same lease may come twice, under the same name.
    pub(crate) fn note_claim(&self, answer: &Answer) -> Vec<Value> {
        let jobs = answer.ok(200)["jobs"].as_array().unwrap().clone();
        let answered = self.now();
        let mut pages = self.pages();
        for job in &jobs {
            let token = text(&job["lease"]["token"]);
            let attempt = job["attempt"].as_u64().unwrap();
            let claims = pages.claims.entry(text(&job["jobId"])).or_default();
            if claims.iter().all(|claim| claim.token != token) {
                claims.push(Claim { token, attempt, answered });
            }
        }
        jobs
    }

    /// Reports an ending until it is answered, and gives the answer.
    pub(crate) fn settle(&self, job: &Value, ending: &Value) -> Result<String, String> {
        let (id, token) = (text(&job["jobId"]), text(&job["lease"]["token"]));
        let mut item = json!({"jobId": id, "token": token});
        item.as_object_mut().unwrap().extend(ending.as_object().unwrap().clone());
        let (sent, attempt) = (self.now(), job["attempt"].as_u64().unwrap());
        self.pages().settles.entry(token.clone()).or_insert_with(|| Settle {
            job: id,
            attempt,
            ending: ending.clone(),
            sent,
            told: Vec::new(),
        });
        let ask = self.any_door().post("/api/work/settle").json(&json!({"items": [item]}));
        let told = said(&self.ask(&ask).ok(200)["items"][0]);
        self.pages().settles.get_mut(&token).unwrap().told.push(told.clone());
        told
    }
}

/// What an item came to.
pub(crate) fn said(item: &Value) -> Result<String, String> {
    match item["status"].as_str() {
        Some(status) => Ok(status.into()),
        None => Err(text(&item["problem"]["errorCode"])),
    }
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).into()
}
