//! A server of a test: the real binary on a free port, with a folder that outlives the process.

use super::{Client, WAIT_MAX, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;

/// A running `consign serve`, killed on drop.
pub(crate) struct TestServer {
    folder: TempDir,
    data: PathBuf,
    /// The address of its store.
    address: String,
    /// Its environment variables.
    variables: Vec<(String, String)>,
    /// Its limit of open files, where it differs from that of the test.
    open_files_max: Option<u64>,
    port: Arc<AtomicU16>,
    child: Mutex<Child>,
    admin: OnceLock<String>,
}

impl TestServer {
    /// Starts a server with defaults only.
    pub(crate) fn start() -> Self {
        TestServer::with("")
    }

    /// Starts a server with this text as its `consign.toml`.
    pub(crate) fn with(settings: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        TestServer::on(folder, data, settings)
    }

    /// Starts a server with its data in `data`, which may be on another disk.
    pub(crate) fn on(folder: TempDir, data: PathBuf, settings: &str) -> Self {
        let address = format!("sqlite:{}", data.join("consign.db").display());
        let test_server = TestServer::launched(folder, data, address, settings);
        test_server.wait_until_ready();
        test_server
    }

    /// Starts a server that cannot open more files than this, whatever it asks for.
    pub(crate) fn with_open_files_max(open_files_max: u64, settings: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let address = format!("sqlite:{}", data.join("consign.db").display());
        let limit = Some(open_files_max);
        let test_server = TestServer::made(folder, data, address, settings, Vec::new(), limit);
        test_server.wait_until_ready();
        test_server
    }

    /// Starts one of the nodes of a database.
    pub(crate) fn of_database(address: &str, settings: &str) -> Self {
        let test_server = TestServer::launched_on_database(address, settings);
        test_server.wait_until_ready();
        test_server
    }

    /// The same, without waiting for it.
    pub(crate) fn launched_on_database(address: &str, settings: &str) -> Self {
        TestServer::launched_in(Vec::new(), address, settings)
    }

    /// The same with these variables, and no others.
    pub(crate) fn launched_in(
        variables: Vec<(String, String)>,
        address: &str,
        settings: &str,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("consign-data");
        TestServer::made(folder, data, address.into(), settings, variables, None)
    }

    fn launched(folder: TempDir, data: PathBuf, address: String, settings: &str) -> Self {
        TestServer::made(folder, data, address, settings, Vec::new(), None)
    }

    fn made(
        folder: TempDir,
        data: PathBuf,
        address: String,
        settings: &str,
        variables: Vec<(String, String)>,
        open_files_max: Option<u64>,
    ) -> Self {
        fs::write(folder.path().join("consign.toml"), settings).unwrap();
        let port = Arc::new(AtomicU16::new(0));
        let child = launch(folder.path(), &address, &variables, open_files_max, &port);
        let (child, admin) = (Mutex::new(child), OnceLock::new());
        TestServer { folder, data, address, variables, open_files_max, port, child, admin }
    }

    /// A client without a credential. It finds the server after a restart, too.
    pub(crate) fn anonymous(&self) -> Client {
        Client::new(self.port.clone())
    }

    /// A client with all rights for all tenants.
    pub(crate) fn admin(&self) -> Client {
        self.anonymous().with_key(self.admin_key())
    }

    /// The key that the first start wrote.
    pub(crate) fn admin_key(&self) -> &str {
        self.admin.get_or_init(|| {
            let path = self.data.join("admin.key");
            let text = fs::read_to_string(&path);
            text.unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().into()
        })
    }

    /// Makes a key with a grant in JSON (`{"name", "tenant", "scopes", …}`).
    pub(crate) fn key(&self, grant: serde_json::Value) -> String {
        let answer = self.admin().post("/api/keys").json(&grant).send();
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["key"].as_str().unwrap().into()
    }

    /// A client with a new key of that grant.
    pub(crate) fn client(&self, grant: serde_json::Value) -> Client {
        self.anonymous().with_key(&self.key(grant))
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.data.join("consign.db")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child().id()
    }

    /// Everything that it has written to stderr since the first start, and to stdout, which should
    /// be empty.
    pub(crate) fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.folder.path().join(name)).unwrap();
        read(ERR) + &read(OUT)
    }

    /// `kill -9`; returns when the process is gone.
    pub(crate) fn kill(&self) {
        self.send(Signal::KILL);
        let status = self.child().wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "it had ended: {}", self.log());
    }

    /// Sends SIGTERM as an operator does, and waits for the end.
    pub(crate) fn stop(&self) -> ExitStatus {
        self.send(Signal::TERM);
        wait_for("the server ends", || self.child().try_wait().unwrap())
    }

    /// Restarts it on the same folder, after it has ended.
    pub(crate) fn restart(&self) {
        *self.child() = self.launch();
        self.wait_until_ready();
    }

    fn launch(&self) -> Child {
        launch(self.folder.path(), &self.address, &self.variables, self.open_files_max, &self.port)
    }

    /// Restarts it at its last address, for clients that know no other.
    pub(crate) fn restart_in_place(&self) {
        self.launch_in_place();
        self.wait_until_ready();
    }

    /// The same, without waiting for it.
    pub(crate) fn launch_in_place(&self) {
        let port = self.port.load(Ordering::SeqCst);
        let child = launch_at(
            self.folder.path(),
            &self.address,
            &self.variables,
            self.open_files_max,
            port,
        );
        *self.child() = child;
    }

    /// Waits for the end, and returns the exit status.
    pub(crate) fn stopped(&self) -> ExitStatus {
        self.child().wait().unwrap()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.child().try_wait().unwrap().is_some()
    }

    pub(crate) fn send(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child());
        kill_process(pid, signal).unwrap();
        if signal == Signal::STOP {
            wait_until("every thread stands still", || is_stopped(pid));
        }
    }

    pub(crate) fn wait_until_ready(&self) {
        let client = self.anonymous();
        wait_until("the server is ready", || {
            if self.has_ended() {
                // Another process may have taken the port in the meantime; any other error fails
                // the test.
                assert!(self.log().contains("in use"), "it ended at once: {}", self.log());
                *self.child() = self.launch();
            }
            let asked = client.get("/readyz").within(Duration::from_secs(5)).try_send();
            asked.is_ok_and(|answer| answer.status == 200)
        });
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // It may have ended long ago.
        let child = self.child.get_mut().unwrap();
        drop(child.kill());
        drop(child.wait());
    }
}

