//! Listens: connections within their limits, TLS, and an orderly end.

use crate::{
    AppState, Settings,
    app_state::Inside,
    auth::{Authenticator, jwt::JwtSetupError},
    connections::{Admitted, Connections, HangUp, ServedBody, Shares},
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

/// The door, open. Dropped, it takes nobody in any more.
pub struct Server {
    app: AppState,
    address: SocketAddr,
    accepting: JoinHandle<ConnectionsGone>,
    accepting_locally: Option<JoinHandle<ConnectionsGone>>,
    /// The listener of its own for health and metrics.
    health: Option<JoinHandle<ConnectionsGone>>,
}

/// Where a server takes connections.
pub struct Listeners {
    /// For everything.
    pub main: TcpListener,
    /// For health and metrics alone, with a limit of its own: full queues at the main one do not
    /// keep probes out.
    pub health: Option<TcpListener>,
    /// For commands on the same machine: everything, without TLS, and with a limit of its own, so
    /// that an operator gets in while all TCP connections are taken.
    pub local: Option<UnixListener>,
}

impl From<TcpListener> for Listeners {
    fn from(main: TcpListener) -> Self {
        Listeners { main, health: None, local: None }
    }
}

/// Closed when every connection of a listener has ended.
type ConnectionsGone = mpsc::Receiver<()>;

/// Connections of the listener for health and metrics.
const HEALTH_CONNECTIONS_MAX: usize = 32;
/// Connections of the Unix socket.
pub const LOCAL_CONNECTIONS_MAX: usize = 256;

/// Why the door could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket could not be used.
    #[error("the address could not be listened at")]
    Listen(#[source] io::Error),
    /// Keys could not be read.
    #[error("the credentials could not be read")]
    Credentials(#[source] platform::Error),
    /// Tokens could not be understood.
    #[error("tokens of the issuer in [jwt] cannot be checked")]
    Jwt(#[source] JwtSetupError),
}

impl Server {
    /// Opens the door at `listeners`, within a tokio runtime.
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
        let main = Listener::tcp(listeners.main).map_err(StartError::Listen)?;
        let health = listeners.health.map(Listener::tcp).transpose().map_err(StartError::Listen)?;
        let local = listeners.local.map(Listener::local).transpose().map_err(StartError::Listen)?;
        let gate = Authenticator::open(&node, &settings, &clock).await?;
        let app = Inside::open(node, clock, random, settings, gate);
        let tls = tls.map(TlsAcceptor::from);
        let limits = &app.settings.limits;
        let house = |router: Router, connections_max, shares, tls, drains| {
            let connections = Connections::new(connections_max, shares, app.clock.clone());
            Arc::new(ServerContext { app: app.clone(), router, tls, connections, drains })
        };
        let shares = Shares::new(limits, &app.settings.proxy.trusted);
        let (all, none) = (router(app.clone()), Shares::unlimited());
        let tcp = house(all.clone(), limits.connections_max, shares, tls.clone(), true);
        let unix = house(all, LOCAL_CONNECTIONS_MAX, none.clone(), None, true);
        let probes = house(health_router(app.clone()), HEALTH_CONNECTIONS_MAX, none, tls, false);
        tokio::spawn(renew(app.clone()));
        let accepting = tokio::spawn(tcp.accept(main));
        let accepting_locally = local.map(|listener| tokio::spawn(unix.accept(listener)));
        let health = health.map(|listener| tokio::spawn(probes.accept(listener)));
        Ok(Server { app, address, accepting, accepting_locally, health })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the door: nobody comes in any more, those who wait are sent home, and requests under way are
    /// answered, as far as `grace` goes.
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
            warn!("some connections were cut: their requests took longer than the grace");
        }
        // Up to here it has said that this node is not ready.
        if let Some(health) = self.health {
            health.abort();
        }
    }
}

/// A new signing key is made at most so long after it was due.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// Makes new signing keys in time for as long as the door is open.
async fn renew(app: AppState) {
    loop {
        tokio::select! {
            () = sleep(RENEW_EVERY) => {}
            () = app.closed() => return,
        }
        if let Err(error) = app.rotate_signing_key().await {
            let error: &dyn std::error::Error = &error;
            debug!(error, "the signing keys could not be read; none was made");
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

/// When the system has no more sockets, it is asked again after a moment.
const BREATH: Duration = Duration::from_millis(50);

/// An address that has its share is told of so often at most.
const TELL_EVERY: Duration = Duration::from_secs(60);

impl ServerContext {
    /// Takes connections in until the server drains. The answer is closed when the last one ended.
    async fn accept(self: Arc<Self>, listener: Listener) -> ConnectionsGone {
        let (alive, gone) = mpsc::channel(1);
        let mut told_at = None;
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
                tell_of_share(peer, &mut told_at);
                continue;
            };
            let peer =
                Peer { address: peer.map(|peer| peer.to_canonical()), tls: self.tls.is_some() };
            let (house, alive) = (self.clone(), alive.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = house.serve(stream, peer, &admitted) => {}
                    () = admitted.cut() => debug!("an idle connection was closed to make room"),
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
                sleep(BREATH).await;
            }
        }
    }
}

fn tell_of_share(peer: Option<IpAddr>, told_at: &mut Option<Instant>) {
    let now = Instant::now();
    if told_at.is_none_or(|told_at| now - told_at >= TELL_EVERY) {
        *told_at = Some(now);
        warn!(
            peer = peer.map(tracing::field::display),
            "a connection was refused: its address has as many as limits.connections_per_address"
        );
    }
}

/// Whom a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its address; none of a client that came by the Unix socket.
    pub(crate) address: Option<IpAddr>,
    /// Whether it is protected by our own TLS.
    pub(crate) tls: bool,
}

/// Headers of a request. More are refused by the protocol itself.
const HEADERS_MAX: usize = 256;
/// What a request's line has beside its address, generously.
const REQUEST_LINE_BYTES: usize = 64;

impl ServerContext {
    async fn serve(&self, stream: Stream, peer: Peer, admitted: &Admitted) {
        match stream {
            Stream::Tcp(stream) => self.serve_tcp(stream, peer, admitted).await,
            Stream::Local(stream) => self.converse(stream, peer, admitted).await,
        }
    }

    async fn serve_tcp(&self, stream: TcpStream, peer: Peer, admitted: &Admitted) {
        drop(stream.set_nodelay(true));
        let limits = &self.app.settings.limits;
        // Before anything is made for it: a connection that says nothing costs no buffer.
        // `readable` alone may say so of a connection that is not.
        if timeout(limits.first_byte_timeout, stream.peek(&mut [0])).await.is_err() {
            return debug!("a new connection said nothing");
        }
        match &self.tls {
            None => self.converse(stream, peer, admitted).await,
            Some(tls) => match timeout(limits.header_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.converse(stream, peer, admitted).await,
                Ok(Err(error)) => debug!(%error, "a client and we could not agree on TLS"),
                Err(_) => debug!("a client did not finish its TLS handshake in time"),
            },
        }
    }

    async fn converse(
        &self,
        stream: impl AsyncRead + AsyncWrite + HangUp + Unpin + Send + 'static,
        peer: Peer,
        admitted: &Admitted,
    ) {
        let limits = &self.app.settings.limits;
        let stream = admitted.bound(stream, limits.first_byte_timeout, limits.write_timeout);
        // HTTP/1.1 and no other: a client of HTTP/2 that keeps its window shut can make us hold
        // hundreds of answers on one connection, and nobody here needs it: a proxy in front speaks
        // it for us.
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            // An unfinished head costs this much and no more. A head that is only a little too
            // large still reaches the guard, which answers with a problem; the protocol itself
            // answers larger ones.
            .max_buf_size(limits.header_bytes_max + ADDRESS_BYTES_MAX + REQUEST_LINE_BYTES)
            .max_headers(HEADERS_MAX);
        let (router, connection) = (self.router.clone(), admitted.connection.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (mut router, serving) = (router.clone(), connection.begin());
            // For the code that recognises the caller: that protects the connection.
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
