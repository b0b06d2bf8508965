//! What a server of one's own is like.

/// How a [`Server`](crate::Server) is started.
///
/// The default is a server as it is used in earnest: on disk, and a commit is there after a crash.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The folder lies in memory (`/dev/shm`), where there is such a place.
    pub in_memory: bool,
    /// Nothing is synced: for tests of logic, which do not ask what a crash leaves.
    pub unsafe_and_fast: bool,
    /// Connections may be encrypted, with a certificate that [`tls_ca`](crate::Server::tls_ca) vouches for.
    pub tls: bool,
    /// Settings beyond ours, as in `postgresql.conf`; the last of a name counts.
    pub settings: Vec<(String, String)>,
}

impl Options {
    /// A server for tests of logic: all in memory, nothing synced.
    pub fn fast() -> Options {
        Options { in_memory: true, unsafe_and_fast: true, ..Options::default() }
    }

    /// The same with one setting more.
    pub fn with(mut self, name: &str, value: &str) -> Options {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The settings, as `name=value`, ours first.
    pub(crate) fn lines(&self) -> Vec<String> {
        let fast = if self.unsafe_and_fast { FAST } else { &[] };
        let ours = EVERY.iter().chain(fast).map(|line| (*line).to_owned());
        ours.chain(self.settings.iter().map(|(name, value)| format!("{name}={value}"))).collect()
    }
}

const EVERY: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "max_connections=200",
    "shared_buffers=64MB",
    "autovacuum=on",
    "jit=off",
];

const FAST: &[&str] = &["fsync=off", "synchronous_commit=off", "full_page_writes=off"];
