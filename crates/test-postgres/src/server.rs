//! A private PostgreSQL server.

use crate::{
    Options,
    admin::{self, StartResult},
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

/// How often another port is tried after another program took the first.
const PORT_TRIES: usize = 10;

/// The log message for a taken port. Refused connections are FATAL as well, so FATAL is not enough.
const PORT_IS_TAKEN: &str = "could not create any TCP/IP sockets";

/// The fast way out: the server ends its backends at once, and recovers at the next start.
const IMMEDIATE_STOP: &str = "QUIT";

/// How often, and at which interval, the test checks whether terminated backends are gone. The
/// server's own function for that polls ten times a second, one backend after another.
const GONE_POLLS_MAX: usize = 1_000;
const GONE_POLL_EVERY: Duration = Duration::from_millis(10);

/// The role and the database of a user: no superuser, and a database of its own.
const SETUP_STATEMENTS: [&str; 2] =
    ["create role consign login", "create database consign owner consign"];

/// A private PostgreSQL server, which ends when dropped or with the process.
pub struct Server {
    supervisor: Supervisor,
    settings: Vec<String>,
    port: u16,
    pid: Mutex<u32>,
}

impl Server {
    /// The server that all tests of this process share: fast, in memory, started at the first call.
    pub fn shared() -> &'static Server {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Server::start(Options::fast()))
    }

    /// Starts a private server.
    pub fn start(options: Options) -> Server {
        let folder = if options.in_memory { folder::in_memory() } else { folder::on_disk() };
        let supervisor = Supervisor::new(folder, Account::of_postgres(), IMMEDIATE_STOP);
        init(&supervisor);
        let tls_settings =
            if options.tls { tls::make_certificates(&supervisor) } else { Vec::new() };
        let settings = [tls_settings, options.setting_lines()].concat();
        let (port, pid) = start_on_a_free_port(&supervisor, &settings);
        let server = Server { supervisor, settings, port, pid: Mutex::new(pid) };
        for statement in SETUP_STATEMENTS {
            server.query(statement);
        }
        server
    }

    /// The address for `consign`, which is no superuser and owns the database `consign`.
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

    /// The id of the postmaster's process, which changes with a restart.
    pub fn pid(&self) -> u32 {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder with all files of this server.
    pub fn folder(&self) -> &Path {
        self.supervisor.folder()
    }

    /// The authority that issued the server's certificate, if it was started with [`Options::tls`].
    pub fn tls_ca(&self) -> Option<PathBuf> {
        let authority = self.folder().join(tls::AUTHORITY);
        authority.exists().then_some(authority)
    }

    /// The content of the server's log.
    pub fn log(&self) -> String {
        self.supervisor.log()
    }

    /// The name of a schema that no other test uses.
    pub fn fresh_schema_name(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Stops the server as a crash would: uncommitted work is lost, and connections break.
    pub fn stop_immediately(&self) {
        self.supervisor.stop();
    }

    /// Starts it again on the same port and returns when it is ready. A running server is stopped
    /// first.
    pub fn restart(&self) {
        let mut pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        self.supervisor.stop();
        let started = start_on(&self.supervisor, &self.settings, self.port);
        *pid = started.unwrap_or_else(|| panic!("another process took port {}", self.port));
    }

    /// Terminates connections of users, at most this many and chosen at random, and returns how
    /// many. They are gone when this returns.
    pub fn terminate_backends(&self, at_most: usize) -> usize {
        let statement = format!(
            "select pid from (select pid from pg_stat_activity where usename = 'consign' \
             order by random() limit {at_most}) as backend where pg_terminate_backend(pid)"
        );
        let ended = self.query(&statement);
        self.wait_until_gone(&ended);
        ended.len()
    }

    fn wait_until_gone(&self, pids: &[String]) {
        let pids = pids.join(",");
        let left = format!("select pid from pg_stat_activity where pid = any('{{{pids}}}')");
        for _ in 0..GONE_POLLS_MAX {
            if self.query(&left).is_empty() {
                return;
            }
            thread::sleep(GONE_POLL_EVERY);
        }
        panic!("backends that were ended are still there:\n{}", self.log());
    }

    fn query(&self, statement: &str) -> Vec<String> {
        let answer = admin::query(&admin_address(&self.supervisor, self.port), statement);
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
    let succeeded = supervisor.run(&postgres_program("initdb"), &arguments.collect::<Vec<_>>());
    assert!(succeeded, "initdb failed:\n{}", supervisor.log());
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

/// Starts the postmaster and waits until it is ready. `None`: another program has the port.
fn start_on(supervisor: &Supervisor, settings: &[String], port: u16) -> Option<u32> {
    let log_length = supervisor.log().len();
    let program = postgres_program("postgres");
    let pid = supervisor.start(&program, &arguments(supervisor, settings, port));
    let failed = || supervisor.log_contains_since(log_length, PORT_IS_TAKEN);
    match admin::wait_until_ready(&admin_address(supervisor, port), failed) {
        StartResult::Ready => Some(pid),
        StartResult::Failed => {
            supervisor.stop();
            None
        }
        StartResult::TimedOut => panic!("PostgreSQL does not get ready:\n{}", supervisor.log()),
    }
}

fn arguments(supervisor: &Supervisor, settings: &[String], port: u16) -> Vec<String> {
    let folder = supervisor.folder().display();
    let fixed = ["-D".to_owned(), data(supervisor), format!("-p{port}"), format!("-k{folder}")];
    let settings = settings.iter().flat_map(|line| ["-c".to_owned(), line.clone()]);
    fixed.into_iter().chain(settings).collect()
}
