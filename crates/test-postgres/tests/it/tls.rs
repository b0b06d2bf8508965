//! A server with TLS.

use crate::connection::connect;
use std::process::{Command, Output};
use test_postgres::{Options, Server};

#[test]
fn its_certificate_is_good_for_those_who_trust_its_authority() {
    let server = Server::start(Options { tls: true, ..Options::fast() });
    let ca = server.tls_ca().unwrap().display().to_string();
    let output = psql(&format!("{}?sslmode=verify-full&sslrootcert={ca}", server.address()));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "t", "{output:?}");

    let other = Server::start(Options { tls: true, ..Options::fast() });
    let output = psql(&format!("{}?sslmode=verify-full&sslrootcert={ca}", other.address()));
    assert!(!output.status.success(), "another's authority vouched for it");
}

#[tokio::test]
async fn a_server_without_a_certificate_refuses_tls() {
    let server = Server::shared();
    assert!(server.tls_ca().is_none());
    assert!(connect(&format!("{}?sslmode=require", server.address())).await.is_err());
}

/// Asks PostgreSQL's own client whether the connection is encrypted.
fn psql(address: &str) -> Output {
    let question = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    let mut psql = Command::new("psql");
    psql.args(["-XAt", "-d", address, "-c", question]).output().expect("psql is there")
}
