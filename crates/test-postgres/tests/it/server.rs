//! A server: its options, and how it is stopped and started.

use crate::connection::{connect, value};
use test_postgres::{Options, Server};
use tokio_postgres::Client;

#[tokio::test]
async fn the_shared_server_is_one_and_fast() {
    let server = Server::shared();
    assert_eq!(server.pid(), Server::shared().pid());
    let client = connect(&server.address()).await.unwrap();
    assert_eq!(value(&client, "show fsync").await, "off");
    assert_eq!(value(&client, "show synchronous_commit").await, "off");
    assert_eq!(value(&client, "show server_encoding").await, "UTF8");
}

#[tokio::test]
async fn its_user_is_no_superuser_and_may_create_schemas() {
    let server = Server::shared();
    let client = connect(&server.address()).await.unwrap();
    assert_eq!(value(&client, "show is_superuser").await, "off");
    let (one, other) = (server.fresh_schema_name(), server.fresh_schema_name());
    assert_ne!(one, other);
    client.batch_execute(&format!("create schema {one}; create schema {other}")).await.unwrap();
    let superuser = connect(&server.superuser_address()).await.unwrap();
    assert_eq!(value(&superuser, "show is_superuser").await, "on");
}

#[tokio::test]
async fn the_server_is_reachable_by_its_unix_socket() {
    let client = connect(&Server::shared().unix_address()).await.unwrap();
    let way = "select (inet_client_addr() is null)::text";
    assert_eq!(value(&client, way).await, "true");
}

#[tokio::test]
async fn a_server_of_ones_own_keeps_what_was_committed_through_a_crash() {
    let server = Server::start(Options::default().with("work_mem", "5MB"));
    let client = connect(&server.address()).await.unwrap();
    assert_eq!(value(&client, "show fsync").await, "on");
    assert_eq!(value(&client, "show work_mem").await, "5MB");
    client.batch_execute("create table kept as select 'here' as word").await.unwrap();

    server.stop_immediately();
    assert!(client.query("select 1", &[]).await.is_err(), "the connection survived");
    assert!(connect(&server.address()).await.is_err(), "a server still listens");

    server.restart();
    let client = connect(&server.address()).await.unwrap();
    assert_eq!(value(&client, "select word from kept").await, "here");
}

#[tokio::test]
async fn some_or_all_connections_of_users_are_ended_and_no_others() {
    let server = Server::start(Options::fast());
    let superuser = connect(&server.superuser_address()).await.unwrap();
    let mut users = Vec::new();
    for _ in 0..3 {
        users.push(connect(&server.address()).await.unwrap());
    }
    assert_eq!(server.terminate_backends(1), 1);
    assert_eq!(alive(&users).await, 2);
    assert_eq!(server.terminate_backends(100), 2);
    assert_eq!(alive(&users).await, 0);
    assert_eq!(server.terminate_backends(1), 0);
    assert_eq!(value(&superuser, "show is_superuser").await, "on");
}

async fn alive(clients: &[Client]) -> usize {
    let mut alive = 0;
    for client in clients {
        alive += usize::from(client.query("select 1", &[]).await.is_ok());
    }
    alive
}
