//! Sends requests and reads answers. No other file does.

use crate::{Address, ClientError};
use reqwest::{
    Certificate, Method, RequestBuilder, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use wire::{Problem, Secret};

/// A client of one server, with one credential. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    address: Address,
    /// The address as errors name it.
    display_address: String,
    key: Option<Secret>,
    authority: Option<Arc<[u8]>>,
    socket: Option<Arc<Socket>>,
}

struct Socket {
    /// The path that errors name.
    display_path: PathBuf,
    /// The path that the system gets; it may be shorter.
    path: PathBuf,
}

/// How long a healthy server takes at most, beside the wait that the request asks for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// A client of the server at `address`, such as `http://127.0.0.1:8470`, that sends `key`, if
    /// any.
    pub fn new(address: &str, key: Option<&Secret>) -> Result<Self, ClientError> {
        Self::build(address, key, None, None)
    }

    /// A client over a Unix socket of that server: nothing goes over TCP. Errors name the socket as
    /// `display_path`, and the system gets `path`.
    pub fn over_socket(
        address: &str,
        key: Option<&Secret>,
        display_path: &Path,
        path: &Path,
    ) -> Result<Self, ClientError> {
        let socket = Socket { display_path: display_path.to_owned(), path: path.to_owned() };
        Self::build(address, key, None, Some(Arc::new(socket)))
    }

    /// A client of a server whose certificate is signed by a private authority; `authority` is PEM.
    pub fn trusting(
        address: &str,
        key: Option<&Secret>,
        authority: &[u8],
    ) -> Result<Self, ClientError> {
        Self::build(address, key, Some(authority), None)
    }

    fn build(
        address: &str,
        key: Option<&Secret>,
        authority: Option<&[u8]>,
        socket: Option<Arc<Socket>>,
    ) -> Result<Self, ClientError> {
        let mut address = Address::parse(address)?;
        let display_address = address.to_string();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("consign/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none()) // a credential goes only to the configured address
            .no_proxy()
            // A name server must not lead requests for this machine elsewhere.
            .resolve_to_addrs("localhost", &loopback())
            .connect_timeout(CONNECT_TIMEOUT)
            .default_headers(credential(key)?);
        if let Some(pem) = authority {
            let wrong = |_| setup("the certificates of the authority are not PEM");
            builder = builder.tls_certs_merge(Certificate::from_pem_bundle(pem).map_err(wrong)?);
        }
        if let Some(socket) = &socket {
            address = address.unencrypted();
            builder = builder.unix_socket(socket.path.as_path());
        }
        let wrong = |error| ClientError::Setup(format!("no http client can be set up: {error}"));
        let (key, authority) = (key.cloned(), authority.map(Arc::from));
        let http = builder.build().map_err(wrong)?;
        Ok(Client { http, address, display_address, key, authority, socket })
    }

    /// A client with connections of its own, for a thread that must not wait for the requests of
    /// others.
    pub fn apart(&self) -> Result<Self, ClientError> {
        let (key, authority) = (self.key.as_ref(), self.authority.as_deref());
        Self::build(&self.display_address, key, authority, self.socket.clone())
    }

    /// The address of the server.
    pub fn address(&self) -> &str {
        &self.display_address
    }

    pub(crate) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.http.request(method, self.address.below(path)).timeout(ANSWER_TIMEOUT)
    }

    /// A request whose answer the server may hold back for `wait`.
    pub(crate) fn waiting_request(
        &self,
        method: Method,
        path: &[&str],
        wait: Duration,
    ) -> RequestBuilder {
        self.http.request(method, self.address.below(path)).timeout(ANSWER_TIMEOUT + wait)
    }

    /// A request for an answer without end.
    pub(crate) fn stream_request(&self, path: &[&str]) -> RequestBuilder {
        self.http.get(self.address.below(path))
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ClientError> {
        self.read(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.read(json(self.request(Method::POST, path), body)).await
    }

    /// Sends a request, and reads the body of a successful answer.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        self.body(response).await
    }

    /// Sends a request and returns a successful response or a 304; any other status is an error.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.failed(error))?;
        let status = response.status();
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        let retry_after = retry_after(response.headers());
        let bytes = response.bytes().await.map_err(|error| self.failed(error))?;
        Err(match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => ClientError::Refused { problem: Box::new(problem), retry_after },
            Err(_) => self.unexpected_response(status),
        })
    }

    pub(crate) async fn body<T: DeserializeOwned>(
        &self,
        response: Response,
    ) -> Result<T, ClientError> {
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| self.failed(error))?;
        serde_json::from_slice(&bytes).map_err(|_| self.unexpected_response(status))
    }

    pub(crate) fn unexpected_response(&self, status: StatusCode) -> ClientError {
        ClientError::UnexpectedResponse { address: self.address().into(), status: status.as_u16() }
    }

    pub(crate) fn timed_out(&self) -> ClientError {
        ClientError::TimedOut { address: self.address().into() }
    }

    pub(crate) fn failed(&self, error: reqwest::Error) -> ClientError {
        let (address, source) = (self.address().to_owned(), error.without_url());
        if source.is_connect() {
            let socket = self.socket.as_ref().map(|socket| socket.display_path.clone());
            return ClientError::Unreachable { address, socket, source };
        }
        if source.is_timeout() {
            return ClientError::TimedOut { address };
        }
        ClientError::Broken { address, source }
    }
}

