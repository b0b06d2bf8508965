//! A proxy that cuts connections when a test says so.

use crate::connection::{connect, value};
use std::{process::Command, time::Duration};
use test_postgres::{ChaosProxy, Counts, PgBouncer, Server, When};
use tokio_postgres::{Client, Error};

/// A proxy, a table of its own, and a connection to the server that bypasses the proxy.
struct ProxyFixture {
    proxy: ChaosProxy,
    table: String,
    direct: Client,
}

/// The ways in which a client can commit.
const SIMPLE: &str = "simple";
const PREPARED: &str = "prepared";
const TYPED: &str = "typed";
/// Or without a COMMIT.
const BY_ITSELF: &str = "by itself";

impl ProxyFixture {
    async fn new() -> ProxyFixture {
        let server = Server::shared();
        let direct = connect(&server.address()).await.expect("the server is there");
        let table = server.fresh_schema_name();
        direct.batch_execute(&format!("create table {table} (n int)")).await.expect("it is new");
        ProxyFixture { proxy: ChaosProxy::before(server), table, direct }
    }

    async fn client(&self) -> Client {
        connect(&self.proxy.address()).await.expect("the proxy is there")
    }

    /// Inserts a row in a transaction, on a connection of its own. Returns the result of the
    /// COMMIT.
    async fn insert(&self, commit_style: &str) -> Result<(), Error> {
        let client = self.client().await;
        let insert = format!("insert into {} values (1)", self.table);
        if commit_style == BY_ITSELF {
            let insert = format!("with new as ({insert} returning n) select n from new");
            return client.query(&insert, &[]).await.map(drop);
        }
        client.batch_execute("begin").await.expect("nothing is cut yet");
        client.batch_execute(&insert).await.expect("nothing is cut yet");
        match commit_style {
            SIMPLE => client.batch_execute("commit").await,
            PREPARED => client.execute("COMMIT", &[]).await.map(drop),
            TYPED => client.query_typed("commit", &[]).await.map(drop),
            other => panic!("there is no way {other}"),
        }
    }

    async fn rows(&self) -> usize {
        let count = format!("select count(*)::text from {}", self.table);
        value(&self.direct, &count).await.parse().expect("a number")
    }
}

#[tokio::test]
async fn a_proxy_without_faults_changes_nothing() {
    let fixture = ProxyFixture::new().await;
    fixture.insert(SIMPLE).await.unwrap();
    assert_eq!(fixture.rows().await, 1);
    let expected = Counts { connections: 1, commits: 1, ..Counts::default() };
    assert_eq!(fixture.proxy.counts(), expected);
}

#[tokio::test]
async fn a_commit_with_a_lost_reply_is_applied() {
    let fixture = ProxyFixture::new().await;
    for commit_style in [SIMPLE, PREPARED, TYPED, BY_ITSELF] {
        let before = fixture.rows().await;
        fixture.proxy.lose_replies(When::Next(1));
        let error = fixture.insert(commit_style).await.expect_err("the reply came through");
        assert!(
            error.is_closed() || error.code().is_none(),
            "{commit_style}: the server said {error}"
        );
        assert_eq!(fixture.rows().await, before + 1, "{commit_style}");
        fixture.insert(commit_style).await.unwrap();
    }
    let counts = fixture.proxy.counts();
    assert_eq!((counts.replies_lost, counts.commits, counts.commits_lost), (4, 8, 0));
}

#[tokio::test]
async fn a_commit_that_is_lost_has_not_happened() {
    let fixture = ProxyFixture::new().await;
    for commit_style in [SIMPLE, PREPARED, TYPED, BY_ITSELF] {
        let before = fixture.rows().await;
        fixture.proxy.lose_commits(When::Next(1));
        fixture.insert(commit_style).await.expect_err("the commit came through");
        assert_eq!(fixture.rows().await, before, "{commit_style}");
        fixture.insert(commit_style).await.unwrap();
    }
    let counts = fixture.proxy.counts();
    assert_eq!((counts.commits_lost, counts.commits, counts.replies_lost), (4, 4, 0));
}

#[tokio::test]
async fn the_next_so_many_are_lost_and_then_no_more() {
    let fixture = ProxyFixture::new().await;
    fixture.proxy.lose_replies(When::Next(2));
    assert!(fixture.insert(SIMPLE).await.is_err());
    assert!(fixture.insert(SIMPLE).await.is_err());
    assert!(fixture.insert(SIMPLE).await.is_ok());
    fixture.proxy.lose_commits(When::Next(5));
    assert!(fixture.insert(SIMPLE).await.is_err());
    fixture.proxy.lose_commits(When::Never);
    assert!(fixture.insert(SIMPLE).await.is_ok());
    assert_eq!(fixture.rows().await, 4);
}

