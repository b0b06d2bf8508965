//! Debian's PgBouncer before a server.

use crate::{
    Server,
    admin::{self, Beginning},
    folder, port,
    programs::{Account, on_path},
    supervisor::Supervisor,
};

/// How often another port is tried, when somebody was faster.
const PORT_TRIES: usize = 10;

/// What its log says of a port that somebody else has.
const PORT_IS_TAKEN: &str = "Address already in use";

/// It keeps nothing that could be lost, and what a kinder signal means differs between its versions.
const IMMEDIATE_STOP: &str = "KILL";

/// A private PgBouncer in transaction mode, which ends with this value or with the process.
pub struct PgBouncer {
    supervisor: Supervisor,
    port: u16,
    pid: u32,
}

impl PgBouncer {
    /// Starts one before `server`.
    pub fn before(server: &Server) -> PgBouncer {
        PgBouncer::with(server, &[])
    }

    /// Starts one with settings beyond ours, as in `pgbouncer.ini`; the last of a name counts.
    pub fn with(server: &Server, settings: &[(&str, &str)]) -> PgBouncer {
        let folder = folder::in_memory();
        let supervisor = Supervisor::over(folder, Account::of_postgres(), IMMEDIATE_STOP);
        supervisor.give_file("users.txt", "\"consign\" \"\"\n\"postgres\" \"\"\n");
        for _ in 0..PORT_TRIES {
            let port = port::free();
            supervisor.give_file("pgbouncer.ini", &ini(&supervisor, server, port, settings));
            if let Some(pid) = start(&supervisor, port) {
                return PgBouncer { supervisor, port, pid };
            }
        }
        panic!("PgBouncer found no port in {PORT_TRIES} tries:\n{}", supervisor.log());
    }

    /// Where a user finds the server through it.
    pub fn address(&self) -> String {
        format!("postgres://consign@127.0.0.1:{}/consign", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        self.supervisor.log()
    }
}

/// Its settings. No start-up parameter is ignored: one that Debian's PgBouncer does not take by itself
/// is one that our users would stumble over.
fn ini(supervisor: &Supervisor, server: &Server, port: u16, more: &[(&str, &str)]) -> String {
    let folder = supervisor.folder().display();
    let more: String = more.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir = {folder}\n\
         auth_type = trust\n\
         auth_file = {folder}/users.txt\n\
         pool_mode = transaction\n\
         max_client_conn = 500\n\
         default_pool_size = 20\n\
         {more}",
        server.port(),
    )
}

/// Starts it and waits until it is ready. `None`: somebody else has the port.
fn start(supervisor: &Supervisor, port: u16) -> Option<u32> {
    let ini = supervisor.folder().join("pgbouncer.ini").display().to_string();
    let said_before = supervisor.log().len();
    let pid = supervisor.start(&on_path("pgbouncer"), &[ini]);
    let address = folder::socket_address(supervisor.folder(), "consign", port, "consign");
    let failed = || supervisor.said_since(said_before, PORT_IS_TAKEN);
    let beginning = admin::wait_until_ready(&address, failed);
    // Without its port it is content with the socket, and only the log tells.
    if beginning == Beginning::Failed || failed() {
        supervisor.stop();
        return None;
    }
    assert_eq!(beginning, Beginning::Ready, "PgBouncer does not get ready:\n{}", supervisor.log());
    Some(pid)
}
