//! A small HTTP/1.1 client: it sends what a test says, byte for byte, and reads answers as strictly
//! as the protocol allows.

use super::test_server::ANSWER_WITHIN;
use rustix::net::{AddressFamily, SocketType, sockopt};
use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

/// A client, with or without a key.
#[derive(Clone)]
pub(crate) struct Client {
    port: Arc<AtomicU16>,
    key: Option<String>,
}

impl Client {
    pub(crate) fn new(port: Arc<AtomicU16>) -> Self {
        Client { port, key: None }
    }

    pub(crate) fn with_key(&self, key: &str) -> Self {
        Client { port: self.port.clone(), key: Some(key.into()) }
    }

    pub(crate) fn get(&self, path: &str) -> Ask {
        self.ask("GET", path)
    }

    pub(crate) fn post(&self, path: &str) -> Ask {
        self.ask("POST", path)
    }

    pub(crate) fn put(&self, path: &str) -> Ask {
        self.ask("PUT", path)
    }

    pub(crate) fn delete(&self, path: &str) -> Ask {
        self.ask("DELETE", path)
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask {
        let ask = Ask {
            port: self.port.clone(),
            method: method.into(),
            path: path.into(),
            headers: Vec::new(),
            body: None,
            within: ANSWER_WITHIN,
        };
        match &self.key {
            Some(key) => ask.key(key),
            None => ask,
        }
    }

    /// A connection on which a test can send any bytes.
    pub(crate) fn connect(&self) -> io::Result<Connection> {
        Connection::open(&self.port, ANSWER_WITHIN)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        address(&self.port)
    }

    /// A connection from the local address `local`.
    pub(crate) fn connect_from(&self, local: IpAddr) -> io::Result<Connection> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &SocketAddr::new(local, 0))?;
        rustix::net::connect(&socket, &self.address())?;
        Connection::over(TcpStream::from(socket), ANSWER_WITHIN)
    }
}

fn address(port: &AtomicU16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port.load(Ordering::SeqCst)))
}

/// One request.
#[derive(Clone)]
#[must_use]
pub(crate) struct Ask {
    port: Arc<AtomicU16>,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    within: Duration,
}

impl Ask {
    /// Sends this key and no other credential.
    pub(crate) fn key(self, key: &str) -> Self {
        let mut ask = self.without("authorization");
        ask.headers.push(("authorization".into(), format!("Bearer {key}")));
        ask
    }

