//! Other roles in the database, and attackers on the network to it.

use super::{PASSWORD, SETTINGS, fresh, live};
use crate::{consign, serve::TestServer};
use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::Duration,
};
use store::PostgresAddress;
use tempfile::TempDir;
use test_postgres::Server;
use tokio::runtime::Runtime;

#[test]
fn the_doctor_names_who_may_create_or_may_not_call_and_what_mends_it() {
    let (folder, address) = (TempDir::new().unwrap(), fresh(Server::shared()));
    let test_server = TestServer::of_database(&address, SETTINGS);
    live(&test_server.admin(), "before");
    let owner: PostgresAddress = address.parse().unwrap();
    let schema = owner.schema();
    let run = |sql: &str| run_as(&owner, sql);
    let doctor = || consign(folder.path(), &["doctor", "--store", &address]).out;
    run(&format!("grant create on schema {schema} to pg_monitor"));
    let told = doctor();
    assert!(told.contains(&format!("pg_monitor may create in the schema {schema}")), "{told}");
    let cure = format!("revoke create on schema {schema} from \"pg_monitor\"");
    assert!(told.contains(&cure), "{told}");
    run(&cure);
    run(&format!("revoke execute on function {schema}.expect from consign"));
    let told = doctor();
    assert!(!told.contains("may create in the schema"), "{told}");
    let cure = format!("grant execute on all functions in schema {schema} to \"consign\"");
    assert!(told.contains("consign may not call expect") && told.contains(&cure), "{told}");
    run(&cure);
    let told = doctor();
    assert!(!told.contains("may not call"), "{told}");
}

/// The owner of a schema may replace everything in it, and its functions would run as Consign.
#[test]
fn a_schema_of_another_role_is_refused_and_named() {
    let (folder, server) = (TempDir::new().unwrap(), Server::shared());
    let superuser: PostgresAddress = server.superuser_address().parse().unwrap();
    let run = |sql: &str| run_as(&superuser, sql);
    let migrate = |address: &str| consign(folder.path(), &["migrate", "up", "--store", address]);
    run("create role squatter");

    let squatted = fresh(server);
    let schema = schema_of(&squatted);
    let grant = |schema: &str| run(&format!("grant create, usage on schema {schema} to consign"));
    run(&format!("create schema {schema} authorization squatter"));
    grant(&schema);
    let told = migrate(&squatted);
    assert!(!told.success && told.err.contains("belongs to the role squatter"), "{}", told.err);

    let handed_over = fresh(server);
    let schema = schema_of(&handed_over);
    let made = migrate(&handed_over);
    assert!(made.success, "{}", made.err);
    run(&format!("alter schema {schema} owner to squatter"));
    grant(&schema);
    let doctor = || consign(folder.path(), &["doctor", "--store", &handed_over]).out;
    let told = doctor();
    assert!(told.contains(&format!("the schema {schema} belongs to squatter")), "{told}");
    let cure = format!("alter schema {schema} owner to \"consign\"");
    assert!(told.contains(&cure), "{told}");
    run(&cure);
    let told = doctor();
    assert!(!told.contains("belongs to squatter"), "{told}");
}

fn schema_of(address: &str) -> String {
    address.parse::<PostgresAddress>().unwrap().schema().to_owned()
}

/// Runs statements as the role in the address.
fn run_as(role: &PostgresAddress, sql: &str) {
    Runtime::new().unwrap().block_on(async {
        role.connect().await.unwrap().batch_execute(sql).await.unwrap();
    });
}

#[test]
fn an_sslmode_weaker_than_verify_full_is_warned_of() {
    let folder = TempDir::new().unwrap();
    let check = |query: &str| {
        let address = format!("postgres://u:{PASSWORD}@db.example/d{query}");
        consign(folder.path(), &["config", "check", "--store", &address]).out
    };
    for weak in ["?sslmode=disable", "?sslmode=prefer", "?sslmode=require", "?sslmode=verify-ca"] {
        let told = check(weak);
        assert!(told.contains("warning: store: sslmode") && told.contains("verify-full"), "{told}");
        assert!(!told.contains(PASSWORD), "{told}");
    }
    for strong in ["", "?sslmode=verify-full"] {
        assert!(!check(strong).contains("warning: store"), "{strong}");
    }
}

#[test]
fn an_impostor_database_gets_no_clear_text_password() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let anonymous = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut said = [0; 1_024];
        assert_eq!(client.read(&mut said).unwrap(), 8, "a client asks for TLS first");
        client.write_all(b"N").unwrap();
        assert!(client.read(&mut said).unwrap() > 8, "and greets");
        client.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
        let length = client.read(&mut said).unwrap_or(0);
        String::from_utf8_lossy(&said[..length]).into_owned()
    });
    let folder = TempDir::new().unwrap();
    let address = format!("postgres://consign:{PASSWORD}@127.0.0.1:{port}/consign");
    let told = consign(folder.path(), &["migrate", "status", "--store", &address]);
    assert_eq!(anonymous.join().unwrap(), "", "what the stranger got");
    assert!(!told.success && told.err.contains("clear text"), "{}", told.err);
    assert!(told.err.contains("sslmode=verify-full"), "{}", told.err);
}
