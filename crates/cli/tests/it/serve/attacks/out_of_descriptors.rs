//! A process without free descriptors: jobs wait until there are some, and lose nothing.

use crate::{
    command,
    serve::{Connection, Customer, TestServer, wait_until},
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::{Child, Stdio},
    sync::Arc,
    thread,
};
use tempfile::TempDir;

/// The log message of a handler that cannot start.
const LACKS: &str = "this machine lacks";

/// Keeps a process from opening files until this is dropped.
struct Starved {
    process: Pid,
    before: Rlimit,
}

impl Starved {
    fn new(process: u32) -> Self {
        // A new file gets the lowest free number, which must be below the limit, and these three
        // are taken.
        const STANDARD: Option<u64> = Some(3);
        let process = Pid::from_raw(process.cast_signed()).unwrap();
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: STANDARD, maximum };
        let before = prlimit(Some(process), Resource::Nofile, limit).unwrap();
        Starved { process, before }
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        let _ = prlimit(Some(self.process), Resource::Nofile, self.before);
    }
}

/// Submits a job over an open connection.
fn submit(connection: &mut Connection, customer: &Customer, job_type: &str) -> String {
    let job = json!({"jobType": job_type, "maxAttempts": 1, "payload": 1});
    let ask = customer.owner.post("/api/jobs").json(&job);
    connection.send(ask).unwrap().ok(202)["jobId"].as_str().unwrap().into()
}

/// The job completed at its first attempt, and nothing failed on the way.
fn check_unharmed(customer: &Customer, id: &str) {
    let status = customer.wait_for_status(id, "Completed");
    assert_eq!(status["attempt"], 1, "{status}");
    let history = customer.history(id);
    assert!(history.iter().all(|row| row["errorCode"].is_null()), "{history:?}");
}

#[test]
fn exec_starts_short_of_descriptors_cost_no_attempt() {
    let test_server =
        Arc::new(TestServer::with("[types.starved]\nhandler = { exec = [\"true\"] }"));
    let customer = Customer::of(&test_server);
    // One job first, so that the runner is known to run.
    check_unharmed(&customer, &customer.queued("starved"));
    let mut connection = customer.owner.connect().unwrap();
    connection.send(customer.owner.get("/healthz")).unwrap().ok(200);
    let starved = Starved::new(test_server.id());
    let jobs: Vec<String> = (0..3).map(|_| submit(&mut connection, &customer, "starved")).collect();
    let is_logged = |text: &str| test_server.log().contains(text);
    wait_until("the programs cannot be started", || is_logged(LACKS));
    let status = connection.send(customer.owner.get(&format!("/api/jobs/{}/status", jobs[0])));
    let status = status.unwrap().ok(200);
    assert!(["Queued", "Running"].contains(&status["status"].as_str().unwrap()), "{status}");
    drop(starved);
    jobs.iter().for_each(|id| check_unharmed(&customer, id));
}

#[test]
fn push_connects_short_of_descriptors_cost_no_attempt() {
    check_starved_push("127.0.0.1");
}

/// The system's resolver does not report that it had no descriptor.
#[test]
fn push_lookups_short_of_descriptors_cost_no_attempt() {
    check_starved_push("localhost");
}

#[track_caller]
fn check_starved_push(host: &str) {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("{host}:{}", receiver.local_addr().unwrap().port());
    let settings = format!(
        "[outbound]\nallow = [\"{address}\"]\n[types.pushed]\nhandler = {{ http = \"http://{address}/\" }}"
    );
    let test_server = Arc::new(TestServer::with(&settings));
    let customer = Customer::of(&test_server);
    let answering = thread::spawn(move || (0..2).for_each(|_| take_push(&receiver)));
    check_unharmed(&customer, &customer.queued("pushed"));
    let mut connection = customer.owner.connect().unwrap();
    connection.send(customer.owner.get("/healthz")).unwrap().ok(200);
    let starved = Starved::new(test_server.id());
    let id = submit(&mut connection, &customer, "pushed");
    wait_until("it cannot be pushed", || test_server.log().contains(LACKS));
    drop(starved);
    check_unharmed(&customer, &id);
    answering.join().unwrap();
}

