//! The HTTP API of a store in this process, for the command line, `curl` and other programs.

use crate::{Consign, Error};
use engine::{CorrelationId, Grant, KeyDraft, KeyName, Principal, Right, Scope};
use platform::{SystemClock, SystemRandom};
use server::{
    Listeners, Server, Settings,
    data_folder::{
        FileError,
        admin_key::AdminKeys,
        local_socket::{self, LocalSocket},
    },
};
use std::{
    io,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A running HTTP API. [`ServerHandle::stop`] ends it in order.
#[must_use = "a server that is dropped goes on, and cannot be stopped any more"]
pub struct ServerHandle {
    server: Server,
    admin_key: Option<PathBuf>,
    /// Removes the file of the socket when it is dropped.
    _local_socket: Option<LocalSocket>,
}

/// Why the HTTP API could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store is elsewhere.
    #[error("a remote server serves its HTTP API itself")]
    Remote,
    /// The address is none, or cannot be listened at.
    #[error("the server cannot listen at {address}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Other machines can reach the address.
    #[error(
        "{0}: other machines can reach this address, and the requests to it are not encrypted: listen on \
         127.0.0.1, with a proxy that does TLS in front of it, or run `consign serve`, which has [tls]"
    )]
    Unprotected(SocketAddr),
    /// The first key or the socket beside the store.
    #[error(transparent)]
    DataFolder(#[from] FileError),
    /// The server could not be started.
    #[error(transparent)]
    Start(#[from] server::StartError),
}

impl Consign {
    /// Serves the HTTP API at `address`, such as `127.0.0.1:8470`, so that the command line and
    /// other programs can submit, read and operate the jobs of this store. Only this machine can
    /// reach it.
    ///
    /// A store in a file keeps the first key in `admin.key` beside it, readable by this user alone:
    /// `consign queues --store sqlite:consign-data/consign.db` finds it. For any other store,
    /// [`Self::create_admin_key`] makes a key.
    pub async fn serve(&self, address: &str) -> Result<ServerHandle, ServeError> {
        let local = self.backend.local().ok_or(ServeError::Remote)?;
        let main = listen(address)?;
        let port = main.local_addr().map_err(failed_at(address))?.port();
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let (mut admin_key, mut local_listener, mut local_socket) = (None, None, None);
        if let Some(folder) = &local.folder {
            let (store, clock, random) = (&local.store, &*clock, &*random);
            admin_key = AdminKeys { store, folder, clock, random }.ensure().await?;
            (local_listener, local_socket) = local_socket::listen(folder, port)?.unzip();
        }
        let listeners = Listeners { main, health: None, local: local_listener };
        let (node, settings) = (local.node.clone(), Settings::default());
        let server = Server::start(node, clock, random, settings, listeners, None).await?;
        Ok(ServerHandle { server, admin_key, _local_socket: local_socket })
    }

    /// Makes a key with all rights for all tenants, and returns its secret, which is shown only
    /// here. The audit log has it. `consign keys revoke` takes it back.
    pub async fn create_admin_key(&self, name: &str) -> Result<String, Error> {
        let local = self.local("key", "is made at the server: consign keys create")?;
        let name = KeyName::parse(name).map_err(engine::Refusal::from)?;
        let rights = [Right::Admin].into_iter().collect();
        let grant = Grant { scope: Scope::All, rights, types: Vec::new(), subjects: Vec::new() };
        let by = Principal {
            who: "embedding program".into(),
            name: None,
            grant: grant.clone(),
            expires_at: None,
        };
        let correlation = CorrelationId::parse("create_admin_key").expect("a plain name");
        let draft = KeyDraft { name, grant, expires_at: None };
        let (_, secret) = local.node.create_key(&by, correlation, draft).await?;
        Ok(secret.expose())
    }
}

fn listen(address: &str) -> Result<TcpListener, ServeError> {
    let addresses: Vec<_> = address.to_socket_addrs().map_err(failed_at(address))?.collect();
    // ::ffff:127.0.0.1 is loopback, mapped to IPv6.
    let is_open = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
    if let Some(open) = addresses.iter().find(is_open) {
        return Err(ServeError::Unprotected(*open));
    }
    TcpListener::bind(&addresses[..]).map_err(failed_at(address))
}

fn failed_at(address: &str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Listen { address: address.to_owned(), source }
}

impl ServerHandle {
    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The file of the first key, where the store is a file and the key is still there.
    pub fn admin_key(&self) -> Option<&Path> {
        self.admin_key.as_deref()
    }

    /// Accepts no more connections, and lets running requests finish within `grace`.
    pub async fn stop(self, grace: Duration) {
        self.server.drain(grace).await;
    }
}
