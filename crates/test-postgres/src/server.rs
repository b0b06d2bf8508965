//! A PostgreSQL of one's own.

use crate::{
    Options,
    admin::{self, Beginning},
    folder, port,
    programs::{Account, postgres_program},
    supervisor::Supervisor,
    tls,
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// How often another port is tried, when somebody was faster.
const PORT_TRIES: usize = 10;

/// What the log says of that. Refused connections are told in there too, so not any FATAL will do.
const PORT_IS_TAKEN: &str = "could not create any TCP/IP sockets";

/// A server in a hurry sends its children away at once, and recovers at the next start.
const IMMEDIATE_STOP: &str = "QUIT";

/// How often, and how far apart, it is asked whether backends that were ended are gone. Not by the server's own
/// function for that: it looks ten times a second, at one after another.
const GONE_TRIES: usize = 1_000;
const GONE_TRIES_APART: Duration = Duration::from_millis(10);

/// What we need of the database: a role as users have it, and a database of its own.
const SETTING_UP: [&str; 2] =
    ["create role consign login", "create database consign owner consign"];

/// A private PostgreSQL, which ends with this value or with the process.
pub struct Server {
    supervisor: Supervisor,
    settings: Vec<String>,
    port: u16,
    pid: Mutex<u32>,
}

impl Server {
    /// The server that all tests of this process share: fast, in memory, started when first asked for.
    pub fn shared() -> &'static Server {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Server::start(Options::fast()))
    }

    /// Starts a server of one's own.
    pub fn start(options: Options) -> Server {
        let folder = if options.in_memory { folder::in_memory() } else { folder::on_disk() };
        let supervisor = Supervisor::over(folder, Account::of_postgres(), IMMEDIATE_STOP);
        init(&supervisor);
        let papers = if options.tls { tls::make_papers(&supervisor) } else { Vec::new() };
        let settings = [papers, options.lines()].concat();
        let (port, pid) = start_on_a_free_port(&supervisor, &settings);
        let server = Server { supervisor, settings, port, pid: Mutex::new(pid) };
        for statement in SETTING_UP {
            server.ask(statement);
        }
        server
    }

    /// Where a user finds it: as `consign`, who is no superuser and owns the database `consign`.
    pub fn address(&self) -> String {
        format!("postgres://consign@127.0.0.1:{}/consign", self.port)
    }

    /// The database `consign` as a superuser.
    pub fn superuser_address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/consign", self.port)
    }

    /// The same as [`address`](Server::address), by the socket in the server's folder.
    pub fn unix_address(&self) -> String {
        folder::socket_address(self.folder(), "consign", self.port, "consign")
    }

    /// Its port on 127.0.0.1, which stays the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The postmaster's process, which is another one after a restart.
    pub fn pid(&self) -> u32 {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder in which everything of this server lies.
    pub fn folder(&self) -> &Path {
        self.supervisor.folder()
    }

    /// The authority that vouches for the server, if it was started with [`Options::tls`].
    pub fn tls_ca(&self) -> Option<PathBuf> {
        let authority = self.folder().join(tls::AUTHORITY);
        authority.exists().then_some(authority)
    }

    /// What the server has written to its log.
    pub fn log(&self) -> String {
        self.supervisor.log()
    }

    /// The name of a schema that nobody else uses.
    pub fn fresh_schema_name(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Stops it as a crash would: what was not committed is lost, and connections break.
    pub fn stop_immediately(&self) {
        self.supervisor.stop();
    }

    /// Starts it again on the same port and returns when it is ready; one that still runs is stopped first.
    pub fn restart(&self) {
        let mut pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        self.supervisor.stop();
        let started = start_on(&self.supervisor, &self.settings, self.port);
        *pid = started.unwrap_or_else(|| panic!("somebody took port {}", self.port));
    }

    /// Ends connections of users, at most so many and chosen at random, and says how many. They are gone
    /// when this returns.
    pub fn terminate_backends(&self, at_most: usize) -> usize {
        let statement = format!(
            "select pid from (select pid from pg_stat_activity where usename = 'consign' \
             order by random() limit {at_most}) as backend where pg_terminate_backend(pid)"
        );
        let ended = self.ask(&statement);
        self.wait_until_gone(&ended);
        ended.len()
    }

    fn wait_until_gone(&self, pids: &[String]) {
        let pids = pids.join(",");
        let left = format!("select pid from pg_stat_activity where pid = any('{{{pids}}}')");
        for _ in 0..GONE_TRIES {
            if self.ask(&left).is_empty() {
                return;
            }
            thread::sleep(GONE_TRIES_APART);
        }
        panic!("backends that were ended are still there:\n{}", self.log());
    }

    fn ask(&self, statement: &str) -> Vec<String> {
        let answer = admin::ask(&admin_address(&self.supervisor, self.port), statement);
        answer.unwrap_or_else(|error| panic!("{statement}: {error}\n{}", self.log()))
    }
}

fn admin_address(supervisor: &Supervisor, port: u16) -> String {
    folder::socket_address(supervisor.folder(), "postgres", port, "postgres")
}

fn data(supervisor: &Supervisor) -> String {
    supervisor.folder().join("data").display().to_string()
}

fn init(supervisor: &Supervisor) {
    const ARGUMENTS: [&str; 6] =
        ["--no-sync", "--auth=trust", "--locale=C.UTF-8", "-EUTF8", "-Upostgres", "-D"];
    let arguments = ARGUMENTS.map(str::to_owned).into_iter().chain([data(supervisor)]);
    let went_well = supervisor.run(&postgres_program("initdb"), &arguments.collect::<Vec<_>>());
    assert!(went_well, "initdb failed:\n{}", supervisor.log());
}

fn start_on_a_free_port(supervisor: &Supervisor, settings: &[String]) -> (u16, u32) {
    for _ in 0..PORT_TRIES {
        let port = port::free();
        if let Some(pid) = start_on(supervisor, settings, port) {
            return (port, pid);
        }
    }
    panic!("PostgreSQL found no port in {PORT_TRIES} tries:\n{}", supervisor.log());
}

/// Starts the postmaster and waits until it is ready. `None`: somebody else has the port.
fn start_on(supervisor: &Supervisor, settings: &[String], port: u16) -> Option<u32> {
    let said_before = supervisor.log().len();
    let program = postgres_program("postgres");
    let pid = supervisor.start(&program, &arguments(supervisor, settings, port));
    let failed = || supervisor.said_since(said_before, PORT_IS_TAKEN);
    match admin::wait_until_ready(&admin_address(supervisor, port), failed) {
        Beginning::Ready => Some(pid),
        Beginning::Failed => {
            supervisor.stop();
            None
        }
        Beginning::TimedOut => panic!("PostgreSQL does not get ready:\n{}", supervisor.log()),
    }
}

fn arguments(supervisor: &Supervisor, settings: &[String], port: u16) -> Vec<String> {
    let folder = supervisor.folder().display();
    let fixed = ["-D".to_owned(), data(supervisor), format!("-p{port}"), format!("-k{folder}")];
    let settings = settings.iter().flat_map(|line| ["-c".to_owned(), line.clone()]);
    fixed.into_iter().chain(settings).collect()
}
