//! The listen address, and whether other machines can reach it.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    str::FromStr,
};

/// An address and a port, as the user wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    Address(SocketAddr),
    Name(String, u16),
}

impl Listen {
    /// The addresses to which it resolves now.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Listen::Address(address) => Ok(vec![*address]),
            Listen::Name(name, port) => Ok((name.as_str(), *port).to_socket_addrs()?.collect()),
        }
    }

    /// Whether other machines can reach it, as far as that is known without DNS.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Listen::Address(address) => is_open(address.ip()),
            Listen::Name(..) => false, // resolved before the start
        }
    }
}

/// Whether other machines can reach a listener at `address`.
pub(crate) fn is_open(address: IpAddr) -> bool {
    // ::ffff:127.0.0.1 is loopback, mapped to IPv6.
    !address.to_canonical().is_loopback()
}

/// The error for a reachable address without TLS.
pub(crate) const UNPROTECTED: &str = "other machines can reach this address, and the requests to it are not encrypted: \
     set cert and key in [tls], or behind_proxy = true where a proxy does TLS in front of it, \
     or listen on 127.0.0.1";

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "must be an address and a port, such as 127.0.0.1:8470 or [::1]:8470";
        if text.contains("://") {
            return Err("must be an address and a port without http:// before them".into());
        }
        let (host, port) = text.rsplit_once(':').ok_or(expected)?;
        let port = port.parse().map_err(|_| expected)?;
        if host.is_empty() {
            return Err(format!("names no address: 127.0.0.1:{port} is this machine alone"));
        }
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let ip = match bracketed {
            Some(address) => Some(IpAddr::V6(address.parse().map_err(|_| expected)?)),
            None if host.contains(':') => {
                return Err(format!("has IPv6 without brackets: try [{host}]:{port}"));
            }
            None => host.parse().ok(),
        };
        match ip {
            Some(ip) => Ok(Listen::Address(SocketAddr::new(ip, port))),
            None if is_name(host) => Ok(Listen::Name(host.into(), port)),
            None => Err(expected.into()),
        }
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter))
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Address(address) => address.fmt(f),
            Listen::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written_and_known_as_open_or_not() {
        for (text, open) in [
            ("127.0.0.1:8470", false),
            ("127.9.9.9:0", false),
            ("[::1]:8470", false),
            ("[::ffff:127.0.0.1]:80", false),
            ("localhost:8470", false),
            ("0.0.0.0:8470", true),
            ("[::]:8470", true),
            ("[::ffff:10.0.0.1]:80", true),
            ("192.168.1.7:443", true),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!((listen.to_string().as_str(), listen.is_open()), (text, open));
        }
    }

    #[test]
    fn a_wrong_listen_address_is_refused_with_a_suggestion() {
        for (text, expected) in [
            ("", "such as 127.0.0.1:8470"),
            ("8470", "such as 127.0.0.1:8470"),
            (":8470", "127.0.0.1:8470 is this machine"),
            ("::1:8470", "try [::1]:8470"),
            ("[::1]", "such as"),
            ("[127.0.0.1]:8470", "such as"),
            ("127.0.0.1:99999", "such as"),
            ("http://127.0.0.1:8470", "without http://"),
            ("a b:1", "such as"),
        ] {
            let wrong = text.parse::<Listen>().unwrap_err();
            assert!(wrong.contains(expected), "{text}: {wrong}");
        }
    }

    #[test]
    fn the_name_of_this_machine_is_resolved() {
        let listen: Listen = "localhost:80".parse().unwrap();
        let addresses = listen.addresses().unwrap();
        assert!(!addresses.is_empty() && addresses.iter().all(|at| !is_open(at.ip())));
    }
}
