//! A PostgreSQL of one's own.

use crate::{
    Options, admin, port,
    programs::{Account, postgres_program},
    supervisor::Supervisor,
};
use std::{
    path::Path,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tempfile::TempDir;

const MEMORY: &str = "/dev/shm";

/// How often another port is tried, when somebody was faster.
const PORT_TRIES: usize = 10;

/// What the log says of that. Refused connections are told in there too, so not any FATAL will do.
const PORT_IS_TAKEN: &str = "could not create any TCP/IP sockets";

/// The end of a server in a hurry: it asks its children to leave at once, and recovers at the next start.
const IMMEDIATE_STOP: &str = "QUIT";

/// What we need of the database: a role as users have it, and a database of its own.
const SETTING_UP: &[&str] = &["create role consign login", "create database consign owner consign"];

/// A private PostgreSQL, which ends with this value or with the process.
pub struct Server {
    supervisor: Supervisor,
    options: Options,
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
        let account = Account::of_postgres();
        let supervisor = Supervisor::over(folder(&options), account, IMMEDIATE_STOP);
        init(&supervisor);
        let (port, pid) = start_on_a_free_port(&supervisor, &options);
        let server = Server { supervisor, options, port, pid: Mutex::new(pid) };
        for statement in SETTING_UP {
            server.ask("postgres", statement);
        }
        server
    }

    /// Where a user finds it: as `consign`, who is no superuser and owns the database `consign`.
    pub fn address(&self) -> String {
        format!("postgres://consign@127.0.0.1:{}/consign", self.port)
    }

    /// The database `consign` as a superuser.
    pub fn superuser_address(&self) -> String {
        superuser_address(self.port, "consign")
    }

    /// The same as [`address`](Server::address), by the socket in the server's folder.
    pub fn unix_address(&self) -> String {
        let folder = self.folder().display().to_string().replace('/', "%2F");
        format!("postgres://consign@{folder}:{}/consign", self.port)
    }

    /// Its port on 127.0.0.1, also after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The postmaster's process.
    pub fn pid(&self) -> u32 {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder in which everything of this server lies.
    pub fn folder(&self) -> &Path {
        self.supervisor.folder()
    }

    /// What the server has written to its log.
    pub fn log(&self) -> String {
        self.supervisor.log()
    }

    /// The name of a schema that no other test of this server uses.
    pub fn fresh_schema_name(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Stops it as a crash would: what was not committed is lost, connections break.
    pub fn stop_immediately(&self) {
        self.supervisor.stop();
    }

    /// Stops it as a crash would, if it runs, starts it on the same port and waits until it is ready.
    pub fn restart(&self) {
        let mut pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        self.supervisor.stop();
        let started = start_on(&self.supervisor, &self.options, self.port);
        *pid = started.unwrap_or_else(|| panic!("somebody took port {}", self.port));
    }

    /// Ends connections of users, at most so many and chosen at random, and says how many.
    pub fn terminate_backends(&self, at_most: usize) -> usize {
        let statement = format!(
            "select pg_terminate_backend(pid) from (select pid from pg_stat_activity \
             where usename = 'consign' order by random() limit {at_most}) as backend"
        );
        self.ask("postgres", &statement).iter().filter(|ended| *ended == "t").count()
    }

    fn ask(&self, database: &str, statement: &str) -> Vec<String> {
        let answer = admin::ask(&superuser_address(self.port, database), statement);
        answer.unwrap_or_else(|error| panic!("{statement}: {error}\n{}", self.log()))
    }
}

fn superuser_address(port: u16, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{database}")
}

fn folder(options: &Options) -> TempDir {
    let mut name = tempfile::Builder::new();
    let name = name.prefix("consign-test-");
    let in_memory = options.in_memory && Path::new(MEMORY).is_dir();
    let made = if in_memory { name.tempdir_in(MEMORY) } else { name.tempdir() };
    made.expect("a folder can be made")
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

fn start_on_a_free_port(supervisor: &Supervisor, options: &Options) -> (u16, u32) {
    for _ in 0..PORT_TRIES {
        let port = port::free();
        if let Some(pid) = start_on(supervisor, options, port) {
            return (port, pid);
        }
    }
    panic!("PostgreSQL found no port in {PORT_TRIES} tries:\n{}", supervisor.log());
}

/// Starts the postmaster and waits until it is ready. `None`: somebody else has the port.
fn start_on(supervisor: &Supervisor, options: &Options, port: u16) -> Option<u32> {
    let said_before = supervisor.log().len();
    let pid =
        supervisor.start(&postgres_program("postgres"), &arguments(supervisor, options, port));
    let failed = || {
        let log = supervisor.log();
        log.get(said_before..).is_some_and(|new| new.contains(PORT_IS_TAKEN))
    };
    let is_ready = admin::wait_until_ready(&superuser_address(port, "postgres"), failed);
    if !is_ready {
        supervisor.stop();
    }
    is_ready.then_some(pid)
}

fn arguments(supervisor: &Supervisor, options: &Options, port: u16) -> Vec<String> {
    let folder = supervisor.folder().display();
    let fixed = ["-D".to_owned(), data(supervisor), format!("-p{port}"), format!("-k{folder}")];
    let settings = options.lines().into_iter().flat_map(|line| ["-c".to_owned(), line]);
    fixed.into_iter().chain(settings).collect()
}
