//! The options of a private server.

/// How a [`Server`](crate::Server) is started.
///
/// The default is a server as in production: on disk, and a commit survives a crash.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The folder is in memory (`/dev/shm`), if the machine has it.
    pub in_memory: bool,
    /// Nothing is synced: for tests that do not check what a crash leaves.
    pub unsafe_and_fast: bool,
    /// The server accepts TLS, with a certificate issued by [`tls_ca`](crate::Server::tls_ca).
    pub tls: bool,
    /// More settings, as in `postgresql.conf`; the last of a name wins.
    pub settings: Vec<(String, String)>,
}

impl Options {
    /// A server for tests of logic: all in memory, nothing synced.
    pub fn fast() -> Options {
        Options { in_memory: true, unsafe_and_fast: true, ..Options::default() }
    }

    /// The same with one more setting.
    pub fn with(mut self, name: &str, value: &str) -> Options {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The settings as `name=value`, ours first.
    pub(crate) fn setting_lines(&self) -> Vec<String> {
        let fast = if self.unsafe_and_fast { FAST } else { &[] };
        let own = ALWAYS.iter().chain(fast).map(|line| (*line).to_owned());
        own.chain(self.settings.iter().map(|(name, value)| format!("{name}={value}"))).collect()
    }
}

const ALWAYS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "max_connections=200",
    "shared_buffers=64MB",
    "autovacuum=on",
    "jit=off",
];

const FAST: &[&str] = &["fsync=off", "synchronous_commit=off", "full_page_writes=off"];
