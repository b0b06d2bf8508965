//! Where requests may go, when others say where.
//!
//! A name is resolved once, by us; every address that it has must be public or listed by the operator, and the
//! connection goes to one of exactly those. What a name means a moment later is of no interest.

mod allow;
mod public;

pub use allow::{AddressList, AddressListError, Allow, AllowError};
pub use public::is_public;

use crate::ended::is_exhausted;
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

/// Who says which addresses a name has. Tests have their own.
pub type Lookup = Arc<dyn Fn(String) -> LookupFuture + Send + Sync>;
/// A lookup under way.
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Asks the system.
pub fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await.map_err(with_lack)?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// The error of a lookup, or what this process lacks to look anything up. The system's resolver says
/// only that a name is not known, also where it has no descriptor left to ask with; a socket of our
/// own says which it is.
fn with_lack(error: io::Error) -> io::Error {
    let lack = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).err();
    lack.filter(is_exhausted).unwrap_or(error)
}

/// We do not go there. It does not say where that would have been: whoever asks might be looking for just that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// This is no address for a request.
    #[error("the address is no http or https URL with a host")]
    NoUrl,
    /// It would be sent to whoever is there.
    #[error("the address must not contain a user or a password")]
    Credentials,
    /// Everybody on the way could read it.
    #[error(
        "the address is not https; only hosts that `[outbound] allow` lists are asked without TLS"
    )]
    Plain,
    /// It is in somebody's own network.
    #[error("the address is not a public one; `[outbound] allow` can list its host")]
    NotPublic,
}

/// Whether jobs could be pushed to `url`, as far as that is known without asking anybody.
pub fn check_target(url: &str, allow: &Arc<Allow>) -> Result<(), Forbidden> {
    Target::new(url, allow, &system_lookup()).map(drop)
}

/// An address that was looked at.
pub(crate) struct Target {
    pub(crate) url: Url,
    guard: Guard,
}

/// What the addresses of one host are measured by.
#[derive(Clone)]
struct Guard {
    allow: Arc<Allow>,
    lookup: Lookup,
    port: u16,
    /// Whether the host is listed by its name, so that it may have any address.
    trusted: bool,
}

impl Target {
    /// Looks at `url`, as far as it can be judged without asking anybody.
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
        // Nobody is asked what a number means, so this is the only look at it.
        literal.map_or(Ok(()), |address| guard.check(&[address]))?;
        Ok(Target { url, guard })
    }

    /// Resolves the name of this target, and no other.
    pub(crate) fn resolver(&self) -> impl Resolve + 'static {
        self.guard.clone()
    }
}

/// The URL's own reading has made one writing of all that an address has: decimal, octal, short, in wide letters.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

impl Guard {
    /// One address that is not allowed is enough: which of them is taken is not in our hands.
    fn check(&self, addresses: &[IpAddr]) -> Result<(), Forbidden> {
        let lawful = |address: &IpAddr| {
            self.trusted || is_public(*address) || self.allow.lists(*address, self.port)
        };
        if addresses.iter().all(lawful) { Ok(()) } else { Err(Forbidden::NotPublic) }
    }

    async fn resolve(
        self,
        name: String,
    ) -> Result<Addrs, Box<dyn std::error::Error + Send + Sync>> {
        let found = (self.lookup)(name).await?;
        self.check(&found)?;
        let port = self.port;
        Ok(Box::new(found.into_iter().map(move |address| SocketAddr::new(address, port))))
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(self.clone().resolve(name.as_str().to_owned()))
    }
}
