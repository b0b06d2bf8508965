//! The client: connections that stay open, with one request under way at a time.

use crate::{
    Bench, Error, bench_node::join_all, error::unanswered, figures::percentile_ms, measure::Side,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{net::TcpStream, time::Instant};

#[derive(Clone)]
pub(super) struct BenchTarget {
    pub(super) address: SocketAddr,
    pub(super) bearer: HeaderValue,
}

pub(super) struct BenchConnection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    bearer: HeaderValue,
}

#[derive(Clone)]
pub(super) struct HttpRequest {
    /// A description, for error messages.
    pub(super) what: &'static str,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Bytes,
    /// The status that the answer must have.
    pub(super) expected: StatusCode,
}

impl HttpRequest {
    pub(super) fn get(what: &'static str, path: &str) -> HttpRequest {
        let (method, body, expected) = (Method::GET, Bytes::new(), StatusCode::OK);
        HttpRequest { what, method, path: path.into(), body, expected }
    }

    pub(super) fn post(
        what: &'static str,
        path: &str,
        body: impl Into<Bytes>,
        expected: StatusCode,
    ) -> HttpRequest {
        HttpRequest { what, method: Method::POST, path: path.into(), body: body.into(), expected }
    }
}

impl BenchConnection {
    pub(super) async fn open(target: &BenchTarget) -> Result<Self, Error> {
        const WHAT: &str = "a connection";
        let stream = TcpStream::connect(target.address).await.map_err(unanswered(WHAT))?;
        stream.set_nodelay(true).map_err(unanswered(WHAT))?;
        let handshaken = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshaken.map_err(unanswered(WHAT))?;
        // The task ends with the sender, or when the server hangs up; then the next request fails.
        tokio::spawn(async move { drop(connection.await) });
        let host = HeaderValue::from_str(&target.address.to_string());
        let host = host.expect("an address is plain ASCII");
        Ok(BenchConnection { sender, host, bearer: target.bearer.clone() })
    }

    pub(super) async fn send(&mut self, request: HttpRequest) -> Result<Bytes, Error> {
        let what = request.what;
        let body = self.begin(request).await?;
        Ok(body.collect().await.map_err(unanswered(what))?.to_bytes())
    }

    pub(super) async fn send_for_json<T: DeserializeOwned>(
        &mut self,
        request: HttpRequest,
    ) -> Result<T, Error> {
        let what = request.what;
        read(what, &self.send(request).await?)
    }

    /// Sends a request, and leaves the answer's body to be read.
    pub(super) async fn begin(&mut self, request: HttpRequest) -> Result<Incoming, Error> {
        let HttpRequest { what, method, path, body, expected } = request;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.host.clone())
            .header(AUTHORIZATION, self.bearer.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(body))
            .expect("all its parts are valid");
        self.sender.ready().await.map_err(unanswered(what))?;
        let answer = self.sender.send_request(request).await.map_err(unanswered(what))?;
        if answer.status() == expected {
            return Ok(answer.into_body());
        }
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.map_err(unanswered(what))?.to_bytes();
        Err(wrong_answer(what, status, &body))
    }
}

pub(super) fn read<T: DeserializeOwned>(what: &'static str, answer: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(answer).map_err(unanswered(what))
}

pub(super) fn wrong_answer(what: &str, status: u16, body: &[u8]) -> Error {
    let body = String::from_utf8_lossy(body);
    Error::Unmeasurable(format!("{what} was answered with {status}: {body}"))
}

/// Sends the requests of a round over many connections, which are opened before the time runs.
/// Records how many a second were answered, and the time that one in a hundred exceeded.
pub(super) fn send_many(
    bench: &mut Bench<'_>,
    target: &BenchTarget,
    (side, [speed, p99]): (Side, [&'static str; 2]),
    request: impl Fn(usize) -> HttpRequest + Send + Sync + 'static,
) -> Result<(), Error> {
    let requests = bench.settings.jobs;
    let (connections, _) = bench.timed(open_many(target, super::CONNECTIONS))?;
    let (request, next) = (Arc::new(request), Arc::new(AtomicUsize::new(0)));
    let sending = async {
        let tasks = connections.into_iter().map(|mut connection| {
            let (request, next) = (request.clone(), next.clone());
            async move {
                let mut times = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return Ok(times);
                    }
                    let started = Instant::now();
                    connection.send(request(number)).await?;
                    times.push(started.elapsed());
                }
            }
        });
        Ok(join_all(tasks).await?.concat())
    };
    let times = bench.time_jobs(side, &[speed], sending)?;
    bench.numbers.push(side, p99, percentile_ms(&times, 99.0));
    Ok(())
}

pub(super) async fn open_many(
    target: &BenchTarget,
    connections: usize,
) -> Result<Vec<BenchConnection>, Error> {
    let mut all = Vec::with_capacity(connections);
    for _ in 0..connections {
        all.push(BenchConnection::open(target).await?);
    }
    Ok(all)
}
