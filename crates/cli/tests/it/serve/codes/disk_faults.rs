//! A failing disk: the answers of the server, and that no acknowledged job is lost.

use crate::serve::{Answer, Customer, TestServer, customer::fresh, wait_for, wait_until};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    process::{Child, Command, Stdio},
    thread,
};

/// A payload that changed on disk: one letter of it is different.
pub(super) fn damaged(_: &Customer) -> Answer {
    let test_server = TestServer::start();
    let payload_text = "this payload will rot on its disk";
    let job = json!({"jobType": "rot", "payload": payload_text});
    let id = test_server.admin().post("/api/jobs").json(&job).send().ok(202)["jobId"].clone();
    assert!(test_server.stop().success(), "{}", test_server.log());
    let mut bytes = fs::read(test_server.store()).unwrap();
    let positions: Vec<usize> = bytes
        .windows(payload_text.len())
        .enumerate()
        .filter_map(|(at, window)| (window == payload_text.as_bytes()).then_some(at))
        .collect();
    assert!(!positions.is_empty(), "an orderly end moves everything into the file");
    positions.iter().for_each(|at| bytes[at + 5] ^= 1);
    fs::write(test_server.store(), bytes).unwrap();
    test_server.restart();
    test_server.admin().get(&format!("/api/jobs/{}", id.as_str().unwrap())).send()
}

/// `strace`, which makes system calls of the server fail.
struct Fault(Child);

impl Fault {
    fn inject(test_server: &TestServer, expression: &str) -> Self {
        let trace_log = test_server.data().join("tracer");
        let child = Command::new("strace")
            .args([
                "-f",
                "-p",
                &test_server.id().to_string(),
                "-e",
                "trace=fdatasync,pwrite64",
                "-e",
                expression,
            ])
            .args(["-o", "/dev/null"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&trace_log).unwrap())
            .spawn()
            .expect("strace is there; `cargo xtask test` installs it");
        let mut fault = Fault(child);
        wait_until("strace has attached", || {
            let trace = fs::read_to_string(&trace_log).unwrap();
            assert!(fault.0.try_wait().unwrap().is_none(), "strace cannot trace: {trace}");
            trace.contains("attached")
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

/// A full disk: the server stores nothing, and work goes on as soon as there is space.
#[test]
fn a_full_disk_refuses_submits_until_space_returns() {
    let test_server = TestServer::start();
    let job = json!({"jobType": "x"});
    let submit = || test_server.admin().post("/api/jobs").json(&job).send();
    submit().ok(202);
    let fault = Fault::inject(&test_server, "inject=pwrite64:error=ENOSPC");
    let refused = submit();
    refused.problem(503, "STORE_FULL");
    assert!(refused.header("retry-after").is_some());
    drop(fault);
    wait_for("there is room again", || Some(submit()).filter(|answer| answer.status == 202));
    assert!(!test_server.has_ended(), "{}", test_server.log());
    let queue = test_server.admin().get("/api/queues/x").send().ok(200);
    assert_eq!(queue["queued"], 2, "what was refused was not stored");
}

/// A commit of unknown result. The caller that waits for it is told so, and later callers that the
/// store is unavailable. The process ends, and comes back with everything it acknowledged.
#[test]
fn a_commit_of_unknown_result_is_reported_as_such() {
    let test_server = TestServer::start();
    let customer = test_server.admin();
    let job = |key: &str| json!({"jobType": "x", "idempotencyKey": key});
    customer.post("/api/jobs").json(&job("before")).send().ok(202);
    let _fault = Fault::inject(&test_server, "inject=fdatasync:error=EIO");
    let answers: Vec<(String, Answer)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let key = fresh("key");
                scope.spawn({
                    let (customer, job) = (&customer, &job);
                    move || {
                        let mut received = Vec::new();
                        let Ok(mut connection) = customer.connect() else { return received };
                        // The same again until the server stops answering.
                        while let Ok(answer) =
                            connection.send(customer.post("/api/jobs").json(&job(&key)))
                        {
                            received.push((key.clone(), answer));
                        }
                        received
                    }
                })
            })
            .collect();
        clients.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    wait_until("the process ends", || test_server.has_ended());
    let mut codes: BTreeMap<String, u32> = BTreeMap::new();
    for (_, answer) in &answers {
        let problem = answer.json();
        let code = problem["errorCode"].as_str().unwrap_or("none").to_owned();
        answer.problem(503, &code);
        assert!(answer.header("retry-after").is_some());
        if code == "OUTCOME_UNKNOWN" {
            assert!(problem["jobId"].is_string(), "the id it would have: {problem}");
        }
        *codes.entry(code).or_default() += 1;
    }
    let seen_codes: Vec<&String> = codes.keys().collect();
    assert_eq!(seen_codes, ["OUTCOME_UNKNOWN", "STORE_UNAVAILABLE"], "{codes:?}");
    test_server.restart();
    let again: Value = customer.post("/api/jobs").json(&job("before")).send().ok(202);
    assert_eq!(again["duplicate"], true, "what was acknowledged is there");
    for (key, answer) in &answers {
        let promised = answer.json()["jobId"].clone();
        let again = customer.post("/api/jobs").json(&job(key)).send().ok(202);
        if again["duplicate"] == true && promised.is_string() {
            assert_eq!(again["jobId"], promised, "the id it would have is the id it has");
        }
    }
}