const ERR: &str = "err";
const OUT: &str = "out";

type Variables = [(String, String)];

fn launch(
    folder: &Path,
    store: &str,
    variables: &Variables,
    open_files_max: Option<u64>,
    port: &AtomicU16,
) -> Child {
    let free = free_port();
    port.store(free, Ordering::SeqCst);
    launch_at(folder, store, variables, open_files_max, free)
}

fn launch_at(
    folder: &Path,
    store: &str,
    variables: &Variables,
    open_files_max: Option<u64>,
    port: u16,
) -> Child {
    let listen = format!("127.0.0.1:{port}");
    let append = |name| File::options().create(true).append(true).open(folder.join(name)).unwrap();
    let program = env!("CARGO_BIN_EXE_consign");
    let mut command = match open_files_max {
        None => Command::new(program),
        Some(max) => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &format!("ulimit -n {max}; exec \"$0\" \"$@\""), program]);
            shell
        }
    };
    command
        .args(["serve", "--listen", &listen, "--config", "consign.toml", "--store", store])
        .current_dir(folder)
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(append(OUT))
        .stderr(append(ERR))
        .spawn()
        .unwrap()
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// How long a client waits for an answer by default.
pub(super) const ANSWER_WITHIN: Duration = WAIT_MAX;

/// Whether every thread of a process has stopped. The kernel delivers a SIGSTOP to one thread, and
/// the others go on until that one is scheduled: on a busy machine they serve requests meanwhile.
fn is_stopped(pid: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
    tasks.into_iter().all(|task| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat"));
        // The state is the first word after the name, which is in brackets.
        stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
    })
}