#[tokio::test]
async fn a_seed_chooses_which_are_lost() {
    const COMMITS: usize = 60;
    let fixture = ProxyFixture::new().await;
    fixture.proxy.lose_replies(When::OneIn(3, 7));
    fixture.proxy.lose_commits(When::OneIn(3, 8));
    let mut errors = 0;
    for _ in 0..COMMITS {
        errors += usize::from(fixture.insert(SIMPLE).await.is_err());
    }
    let counts = fixture.proxy.counts();
    assert_eq!(errors, counts.replies_lost + counts.commits_lost);
    assert!(counts.replies_lost > 0 && counts.commits_lost > 0, "{counts:?}");
    assert!(errors < COMMITS, "nothing came through");
    assert_eq!(fixture.rows().await, COMMITS - counts.commits_lost);
}

#[tokio::test]
async fn a_transaction_that_failed_is_no_commit() {
    let fixture = ProxyFixture::new().await;
    fixture.proxy.lose_replies(When::Next(1));
    let client = fixture.client().await;
    client.batch_execute("begin; select 1 / 0").await.expect_err("a division by zero fails");
    client.batch_execute("commit").await.unwrap();
    assert_eq!(fixture.proxy.counts().commits, 0);
}

#[tokio::test]
async fn all_are_cut_at_once_and_new_ones_are_welcome() {
    let fixture = ProxyFixture::new().await;
    let clients = [fixture.client().await, fixture.client().await, fixture.client().await];
    clients[0].batch_execute("begin").await.unwrap();
    assert_eq!(fixture.proxy.cut_all(), 3);
    for client in &clients {
        assert!(client.query("select 1", &[]).await.is_err(), "one was left");
    }
    assert_eq!(fixture.proxy.cut_all(), 0);
    fixture.insert(SIMPLE).await.unwrap();
    assert_eq!(fixture.proxy.counts().cut, 3);
}

#[tokio::test]
async fn the_proxy_resumes_held_connections() {
    let fixture = ProxyFixture::new().await;
    let client = fixture.client().await;
    fixture.proxy.pause();
    let table = fixture.table.clone();
    let insert = tokio::spawn(async move {
        client.batch_execute(&format!("insert into {table} values (1)")).await
    });
    wait_until(|| fixture.proxy.counts().delayed == 1).await;
    assert_eq!(fixture.rows().await, 0);
    assert!(!insert.is_finished());
    fixture.proxy.resume();
    insert.await.unwrap().unwrap();
    assert_eq!(fixture.rows().await, 1);
}

#[tokio::test]
async fn those_who_come_while_traffic_is_held_wait_too() {
    let fixture = ProxyFixture::new().await;
    fixture.proxy.pause();
    let address = fixture.proxy.address();
    let new_connection = tokio::spawn(async move { connect(&address).await });
    wait_until(|| fixture.proxy.counts().delayed == 1).await;
    assert!(!new_connection.is_finished());
    fixture.proxy.resume();
    new_connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_proxy_can_cut_held_connections() {
    let fixture = ProxyFixture::new().await;
    let client = fixture.client().await;
    fixture.proxy.pause();
    let query = tokio::spawn(async move { client.query("select 1", &[]).await });
    wait_until(|| fixture.proxy.counts().delayed == 1).await;
    assert_eq!(fixture.proxy.cut_all(), 1);
    assert!(query.await.unwrap().is_err());
}

#[tokio::test]
async fn the_proxy_works_in_front_of_pgbouncer() {
    let fixture = ProxyFixture::new().await;
    let bouncer = PgBouncer::before(Server::shared());
    let fixture = ProxyFixture { proxy: ChaosProxy::before_port(bouncer.port()), ..fixture };
    fixture.proxy.lose_replies(When::Next(1));
    fixture.insert(TYPED).await.expect_err("the reply came through");
    assert_eq!(fixture.rows().await, 1);
}

#[test]
fn the_proxy_declines_encryption_requests() {
    let proxy = ChaosProxy::before(Server::shared());
    let connect_with = |mode: &str| {
        let address = format!("{}?sslmode={mode}", proxy.address());
        let mut psql = Command::new("psql");
        psql.args(["-XAt", "-d", &address, "-c", "select 'here'"]).output().expect("psql is there")
    };
    assert_eq!(String::from_utf8_lossy(&connect_with("prefer").stdout).trim(), "here");
    assert!(!connect_with("require").status.success());
}

#[tokio::test]
async fn a_server_that_stops_takes_the_line_with_it_and_brings_it_back() {
    let server = Server::start(test_postgres::Options::fast());
    let proxy = ChaosProxy::before(&server);
    let client = connect(&proxy.address()).await.unwrap();
    server.stop_immediately();
    assert!(client.query("select 1", &[]).await.is_err());
    assert!(connect(&proxy.address()).await.is_err());
    server.restart();
    assert_eq!(value(&connect(&proxy.address()).await.unwrap(), "select 'here'").await, "here");
}

/// How long the proxy may take for what it does by itself: 10 seconds.
const POLLS: usize = 1000;
const POLL_EVERY: Duration = Duration::from_millis(10);

async fn wait_until(happened: impl Fn() -> bool) {
    for _ in 0..POLLS {
        if happened() {
            return;
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    panic!("it did not happen");
}
