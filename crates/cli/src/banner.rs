//! What the server prints when a person starts it.

use crate::args::StoreAddress;
use std::{
    fmt::Write,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

/// The listen address, the paths, and a first request to paste.
pub(crate) fn banner(
    address: SocketAddr,
    secure: bool,
    store: &StoreAddress,
    admin_key: Option<&Path>,
) -> String {
    let url = format!("{}://{}", if secure { "https" } else { "http" }, reachable(address));
    let mut text = format!(
        "consign listens at {url}\n  docs       {url}/docs\n  store      {}\n",
        store.shown()
    );
    if let StoreAddress::Postgres(_) = store {
        let _ = writeln!(text, "  folder     {}", store.folder().display());
    }
    let Some(key) = admin_key.map(Path::display) else { return text };
    let _ = writeln!(text, "  admin key  {key}\n\nSubmit a job:\n");
    let _ = writeln!(text, "  curl -i {url}/api/jobs \\");
    let _ = writeln!(text, "    -H \"Authorization: Bearer $(cat '{key}')\" \\");
    let _ = writeln!(text, "    -H 'Content-Type: application/json' \\");
    let _ = writeln!(
        text,
        "    -d '{{\"jobType\": \"email\", \"subjectId\": \"order/7\", \"payload\": {{}}}}'\n"
    );
    text
}

/// A server that listens on the unspecified address is also reachable on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => address.ip(),
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_can_be_pasted() {
        let banner_for = |address: &str, secure, key: Option<&str>| {
            let store = "sqlite:a/b.db".parse().unwrap();
            banner(address.parse().unwrap(), secure, &store, key.map(Path::new))
        };
        let local = banner_for("127.0.0.1:8470", false, Some("a/admin.key"));
        assert!(local.contains("curl -i http://127.0.0.1:8470/api/jobs \\\n"), "{local}");
        assert!(local.contains("Bearer $(cat 'a/admin.key')"), "{local}");
        let open = banner_for("[::]:443", true, None);
        assert!(
            open.starts_with("consign listens at https://[::1]:443\n") && !open.contains("curl")
        );
    }
}
