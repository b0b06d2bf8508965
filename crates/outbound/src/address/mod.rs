//! Where requests may go when a user chooses the URL.
//!
//! A name is resolved once. Every address that it has must be public or listed by the operator, and
//! the connection goes to one of exactly those. A later change of the name has no effect.

mod allow;
mod public;

pub use allow::{AddressList, AddressListError, Allow, AllowError};
pub use public::is_public;

use crate::outcome::is_exhausted;
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    pin::Pin,
    sync::Arc,
};

/// Resolves names to addresses. Tests pass their own.
pub type Lookup = Arc<dyn Fn(String) -> LookupFuture + Send + Sync>;
/// A lookup in progress.
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// The system's resolver.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name, 0)).await.map_err(prefer_exhaustion)?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    })
}

/// The error of a lookup, or the resource that this process lacks for any lookup. The system's
/// resolver reports an unknown name even when it has no descriptor left; opening a socket here
/// tells the two apart.
fn prefer_exhaustion(error: io::Error) -> io::Error {
    let socket_error = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).err();
    socket_error.filter(is_exhausted).unwrap_or(error)
}

/// Why a URL is refused. It does not name the address: a caller might be probing for just that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The text is not a URL for a request.
    #[error("the address is no http or https URL with a host")]
    NoUrl,
    /// They would be sent to whatever host has the address.
    #[error("the address must not contain a user or a password")]
    Credentials,
    /// Every host on the way could read it.
    #[error(
        "the address is not https; only hosts that `[outbound] allow` lists are asked without TLS"
    )]
    Plain,
    /// The address is in a private network.
    #[error("the address is not a public one; `[outbound] allow` can list its host")]
    NotPublic,
}

/// Whether jobs could be pushed to `url`, as far as that is known without a lookup.
pub fn check_target(url: &str, allow: &Arc<Allow>) -> Result<(), Forbidden> {
    CheckedAddress::new(url, allow, &system_lookup()).map(drop)
}

/// A URL that was checked.
pub(crate) struct CheckedAddress {
    pub(crate) url: Url,
    guard: Guard,
}

/// What the addresses of one host are checked against.
#[derive(Clone)]
struct Guard {
    allow: Arc<Allow>,
    lookup: Lookup,
    port: u16,
    /// Whether the host is listed by its name, so that it may have any address.
    trusted: bool,
}

impl CheckedAddress {
    /// Checks `url`, as far as possible without a lookup.
    pub(crate) fn new(url: &str, allow: &Arc<Allow>, lookup: &Lookup) -> Result<Self, Forbidden> {
        let url = Url::parse(url).map_err(|_| Forbidden::NoUrl)?;
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(Forbidden::NoUrl);
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Forbidden::Credentials);
        }
        let literal = literal(host);
        let trusted = match literal {
            Some(address) => allow.lists(address, port),
            None => allow.lists_name(host, port),
        };
        match url.scheme() {
            "https" => {}
            "http" if trusted => {}
            "http" => return Err(Forbidden::Plain),
            _ => return Err(Forbidden::NoUrl),
        }
        let guard = Guard { allow: allow.clone(), lookup: lookup.clone(), port, trusted };
        // A literal address is never looked up, so this is the only check.
        literal.map_or(Ok(()), |address| guard.check(&[address]))?;
        Ok(CheckedAddress { url, guard })
    }

    /// Resolves the name of this target, and no other.
    pub(crate) fn resolver(&self) -> impl Resolve + 'static {
        self.guard.clone()
    }
}

/// The URL parser has already normalised every spelling of an address: decimal, octal, short, in
/// wide characters.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

impl Guard {
    /// One forbidden address is enough to refuse: the HTTP client chooses which address it takes.
    fn check(&self, addresses: &[IpAddr]) -> Result<(), Forbidden> {
        let is_allowed = |address: &IpAddr| {
            self.trusted || is_public(*address) || self.allow.lists(*address, self.port)
        };
        if addresses.iter().all(is_allowed) { Ok(()) } else { Err(Forbidden::NotPublic) }
    }

    async fn resolve(
        self,
        name: String,
    ) -> Result<Addrs, Box<dyn std::error::Error + Send + Sync>> {
        let addresses = (self.lookup)(name).await?;
        self.check(&addresses)?;
        let port = self.port;
        Ok(Box::new(addresses.into_iter().map(move |address| SocketAddr::new(address, port))))
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(self.clone().resolve(name.as_str().to_owned()))
    }
}
