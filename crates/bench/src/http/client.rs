//! The client: connections that stay open, and have one request under way at a time.

use crate::{Bench, Error, figures::percentile_ms, house::joined};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::Clock;
use tokio::{net::TcpStream, task::JoinSet};

/// Who is asked, and with which credential.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) bearer: HeaderValue,
}

/// One connection.
pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    bearer: HeaderValue,
}

/// What is asked for.
#[derive(Clone)]
pub(super) struct Ask {
    /// In words, for when it fails.
    pub(super) what: &'static str,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Bytes,
    /// What the answer must be.
    pub(super) expected: StatusCode,
}

impl Line {
    pub(super) async fn open(target: &Target) -> Result<Self, Error> {
        let refused = |e: std::io::Error| Error::Unanswered("a connection", e.into());
        let stream = TcpStream::connect(target.address).await.map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        let shaken = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(unanswered("a connection"))?;
        // It ends with the sender, or when the other side does; then the next request fails.
        tokio::spawn(async move { drop(connection.await) });
        let host = HeaderValue::from_str(&target.address.to_string());
        let host = host.expect("an address is plain ASCII");
        Ok(Line { sender, host, bearer: target.bearer.clone() })
    }

    /// Asks, and reads the whole answer.
    pub(super) async fn ask(&mut self, ask: Ask) -> Result<Bytes, Error> {
        let what = ask.what;
        let body = self.begin(ask).await?;
        Ok(body.collect().await.map_err(unanswered(what))?.to_bytes())
    }

    /// Asks, and leaves the answer's body to be read.
    pub(super) async fn begin(&mut self, ask: Ask) -> Result<Incoming, Error> {
        let Ask { what, method, path, body, expected } = ask;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.host.clone())
            .header(AUTHORIZATION, self.bearer.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(body))
            .expect("all its parts are lawful");
        self.sender.ready().await.map_err(unanswered(what))?;
        let answer = self.sender.send_request(request).await.map_err(unanswered(what))?;
        if answer.status() == expected {
            return Ok(answer.into_body());
        }
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.map_err(unanswered(what))?.to_bytes();
        Err(Error::Answer { what, status, body: String::from_utf8_lossy(&body).into_owned() })
    }
}

fn unanswered(what: &'static str) -> impl Fn(hyper::Error) -> Error {
    move |source| Error::Unanswered(what, source.into())
}

/// What a number of equal requests came to.
pub(super) struct Asked {
    pub(super) per_second: f64,
    pub(super) p99_ms: f64,
}

impl Asked {
    /// Writes it down on its side.
    pub(super) fn note(self, ours: bool, speed: &mut super::Both, p99: &mut super::Both) {
        let side = |both: &mut super::Both, number| match ours {
            true => both.ours.push(number),
            false => both.echo.push(number),
        };
        side(speed, self.per_second);
        side(p99, self.p99_ms);
    }
}

/// Asks `requests` times from many connections, which are open before the time runs.
pub(super) fn ask_many(
    bench: &Bench<'_>,
    target: &Target,
    requests: usize,
    ask: impl Fn(usize) -> Ask + Send + Sync + 'static,
) -> Result<Asked, Error> {
    let (lines, _) = bench.timed(open_many(target, super::CONNECTIONS))?;
    let (ask, next) = (Arc::new(ask), Arc::new(AtomicUsize::new(0)));
    let asking = async {
        let mut tasks = JoinSet::new();
        for mut line in lines {
            let (ask, next, clock) = (ask.clone(), next.clone(), bench.clock.clone());
            tasks.spawn(async move {
                let mut times: Vec<Duration> = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return Ok(times);
                    }
                    let began = clock.read().monotonic;
                    line.ask(ask(number)).await?;
                    times.push(clock.read().monotonic - began);
                }
            });
        }
        Ok(joined(tasks).await?.concat())
    };
    let (times, took) = bench.timed(asking)?;
    Ok(Asked {
        per_second: crate::figures::rate(requests, took),
        p99_ms: percentile_ms(&times, 99.0),
    })
}

pub(super) async fn open_many(target: &Target, lines: usize) -> Result<Vec<Line>, Error> {
    let mut opened = Vec::with_capacity(lines);
    for _ in 0..lines {
        opened.push(Line::open(target).await?);
    }
    Ok(opened)
}