/// Accepts one pushed job, and closes the connection.
fn take_push(receiver: &TcpListener) {
    let (mut stream, _) = receiver.accept().unwrap();
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&seen).contains("\"payload\"") {
        let length = stream.read(&mut piece).unwrap();
        assert_ne!(length, 0);
        seen.extend_from_slice(&piece[..length]);
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
}

/// `consign work --exec`, killed on drop.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::KILL);
        drop(self.0.wait());
    }
}

#[test]
fn a_worker_elsewhere_gives_back_what_it_cannot_start() {
    let customer = Customer::new();
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let key = customer
        .test_server
        .key(json!({"name": "w", "tenant": customer.tenant, "scopes": ["work"]}));
    let url = format!("http://{}", customer.owner.address());
    let job_type = crate::serve::customer::fresh("far");
    let words = ["work", "--type", &job_type, "--url", &url, "--slots", "1", "--exec", "true"];
    let child = command(folder.path(), &words)
        .env("CONSIGN_KEY", &key)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let worker = Worker(child);
    let read = || fs::read_to_string(&log).unwrap();
    // One job first; after it, the worker opens nothing more than a program needs.
    check_unharmed(&customer, &customer.queued(&job_type));
    let starved = Starved::new(worker.0.id());
    let job = json!({"jobType": job_type, "maxAttempts": 1, "payload": 1});
    let id = customer.submit(job);
    wait_until("it cannot be started", || read().contains(LACKS));
    let history =
        |message: &str| customer.history(&id).iter().any(|row: &Value| row["message"] == message);
    wait_until("it is given back", || history("the worker could not start it"));
    drop(starved);
    check_unharmed(&customer, &id);
}

/// The open files of a process, by number.
fn links(process: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap().filter_map(Result::ok);
    let link = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        Some((entry.file_name().into_string().ok()?, link.to_str()?.to_owned()))
    };
    entries.filter_map(link).collect()
}

/// A child has the pipes to the server and no other descriptor of the server.
#[test]
fn children_get_no_descriptors_of_ours() {
    const CLOSED_ON_EXEC: u32 = 0o2_000_000;
    let settings =
        "[types.looks]\nhandler = { exec = [\"sh\", \"-c\", \"ls -l /proc/self/fd > fds.txt\"] }";
    let test_server = Arc::new(TestServer::with(settings));
    let customer = Customer::of(&test_server);
    // Connections and a stream are open meanwhile.
    let open: Vec<Connection> = (0..20).map(|_| customer.owner.connect().unwrap()).collect();
    let watched = customer.queued("watched");
    let mut stream = customer.owner.get(&format!("/api/jobs/{watched}/events")).events();
    stream.next().unwrap();
    let id = customer.queued("looks");
    customer.wait_for_status(&id, "Completed");
    // Descriptors that the developer's shell left open for all processes are no secret.
    let inherited: Vec<String> = links("self").into_iter().map(|(_, link)| link).collect();
    let fds = fs::read_to_string(test_server.data().parent().unwrap().join("fds.txt")).unwrap();
    let seen: Vec<&str> =
        fds.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, link)| link).collect();
    let lawful = |link: &str| {
        link.starts_with("pipe:")
            || link.ends_with("/fds.txt")
            || link.contains("/proc/")
            || inherited.iter().any(|one| one == link)
    };
    assert!(seen.len() >= 3 && seen.iter().all(|link| lawful(link)), "{fds}");
    // The same for those that were not open when this child was started.
    let server = test_server.id().to_string();
    for (number, link) in links(&server) {
        let info =
            fs::read_to_string(format!("/proc/{server}/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let Some(flags) = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()) else {
            continue; // closed in between
        };
        let standard = ["0", "1", "2"].contains(&number.as_str());
        let stays = flags & CLOSED_ON_EXEC == 0;
        assert!(standard || !stays || inherited.contains(&link), "{number}: {link}");
    }
    drop(open);
}
