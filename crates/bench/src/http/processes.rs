//! The two processes that are asked: `consign serve`, and the echo.

use super::client::{Ask, BenchConnection, Target};
use crate::{Bench, Error, Place, error::failed};
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

/// The real server over a new store. The run's place ends it, at the latest.
pub(super) struct ServerProcess<'a> {
    pub(super) target: Target,
    pub(super) process: u32,
    place: &'a Place,
}

const START_MAX: Duration = Duration::from_secs(30);
const LOOKS_APART: Duration = Duration::from_millis(5);
const DOOR: &str = "the server";
const ECHO: &str = "the echo";

impl<'a> ServerProcess<'a> {
    pub(super) fn start(bench: &Bench<'a>, program: &Path) -> Result<Self, Error> {
        ServerProcess::start_with(bench, program, "")
    }

    /// Starts it with this text as its `consign.toml`.
    pub(super) fn start_with(
        bench: &Bench<'a>,
        program: &Path,
        settings: &str,
    ) -> Result<Self, Error> {
        let folder = bench.place.door()?;
        fs::write(folder.join("consign.toml"), settings).map_err(not_started(DOOR))?;
        let address = free_address().map_err(not_started(DOOR))?;
        let log = folder.join("log");
        let child = serve(program, &folder, address, &log).map_err(not_started(DOOR))?;
        let process = child.id();
        bench.place.adopt(child);
        let ready = bench.timed(until_ready(&folder, address));
        let (target, _) = ready.map_err(|_| not_at_work(DOOR, &end_of(&log)))?;
        Ok(ServerProcess { target, process, place: bench.place })
    }

    /// Ends it, and frees its disk.
    pub(super) fn stop(self) {
        self.place.end_children(|child| child.id() == self.process);
        // The next one needs it empty and says so if it is not.
        drop(self.place.door());
    }
}

/// As an operator starts it. Its log goes to a file, as it would.
fn serve(program: &Path, folder: &Path, address: SocketAddr, log: &Path) -> io::Result<Child> {
    let log = File::create(log)?;
    // A relative path would be looked for in the folder that the server is started in.
    Command::new(std::path::absolute(program)?)
        .args(["serve", "--store", "sqlite:store.db", "--listen", &address.to_string()])
        .current_dir(folder)
        .env_clear() // somebody's CONSIGN_… is not for measuring
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Asks until it is answered, with the key that the first start wrote.
async fn until_ready(folder: &Path, address: SocketAddr) -> Result<Target, Error> {
    let file = folder.join("admin.key");
    // Needs the store and the key.
    let first = Ask::get("the first question", "/api/queues");
    let asking = async {
        loop {
            let key = fs::read_to_string(&file).unwrap_or_default();
            if !key.is_empty()
                && let Ok(bearer) = bearer(key.trim())
                && let target = (Target { address, bearer })
                && let Ok(mut line) = BenchConnection::open(&target).await
                && line.ask(first.clone()).await.is_ok()
            {
                return target;
            }
            sleep(LOOKS_APART).await;
        }
    };
    tokio::time::timeout(START_MAX, asking).await.map_err(failed("waiting for the server"))
}

pub(super) fn bearer(key: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::from_str(&format!("Bearer {key}"))
}

fn end_of(log: &Path) -> String {
    const LINES: usize = 5;
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The echo, which the run's place ends. Its GET answers with a status of a server of ours, so that
/// both send the same number of bytes.
pub(super) fn start_echo(bench: &Bench<'_>, program: &Path) -> Result<Target, Error> {
    let door = ServerProcess::start(bench, program)?;
    let bearer = door.target.bearer.clone();
    let status = super::requests::a_status(bench, &door.target);
    door.stop();
    let address = echo(program, bench.place, &status?).map_err(not_started(ECHO))?;
    let nonsense = |_| not_at_work(ECHO, &format!("it said {address:?} instead of its address"));
    Ok(Target { address: address.trim().parse().map_err(nonsense)?, bearer })
}

fn echo(program: &Path, place: &Place, status: &str) -> io::Result<String> {
    let mut child = Command::new(program)
        .args(["bench", "--echo"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (words, told) = (child.stdin.as_mut(), child.stdout.take());
    let sent = words.map_or(Ok(()), |words| writeln!(words, "{status}"));
    let mut address = String::new();
    let said = sent.and_then(|()| match told {
        Some(told) => BufReader::new(told).read_line(&mut address),
        None => Ok(0),
    });
    // Whatever was said: the child is the place's from now on, its open stdin included.
    place.adopt(child);
    said.map(|_| address)
}

fn not_started(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| not_at_work(what, &error.to_string())
}

fn not_at_work(what: &str, said: &str) -> Error {
    Error::Unmeasurable(format!("{what} is not at work: {said}"))
}
