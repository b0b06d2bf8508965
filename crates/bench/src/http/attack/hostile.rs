//! The hostile clients. Each kind is a loop that ends when the soak drops it; what a server answers
//! to it does not matter here.

use super::super::{
    client::{Ask, Line, Target},
    processes::bearer,
};
use crate::{Error, error::failed};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::Value;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    runtime::{Builder, Runtime},
    time::{sleep, timeout},
};

/// The attackers' addresses: loopback has many, and honest clients come from another one.
const ADDRESSES: u8 = 8;
const FIRST_ADDRESS: u8 = 101;
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Makes the key of a small tenant, and gives what a client with it needs.
pub(super) async fn key_for(admin: &Target, tenant: &str) -> Result<Target, Error> {
    let body = format!(
        r#"{{"name":"soak","tenant":"{tenant}","scopes":["jobs:enqueue","jobs:read","work"]}}"#
    );
    let ask = Ask::post("a new key", "/api/keys", body, StatusCode::CREATED);
    let answer: Value = Line::open(admin).await?.ask_for(ask).await?;
    let bearer = bearer(answer["key"].as_str().unwrap_or_default());
    let bearer = bearer.expect("a key is plain ASCII");
    Ok(Target { address: admin.address, bearer })
}

pub(super) struct Attackers {
    server: SocketAddr,
    bearer: String,
    signed_events_path: String,
}

/// A job type whose schema is recursive, as far as the server lets one be set.
const RECURSIVE_TYPE: &str = "tree";
const RECURSIVE_SCHEMA: &str =
    r##"{"schema":{"type":"object","properties":{"child":{"$ref":"#"}}}}"##;

impl Attackers {
    pub(super) async fn prepare(admin: &Target) -> Result<Self, Error> {
        let mut line = Line::open(admin).await?;
        line.ask(Ask {
            what: "a type with a schema",
            method: Method::PUT,
            path: format!("/api/types/{RECURSIVE_TYPE}"),
            body: Bytes::from_static(RECURSIVE_SCHEMA.as_bytes()),
            expected: StatusCode::OK,
        })
        .await?;
        let target = key_for(admin, "hostile").await?;
        let (path, body) = ("/api/jobs?withSignedUrl=true", r#"{"jobType":"watched"}"#);
        let signed = Ask::post("a signed address", path, body, StatusCode::ACCEPTED);
        let job: Value = Line::open(&target).await?.ask_for(signed).await?;
        let url = job["signedStatusUrl"].as_str().unwrap_or_default();
        let (path, query) = url.split_once('?').unwrap_or_default();
        let signed_events_path = format!("{}?{query}", path.replace("/status", "/events"));
        let bearer = target.bearer.to_str().unwrap_or_default().to_owned();
        Ok(Attackers { server: target.address, bearer, signed_events_path })
    }

    /// Starts every attack, on threads of their own.
    pub(super) fn start(self) -> Result<Attack, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(failed("starting the attackers' thread"))?;
        let shared = Arc::new(self);
        let counts = KINDS.each_ref().map(|kind| (kind, Arc::new(AtomicUsize::new(0))));
        for (kind, count) in &counts {
            for number in 0..kind.clients {
                let address = FIRST_ADDRESS + (number % usize::from(ADDRESSES)) as u8;
                let attacker = Attacker {
                    shared: shared.clone(),
                    from: Ipv4Addr::new(127, 0, 0, address),
                    number,
                    count: count.clone(),
                };
                runtime.spawn(attacker.attack(kind));
            }
        }
        Ok(Attack { runtime, counts })
    }
}

