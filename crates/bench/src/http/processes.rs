//! The two server processes: `consign serve`, and the echo.

use super::client::{BenchConnection, BenchTarget, HttpRequest};
use crate::{Bench, Error, RunFolder, error::failed};
use hyper::header::{HeaderValue, InvalidHeaderValue};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::time::sleep;

/// The real server over a new store. The run folder ends it, at the latest.
pub(super) struct ServerProcess<'a> {
    pub(super) target: BenchTarget,
    pub(super) process: u32,
    run_folder: &'a RunFolder,
}

const START_MAX: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const SERVER: &str = "the server";
const ECHO: &str = "the echo";

impl<'a> ServerProcess<'a> {
    /// Starts it with this text as its `consign.toml`.
    pub(super) fn start(bench: &Bench<'a>, program: &Path, settings: &str) -> Result<Self, Error> {
        let folder = bench.run_folder.server_folder()?;
        fs::write(folder.join("consign.toml"), settings).map_err(not_started(SERVER))?;
        let address = free_address().map_err(not_started(SERVER))?;
        let log = folder.join("log");
        let child = serve(program, &folder, address, &log).map_err(not_started(SERVER))?;
        let process = child.id();
        bench.run_folder.add_child(child);
        let ready = bench.timed(wait_until_ready(&folder, address));
        let (target, _) = ready.map_err(|_| not_usable(SERVER, &last_lines_of(&log)))?;
        Ok(ServerProcess { target, process, run_folder: bench.run_folder })
    }

    /// Ends it, and frees its disk.
    pub(super) fn stop(self) {
        self.run_folder.end_children(|child| child.id() == self.process);
        // The next server needs an empty folder and reports if it is not.
        drop(self.run_folder.server_folder());
    }
}

/// Starts it as an operator does, with its log in a file.
fn serve(program: &Path, folder: &Path, address: SocketAddr, log: &Path) -> io::Result<Child> {
    let log = File::create(log)?;
    // A relative path would be resolved in the folder that the server is started in.
    Command::new(std::path::absolute(program)?)
        .args(["serve", "--store", "sqlite:store.db", "--listen", &address.to_string()])
        .current_dir(folder)
        .env_clear() // the user's CONSIGN_… must not change the measurement
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Asks until the server answers, with the key that the first start wrote.
async fn wait_until_ready(folder: &Path, address: SocketAddr) -> Result<BenchTarget, Error> {
    let file = folder.join("admin.key");
    // A request that needs the store and the key.
    let first = HttpRequest::get("the first question", "/api/queues");
    let polling = async {
        loop {
            let key = fs::read_to_string(&file).unwrap_or_default();
            if !key.is_empty()
                && let Ok(bearer) = bearer(key.trim())
                && let target = (BenchTarget { address, bearer })
                && let Ok(mut connection) = BenchConnection::open(&target).await
                && connection.send(first.clone()).await.is_ok()
            {
                return target;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(START_MAX, polling).await.map_err(failed("waiting for the server"))
}

pub(super) fn bearer(key: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::from_str(&format!("Bearer {key}"))
}

fn last_lines_of(log: &Path) -> String {
    const LINES: usize = 5;
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The echo, which the run folder ends. Its GET answers with a status of the real server, so that
/// both send the same number of bytes.
pub(super) fn start_echo(bench: &Bench<'_>, program: &Path) -> Result<BenchTarget, Error> {
    let server = ServerProcess::start(bench, program, "")?;
    let bearer = server.target.bearer.clone();
    let status = super::requests::read_one_status(bench, &server.target);
    server.stop();
    let address = echo(program, bench.run_folder, &status?).map_err(not_started(ECHO))?;
    let no_address =
        |_| not_usable(ECHO, &format!("it printed {address:?} instead of its address"));
    Ok(BenchTarget { address: address.trim().parse().map_err(no_address)?, bearer })
}

fn echo(program: &Path, run_folder: &RunFolder, status: &str) -> io::Result<String> {
    let mut child = Command::new(program)
        .args(["bench", "--echo"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (stdin, stdout) = (child.stdin.as_mut(), child.stdout.take());
    let sent = stdin.map_or(Ok(()), |stdin| writeln!(stdin, "{status}"));
    let mut address = String::new();
    let read = sent.and_then(|()| match stdout {
        Some(stdout) => BufReader::new(stdout).read_line(&mut address),
        None => Ok(0),
    });
    // In any case, the run folder owns the child from now on, its open stdin included.
    run_folder.add_child(child);
    read.map(|_| address)
}

fn not_started(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| not_usable(what, &error.to_string())
}

fn not_usable(what: &str, detail: &str) -> Error {
    Error::Unmeasurable(format!("{what} did not start: {detail}"))
}
