//! What stops a start, and what a start waits for.

use super::{PASSWORD, SETTINGS, fresh, live};
use crate::{
    consign, consign_with,
    serve::{TestServer, wait_until},
};
use rustix::process::Signal;
use tempfile::TempDir;
use test_postgres::{Options, Server};

fn serve(address: &str) -> crate::RunResult {
    let folder = TempDir::new().unwrap();
    consign(folder.path(), &["serve", "--listen", "127.0.0.1:0", "--store", address])
}

#[test]
fn start_errors_name_the_remedy_and_hide_the_password() {
    let server = Server::shared();
    let unconfigured = format!("postgres://consign:{PASSWORD}@127.0.0.1:1/consign");
    let missing = fresh(server).replace("/consign?", "/nowhere?");
    let invalid = format!("postgres://consign:{PASSWORD}@127.0.0.1:1/consign?sslmode=maybe");
    for (address, parts) in [
        (&unconfigured, &["127.0.0.1:1/consign", "refused", "--wait-for-store"][..]),
        (&missing, &["nowhere", "does not exist", "in the address"]),
        (&invalid, &["--store", "sslmode must be"]),
    ] {
        let result = serve(address);
        let all = parts.iter().all(|part| result.err.contains(part));
        assert!(!result.success && all && !result.err.contains(PASSWORD), "{}", result.err);
    }
}

#[test]
fn no_command_shows_a_password() {
    let address = fresh(Server::shared());
    let folder = TempDir::new().unwrap();
    let wrong = address.replace("schema=", "schema=A&x=");
    for address in [&address, &wrong] {
        for words in [
            &["config", "show"][..],
            &["config", "check"],
            &["migrate", "status"],
            &["migrate", "--help"],
            &["migrate", "status", "--help"],
            &["backup", "x.db"],
            &["restore", "--help"],
            &["keys", "bootstrap"],
            &["doctor"],
            &["serve", "--listen", "256.0.0.1:0"],
        ] {
            let result = consign_with(folder.path(), words, &[("CONSIGN_STORE", address)]);
            let all = format!("{}{}", result.out, result.err);
            assert!(!all.contains(PASSWORD) && !all.is_empty(), "{words:?}: {all}");
        }
    }
}

#[test]
fn a_database_that_comes_later_is_waited_for() {
    let server = Server::start(Options::fast());
    let address = fresh(&server);
    server.stop_immediately();
    let settings = format!("wait_for_store = \"1m\"\n{SETTINGS}");
    let test_server = TestServer::launched_on_database(&address, &settings);
    wait_until("it says that it waits", || test_server.log().contains("waiting for it"));
    let other = TestServer::launched_on_database(&address, &settings);
    wait_until("the other waits, too", || other.log().contains("waiting for it"));
    other.send(Signal::TERM);
    assert!(
        other.stopped().success(),
        "a server that is asked to end while it waits, ends: {}",
        other.log()
    );
    server.restart();
    test_server.wait_until_ready();
    live(&test_server.admin(), "after all");
}
