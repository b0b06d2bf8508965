//! Listens: connections within their limits, TLS, and an orderly end.

use crate::{
    Door, Settings,
    auth::{Gate, jwt::JwtSetupError},
    patient::Patient,
    routes::router,
};
use axum::{Router, body::Body};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use platform::Node;
use rustls::ServerConfig;
use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};
use store::{Clock, Dice};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower::Service;
use tracing::{debug, warn};

/// The door, open. Dropped, it takes nobody in any more.
pub struct Server {
    door: Door,
    address: SocketAddr,
    accepting: JoinHandle<GracefulShutdown>,
}

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
    /// Opens the door at `listener`, within a tokio runtime.
    pub async fn start(
        node: Arc<Node>,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        settings: Settings,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Self, StartError> {
        listener.set_nonblocking(true).map_err(StartError::Listen)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(StartError::Listen)?;
        let address = listener.local_addr().map_err(StartError::Listen)?;
        let gate = Gate::open(&node, &settings, &clock).await?;
        let door = Door::new(node, clock, dice, settings, gate);
        let house = House {
            door: door.clone(),
            router: router(door.clone()),
            tls: tls.map(TlsAcceptor::from),
            connections: Arc::new(Semaphore::new(door.settings.limits.connections_max)),
        };
        tokio::spawn(renew(door.clone()));
        let accepting = tokio::spawn(house.accept(listener));
        Ok(Server { door, address, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the door: nobody comes in any more, those who wait are sent home, and requests under way are
    /// answered, as far as `grace` goes.
    pub async fn drain(self, grace: Duration) {
        self.door.close();
        let Ok(connections) = self.accepting.await else { return };
        if timeout(grace, connections.shutdown()).await.is_err() {
            warn!("some connections were cut: their requests took longer than the grace");
        }
    }
}

/// What other nodes have changed about signing keys is known here after this long at most.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// Keeps the signing keys up to date for as long as the door is open.
async fn renew(door: Door) {
    loop {
        tokio::select! {
            () = sleep(RENEW_EVERY) => {}
            () = door.closed() => return,
        }
        if let Err(error) = door.read_seals().await {
            let error: &dyn std::error::Error = &error;
            debug!(error, "the signing keys could not be read; those that are known stay");
        }
    }
}

struct House {
    door: Door,
    router: Router,
    tls: Option<TlsAcceptor>,
    connections: Arc<Semaphore>,
}

/// When the system has no more sockets, it is asked again after a moment.
const BREATH: Duration = Duration::from_millis(50);

impl House {
    /// Takes connections in until it is told to stop, and gives back those that are still open.
    async fn accept(self, listener: tokio::net::TcpListener) -> GracefulShutdown {
        let graceful = GracefulShutdown::new();
        loop {
            // Above the limit, clients wait in the system's queue, and cost us nothing.
            let place = self.connections.clone().acquire_owned();
            let accepted = async {
                let place = place.await.expect("nobody closes it");
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                accepted = accepted => accepted,
                () = self.door.closed() => return graceful,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    debug!(%error, "a connection was not accepted");
                    sleep(BREATH).await;
                    continue;
                }
            };
            let (door, router) = (self.door.clone(), self.router.clone());
            let (tls, watcher) = (self.tls.clone(), graceful.watcher());
            tokio::spawn(async move {
                serve_one(door, router, tls, stream, watcher).await;
                drop(place);
            });
        }
    }
}

async fn serve_one(
    door: Door,
    router: Router,
    tls: Option<TlsAcceptor>,
    stream: TcpStream,
    watcher: hyper_util::server::graceful::Watcher,
) {
    drop(stream.set_nodelay(true));
    let limits = &door.settings.limits;
    match tls {
        None => converse(&door, router, stream, watcher).await,
        Some(tls) => match timeout(limits.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => converse(&door, router, stream, watcher).await,
            Ok(Err(error)) => debug!(%error, "a client and we could not agree on TLS"),
            Err(_) => debug!("a client did not finish its TLS handshake in time"),
        },
    }
}

/// What hyper may hold of a request's head. Ours is the smaller limit, which is told as a problem; this one
/// only ends those who do not stop.
const HEAD_BYTES_MAX: usize = 128 * 1024;
const HEADERS_MAX: usize = 256;

async fn converse(
    door: &Door,
    router: Router,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let limits = &door.settings.limits;
    let stream = Patient::new(stream, limits.write_timeout);
    // HTTP/1.1 and no other: a client of HTTP/2 that keeps its window shut can make us hold hundreds of answers on one
    // connection, and nobody here needs it: a proxy in front speaks it for us.
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move { Ok::<_, Infallible>(answer(&mut router, request).await) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        debug!(%error, "a connection ended early");
    }
}

async fn answer(router: &mut Router, request: Request<Incoming>) -> hyper::Response<Body> {
    match router.call(request.map(Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
