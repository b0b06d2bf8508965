//! Clients that only cost memory and time. A normal client is served meanwhile.

use super::{Client, Connection, TestServer, wait_until};
use platform::SystemClock;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use std::{
    fs,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};
use store::Clock;

/// Short, so that the server closes silent connections during the test.
const SETTINGS: &str = r#"
[limits]
header_timeout = "2s"
body_timeout = "2s"
write_timeout = "2s"
body_bytes = "1MiB"
page_bytes = "2MiB"
bodies_bytes = "16MiB"
"#;

/// How much more memory the server may use than when it was idle: 2,000 connections with a buffer
/// each, the bodies that are allowed at the same time, and what the allocator keeps.
const MORE_MIB_MAX: u64 = 120;
/// The 99th percentile of a normal client's requests, on a machine that does other work.
const P99_MAX: Duration = Duration::from_secs(3);

/// Only one of these tests at a time: each loads the whole machine.
pub(super) fn exclusive() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::new(());
    let guard = EXCLUSIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).unwrap();
    guard
}

/// Runs `attack` while a normal client works. Checks that memory and that client stay within
/// bounds, and that nothing of the attack remains.
#[track_caller]
fn check_under_attack(attack: impl FnOnce(&TestServer, &Client)) {
    let _exclusive = exclusive();
    let test_server = TestServer::with(SETTINGS);
    let client = test_server.admin();
    for _ in 0..50 {
        normal_work(&client);
    }
    let (quiet_mib, quiet_files) = (memory_mib(test_server.id()), files(test_server.id()));
    let (over, peak_mib) = (AtomicBool::new(false), AtomicU64::new(0));
    let times = thread::scope(|scope| {
        let end = SetFlagOnDrop(&over); // also when the attack's own checks fail
        let working = scope.spawn(|| work_until(&over, &client));
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                peak_mib.fetch_max(memory_mib(test_server.id()), Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
            }
        });
        attack(&test_server, &client);
        wait_until("the connections are gone", || files(test_server.id()) <= quiet_files + 5);
        drop(end);
        working.join().unwrap()
    });
    let (more, p99) = (peak_mib.into_inner().saturating_sub(quiet_mib), p99(times));
    assert!(more <= MORE_MIB_MAX, "{more} MiB more than {quiet_mib} MiB");
    assert!(p99 <= P99_MAX, "{p99:?}");
    assert!(!test_server.log().contains("panicked"), "{}", test_server.log());
}

/// Sets the flag on drop.
struct SetFlagOnDrop<'a>(&'a AtomicBool);

impl Drop for SetFlagOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Submits a job and reads it.
fn normal_work(client: &Client) {
    let job = json!({"jobType": "normal", "payload": {"a": 1}});
    let taken = client.post("/api/jobs").json(&job).send().ok(202);
    let status = client.get(taken["statusUrl"].as_str().unwrap()).send().ok(200);
    assert_eq!(status["status"], "Queued");
}

fn work_until(over: &AtomicBool, client: &Client) -> Vec<Duration> {
    let (clock, mut times) = (SystemClock::new(), Vec::new());
    while !over.load(Ordering::SeqCst) {
        let began = clock.read().monotonic;
        normal_work(client);
        times.push(clock.read().monotonic - began);
        thread::sleep(Duration::from_millis(10)); // a client, not an attack
    }
    times
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

pub(super) fn memory_mib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_024
}

