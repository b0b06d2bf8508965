//! A worker whose process is stopped past its lease, and resumed.

use crate::serve::{
    Client, Customer,
    customer::{fresh, lease_item},
    wait_for,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    env::current_exe,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::AtomicU16},
    thread,
    time::Duration,
};

/// The worker beats much more often than this.
const LEASE_SECONDS: u64 = 2;
const BEATS_APART: Duration = Duration::from_millis(200);

#[test]
fn a_worker_that_is_stopped_past_its_lease_has_lost_it_when_it_wakes() {
    let customer = Customer::new();
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"backoff": {"base": "10ms", "max": "10ms"}}));
    let id = customer.queued(&job_type);
    let (mut worker, mut worker_output) = start_worker(&customer, &job_type);
    assert_eq!(line(&mut worker_output), "claimed");
    // The worker runs, and its lease stays valid: for longer than the lease was, no other worker
    // gets the job.
    let beats: u64 = LEASE_SECONDS * 1_000 / BEATS_APART.as_millis() as u64 + 3;
    for _ in 0..beats {
        assert_eq!(line(&mut worker_output), "extended");
    }
    assert_eq!(customer.status(&id)["attempt"], 1);
    signal(&worker, Signal::STOP);
    let second = wait_for("the job is taken from it", || {
        customer.claim_with(&job_type, json!({"workerId": "second", "waitSeconds": 5})).pop()
    });
    assert_eq!((second["jobId"].as_str(), &second["attempt"]), (Some(id.as_str()), &json!(2)));
    signal(&worker, Signal::CONT);
    let mut rest = worker_output.lines().map(Result::unwrap).filter(|said| said != "extended");
    assert_eq!(rest.next().as_deref(), Some("lost"), "its next heartbeat");
    assert_eq!(rest.next().as_deref(), Some("LEASE_LOST"), "its report");
    assert!(worker.wait().unwrap().success());
    assert_eq!(customer.settle(&second, json!({"outcome": "completed"}))["status"], "Completed");
    check_both_attempts(&customer.history(&id));
}

fn check_both_attempts(history: &[Value]) {
    let rows: Vec<_> = history
        .iter()
        .map(|row| {
            (row["to"].as_str().unwrap(), row["attempt"].as_u64().unwrap(), &row["workerId"])
        })
        .collect();
    let none = &Value::Null;
    let (first, second) = (&json!("first"), &json!("second"));
    let [queued, begun, lost, again, ended] = &rows[..] else { panic!("{history:#?}") };
    assert_eq!((queued.0, *begun), ("Queued", ("Running", 1, first)), "{history:#?}");
    assert_eq!((lost.0, lost.1), ("Queued", 1), "{history:#?}");
    assert_eq!(history[2]["errorCode"], "LEASE_EXPIRED", "{history:#?}");
    assert_eq!(*again, ("Running", 2, second), "{history:#?}");
    assert_eq!((ended.0, ended.1), ("Completed", 2), "{history:#?}");
    assert_eq!(queued.2, none, "{history:#?}");
}

fn signal(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).unwrap();
}

fn line(worker_output: &mut impl BufRead) -> String {
    let mut line = String::new();
    worker_output.read_line(&mut line).unwrap();
    line.trim().into()
}

/// This test binary, in the role of [`the_worker`].
fn start_worker(customer: &Customer, job_type: &str) -> (Child, impl BufRead) {
    let name = concat!(module_path!(), "::the_worker");
    let name = name.split_once("::").unwrap().1; // without the name of the crate
    let mut child = Command::new(current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1", "-q"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let key = customer.test_server.key(json!({
        "name": "worker", "tenant": customer.tenant, "scopes": ["work"],
    }));
    let port = customer.owner.address().port();
    writeln!(child.stdin.take().unwrap(), "{port} {key} {job_type}").unwrap();
    let worker_output = BufReader::new(child.stderr.take().unwrap());
    (child, worker_output)
}

#[test]
#[ignore = "the process that the test above starts"]
fn the_worker() {
    let mut input = String::new();
    std::io::stdin().read_line(&mut input).unwrap();
    let [port, key, job_type] = input.split_whitespace().collect::<Vec<_>>()[..] else { return };
    let client = Client::new(Arc::new(AtomicU16::new(port.parse().unwrap()))).with_key(key);
    let claim_request = json!({
        "workerId": "first", "claimId": "first", "jobTypes": [job_type],
        "waitSeconds": 30, "leaseSeconds": LEASE_SECONDS,
    });
    let claimed = client.post("/api/work/claim").json(&claim_request).send().ok(200);
    let job = &claimed["jobs"][0];
    eprintln!("claimed");
    loop {
        let leases = json!({"workerId": "first", "leases": [lease_item(job, json!({}))]});
        let answer = client.post("/api/work/heartbeat").json(&leases).send().ok(200);
        let state = answer["leases"][0]["state"].as_str().unwrap().to_owned();
        eprintln!("{state}");
        if state != "extended" {
            break;
        }
        thread::sleep(BEATS_APART);
    }
    let items = json!({"items": [lease_item(job, json!({"outcome": "completed"}))]});
    let answer = client.post("/api/work/settle").json(&items).send().ok(200);
    eprintln!("{}", answer["items"][0]["problem"]["errorCode"].as_str().unwrap());
}
