//! The hosts that an operator lists: requests may go to them although they are not public, and
//! without TLS.

use ipnet::IpNet;
use reqwest::Url;
use std::net::{IpAddr, SocketAddr};

/// The setting `[outbound] allow`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow(Vec<Entry>);

/// An entry that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no host: write an address (10.1.2.3), a block (10.0.0.0/8) or a name (hooks.internal), \
     and :port behind an address or a name if only that one is meant"
)]
pub struct AllowError(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    host: AllowedHost,
    /// Any port, if unset.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AllowedHost {
    Block(IpNet),
    Name(String),
}

impl Allow {
    /// Parses the entries of a list.
    pub fn parse(entries: &[impl AsRef<str>]) -> Result<Self, AllowError> {
        let read = |entry: &str| Entry::read(entry).ok_or_else(|| AllowError(entry.to_owned()));
        entries.iter().map(|entry| read(entry.as_ref())).collect::<Result<_, _>>().map(Allow)
    }

    /// Whether an address is listed.
    pub(super) fn lists(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        self.any(port, |host| matches!(host, AllowedHost::Block(block) if block.contains(&address)))
    }

    /// Whether a host is listed by its name, as a URL has it.
    pub(super) fn lists_name(&self, name: &str, port: u16) -> bool {
        let name = without_dot(name);
        self.any(port, |host| matches!(host, AllowedHost::Name(listed) if listed == name))
    }

    fn any(&self, port: u16, matches_host: impl Fn(&AllowedHost) -> bool) -> bool {
        let matches_port = |entry: &Entry| entry.port.is_none_or(|listed| listed == port);
        self.0.iter().any(|entry| matches_port(entry) && matches_host(&entry.host))
    }
}

/// Addresses and blocks of addresses, without names or ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressList(Vec<IpNet>);

/// An entry that is neither an address nor a block of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address: write an address (10.1.2.3) or a block (10.0.0.0/8)")]
pub struct AddressListError(pub String);

impl AddressList {
    /// Parses the entries of a list.
    pub fn parse(entries: &[impl AsRef<str>]) -> Result<Self, AddressListError> {
        let read = |entry: &str| block(entry).ok_or_else(|| AddressListError(entry.to_owned()));
        entries.iter().map(|entry| read(entry.as_ref())).collect::<Result<_, _>>().map(AddressList)
    }

    /// Whether `address` is in the list.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|block| block.contains(&address))
    }
}

impl Entry {
    fn read(text: &str) -> Option<Self> {
        if let Some(block) = block(text) {
            return Some(Entry { host: AllowedHost::Block(block), port: None });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            let host = AllowedHost::Block(single_address(address.ip()));
            return Some(Entry { host, port: Some(address.port()) });
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(port.parse().ok()?)),
            None => (text, None),
        };
        Some(Entry { host: AllowedHost::Name(read_name(name)?), port })
    }
}

/// A name as URLs write it: lower case, in ASCII.
fn read_name(text: &str) -> Option<String> {
    let is_allowed = |letter: char| letter.is_alphanumeric() || ['.', '-', '_'].contains(&letter);
    if text.is_empty() || !text.chars().all(is_allowed) {
        return None;
    }
    let url = Url::parse(&format!("https://{text}/")).ok()?;
    let name = without_dot(url.host_str()?);
    // `127.1` is an address that does not look like one: it must be written out.
    (name.parse::<IpAddr>().is_err() && !name.is_empty()).then(|| name.to_owned())
}

/// A trailing dot says only that the name is fully qualified.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// One address, or a block. The crate would read `010.0.0.0/8` as 10.0.0.0/8; the standard library
/// refuses a leading zero, because others read it as octal.
fn block(text: &str) -> Option<IpNet> {
    match text.split_once('/') {
        Some((first, bits)) => IpNet::new(first.parse().ok()?, bits.parse().ok()?).ok(),
        None => text.parse().ok().map(single_address),
    }
}

fn single_address(address: IpAddr) -> IpNet {
    address.to_canonical().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(entries: &[&str]) -> Allow {
        Allow::parse(entries).unwrap()
    }

    #[track_caller]
    fn check(entry: &str, address: &str, expected: bool) {
        let address: SocketAddr = address.parse().unwrap();
        let listed = allow(&[entry]).lists(address.ip(), address.port());
        assert_eq!(listed, expected, "{entry} and {address}");
    }

    #[test]
    fn addresses_blocks_and_ports_mean_what_they_say() {
        check("10.1.2.3", "10.1.2.3:1", true);
        check("10.1.2.3", "10.1.2.4:1", false);
        check("10.1.2.3", "[::ffff:10.1.2.3]:1", true);
        check("10.0.0.0/8", "10.255.0.1:1", true);
        check("10.0.0.0/8", "11.0.0.0:1", false);
        check("10.1.2.3/31", "10.1.2.2:1", true);
        check("0.0.0.0/0", "192.168.1.1:1", true);
        check("0.0.0.0/0", "[::1]:1", false);
        check("::/0", "[fe80::1]:1", true);
        check("fd00::/8", "[fdff::1]:1", true);
        check("fd00::/8", "[fe00::1]:1", false);
        check("::1", "[::1]:1", true);
        check("127.0.0.1:9000", "127.0.0.1:9000", true);
        check("127.0.0.1:9000", "127.0.0.1:9001", false);
        check("[::1]:9000", "[::1]:9000", true);
        check("[::1]:9000", "[::1]:80", false);
    }

    #[test]
    fn a_list_of_addresses_has_no_names_and_no_ports() {
        let list = AddressList::parse(&["10.0.0.0/8", "2001:db8::1"]).unwrap();
        for (address, listed) in [
            ("10.9.8.7", true),
            ("::ffff:10.9.8.7", true),
            ("11.0.0.1", false),
            ("2001:db8::1", true),
            ("2001:db8::2", false),
        ] {
            assert_eq!(list.contains(address.parse().unwrap()), listed, "{address}");
        }
        for wrong in ["", "localhost", "10.0.0.1:80", "10.0.0.0/33", "*"] {
            assert!(AddressList::parse(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_compared_as_urls_write_them() {
        let list = allow(&["Hooks.Internal", "bücher.example:8443", "dotted."]);
        assert!(list.lists_name("hooks.internal", 1));
        assert!(list.lists_name("hooks.internal.", 1));
        assert!(list.lists_name("dotted", 1));
        assert!(list.lists_name("xn--bcher-kva.example", 8443));
        assert!(!list.lists_name("xn--bcher-kva.example", 443));
        assert!(!list.lists_name("evil.hooks.internal", 1));
        assert!(!list.lists_name("internal", 1));
    }

    #[test]
    fn an_invalid_allow_entry_is_refused() {
        for wrong in [
            "",
            " ",
            "*",
            "*.internal",
            "http://hooks.internal",
            "hooks.internal/path",
            "user@hooks.internal",
            "hooks.internal:",
            "hooks.internal:port",
            "hooks.internal:65536",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "010.0.0.0/8",
            "10.0.0.0/8:80",
            "::/129",
            "127.1",
            "2130706433",
            "0x7f.1",
            "[::1",
            "a b",
            ".",
        ] {
            assert_eq!(Allow::parse(&[wrong]), Err(AllowError(wrong.into())), "{wrong:?}");
        }
    }
}