/// Port 0 leaves the port to the address.
fn loopback() -> [SocketAddr; 2] {
    [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()]
}

/// Hides the key.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address()).finish_non_exhaustive()
    }
}

pub(crate) fn json(request: RequestBuilder, body: &impl Serialize) -> RequestBuilder {
    let text = serde_json::to_vec(body).expect("the wire's shapes are texts and numbers");
    request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(text)
}

pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// How many nodes have not confirmed a change; 0 where the answer does not say.
pub(crate) fn unconfirmed_nodes(headers: &HeaderMap) -> u64 {
    let nodes = headers.get("consign-unconfirmed-nodes").and_then(|value| value.to_str().ok());
    nodes.and_then(|nodes| nodes.trim().parse().ok()).unwrap_or(0)
}

fn credential(key: Option<&Secret>) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let value = HeaderValue::from_str(&format!("Bearer {}", key.expose()));
        let wrong = |_| setup("the key has characters that no key has");
        let mut value = value.map_err(wrong)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn setup(why: &str) -> ClientError {
    ClientError::Setup(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_where_a_server_can_be() {
        for good in ["http://127.0.0.1:8470", "https://jobs.example.org/consign/"] {
            assert!(Client::new(good, None).is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:8470", "ftp://x/", "http://u:secret@x/", "http://x/?a=b"] {
            let message = Client::new(bad, None).unwrap_err().to_string();
            assert!(bad.is_empty() || !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn ids_cannot_leave_their_place_in_the_path() {
        let client = Client::new("http://127.0.0.1:1/under/", None).unwrap();
        let url = client.address.below(&["api", "jobs", "../keys?x#y", "status"]);
        assert_eq!(url.as_str(), "http://127.0.0.1:1/under/api/jobs/..%2Fkeys%3Fx%23y/status");
    }

    #[test]
    fn the_response_header_counts_unconfirmed_nodes() {
        let mut headers = HeaderMap::new();
        assert_eq!(unconfirmed_nodes(&headers), 0);
        for (value, expected) in [("1", 1), ("12", 12), ("many", 0)] {
            headers.insert("consign-unconfirmed-nodes", HeaderValue::from_static(value));
            assert_eq!(unconfirmed_nodes(&headers), expected, "{value}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        let client = Client::new("http://127.0.0.1:1", Some(&Secret::new("csk_secret"))).unwrap();
        assert!(!format!("{client:?}").contains("csk_"));
    }

    #[test]
    fn an_unreachable_server_is_a_retryable_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // The listener that had this port is closed.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let client = Client::new(&address, None).unwrap();
        let error = runtime.block_on(client.queues(None)).unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("{address} cannot be reached"));
        assert!(error.is_worth_repeating());
    }
}
