//! The client's address, where a trusted proxy stands in between.

use crate::settings::{ForwardedHeader, ProxySettings};
use axum::http::{HeaderMap, header};
use std::net::{IpAddr, SocketAddr};

/// How many entries are read. A header has no space for many more.
const HOPS_MAX: usize = 64;

/// The client's address: the last hop that is not a trusted proxy. `None` where the peer is not
/// trusted, or where no proxy gives a readable address: entries further left could be written by
/// the client itself.
pub(crate) fn client_address(
    settings: &ProxySettings,
    peer: IpAddr,
    headers: &HeaderMap,
) -> Option<IpAddr> {
    if !settings.trusted.contains(peer) {
        return None;
    }
    let name = match settings.header {
        ForwardedHeader::XForwardedFor => "x-forwarded-for",
        ForwardedHeader::Forwarded => header::FORWARDED.as_str(),
    };
    let lines: Vec<&str> =
        headers.get_all(name).iter().map(|line| line.to_str().ok()).collect::<Option<_>>()?;
    let hops = lines.iter().rev().flat_map(|line| line.rsplit(',')).take(HOPS_MAX);
    let mut farthest = None;
    for hop in hops {
        let address = match settings.header {
            ForwardedHeader::XForwardedFor => address(hop.trim()),
            ForwardedHeader::Forwarded => address(forwarded_for(hop)?),
        }?;
        farthest = Some(address);
        if !settings.trusted.contains(address) {
            break;
        }
    }
    farthest
}

/// The value of `for` in one element of `Forwarded`. `None` where quotes enclose a separator of
/// elements or pairs: a proxy quotes the client's Host, and a fragment cut out of it could contain
/// a `for` that the client wrote.
fn forwarded_for(element: &str) -> Option<&str> {
    if element.contains('\\') || element.split(';').any(has_open_quote) {
        return None;
    }
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    let value = value.trim();
    Some(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

fn has_open_quote(pair: &str) -> bool {
    !pair.matches('"').count().is_multiple_of(2)
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use outbound::AddressList;

    fn check(header: ForwardedHeader, value: &str, expected: Option<&str>) {
        let trusted = AddressList::parse(&["10.0.0.0/8"]).unwrap();
        let settings = ProxySettings { trusted, header };
        let name = match header {
            ForwardedHeader::XForwardedFor => "x-forwarded-for",
            ForwardedHeader::Forwarded => "forwarded",
        };
        let headers = HeaderMap::from_iter([(
            name.parse().unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        )]);
        let seen = client_address(&settings, "10.0.0.1".parse().unwrap(), &headers);
        assert_eq!(seen, expected.map(|address| address.parse().unwrap()), "{value}");
        let stranger = client_address(&settings, "192.0.2.1".parse().unwrap(), &headers);
        assert_eq!(stranger, None);
    }

    #[test]
    fn the_last_hop_that_is_no_proxy_is_the_client() {
        let check = |value, expected| check(ForwardedHeader::XForwardedFor, value, expected);
        check("203.0.113.9", Some("203.0.113.9"));
        check("198.51.100.1, 203.0.113.9 ,10.2.3.4", Some("203.0.113.9"));
        check("::ffff:203.0.113.9", Some("203.0.113.9"));
        check("[2001:db8::1]", Some("2001:db8::1"));
        check("203.0.113.9, unknown", None);
        check("203.0.113.9,", None);
        check("", None);
        check("ü", None);
    }

    #[test]
    fn the_standard_header_is_read_as_it_is_written() {
        let check = |value, expected| check(ForwardedHeader::Forwarded, value, expected);
        check("for=203.0.113.9", Some("203.0.113.9"));
        check("proto=https;For=\"203.0.113.9:80\", for=10.0.0.2;by=x", Some("203.0.113.9"));
        check("for=\"[2001:db8::1]:80\"", Some("2001:db8::1"));
        check("for=203.0.113.9, by=10.0.0.2", None);
        check("for=_hidden", None);
    }

    #[test]
    fn quoted_text_in_forwarded_adds_no_element() {
        let check = |value, expected| check(ForwardedHeader::Forwarded, value, expected);
        check("host=\"a.example\";for=203.0.113.9", Some("203.0.113.9"));
        check("for=203.0.113.9;host=\"x, for=8.8.8.8, y\"", None);
        check("for=203.0.113.9;host=\"x, for=8.8.8.8\"", None);
        check("for=203.0.113.9;host=\"x, for=8.8.8.8;y=\"", None);
        check("host=\"x;for=8.8.8.8;y\";for=203.0.113.9", None);
        check("for=203.0.113.9;host=\"x\\\", for=8.8.8.8;y=\\\"\"", None);
    }
}