    /// Leaves a header out.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(field_name, _)| !field_name.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn json(self, value: &Value) -> Self {
        let mut ask = self.without("content-type").header("content-type", "application/json");
        ask.body = Some(value.to_string().into_bytes());
        ask
    }

    pub(crate) fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = Some(bytes.into());
        self
    }

    /// The same request to another server that knows the same key.
    pub(crate) fn at(mut self, client: &Client) -> Self {
        self.port = client.port.clone();
        self
    }

    /// Sends the request and closes the connection without waiting for the answer.
    pub(crate) fn cut(&self) -> io::Result<()> {
        Connection::open(&self.port, self.within)?.write(&self.bytes())
    }

    /// How long the server may be silent.
    pub(crate) fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Sends it over a connection of its own.
    #[track_caller]
    pub(crate) fn send(self) -> Answer {
        let (method, path) = (self.method.clone(), self.path.clone());
        self.try_send().unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub(crate) fn try_send(self) -> io::Result<Answer> {
        let mut connection = Connection::open(&self.port, self.within)?;
        connection.send(self.header("connection", "close"))
    }

    /// Sends it and reads the answer as a stream of events.
    #[track_caller]
    pub(crate) fn events(self) -> Events {
        let request = format!("{} {}", self.method, self.path);
        self.try_events().unwrap_or_else(|refused| panic!("{request}: {}", refused.text()))
    }

    /// The same, where the server may refuse it.
    #[track_caller]
    pub(crate) fn try_events(self) -> Result<Events, Answer> {
        let mut connection = Connection::open(&self.port, self.within).unwrap();
        connection.write(&self.bytes()).unwrap();
        let mut head = connection.head().unwrap();
        let mut body = connection.body_of(&head, &self.method);
        if head.status != 200 {
            while let Some(piece) = body.next(&mut connection.stream).unwrap() {
                head.body.extend(piece);
            }
            return Err(head);
        }
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        Ok(Events { answer: head, connection, body, ended: false })
    }

    /// The bytes of the request, for tests that send them in pieces.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let has = |name: &str| {
            self.headers.iter().any(|(field_name, _)| field_name.eq_ignore_ascii_case(name))
        };
        if !has("host") {
            text += &format!("host: {}\r\n", address(&self.port));
        }
        if let Some(body) = &self.body
            && !has("content-length")
            && !has("transfer-encoding")
        {
            text += &format!("content-length: {}\r\n", body.len());
        }
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        let mut bytes = text.into_bytes();
        bytes.extend(self.body.iter().flatten());
        bytes
    }
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(field_name, _)| field_name == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let read = serde_json::from_slice(&self.body);
        read.unwrap_or_else(|error| panic!("{error}: {} {:?}", self.status, self.text()))
    }

    /// The JSON of an answer that must have this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// The problem details of an answer that must be this refusal, complete as the contract wants
    /// it.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let text = self.text();
        assert_eq!(self.status, status, "wanted {code}: {text}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{text}");
        let problem = self.json();
        assert_eq!(problem["errorCode"], code, "{text}");
        assert_eq!(problem["status"], status, "{text}");
        assert_eq!(problem["type"], format!("/errors/{code}"), "{text}");
        for field in ["title", "detail", "correlationId"] {
            assert!(
                problem[field].as_str().is_some_and(|value| !value.is_empty()),
                "{field}: {text}"
            );
        }
        assert_eq!(problem["correlationId"].as_str(), self.header("x-correlation-id"), "{text}");
        problem
    }
}

/// A connection. A test may send several requests on it, send one in pieces, or leave it idle.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(port: &AtomicU16, within: Duration) -> io::Result<Self> {
        Connection::over(TcpStream::connect_timeout(&address(port), within)?, within)
    }

    fn over(stream: TcpStream, within: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(within))?;
        stream.set_write_timeout(Some(within))?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    /// Sends a request and reads its answer; the connection stays open as long as the server
    /// allows.
    pub(crate) fn send(&mut self, ask: Ask) -> io::Result<Answer> {
        // A server that refuses a body may answer before it was sent, and not read the rest.
        let written = self.write(&ask.bytes());
        self.answer(&ask.method).map_err(|unread| written.err().unwrap_or(unread))
    }

    /// Reads the answer to a request of that method.
    pub(crate) fn answer(&mut self, method: &str) -> io::Result<Answer> {
        let mut answer = self.head()?;
        let mut body = self.body_of(&answer, method);
        while let Some(piece) = body.next(&mut self.stream)? {
            answer.body.extend(piece);
        }
        Ok(answer)
    }

    /// Sends bytes and closes, so that both arrive together: the server cannot answer in between.
    pub(crate) fn send_and_close(mut self, bytes: &[u8]) -> io::Result<()> {
        sockopt::set_tcp_nodelay(self.stream.get_ref(), false)?;
        sockopt::set_tcp_cork(self.stream.get_ref(), true)?;
        self.write(bytes)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Everything that arrives until the server closes the connection.
    pub(crate) fn read_all(&mut self) -> io::Result<String> {
        let mut all = Vec::new();
        self.stream.read_to_end(&mut all)?;
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    fn head(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let mut words = line.splitn(3, ' ');
        let version = words.next();
        let status = words.next().and_then(|status| status.parse().ok());
        let (Some("HTTP/1.1"), Some(status)) = (version, status) else {
            return Err(not_http(&line));
        };
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(Answer { status, headers, body: Vec::new() });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| not_http(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().into()));
        }
    }

    /// The next line of an answer, such as its first.
    pub(crate) fn line(&mut self) -> io::Result<String> {
        read_line(&mut self.stream)
    }

    fn body_of(&self, head: &Answer, method: &str) -> BodyLength {
        let chunked = head.header("transfer-encoding").is_some_and(|coding| coding == "chunked");
        let length = head.header("content-length").and_then(|length| length.parse().ok());
        match (method, head.status, length) {
            ("HEAD", _, _) | (_, 204 | 304, _) => BodyLength::Left(0),
            _ if chunked => BodyLength::Chunks,
            (_, _, Some(length)) => BodyLength::Left(length),
            (_, _, None) => BodyLength::UntilClosed,
        }
    }
}

fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        None => Err(not_http(&String::from_utf8_lossy(&line))),
    }
}

fn not_http(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is no HTTP/1.1: {line:?}"))
}

/// How the end of a body is recognised.
enum BodyLength {
    Left(usize),
    Chunks,
    UntilClosed,
}

impl BodyLength {
    /// The next piece, or none at the end.
    fn next(&mut self, stream: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
        match self {
            BodyLength::Left(0) => Ok(None),
            BodyLength::Left(length) => {
                let mut whole = vec![0; *length];
                stream.read_exact(&mut whole)?;
                *self = BodyLength::Left(0);
                Ok(Some(whole))
            }
            BodyLength::Chunks => {
                let line = read_line(stream)?;
                let size = usize::from_str_radix(&line, 16).map_err(|_| not_http(&line))?;
                let mut chunk = vec![0; size];
                stream.read_exact(&mut chunk)?;
                if !read_line(stream)?.is_empty() {
                    return Err(not_http("more than the chunk announced"));
                }
                if size == 0 {
                    *self = BodyLength::Left(0);
                    return Ok(None);
                }
                Ok(Some(chunk))
            }
            BodyLength::UntilClosed => {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest)?;
                *self = BodyLength::Left(0);
                Ok(Some(rest))
            }
        }
    }
}

/// Server-sent events, one by one.
pub(crate) struct Events {
    /// The head of the answer.
    pub(crate) answer: Answer,
    connection: Connection,
    body: BodyLength,
    ended: bool,
}

/// One server-sent event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Events {
    /// The next event; `None` when the server has ended the stream in order.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.try_next().unwrap_or_else(|error| panic!("the stream broke: {error}"))
    }

    pub(crate) fn try_next(&mut self) -> io::Result<Option<Event>> {
        loop {
            let text = String::from_utf8_lossy(&self.answer.body).into_owned();
            if let Some((block, rest)) = text.split_once("\n\n") {
                self.answer.body = rest.as_bytes().to_vec();
                // A comment only keeps the connection alive.
                if let Some(event) = Event::of(block) {
                    return Ok(Some(event));
                }
                continue;
            }
            if self.ended {
                assert!(text.trim().is_empty(), "an event was cut off: {text:?}");
                return Ok(None);
            }
            match self.body.next(&mut self.connection.stream)? {
                Some(piece) => self.answer.body.extend(piece),
                None => self.ended = true,
            }
        }
    }
}

impl Event {
    fn of(block: &str) -> Option<Self> {
        let fields: Vec<(&str, &str)> =
            block.lines().filter_map(|line| line.split_once(':')).collect();
        let all = |name: &str| -> Vec<&str> {
            let named = fields.iter().filter(|(field_name, _)| *field_name == name);
            named.map(|(_, value)| value.strip_prefix(' ').unwrap_or(value)).collect()
        };
        let data = all("data");
        if data.is_empty() {
            return None;
        }
        let data = serde_json::from_str(&data.join("\n")).expect("the data of an event is JSON");
        let event = all("event").first().copied().unwrap_or("message").into();
        Some(Event { id: all("id").first().map(|id| (*id).into()), event, data })
    }
}
