//! What clients were told, written down as they heard it.

use super::{JOB_TYPE, PRODUCERS};
use crate::serve::{Answer, Ask, Client, House};
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

pub(super) struct Book {
    pub(super) client: Client,
    acknowledged: AtomicUsize,
    producers_left: AtomicUsize,
    over: AtomicBool,
    /// Grows with everything that is written down.
    moment: AtomicUsize,
    pages: Mutex<Pages>,
}

#[derive(Default)]
pub(super) struct Pages {
    /// By subject, which is different for each job.
    pub(super) submits: HashMap<Arc<str>, Submit>,
    /// By job.
    pub(super) claims: HashMap<String, Vec<Claim>>,
    /// By token.
    pub(super) settles: HashMap<String, Settle>,
    pub(super) counts: Counts,
}

/// One job, as its producer knows it.
#[derive(Default)]
pub(super) struct Submit {
    pub(super) has_key: bool,
    /// The ids of all answers.
    pub(super) told: Vec<String>,
}

pub(super) struct Claim {
    pub(super) token: String,
    pub(super) attempt: u64,
    /// When its answer was read.
    pub(super) answered: usize,
}

pub(super) struct Settle {
    pub(super) job: String,
    pub(super) attempt: u64,
    pub(super) ending: Value,
    /// When it was sent for the first time.
    pub(super) sent: usize,
    /// All answers: a status, or the code of a problem.
    pub(super) told: Vec<Result<String, String>>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) repeats: usize,
    pub(super) cut_submits: usize,
    pub(super) cut_claims: usize,
    pub(super) unanswered: usize,
    pub(super) heartbeats: usize,
    pub(super) releases: usize,
    pub(super) overslept: usize,
}

/// How long a client waits for an answer of a server that may be dead.
const WITHIN: Duration = Duration::from_secs(5);
/// And before it asks again.
const BREATH: Duration = Duration::from_millis(10);

impl Book {
    pub(super) fn new(house: &House) -> Self {
        Book {
            client: house.admin(),
            acknowledged: AtomicUsize::new(0),
            producers_left: AtomicUsize::new(PRODUCERS),
            over: AtomicBool::new(false),
            moment: AtomicUsize::new(0),
            pages: Mutex::default(),
        }
    }

    pub(super) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }

    pub(super) fn now(&self) -> usize {
        self.moment.fetch_add(1, Ordering::SeqCst)
    }

    /// One answer, if one came; a server that cannot is as good as none.
    pub(super) fn try_ask(&self, ask: Ask) -> io::Result<Answer> {
        let asked = ask.within(WITHIN).try_send().and_then(|answer| match answer.status {
            503 => Err(io::ErrorKind::NotConnected.into()),
            _ => Ok(answer),
        });
        if asked.is_err() {
            self.pages().counts.unanswered += 1;
            thread::sleep(BREATH);
        }
        asked
    }

    /// Asks the same until it is answered.
    pub(super) fn ask(&self, ask: &Ask) -> Answer {
        loop {
            if let Ok(answer) = self.try_ask(ask.clone()) {
                return answer;
            }
        }
    }

    /// Sends the request, and hangs up without waiting for the answer.
    pub(super) fn cut(&self, ask: &Ask) {
        let Ok(mut connection) = self.client.connect() else { return };
        drop(connection.write(&ask.bytes())); // whether it arrives is part of the game
    }

    pub(super) fn acknowledge(&self, subject: &Arc<str>, job: &str) {
        let mut pages = self.pages();
        let told = &mut pages.submits.get_mut(subject).unwrap().told;
        told.push(job.into());
        if told.len() == 1 {
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::SeqCst)
    }

    pub(super) fn producer_is_done(&self) {
        self.producers_left.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn producers_left(&self) -> usize {
        self.producers_left.load(Ordering::SeqCst)
    }

    pub(super) fn send_everybody_home(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(super) fn claim_ask(&self, worker: &str, claim: &str, max: usize, lease: u64) -> Ask {
        self.client.post("/api/work/claim").json(&json!({
            "workerId": worker, "claimId": claim, "jobTypes": [JOB_TYPE], "max": max,
            "waitSeconds": 1, "leaseSeconds": lease,
        }))
    }

    /// Writes down what a claim brought; the same lease may come twice, under the same name.
    pub(super) fn note_claim(&self, answer: &Answer) -> Vec<Value> {
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
    pub(super) fn settle(&self, job: &Value, ending: &Value) -> Result<String, String> {
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
        let ask = self.client.post("/api/work/settle").json(&json!({"items": [item]}));
        let told = said(&self.ask(&ask).ok(200)["items"][0]);
        self.pages().settles.get_mut(&token).unwrap().told.push(told.clone());
        told
    }
}

/// What an item came to.
pub(super) fn said(item: &Value) -> Result<String, String> {
    match item["status"].as_str() {
        Some(status) => Ok(status.into()),
        None => Err(text(&item["problem"]["errorCode"])),
    }
}

#[track_caller]
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).into()
}
