//! Debian's PgBouncer in front of a server.

use crate::{
    Server,
    admin::{self, StartResult},
    folder, port,
    programs::{Account, on_path},
    supervisor::Supervisor,
};

/// How often another port is tried after another program took the first.
const PORT_TRIES: usize = 10;

/// The log message if another program has the port.
const PORT_IS_TAKEN: &str = "Address already in use";

/// PgBouncer has no data to lose, and its versions treat gentler signals differently.
const IMMEDIATE_STOP: &str = "KILL";

/// A private PgBouncer in transaction mode, which ends when dropped or with the process.
pub struct PgBouncer {
    supervisor: Supervisor,
    port: u16,
    pid: u32,
}

impl PgBouncer {
    /// Starts a PgBouncer in front of `server`.
    pub fn before(server: &Server) -> PgBouncer {
        PgBouncer::with(server, &[])
    }

    /// Starts one with more settings, as in `pgbouncer.ini`; the last of a name wins.
    pub fn with(server: &Server, settings: &[(&str, &str)]) -> PgBouncer {
        let folder = folder::in_memory();
        let supervisor = Supervisor::new(folder, Account::of_postgres(), IMMEDIATE_STOP);
        supervisor.write_file("users.txt", "\"consign\" \"\"\n\"postgres\" \"\"\n");
        for _ in 0..PORT_TRIES {
            let port = port::free();
            supervisor.write_file("pgbouncer.ini", &ini(&supervisor, server, port, settings));
            if let Some(pid) = start(&supervisor, port) {
                return PgBouncer { supervisor, port, pid };
            }
        }
        panic!("PgBouncer found no port in {PORT_TRIES} tries:\n{}", supervisor.log());
    }

    /// The address of the server through this PgBouncer.
    pub fn address(&self) -> String {
        format!("postgres://consign@127.0.0.1:{}/consign", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The content of its log.
    pub fn log(&self) -> String {
        self.supervisor.log()
    }
}

/// Its settings. `ignore_startup_parameters` is not set: a parameter that PgBouncer rejects by
/// default would be rejected for our users as well.
fn ini(supervisor: &Supervisor, server: &Server, port: u16, extra: &[(&str, &str)]) -> String {
    let folder = supervisor.folder().display();
    let extra: String = extra.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
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
         {extra}",
        server.port(),
    )
}

/// Starts it and waits until it is ready. `None`: another program has the port.
fn start(supervisor: &Supervisor, port: u16) -> Option<u32> {
    let ini = supervisor.folder().join("pgbouncer.ini").display().to_string();
    let log_length = supervisor.log().len();
    let pid = supervisor.start(&on_path("pgbouncer"), &[ini]);
    let address = folder::socket_address(supervisor.folder(), "consign", port, "consign");
    let failed = || supervisor.log_contains_since(log_length, PORT_IS_TAKEN);
    let result = admin::wait_until_ready(&address, failed);
    // Without the port it runs on its socket alone, and only the log shows that.
    if result == StartResult::Failed || failed() {
        supervisor.stop();
        return None;
    }
    assert_eq!(result, StartResult::Ready, "PgBouncer does not get ready:\n{}", supervisor.log());
    Some(pid)
}
