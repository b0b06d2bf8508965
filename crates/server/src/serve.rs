//! Listens: connections within their limits, TLS, and graceful shutdown.

use crate::{
    AppState, Settings,
    app_state::AppStateInner,
    auth::{Authenticator, jwt::JwtSetupError},
    connections::{Admitted, BoundedStream, Connections, HangUp, ServedBody, Shares},
    listener::{Listener, Stream},
    middleware::ADDRESS_BYTES_MAX,
    routes::{health_router, router},
};
use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use platform::Node;
use rustls::ServerConfig;
use std::{
    convert::Infallible,
    future::pending,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    pin::pin,
    sync::Arc,
    time::Duration,
};
use store::{Clock, RandomSource};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower::Service;
use tracing::{debug, warn};

/// A running server. [`Server::drain`] ends it; drop alone leaves its tasks running.
pub struct Server {
    app: AppState,
    address: SocketAddr,
    accepting: JoinHandle<ConnectionsGone>,
    accepting_locally: Option<JoinHandle<ConnectionsGone>>,
    /// The separate listener for health and metrics.
    health: Option<JoinHandle<ConnectionsGone>>,
}

/// Where a server accepts connections.
pub struct Listeners {
    /// The listener for all routes.
    pub main: TcpListener,
    /// The listener for health and metrics alone. It has a limit of its own, so that a full main
    /// listener does not keep probes out.
    pub health: Option<TcpListener>,
    /// The listener for commands on the same machine: all routes, without TLS. It has a limit of
    /// its own, so that an operator can connect while all TCP connections are taken.
    pub local: Option<UnixListener>,
}

impl From<TcpListener> for Listeners {
    fn from(main: TcpListener) -> Self {
        Listeners { main, health: None, local: None }
    }
}

/// Closes when every connection of a listener has ended.
type ConnectionsGone = mpsc::Receiver<()>;

