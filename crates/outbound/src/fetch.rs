//! Fetches published documents, such as an issuer's keys.

use crate::USER_AGENT;
use reqwest::{ClientBuilder, Response, StatusCode, Url, redirect::Policy};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

/// Fetches published documents. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client(reqwest::Client);

impl Client {
    /// A client that trusts the certificates that this machine trusts.
    pub fn new() -> Result<Self, FetchError> {
        let builder = client_builder()
            // `localhost` is allowed without TLS, so a DNS server must not be able to point it
            // elsewhere.
            .resolve_to_addrs(LOCALHOST, &loopback());
        builder.build().map(Client).map_err(FetchError::Setup)
    }

    /// Fetches what is at `url`: all of it within `timeout`, and not more than `bytes_max`.
    pub async fn fetch(
        &self,
        url: &str,
        bytes_max: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, FetchError> {
        let url = check_url(url)?;
        let response = self.0.get(url).timeout(timeout).send().await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        read(response, bytes_max).await
    }
}

/// Why nothing was fetched. It never repeats the URL, which may contain a secret.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The URL is not one that the client fetches from.
    #[error("{0}")]
    Address(&'static str),
    /// This machine lacks what a client needs.
    #[error("could not set up the http client")]
    Setup(#[source] reqwest::Error),
    /// The server did not answer, or the connection broke off.
    #[error("could not fetch from the address")]
    Failed(#[source] reqwest::Error),
    /// It took too long.
    #[error("the address did not answer in time")]
    TimedOut,
    /// The status was not 200.
    #[error("the address answered with status {0}")]
    Status(u16),
    /// The answer was larger than allowed.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            FetchError::TimedOut
        } else {
            FetchError::Failed(error.without_url())
        }
    }
}

const LOCALHOST: &str = "localhost";

/// Port 0 leaves the port to the URL that is fetched.
fn loopback() -> [SocketAddr; 2] {
    [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()]
}

/// Whether [`Client::fetch`] would fetch `url`, so that a setting can be checked before it is used.
pub fn check_address(url: &str) -> Result<(), FetchError> {
    check_url(url).map(drop)
}

fn check_url(url: &str) -> Result<Url, FetchError> {
    let url = Url::parse(url).map_err(|_| FetchError::Address("the address is not a URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Address("the address must not contain a user or a password"));
    }
    let safe = url.scheme() == "https" || (url.scheme() == "http" && is_this_machine(&url));
    if !safe {
        return Err(FetchError::Address("the address must be https, unless it is this machine"));
    }
    Ok(url)
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == LOCALHOST || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The common base of all our clients. Proxy settings in the environment are ignored.
pub(crate) fn client_builder() -> ClientBuilder {
    let builder = reqwest::Client::builder().user_agent(USER_AGENT);
    builder.redirect(Policy::none()).no_proxy().referer(false)
}

/// Whether a Content-Type means JSON.
pub fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// Counts while it reads: the announced length of an answer may be wrong.
pub(crate) async fn read(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if chunk.len() > bytes_max - bytes.len() {
            return Err(FetchError::TooLarge(bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread::{self, JoinHandle},
    };

    const LONG: Duration = Duration::from_secs(60);

    /// Serves one connection; the thread returns the client's request.
    fn serve(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            answer(&mut stream);
            String::from_utf8(request).unwrap()
        });
        (url, server)
    }

    fn says(text: &'static str) -> impl FnOnce(&mut TcpStream) + Send {
        move |stream| stream.write_all(text.as_bytes()).unwrap()
    }

    fn fetch(url: &str, bytes_max: usize, timeout: Duration) -> Result<Vec<u8>, FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Client::new().unwrap().fetch(url, bytes_max, timeout))
    }

    #[test]
    fn fetch_returns_the_body_and_sends_its_user_agent() {
        let (url, server) = serve(says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"));
        assert_eq!(fetch(&url, 5, LONG).unwrap(), b"hello");
        let request = server.join().unwrap().to_lowercase();
        assert!(request.starts_with("get /keys http/1.1"), "{request}");
        let agent = concat!("\r\nuser-agent: consign/", env!("CARGO_PKG_VERSION"), "\r\n");
        assert!(request.contains(agent), "{request}");
    }

    #[test]
    fn localhost_is_this_machine() {
        let (url, server) = serve(says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
        assert_eq!(fetch(&url.replace("127.0.0.1", "localhost"), 2, LONG).unwrap(), b"ok");
        server.join().unwrap();
    }

    #[test]
    fn an_answer_that_is_too_long_is_not_kept() {
        let (url, server) = serve(says("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!"));
        assert!(matches!(fetch(&url, 5, LONG), Err(FetchError::TooLarge(5))));
        server.join().unwrap();
    }

    #[test]
    fn an_endless_answer_is_left_at_the_limit() {
        let (url, server) = serve(|stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
            while stream.write_all(chunk.as_bytes()).is_ok() {}
        });
        assert!(matches!(fetch(&url, 100_000, LONG), Err(FetchError::TooLarge(100_000))));
        // The thread ends, so the client has hung up.
        server.join().unwrap();
    }

    #[test]
    fn a_redirect_is_not_followed() {
        let (target, _) = serve(says("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"));
        let (url, server) = serve(move |stream| {
            let answer =
                format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        });
        assert!(matches!(fetch(&url, 100, LONG), Err(FetchError::Status(302))));
        server.join().unwrap();
    }

    #[test]
    fn an_answer_that_does_not_end_is_not_waited_for() {
        let silent: [&[u8]; 2] = [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"];
        for beginning in silent {
            let (url, server) = serve(move |stream| {
                stream.write_all(beginning).unwrap();
                // Until the client hangs up.
                let _ = stream.read(&mut [0]);
            });
            let answer = fetch(&url, 100, Duration::from_millis(100));
            assert!(matches!(answer, Err(FetchError::TimedOut)), "{answer:?}");
            server.join().unwrap();
        }
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        let (url, server) = serve(says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"));
        assert!(matches!(fetch(&url, 100, LONG), Err(FetchError::Failed(_))));
        server.join().unwrap();
    }

    #[test]
    fn fetch_allows_plain_http_only_to_loopback() {
        for good in [
            "https://id.example/keys",
            "http://127.0.0.1:8080/keys",
            "http://127.9.9.9/",
            "http://[::1]:1/",
            "http://localhost/",
            "http://LOCALHOST/",
        ] {
            assert!(check_address(good).is_ok(), "{good}");
        }
        for bad in [
            "http://id.example/keys",
            "http://localhost.example/",
            "http://127.0.0.1.example/",
            "http://10.0.0.1/",
            "http://0.0.0.0/",
            "http://[::]/",
            "file:///etc/passwd",
            "ftp://127.0.0.1/",
            "https://user:secret@id.example/",
            "https://user@id.example/",
            "keys.json",
            "",
        ] {
            let refused = check_address(bad);
            assert!(matches!(refused, Err(FetchError::Address(_))), "{bad}");
            assert!(!refused.unwrap_err().to_string().contains("secret"));
        }
    }

    #[test]
    fn json_is_recognized_by_its_media_type() {
        assert!(is_json("application/json") && is_json("Application/JSON; charset=utf-8"));
        assert!(is_json("application/problem+json"));
        assert!(!is_json("text/plain") && !is_json("text/json+x") && !is_json(""));
    }
}