pub(super) fn files(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

fn many(client: &Client, count: usize) -> Vec<Connection> {
    (0..count).map(|_| client.connect().unwrap()).collect()
}

#[test]
fn half_open_connections_and_headers_that_never_end() {
    check_under_attack(|test_server, client| {
        let silent = many(client, 1_000);
        let mut unfinished = many(client, 1_000);
        for (number, connection) in unfinished.iter_mut().enumerate() {
            // The first letters are also those of HTTP/2.
            let starts = ["GET /healthz HTTP/1.1\r\nhost: a\r\n", "P", "PRI * HT", "\r\n"];
            connection.write(starts[number % starts.len()].as_bytes()).unwrap();
        }
        // Some send a little all the time, which must not keep their connections open.
        let quiet = files(test_server.id()).saturating_sub(2_000);
        wait_until("they are sent home", || {
            for connection in unfinished.iter_mut().step_by(40) {
                drop(connection.write(b"x")); // fails when it is closed
            }
            files(test_server.id()) < quiet + 100
        });
        drop((silent, unfinished));
    });
}

#[test]
fn bodies_that_do_not_come() {
    check_under_attack(|_, client| {
        let mut slow = many(client, 500);
        let head = client.post("/api/jobs").header("content-type", "application/json");
        let head = head.header("content-length", "60000").bytes();
        for connection in &mut slow {
            connection.write(&head).unwrap();
            connection.write(br#"{"jobType":"#).unwrap();
        }
        for connection in &mut slow {
            connection.answer("POST").unwrap().problem(408, "REQUEST_TIMEOUT");
        }
    });
}

#[test]
fn bodies_that_are_huge() {
    check_under_attack(|_, client| {
        let json = client.post("/api/jobs").header("content-type", "application/json");
        for length in ["1048577", "1000000000000"] {
            let mut connection = client.connect().unwrap();
            connection.write(&json.clone().header("content-length", length).bytes()).unwrap();
            connection.answer("POST").unwrap().problem(413, "BODY_TOO_LARGE");
        }
        // No valid length: the protocol refuses it.
        let mut connection = client.connect().unwrap();
        let most = u64::MAX.to_string();
        connection.write(&json.clone().header("content-length", &most).bytes()).unwrap();
        assert!((400..500).contains(&connection.answer("POST").unwrap().status));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let mut connection = client.connect().unwrap();
                    let head = json.clone().header("transfer-encoding", "chunked").bytes();
                    connection.write(&head).unwrap();
                    let chunk = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
                    // 64 MiB, unless the server stops it.
                    let sent = (0..1_024).take_while(|_| connection.write(&chunk).is_ok()).count();
                    assert!(sent < 1_024, "it took everything");
                });
            }
        });
    });
}

#[test]
fn json_that_is_deep() {
    check_under_attack(|_, client| {
        for depth in [200, 10_000, 100_000] {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "1}")] {
                let (open, close) = (open.repeat(depth), close.repeat(depth));
                let payload = if open.starts_with('{') {
                    format!("{open}1{}", close.replace('1', ""))
                } else {
                    format!("{open}{close}")
                };
                let body = format!(r#"{{"jobType":"deep","payload":{payload}}}"#);
                let ask = client.post("/api/jobs").header("content-type", "application/json");
                let answer = ask.body(body).send();
                assert!([400, 413].contains(&answer.status), "{depth}: {}", answer.text());
                let filter =
                    format!("{}status%20eq%20'Queued'{}", "(".repeat(500), ")".repeat(500));
                let answer = client.get(&format!("/api/jobs?filter={filter}")).send();
                assert_eq!(answer.status, 400, "{}", answer.text());
            }
        }
    });
}

#[test]
fn clients_that_never_read_answers_are_cut_off() {
    check_under_attack(|test_server, client| {
        let mut unread = many(client, 60);
        let requests = client.get("/errors").bytes().repeat(3_000);
        thread::scope(|scope| {
            for connection in &mut unread {
                // The server cuts it off, or has buffers for everything that was asked.
                scope.spawn(|| drop(connection.write(&requests)));
            }
        });
        wait_until("they are cut off", || files(test_server.id()) < 40);
    });
}

#[test]
fn streams_that_are_abandoned() {
    check_under_attack(|test_server, client| {
        let job = json!({"jobType": "watched", "payload": "x".repeat(1_000)});
        let taken = client.post("/api/jobs").json(&job).send().ok(202);
        let path = format!("/api/jobs/{}/events", taken["jobId"].as_str().unwrap());
        for _ in 0..3 {
            let streams: Vec<Connection> = (0..1_000)
                .map(|_| {
                    let mut stream = client.connect().unwrap();
                    stream.write(&client.get(&path).bytes()).unwrap();
                    stream
                })
                .collect();
            wait_until("they are open", || files(test_server.id()) > 1_000);
            drop(streams);
        }
        // And clients that wait for a slow answer.
        let wait = client.get(&format!("{}?wait=60", taken["statusUrl"].as_str().unwrap()));
        for mut waiting in many(client, 500) {
            waiting.write(&wait.bytes()).unwrap();
        }
    });
}
