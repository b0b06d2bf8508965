//! The hostile clients. Each kind is a loop that ends when the soak drops it. Its answers do not
//! matter here.

use super::super::{
    client::{BenchConnection, BenchTarget, HttpRequest},
    processes::bearer,
};
use crate::{Error, error::failed};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::Value;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
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

/// Creates a key of a small tenant, and returns what a client with it needs.
pub(super) async fn key_for(admin: &BenchTarget, tenant: &str) -> Result<BenchTarget, Error> {
    let body = format!(
        r#"{{"name":"soak","tenant":"{tenant}","scopes":["jobs:enqueue","jobs:read","work"]}}"#
    );
    let request = HttpRequest::post("a new key", "/api/keys", body, StatusCode::CREATED);
    let answer: Value = BenchConnection::open(admin).await?.send_for_json(request).await?;
    let bearer = bearer(text(&answer, "key")?).expect("a key is plain ASCII");
    Ok(BenchTarget { address: admin.address, bearer })
}

fn text<'a>(answer: &'a Value, field: &str) -> Result<&'a str, Error> {
    let missing = || Error::Unmeasurable(format!("{field} is missing in {answer}"));
    answer[field].as_str().ok_or_else(missing)
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
    pub(super) async fn prepare(admin: &BenchTarget) -> Result<Self, Error> {
        let mut connection = BenchConnection::open(admin).await?;
        connection
            .send(HttpRequest {
                what: "a type with a schema",
                method: Method::PUT,
                path: format!("/api/types/{RECURSIVE_TYPE}"),
                body: Bytes::from_static(RECURSIVE_SCHEMA.as_bytes()),
                expected: StatusCode::OK,
            })
            .await?;
        let target = key_for(admin, "hostile").await?;
        let (path, body) = ("/api/jobs?withSignedUrl=true", r#"{"jobType":"watched"}"#);
        let signed = HttpRequest::post("a signed address", path, body, StatusCode::ACCEPTED);
        let job: Value = BenchConnection::open(&target).await?.send_for_json(signed).await?;
        let url = text(&job, "signedStatusUrl")?;
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
        Ok(Attack { runtime, counts: counts.map(|(kind, count)| (kind.name, count)) })
    }
}

pub(super) struct Attack {
    runtime: Runtime,
    counts: [(&'static str, Arc<AtomicUsize>); KINDS.len()],
}

impl Attack {
    /// Ends all attacks, and returns how often each was carried out.
    pub(super) fn end(self) -> Vec<(&'static str, usize)> {
        self.runtime.shutdown_background();
        self.counts.map(|(name, count)| (name, count.load(Ordering::Relaxed))).into()
    }
}

/// One kind of attack: how many clients make it, and how long each pauses in between.
struct Kind {
    name: &'static str,
    clients: usize,
    pause: Duration,
    after_sending: AfterSending,
    /// What a client sends, given how often it has sent something before.
    request: fn(&Attacker, usize) -> Vec<u8>,
}

/// What a client does after it has sent its request.
enum AfterSending {
    /// Waits until the server hangs up.
    Wait,
    /// Sends one more byte now and then, until the server hangs up.
    Drip,
    /// Reads the beginning of the answer.
    Read,
    /// The same, but the server may hang up before it has read everything.
    ReadIfAny,
    /// Reads nothing for this time. The server may hang up, or stop reading the request.
    Ignore(Duration),
}
use AfterSending::*;

const fn kind(
    name: &'static str,
    clients: usize,
    pause_ms: u64,
    after_sending: AfterSending,
    request: fn(&Attacker, usize) -> Vec<u8>,
) -> Kind {
    Kind { name, clients, pause: Duration::from_millis(pause_ms), after_sending, request }
}

static KINDS: [Kind; 13] = [
    kind("idle connections", 3_000, 1_000, Wait, |_, _| Vec::new()),
    kind("slow headers", 200, 1_000, Drip, |_, _| format!("{GET_JOBS}X-Slow: ").into()),
    kind("slow bodies", 50, 1_000, Drip, |attacker, _| {
        attacker.head("POST /api/jobs", 1024 * 1024).into()
    }),
    kind("pages of empty items", 1, 2_000, ReadIfAny, |attacker, _| attacker.empty_items().into()),
    kind("huge headers", 2, 500, ReadIfAny, |_, _| huge_header().into()),
    kind("garbage", 2, 200, ReadIfAny, |_, round| garbage(round)),
    kind("forged keys", 2, 50, Read, |attacker, round| attacker.forged_key(round).into()),
    kind("new job types", 1, 50, Read, |attacker, round| attacker.new_type(round).into()),
    kind("deep payloads", 1, 100, Read, |attacker, _| attacker.deep_payload().into()),
    kind("streams of one signed address", 500, 1_000, STREAM, |attacker, _| {
        attacker.signed_stream().into()
    }),
    kind("abandoned claims", 20, 500, CLAIM, |attacker, round| attacker.long_claim(round).into()),
    kind("answers that are not read", 20, 1_000, ANSWERS, |_, _| GET_DOCS.repeat(50).into()),
    kind("duplicate headers", 1, 100, Read, |attacker, _| attacker.duplicate_headers().into()),
];

const GET_JOBS: &str = "GET /api/jobs HTTP/1.1\r\nHost: soak\r\n";
const GET_DOCS: &str = "GET /docs HTTP/1.1\r\nHost: soak\r\n\r\n";
const STREAM: AfterSending = Ignore(Duration::from_secs(30));
const CLAIM: AfterSending = Ignore(Duration::from_millis(200));
const ANSWERS: AfterSending = Ignore(Duration::from_secs(10));

struct Attacker {
    shared: Arc<Attackers>,
    from: Ipv4Addr,
    /// The number of this client among those of its kind.
    number: usize,
    count: Arc<AtomicUsize>,
}

impl Attacker {
    /// Attacks until the soak ends its runtime. A server that refuses or hangs up is expected.
    async fn attack(self, kind: &'static Kind) {
        for round in 0.. {
            let done = self.once(kind, round).await;
            self.count.fetch_add(usize::from(done.is_ok()), Ordering::Relaxed);
            sleep(kind.pause).await;
        }
    }

    async fn once(&self, kind: &Kind, round: usize) -> io::Result<()> {
        const DRIP_EVERY: Duration = Duration::from_millis(500);
        let request = (kind.request)(self, round);
        let mut stream = self.connect().await?;
        match kind.after_sending {
            AfterSending::Wait => drop(stream.read(&mut [0; 16]).await?),
            AfterSending::Drip => {
                stream.write_all(&request).await?;
                while stream.write_all(b"a").await.is_ok() {
                    sleep(DRIP_EVERY).await;
                }
            }
            AfterSending::Read => exchange(stream, &request).await?,
            AfterSending::ReadIfAny => drop(exchange(stream, &request).await),
            AfterSending::Ignore(duration) => {
                drop(timeout(duration, stream.write_all(&request)).await);
                sleep(duration).await;
            }
        }
        Ok(())
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.from, 0).into())?;
        socket.connect(self.shared.server).await
    }

