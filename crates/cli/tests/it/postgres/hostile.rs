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
    let result = doctor();
    assert!(result.contains(&format!("pg_monitor may create in the schema {schema}")), "{result}");
    let remedy = format!("revoke create on schema {schema} from \"pg_monitor\"");
    assert!(result.contains(&remedy), "{result}");
    run(&remedy);
    run(&format!("revoke execute on function {schema}.expect from consign"));
    let result = doctor();
    assert!(!result.contains("may create in the schema"), "{result}");
    let remedy = format!("grant execute on all functions in schema {schema} to \"consign\"");
    assert!(result.contains("consign may not call expect") && result.contains(&remedy), "{result}");
    run(&remedy);
    let result = doctor();
    assert!(!result.contains("may not call"), "{result}");
}

/// The owner of a schema may replace everything in it, and its functions would run as Consign.
#[test]
fn a_schema_of_another_role_is_refused_and_named() {
    let (folder, server) = (TempDir::new().unwrap(), Server::shared());
    let superuser: PostgresAddress = server.superuser_address().parse().unwrap();
    let run = |sql: &str| run_as(&superuser, sql);
    let migrate = |address: &str| consign(folder.path(), &["migrate", "up", "--store", address]);
    run("create role squatter");

    let foreign_schema = fresh(server);
    let schema = schema_of(&foreign_schema);
    let grant = |schema: &str| run(&format!("grant create, usage on schema {schema} to consign"));
    run(&format!("create schema {schema} authorization squatter"));
    grant(&schema);
    let result = migrate(&foreign_schema);
    assert!(
        !result.success && result.err.contains("belongs to the role squatter"),
        "{}",
        result.err
    );

    let transferred = fresh(server);
    let schema = schema_of(&transferred);
    let made = migrate(&transferred);
    assert!(made.success, "{}", made.err);
    run(&format!("alter schema {schema} owner to squatter"));
    grant(&schema);
    let doctor = || consign(folder.path(), &["doctor", "--store", &transferred]).out;
    let result = doctor();
    assert!(result.contains(&format!("the schema {schema} belongs to squatter")), "{result}");
    let remedy = format!("alter schema {schema} owner to \"consign\"");
    assert!(result.contains(&remedy), "{result}");
    run(&remedy);
    let result = doctor();
    assert!(!result.contains("belongs to squatter"), "{result}");
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
        let result = check(weak);
        assert!(
            result.contains("warning: store: sslmode") && result.contains("verify-full"),
            "{result}"
        );
        assert!(!result.contains(PASSWORD), "{result}");
    }
    for strong in ["", "?sslmode=verify-full"] {
        assert!(!check(strong).contains("warning: store"), "{strong}");
    }
}

#[test]
fn an_impostor_database_gets_no_clear_text_password() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let impostor = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut received = [0; 1_024];
        assert_eq!(client.read(&mut received).unwrap(), 8, "a client asks for TLS first");
        client.write_all(b"N").unwrap();
        assert!(client.read(&mut received).unwrap() > 8, "and greets");
        client.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
        let length = client.read(&mut received).unwrap_or(0);
        String::from_utf8_lossy(&received[..length]).into_owned()
    });
    let folder = TempDir::new().unwrap();
    let address = format!("postgres://consign:{PASSWORD}@127.0.0.1:{port}/consign");
    let result = consign(folder.path(), &["migrate", "status", "--store", &address]);
    assert_eq!(impostor.join().unwrap(), "", "what the stranger got");
    assert!(!result.success && result.err.contains("clear text"), "{}", result.err);
    assert!(result.err.contains("sslmode=verify-full"), "{}", result.err);
}
