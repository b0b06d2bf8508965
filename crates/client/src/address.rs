//! The address of a server.

use crate::ClientError;
use reqwest::Url;
use std::{fmt, net::IpAddr};

/// The address of a server, such as `http://127.0.0.1:8470`. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Url);

impl Address {
    /// Parses the text of an address.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let wrong = |why: &str| {
            let message =
                format!("`{text}` is no address of a server: {why}, as in http://127.0.0.1:8470");
            ClientError::Setup(message)
        };
        let mut url = Url::parse(text).map_err(|_| wrong("it must be a URL"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("it must begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let message = "the address must not hold a user or a password; a key goes elsewhere";
            return Err(ClientError::Setup(message.into()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it must end with its path"));
        }
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
        }
        Ok(Address(url))
    }

    /// Whether the address is on this machine, so that no request leaves it.
    pub fn is_this_machine(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>();
        address.map_or(bare == "localhost", |address| address.to_canonical().is_loopback())
    }

    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The TCP port, explicit or of the scheme.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(80)
    }

    /// The same address without TLS, for a socket that needs none.
    pub(crate) fn unencrypted(&self) -> Self {
        let mut url = self.0.clone();
        // A URL of http or https accepts either scheme.
        let _ = url.set_scheme("http");
        Address(url)
    }

    /// The URL of these path segments below the address.
    pub(crate) fn below(&self, path: &[&str]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_this_machine() {
        for (text, here) in [
            ("http://127.0.0.1:8470", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:8470/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://LOCALHOST:1", true),
            ("http://localhost.example.org", false),
            ("http://10.0.0.1", false),
            ("https://jobs.example.org", false),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.is_this_machine(), here, "{text}");
            assert_eq!(address.is_encrypted(), text.starts_with("https"), "{text}");
        }
    }

    #[test]
    fn a_slash_at_the_end_makes_no_other_server() {
        let address = |text| Address::parse(text).unwrap();
        assert_eq!(address("http://x/under/"), address("http://x/under"));
        assert_eq!(address("http://x/under/").to_string(), "http://x/under");
        assert_eq!(address("http://x:80/"), address("http://X"));
    }
}