pub(super) struct Attack {
    runtime: Runtime,
    counts: [(&'static Kind, Arc<AtomicUsize>); KINDS.len()],
}

impl Attack {
    /// Ends all of them, and says how often each was carried out.
    pub(super) fn end(self) -> Vec<(&'static str, usize)> {
        self.runtime.shutdown_background();
        let count = |(kind, count): &(&'static Kind, Arc<AtomicUsize>)| {
            (kind.name, count.load(Ordering::Relaxed))
        };
        self.counts.iter().map(count).collect()
    }
}

/// One kind of attack: so many clients, each of which does it again after a pause.
struct Kind {
    name: &'static str,
    clients: usize,
    pause: Duration,
    once: fn(&Attacker, usize) -> Once<'_>,
}

type Once<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

const fn kind(
    name: &'static str,
    clients: usize,
    pause_ms: u64,
    once: fn(&Attacker, usize) -> Once<'_>,
) -> Kind {
    Kind { name, clients, pause: Duration::from_millis(pause_ms), once }
}

static KINDS: [Kind; 13] = [
    kind("idle connections", 3_000, 1_000, |by, _| Box::pin(by.idle())),
    kind("slow headers", 200, 1_000, |by, _| Box::pin(by.slow_header())),
    kind("slow bodies", 50, 1_000, |by, _| Box::pin(by.slow_body())),
    kind("pages of empty items", 1, 2_000, |by, _| Box::pin(by.empty_items())),
    kind("huge headers", 2, 500, |by, _| Box::pin(by.huge_header())),
    kind("garbage", 2, 200, |by, turn| Box::pin(by.garbage(turn))),
    kind("forged keys", 2, 50, |by, turn| Box::pin(by.forged_key(turn))),
    kind("new job types", 1, 50, |by, turn| Box::pin(by.new_type(turn))),
    kind("deep payloads", 1, 100, |by, _| Box::pin(by.deep_payload())),
    kind("streams of one signed address", 500, 1_000, |by, _| Box::pin(by.unread_stream())),
    kind("abandoned claims", 20, 500, |by, turn| Box::pin(by.abandoned_claim(turn))),
    kind("answers that are not read", 20, 1_000, |by, _| Box::pin(by.unread_answers())),
    kind("duplicate headers", 1, 100, |by, _| Box::pin(by.duplicate_headers())),
];

struct Attacker {
    shared: Arc<Attackers>,
    from: Ipv4Addr,
    /// Which of its kind.
    number: usize,
    count: Arc<AtomicUsize>,
}

impl Attacker {
    /// Attacks until the soak ends its runtime. A server that refuses or hangs up is part of it.
    async fn attack(self, kind: &'static Kind) {
        for turn in 0.. {
            let done = (kind.once)(&self, turn).await;
            self.count.fetch_add(usize::from(done.is_ok()), Ordering::Relaxed);
            sleep(kind.pause).await;
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.from, 0).into())?;
        socket.connect(self.shared.server).await
    }

    /// Sends a whole request, and reads the beginning of the answer.
    async fn exchange(&self, request: &[u8]) -> io::Result<()> {
        let mut stream = self.connect().await?;
        stream.write_all(request).await?;
        let mut answer = [0; 1_024];
        timeout(ANSWER_MAX, stream.read(&mut answer)).await??;
        Ok(())
    }

    /// The head of a request with the small tenant's key.
    fn head(&self, line: &str, length: usize) -> String {
        let bearer = &self.shared.bearer;
        format!(
            "{line} HTTP/1.1\r\nHost: soak\r\nAuthorization: {bearer}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    }

    async fn post(&self, path: &str, body: &str) -> io::Result<()> {
        let request = self.head(&format!("POST {path}"), body.len()) + body;
        self.exchange(request.as_bytes()).await
    }

    async fn idle(&self) -> io::Result<()> {
        self.connect().await?.read(&mut [0; 16]).await.map(drop)
    }

    /// Sends a header one byte at a time, until the server hangs up.
    async fn slow_header(&self) -> io::Result<()> {
        self.drip(b"GET /api/jobs HTTP/1.1\r\nHost: soak\r\nX-Slow: ").await
    }

    async fn slow_body(&self) -> io::Result<()> {
        self.drip(self.head("POST /api/jobs", 1024 * 1024).as_bytes()).await
    }

    async fn drip(&self, beginning: &[u8]) -> io::Result<()> {
        const PAUSE: Duration = Duration::from_millis(500);
        let mut stream = self.connect().await?;
        stream.write_all(beginning).await?;
        while stream.write_all(b"a").await.is_ok() {
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// 16 MiB that would be millions of reports.
    async fn empty_items(&self) -> io::Result<()> {
        const ITEMS: usize = 5_000_000;
        let mut body = String::with_capacity(3 * ITEMS + 16);
        body.push_str(r#"{"items":[{}"#);
        (1..ITEMS).for_each(|_| body.push_str(",{}"));
        body.push_str("]}");
        // The server may answer and hang up before it has read everything.
        drop(self.post("/api/work/settle", &body).await);
        Ok(())
    }

    async fn huge_header(&self) -> io::Result<()> {
        let value = "a".repeat(96 * 1024);
        let request = format!("GET /api/jobs HTTP/1.1\r\nHost: soak\r\nX-Huge: {value}\r\n\r\n");
        drop(self.exchange(request.as_bytes()).await);
        Ok(())
    }

    /// Bytes without a meaning, and different ones each time.
    async fn garbage(&self, turn: usize) -> io::Result<()> {
        let mut state = (turn as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes: Vec<u8> = (0..2_048)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        drop(self.exchange(&bytes).await);
        Ok(())
    }

    async fn forged_key(&self, turn: usize) -> io::Result<()> {
        let id = turn as u64 * 2 + self.number as u64;
        let request = format!(
            "GET /api/jobs HTTP/1.1\r\nHost: soak\r\n\
             Authorization: Bearer csk_{id:016x}_{}\r\n\r\n",
            "a".repeat(43)
        );
        self.exchange(request.as_bytes()).await
    }

    async fn new_type(&self, turn: usize) -> io::Result<()> {
        self.post("/api/jobs", &format!(r#"{{"jobType":"type-{turn}"}}"#)).await
    }

    async fn deep_payload(&self) -> io::Result<()> {
        const DEPTH: usize = 60;
        let payload = r#"{"child":"#.repeat(DEPTH) + "{}" + &"}".repeat(DEPTH);
        let body = format!(r#"{{"jobType":"{RECURSIVE_TYPE}","payload":{payload}}}"#);
        self.post("/api/jobs", &body).await
    }

    /// Opens a stream and does not read it, until the server hangs up or refuses.
    async fn unread_stream(&self) -> io::Result<()> {
        const HELD: Duration = Duration::from_secs(30);
        let path = &self.shared.signed_events_path;
        let request = format!("GET {path} HTTP/1.1\r\nHost: soak\r\n\r\n");
        let mut stream = self.connect().await?;
        stream.write_all(request.as_bytes()).await?;
        sleep(HELD).await;
        Ok(())
    }

    /// Claims with a long wait, and goes away.
    async fn abandoned_claim(&self, turn: usize) -> io::Result<()> {
        let name = format!("abandoned-{}-{turn}", self.number);
        let body = format!(
            r#"{{"workerId":"{name}","claimId":"{name}","jobTypes":["watched"],"max":1,"waitSeconds":60}}"#
        );
        let request = self.head("POST /api/work/claim", body.len()) + &body;
        let mut stream = self.connect().await?;
        stream.write_all(request.as_bytes()).await?;
        sleep(Duration::from_millis(200)).await;
        Ok(())
    }

    async fn unread_answers(&self) -> io::Result<()> {
        const HELD: Duration = Duration::from_secs(10);
        let requests = "GET /docs HTTP/1.1\r\nHost: soak\r\n\r\n".repeat(50);
        let mut stream = self.connect().await?;
        drop(timeout(HELD, stream.write_all(requests.as_bytes())).await);
        sleep(HELD).await;
        Ok(())
    }

    async fn duplicate_headers(&self) -> io::Result<()> {
        let bearer = &self.shared.bearer;
        let request = format!(
            "GET /api/jobs HTTP/1.1\r\nHost: soak\r\nHost: other\r\n\
             Authorization: {bearer}\r\nAuthorization: {bearer}\r\n\r\n"
        );
        self.exchange(request.as_bytes()).await
    }
}
