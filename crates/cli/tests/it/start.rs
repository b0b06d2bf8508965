//! `consign serve` from outside: how it starts, what it refuses, and how it ends.

use super::{command, consign, demo::terminal};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::process::{Pid, Signal, kill_process};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use serde_json::Value;
use std::{
    fs,
    io::{
        self, BufRead, BufReader,
        ErrorKind::{TimedOut, WouldBlock},
        Read, Write,
    },
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, ChildStderr, Stdio},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

/// A running server; its log is read line by line.
pub(super) struct Serving {
    child: Child,
    log: BufReader<ChildStderr>,
    address: SocketAddr,
}

impl Serving {
    pub(super) fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    fn start_with(folder: &Path, words: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0"], words].concat();
        let mut child = command(folder, &words).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut serving = Serving { child, log, address: nowhere };
        let listening = serving.await_line("listening");
        serving.address = listening["address"].as_str().unwrap().parse().unwrap();
        serving
    }

    /// Reads the log up to this message. Every line of it is JSON.
    #[track_caller]
    fn await_line(&mut self, message: &str) -> Value {
        let mut log = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "no {message:?} in:\n{log}");
            let parsed: Value = serde_json::from_str(&line).expect(&line);
            if parsed["message"].as_str().unwrap().starts_with(message) {
                return parsed;
            }
            log += &line;
        }
    }

    fn ask_to_end(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    #[track_caller]
    pub(super) fn end(mut self) {
        self.ask_to_end();
        self.await_line("ended");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }

    /// Sends a request and returns the whole answer.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// A test that fails leaves no process behind.
impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// The head and the body of a submit request.
fn submit_request(key: &str) -> (String, String) {
    submit_request_with(key, r#"{"jobType": "email", "payload": {}}"#)
}

fn submit_request_with(key: &str, body: &str) -> (String, String) {
    let body = body.to_owned();
    let head = format!(
        "POST /api/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (head, body)
}

fn admin_key(folder: &Path) -> String {
    fs::read_to_string(folder.join("consign-data/admin.key")).unwrap().trim().to_owned()
}

#[test]
fn the_first_start_creates_the_store_and_a_valid_admin_key() {
    let folder = TempDir::new().unwrap();
    let serving = Serving::start(folder.path());
    assert!(serving.ask(HEALTH).starts_with("HTTP/1.1 200 "), "{}", serving.ask(HEALTH));
    let path = folder.path().join("consign-data/admin.key");
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = admin_key(folder.path());
    let (head, body) = submit_request(&key);
    let answer = serving.ask(&format!("{head}{body}"));
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    let (head, body) = submit_request("csk_nonsense");
    let answer = serving.ask(&format!("{head}{body}"));
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    serving.end();
    let again = Serving::start(folder.path());
    assert_eq!(admin_key(folder.path()), key, "it stays the same");
    again.end();
}

#[test]
fn a_request_in_progress_is_answered_before_the_server_ends() {
    let folder = TempDir::new().unwrap();
    let mut serving = Serving::start(folder.path());
    let (head, body) = submit_request(&admin_key(folder.path()));
    let mut stream = under_way(&serving, &head);
    serving.ask_to_end();
    serving.await_line("asked to end");
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    serving.await_line("ended");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(serving.address).is_err(), "no new connection is accepted");
}

#[test]
fn a_second_stop_signal_ends_the_server_at_once() {
    let folder = TempDir::new().unwrap();
    let mut serving = Serving::start(folder.path());
    let (head, _) = submit_request(&admin_key(folder.path()));
    let stream = under_way(&serving, &head);
    serving.ask_to_end();
    serving.await_line("asked to end");
    serving.ask_to_end();
    serving.await_line("asked to end again");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    drop(stream); // only now: an earlier drop would end the request
}

/// A request whose head has been read: the server asks for its body.
fn under_way(serving: &Serving, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(serving.address).unwrap();
    let head = head.replace("Host: x\r\n", "Host: x\r\nExpect: 100-continue\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut continue_line = [0; 25];
    stream.read_exact(&mut continue_line).unwrap();
    assert_eq!(&continue_line, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[test]
fn a_public_address_without_tls_is_refused_and_writes_nothing() {
    let folder = TempDir::new().unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let result = consign(folder.path(), &["serve", "--listen", address]);
        let both = result.err.contains("[tls]") && result.err.contains("behind_proxy = true");
        assert!(!result.success && both, "{}", result.err);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn serve_reports_why_it_cannot_start() {
    let folder = TempDir::new().unwrap();
    let serving = Serving::start(folder.path());
    let second = consign(folder.path(), &["serve", "--listen", "127.0.0.1:0"]);
    let holder = format!("is in use by process {}", serving.child.id());
    assert!(!second.success && second.err.contains(&holder), "{}", second.err);
    let used_address = serving.address.to_string();
    let other = ["serve", "--listen", &used_address, "--store", "sqlite:other.db"];
    let third = consign(folder.path(), &other);
    let expected = format!("the server cannot listen at {used_address}");
    assert!(!third.success && third.err.contains(&expected), "{}", third.err);
    assert!(!folder.path().join("other.db").exists());
    serving.end();
}

#[test]
fn types_of_the_file_are_declared_and_noted_once() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("consign.toml"), "[types.email]\nmax_attempts = 5").unwrap();
    for _ in 0..2 {
        let serving = Serving::start(folder.path());
        let key = admin_key(folder.path());
        let request = format!(
            "GET /api/types HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\r\n"
        );
        let answer = serving.ask(&request);
        assert!(
            answer.contains(r#""jobType":"email","declared":true,"owner":"file","changedByApi":false,"maxAttempts":5"#),
            "{answer}"
        );
        serving.end();
    }
    let result = consign(folder.path(), &["audit", "verify"]);
    assert!(
        result.out.contains(": 2 entries, each as it was written"),
        "{}{}",
        result.out,
        result.err
    );
}

#[test]
fn serve_applies_the_settings_of_its_configuration_file() {
    let folder = TempDir::new().unwrap();
    let settings = "strict_types = true\npayload_max = \"1B\"\n[types.sms]";
    fs::write(folder.path().join("consign.toml"), settings).unwrap();
    let serving = Serving::start(folder.path());
    let key = admin_key(folder.path());
    for (body, status, code) in [
        (r#"{"jobType": "sms", "payload": 1}"#, 202, "jobId"),
        (r#"{"jobType": "email", "payload": 1}"#, 422, "UNKNOWN_JOB_TYPE"),
        (r#"{"jobType": "sms", "payload": 12}"#, 413, "errorCode"),
    ] {
        let (head, body) = submit_request_with(&key, body);
        let answer = serving.ask(&format!("{head}{body}"));
        let is_expected =
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(code);
        assert!(is_expected, "{body}: {answer}");
    }
    serving.end();
}

/// A server with TLS and these further settings, and a client that trusts its certificate.
fn start_with_tls(folder: &Path, more: &str) -> (Serving, ClientConnection) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
    fs::write(folder.join("key.pem"), signing_key.serialize_pem()).unwrap();
    fs::set_permissions(folder.join("key.pem"), PermissionsExt::from_mode(0o600)).unwrap();
    let settings = format!("[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n{more}");
    fs::write(folder.join("consign.toml"), settings).unwrap();
    let serving = Serving::start(folder);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    (serving, ClientConnection::new(Arc::new(config), name).unwrap())
}

#[test]
fn a_client_silent_after_the_tls_handshake_is_disconnected() {
    let folder = TempDir::new().unwrap();
    let (serving, mut client) = start_with_tls(folder.path(), "[limits]\nheader_timeout = \"1s\"");
    let mut socket = TcpStream::connect(serving.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    while client.is_handshaking() {
        client.complete_io(&mut socket).unwrap();
    }
    // Any form of cut counts, but the connection must not stay open until the test times out.
    let result = Stream::new(&mut client, &mut socket).read(&mut [0; 1]);
    let timed_out = |error: &io::Error| matches!(error.kind(), WouldBlock | TimedOut);
    assert!(!result.as_ref().is_err_and(timed_out), "{result:?}");
    serving.end();
}

#[test]
fn tls_is_spoken_where_there_is_a_certificate() {
    let folder = TempDir::new().unwrap();
    let (serving, mut client) = start_with_tls(folder.path(), "");
    let mut socket = TcpStream::connect(serving.address).unwrap();
    let mut stream = Stream::new(&mut client, &mut socket);
    stream.write_all(HEALTH.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    drop(socket);
    serving.end();
}

#[test]
fn on_a_terminal_a_person_is_welcomed_with_a_request_to_paste() {
    let folder = TempDir::new().unwrap();
    let (mut test_end, child_end) = terminal();
    let words = ["serve", "--listen", "127.0.0.1:0"];
    let mut child =
        command(folder.path(), &words).env("NO_COLOR", "1").stderr(child_end).spawn().unwrap();
    let mut log = Vec::new();
    let mut is_asked_to_end = false;
    let mut chunk = [0; 4096];
    // When the last process closes a terminal, reading from it fails: that is the end.
    while let Ok(length @ 1..) = test_end.read(&mut chunk) {
        log.extend_from_slice(&chunk[..length]);
        if !is_asked_to_end && String::from_utf8_lossy(&log).contains("jobType") {
            is_asked_to_end = true;
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
    }
    let log = String::from_utf8(log).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{log}");
    assert!(log.contains("consign listens at http://127.0.0.1:"), "{log}");
    assert!(log.contains("Bearer $(cat 'consign-data/admin.key')"), "{log}");
    assert!(log.contains("INFO ended") && !log.contains('\x1b'), "{log}");
    assert!(!log.contains("csk_"), "no secret: {log}");
}