/// Connections of the listener for health and metrics.
const HEALTH_CONNECTIONS_MAX: usize = 32;
/// The limit of connections to the Unix socket.
pub const LOCAL_CONNECTIONS_MAX: usize = 256;

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket could not be used.
    #[error("the address could not be listened at")]
    Listen(#[source] io::Error),
    /// API keys could not be read.
    #[error("the credentials could not be read")]
    Credentials(#[source] platform::Error),
    /// Tokens of the issuer cannot be checked.
    #[error("tokens of the issuer in [jwt] cannot be checked")]
    Jwt(#[source] JwtSetupError),
}

impl Server {
    /// Starts the server at `listeners`, within a tokio runtime.
    pub async fn start(
        node: Arc<Node>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        settings: Settings,
        listeners: impl Into<Listeners>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Self, StartError> {
        let listeners = listeners.into();
        let address = listeners.main.local_addr().map_err(StartError::Listen)?;
        node.set_address(address.to_string());
        let main = Listener::tcp(listeners.main).map_err(StartError::Listen)?;
        let health = listeners.health.map(Listener::tcp).transpose().map_err(StartError::Listen)?;
        let local = listeners.local.map(Listener::local).transpose().map_err(StartError::Listen)?;
        let authenticator = Authenticator::open(&node, &settings, &clock).await?;
        let app = AppStateInner::open(node, clock, random, settings, authenticator);
        let tls = tls.map(TlsAcceptor::from);
        let limits = &app.settings.limits;
        let server_context = |router: Router, connections_max, shares, tls, drains| {
            let connections = Connections::new(connections_max, shares, app.clock.clone());
            Arc::new(ServerContext { app: app.clone(), router, tls, connections, drains })
        };
        let shares = Shares::new(limits, &app.settings.proxy.trusted);
        let (all, none) = (router(app.clone()), Shares::unlimited());
        let tcp = server_context(all.clone(), limits.connections_max, shares, tls.clone(), true);
        let unix = server_context(all, LOCAL_CONNECTIONS_MAX, none.clone(), None, true);
        let probes =
            server_context(health_router(app.clone()), HEALTH_CONNECTIONS_MAX, none, tls, false);
        tokio::spawn(rotate_signing_keys(app.clone()));
        let accepting = tokio::spawn(tcp.accept(main));
        let accepting_locally = local.map(|listener| tokio::spawn(unix.accept(listener)));
        let health = health.map(|listener| tokio::spawn(probes.accept(listener)));
        Ok(Server { app, address, accepting, accepting_locally, health })
    }

    /// The address that the server listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drains the server: it accepts no more connections, answers waiting requests, and lets
    /// running requests finish within `grace`.
    pub async fn drain(self, grace: Duration) {
        self.app.close();
        let Ok(mut connections_gone) = self.accepting.await else { return };
        let local_gone = match self.accepting_locally {
            Some(accepting) => accepting.await.ok(),
            None => None,
        };
        let ended = async {
            connections_gone.recv().await;
            if let Some(mut gone) = local_gone {
                gone.recv().await;
            }
        };
        if timeout(grace, ended).await.is_err() {
            warn!("some connections were cut: their requests took longer than the grace period");
        }
        // Until here, this listener has reported that the node is not ready.
        if let Some(health) = self.health {
            health.abort();
        }
    }
}

/// How late a new signing key may be made after it is due.
const ROTATION_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Makes new signing keys in time until the server drains.
async fn rotate_signing_keys(app: AppState) {
    loop {
        tokio::select! {
            () = sleep(ROTATION_CHECK_INTERVAL) => {}
            () = app.closed() => return,
        }
        if let Err(error) = app.rotate_signing_key().await {
            let error = &error as &dyn std::error::Error;
            debug!(error, "signing keys could not be read: no new one was made");
        }
    }
}

/// One listener, and what its connections need.
struct ServerContext {
    app: AppState,
    router: Router,
    tls: Option<TlsAcceptor>,
    connections: Arc<Connections>,
    /// Whether it stops accepting when the server drains.
    drains: bool,
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// When the system has no more sockets, the accept loop pauses for this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How often an address that has used up its share is logged at most.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

impl ServerContext {
    /// Accepts connections until the server drains. The returned channel closes when the last
    /// connection has ended.
    async fn accept(self: Arc<Self>, listener: Listener) -> ConnectionsGone {
        let (alive, gone) = mpsc::channel(1);
        let mut logged_at = None;
        loop {
            let (stream, peer) = tokio::select! {
                accepted = accept_one(&listener) => accepted,
                () = self.closed() => return gone,
            };
            let admitted = tokio::select! {
                // Clients of the Unix socket are all on this machine.
                admitted = self.connections.admit(peer.unwrap_or(LOOPBACK)) => admitted,
                () = self.closed() => return gone,
            };
            let Ok(admitted) = admitted else {
                log_share_exceeded(peer, &mut logged_at);
                continue;
            };
            let peer =
                Peer { address: peer.map(|peer| peer.to_canonical()), tls: self.tls.is_some() };
            let (server_context, alive) = (self.clone(), alive.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = server_context.serve(stream, peer, &admitted) => {}
                    () = admitted.close_requested() => debug!("an idle connection was closed because the limit of connections is reached"),
                }
                drop((admitted, alive));
            });
        }
    }

    /// Waits until the server drains, where that concerns this listener.
    async fn closed(&self) {
        match self.drains {
            true => self.app.closed().await,
            false => pending().await,
        }
    }
}

async fn accept_one(listener: &Listener) -> (Stream, Option<IpAddr>) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                debug!(%error, "a connection was not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn log_share_exceeded(peer: Option<IpAddr>, logged_at: &mut Option<Instant>) {
    let now = Instant::now();
    if logged_at.is_none_or(|logged_at| now - logged_at >= LOG_INTERVAL) {
        *logged_at = Some(now);
        warn!(
            peer = peer.map(tracing::field::display),
            "a connection was refused: its address has as many as limits.connections_per_address"
        );
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its address; `None` for a client of the Unix socket.
    pub(crate) address: Option<IpAddr>,
    /// Whether this server's own TLS protects it.
    pub(crate) tls: bool,
}

/// Headers of a request. The protocol itself refuses more.
const HEADERS_MAX: usize = 256;
/// What a request line has besides its path and query, generously.
const REQUEST_LINE_BYTES: usize = 64;

impl ServerContext {
    async fn serve(&self, stream: Stream, peer: Peer, admitted: &Admitted) {
        match stream {
            Stream::Tcp(stream) => self.serve_tcp(stream, peer, admitted).await,
            Stream::Local(stream) => self.serve_http(stream, peer, admitted).await,
        }
    }

    async fn serve_tcp(&self, stream: TcpStream, peer: Peer, admitted: &Admitted) {
        drop(stream.set_nodelay(true));
        let limits = &self.app.settings.limits;
        // This wait comes before any allocation: a silent connection costs no buffer. `readable`
        // alone may report a silent connection as ready.
        if timeout(limits.first_byte_timeout, stream.peek(&mut [0])).await.is_err() {
            return debug!("a new connection sent nothing in time");
        }
        match &self.tls {
            None => self.serve_http(stream, peer, admitted).await,
            Some(tls) => match timeout(limits.header_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.serve_http(stream, peer, admitted).await,
                Ok(Err(error)) => debug!(%error, "a TLS handshake failed"),
                Err(_) => debug!("a client did not finish its TLS handshake in time"),
            },
        }
    }

    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
        peer: Peer,
        admitted: &Admitted,
    ) {
        let limits = &self.app.settings.limits;
        let stream =
            BoundedStream::new(stream, admitted, limits.first_byte_timeout, limits.write_timeout);
        // HTTP/1.1 only. A client of HTTP/2 that keeps its window shut can make the server hold
        // hundreds of answers on one connection. No client needs HTTP/2 here: a proxy in front
        // speaks it.
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            // An unfinished head costs this much and no more. A head that is only a little too
            // large still reaches the middleware, which answers with a problem; the protocol itself
            // answers larger ones.
            .max_buf_size(limits.header_bytes_max + ADDRESS_BYTES_MAX + REQUEST_LINE_BYTES)
            .max_headers(HEADERS_MAX);
        let (router, connection) = (self.router.clone(), admitted.connection.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (mut router, serving) = (router.clone(), connection.begin());
            // For the code that recognises the caller: it protects the connection.
            request.extensions_mut().insert(connection.clone());
            async move {
                // Without it, the connection is about to be closed for another.
                let Some(serving) = serving else { return pending().await };
                request.extensions_mut().insert(peer);
                let answer = answer(&mut router, request).await;
                Ok::<_, Infallible>(answer.map(|body| ServedBody::new(body, serving)))
            }
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.closed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "a connection ended early");
        }
    }
}

async fn answer(router: &mut Router, request: Request<Incoming>) -> hyper::Response<Body> {
    match router.call(request.map(Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
