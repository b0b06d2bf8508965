//! A disk that fails the server: what callers are told, and that nothing acknowledged is lost.

use crate::serve::{Answer, Customer, House, customer::fresh, wait_for, wait_until};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    process::{Child, Command, Stdio},
    thread,
};

/// A payload that is not what was sent any more: one letter of it was changed on disk.
pub(super) fn damaged(_: &Customer) -> Answer {
    let house = House::start();
    let word = "this payload will rot on its disk";
    let job = json!({"jobType": "rot", "payload": word});
    let id = house.admin().post("/api/jobs").json(&job).send().ok(202)["jobId"].clone();
    assert!(house.stop().success(), "{}", house.log());
    let mut bytes = fs::read(house.store()).unwrap();
    let places: Vec<usize> = bytes
        .windows(word.len())
        .enumerate()
        .filter_map(|(at, window)| (window == word.as_bytes()).then_some(at))
        .collect();
    assert!(!places.is_empty(), "an orderly end moves everything into the file");
    places.iter().for_each(|at| bytes[at + 5] ^= 1);
    fs::write(house.store(), bytes).unwrap();
    house.restart();
    house.admin().get(&format!("/api/jobs/{}", id.as_str().unwrap())).send()
}

/// `strace`, which makes system calls of the server fail.
struct Fault(Child);

impl Fault {
    fn strike(house: &House, expression: &str) -> Self {
        let words = house.data().join("tracer");
        let child = Command::new("strace")
            .args([
                "-f",
                "-p",
                &house.id().to_string(),
                "-e",
                "trace=fdatasync,pwrite64",
                "-e",
                expression,
            ])
            .args(["-o", "/dev/null"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&words).unwrap())
            .spawn()
            .expect("strace is there; `cargo xtask test` installs it");
        let mut fault = Fault(child);
        wait_until("strace has attached", || {
            let said = fs::read_to_string(&words).unwrap();
            assert!(fault.0.try_wait().unwrap().is_none(), "strace cannot trace: {said}");
            said.contains("attached")
        });
        fault
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// No room: nothing is stored, and as soon as there is room, work goes on.
#[test]
fn a_full_disk_is_told_and_survived() {
    let house = House::start();
    let job = json!({"jobType": "x"});
    let submit = || house.admin().post("/api/jobs").json(&job).send();
    submit().ok(202);
    let fault = Fault::strike(&house, "inject=pwrite64:error=ENOSPC");
    let refused = submit();
    refused.problem(503, "STORE_FULL");
    assert!(refused.header("retry-after").is_some());
    drop(fault);
    wait_for("there is room again", || Some(submit()).filter(|answer| answer.status == 202));
    assert!(!house.has_ended(), "{}", house.log());
    let queue = house.admin().get("/api/queues/x").send().ok(200);
    assert_eq!(queue["queued"], 2, "what was refused was not stored");
}

/// A commit that nobody knows of: whoever waits for it is told so, those after it that the store is away, and
/// the process ends and comes back with everything it acknowledged.
#[test]
fn a_commit_that_is_not_known_is_told_as_that() {
    let house = House::start();
    let customer = house.admin();
    let job = |key: &str| json!({"jobType": "x", "idempotencyKey": key});
    customer.post("/api/jobs").json(&job("before")).send().ok(202);
    let _fault = Fault::strike(&house, "inject=fdatasync:error=EIO");
    let told: Vec<(String, Answer)> = thread::scope(|scope| {
        let crowd: Vec<_> = (0..8)
            .map(|_| {
                let key = fresh("key");
                scope.spawn({
                    let (customer, job) = (&customer, &job);
                    move || {
                        let mut heard = Vec::new();
                        let Ok(mut connection) = customer.connect() else { return heard };
                        // The same again until nobody answers any more.
                        while let Ok(answer) =
                            connection.send(customer.post("/api/jobs").json(&job(&key)))
                        {
                            heard.push((key.clone(), answer));
                        }
                        heard
                    }
                })
            })
            .collect();
        crowd.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    wait_until("the process ends", || house.has_ended());
    let mut codes: BTreeMap<String, u32> = BTreeMap::new();
    for (_, answer) in &told {
        let problem = answer.json();
        let code = problem["errorCode"].as_str().unwrap_or("none").to_owned();
        answer.problem(503, &code);
        assert!(answer.header("retry-after").is_some());
        if code == "OUTCOME_UNKNOWN" {
            assert!(problem["jobId"].is_string(), "the id it would have: {problem}");
        }
        *codes.entry(code).or_default() += 1;
    }
    let heard: Vec<&String> = codes.keys().collect();
    assert_eq!(heard, ["OUTCOME_UNKNOWN", "STORE_UNAVAILABLE"], "{codes:?}");
    house.restart();
    let again: Value = customer.post("/api/jobs").json(&job("before")).send().ok(202);
    assert_eq!(again["duplicate"], true, "what was acknowledged is there");
    for (key, answer) in &told {
        let promised = answer.json()["jobId"].clone();
        let again = customer.post("/api/jobs").json(&job(key)).send().ok(202);
        if again["duplicate"] == true && promised.is_string() {
            assert_eq!(again["jobId"], promised, "the id it would have is the id it has");
        }
    }
}
