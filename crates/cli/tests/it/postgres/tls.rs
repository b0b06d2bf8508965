//! A database whose certificate is verified.

use super::{SETTINGS, fresh, live};
use crate::{consign, serve::TestServer};
use rcgen::generate_simple_self_signed;
use std::fs;
use tempfile::TempDir;
use test_postgres::{Options, Server};

#[test]
fn a_certificate_is_checked_to_the_letter() {
    let server = Server::start(Options { tls: true, ..Options::fast() });
    let authority = server.tls_ca().unwrap();
    let address = fresh(&server);
    let trusting =
        |authority: &str| format!("{address}&sslmode=verify-full&sslrootcert={authority}");
    let test_server = TestServer::of_database(&trusting(authority.to_str().unwrap()), SETTINGS);
    live(&test_server.admin(), "sealed");
    let folder = TempDir::new().unwrap();
    let other = generate_simple_self_signed(vec!["localhost".into()]).unwrap().cert.pem();
    fs::write(folder.path().join("other.pem"), other).unwrap();
    for (root, reason) in [("other.pem", "certificate"), ("nowhere.pem", "nowhere.pem")] {
        let words = ["serve", "--listen", "127.0.0.1:0", "--store", &trusting(root)];
        let result = consign(folder.path(), &[&words[..], &["--wait-for-store", "10m"]].concat());
        assert!(!result.success && result.err.contains(reason), "{}", result.err);
        assert!(!result.err.contains(super::PASSWORD), "{}", result.err);
    }
    // The right authority, and a certificate for another name.
    let misnamed = address.replace("@127.0.0.1:", "@db.example:");
    let status = |mode: &str| {
        let root = authority.display();
        let store = format!("{misnamed}&hostaddr=127.0.0.1&sslmode={mode}&sslrootcert={root}");
        consign(folder.path(), &["migrate", "status", "--store", &store])
    };
    let refused = status("verify-full");
    assert!(!refused.success && refused.err.contains("not valid for name"), "{}", refused.err);
    let accepted = status("verify-ca");
    assert!(accepted.success && accepted.out.contains("is up to date"), "{}", accepted.err);
}