    /// The head of a request with the small tenant's key.
    fn head(&self, line: &str, length: usize) -> String {
        let bearer = &self.shared.bearer;
        format!(
            "{line} HTTP/1.1\r\nHost: soak\r\nAuthorization: {bearer}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    }

    fn post(&self, path: &str, body: &str) -> String {
        self.head(&format!("POST {path}"), body.len()) + body
    }

    /// 16 MiB that would be millions of reports.
    fn empty_items(&self) -> String {
        let items = "{},".repeat(5_000_000);
        self.post("/api/work/settle", &format!(r#"{{"items":[{items}{{}}]}}"#))
    }

    fn forged_key(&self, round: usize) -> String {
        let (id, secret) = (round as u64 * 2 + self.number as u64, "a".repeat(43));
        format!("{GET_JOBS}Authorization: Bearer csk_{id:016x}_{secret}\r\n\r\n")
    }

    fn new_type(&self, round: usize) -> String {
        self.post("/api/jobs", &format!(r#"{{"jobType":"type-{round}"}}"#))
    }

    fn deep_payload(&self) -> String {
        const DEPTH: usize = 60;
        let payload = r#"{"child":"#.repeat(DEPTH) + "{}" + &"}".repeat(DEPTH);
        self.post("/api/jobs", &format!(r#"{{"jobType":"{RECURSIVE_TYPE}","payload":{payload}}}"#))
    }

    fn signed_stream(&self) -> String {
        format!("GET {} HTTP/1.1\r\nHost: soak\r\n\r\n", self.shared.signed_events_path)
    }

    /// A claim with a long wait.
    fn long_claim(&self, round: usize) -> String {
        let name = format!("abandoned-{}-{round}", self.number);
        let body = format!(
            r#"{{"workerId":"{name}","claimId":"{name}","jobTypes":["watched"],"max":1,"waitSeconds":60}}"#
        );
        self.post("/api/work/claim", &body)
    }

    fn duplicate_headers(&self) -> String {
        let authorization = format!("Authorization: {}\r\n", self.shared.bearer);
        format!("{GET_JOBS}Host: other\r\n{authorization}{authorization}\r\n")
    }
}

/// Sends a whole request, and reads the beginning of the answer.
async fn exchange(mut stream: TcpStream, request: &[u8]) -> io::Result<()> {
    stream.write_all(request).await?;
    timeout(ANSWER_MAX, stream.read(&mut [0; 1_024])).await??;
    Ok(())
}

fn huge_header() -> String {
    format!("{GET_JOBS}X-Huge: {}\r\n\r\n", "a".repeat(96 * 1024))
}

/// Random bytes, different ones each time.
fn garbage(round: usize) -> Vec<u8> {
    let mut state = (round as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..2_048).map(|_| next()).collect()
}
