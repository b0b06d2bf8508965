//! Connections without a credential: the memory that they cost, and whether they keep other clients
//! out.

use crate::{
    consign,
    serve::{
        Client, Connection, Customer, Events, TestServer, free_port,
        hostile::{exclusive, files, memory_mib},
        wait_until,
    },
};
use serde_json::json;
use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr},
    process::Command,
    sync::{Arc, atomic::AtomicU16},
};
use tempfile::TempDir;

/// Longer than any test: a connection that ends was closed for another reason.
const NEVER: &str = "10m";

/// 1,500 heads of 24 KiB are 36 MiB; the rest is what a connection costs beside its head, and what
/// the allocator keeps. With heads of 128 KiB it was 396 MiB.
const MORE_MIB_MAX: u64 = 150;

#[test]
fn unfinished_headers_cost_little_memory() {
    let _exclusive = exclusive();
    let test_server = TestServer::with(&format!("[limits]\nheader_timeout = \"{NEVER}\""));
    let client = test_server.anonymous();
    let (quiet_mib, quiet_files) = (memory_mib(test_server.id()), files(test_server.id()));
    let begun = "GET /healthz HTTP/1.1\r\nhost: x\r\nx-long: ";
    for bytes in [23 * 1024, 120 * 1024] {
        let head = format!("{begun}{}", "x".repeat(bytes));
        let unfinished: Vec<Connection> = (0..1_500)
            .map(|_| {
                let mut connection = client.connect().unwrap();
                // The server refuses a head that is too long before all of it was sent.
                drop(connection.write(head.as_bytes()));
                connection
            })
            .collect();
        client.get("/healthz").send().ok(200);
        let more = memory_mib(test_server.id()).saturating_sub(quiet_mib);
        assert!(more <= MORE_MIB_MAX, "{more} MiB for 1,500 heads of {bytes} bytes");
        drop(unfinished);
        wait_until("they are gone", || files(test_server.id()) <= quiet_files + 5);
    }
}

/// A head that is too long is answered, and not only cut off.
#[test]
fn a_head_that_is_too_long_is_answered() {
    let customer = Customer::new();
    for bytes in [17_000, 23_000, 26_000, 60_000, 120_000, 400_000] {
        let mut connection = customer.owner.connect().unwrap();
        let ask = customer.owner.get("/healthz").header("x-long", &"x".repeat(bytes));
        let answer = connection.send(ask).unwrap_or_else(|error| panic!("{bytes}: {error}"));
        assert_eq!((answer.status, answer.header("connection")), (431, Some("close")), "{bytes}");
    }
}

fn streams(client: &Client, path: &str, count: usize) -> Vec<Connection> {
    let open = |_| {
        let mut stream = client.connect().unwrap();
        stream.write(&client.get(path).bytes()).unwrap();
        stream
    };
    (0..count).map(open).collect()
}

#[test]
fn idle_connections_yield_to_health_checks_and_heartbeats() {
    let settings = format!(
        "[limits]\nconnections = 100\nwaiting = 50\nheader_timeout = \"{NEVER}\"\nwrite_timeout = \"{NEVER}\""
    );
    let customer = Customer::of(&Arc::new(TestServer::with(&settings)));
    let job = customer.running("held");
    let watched = customer.queued("watched");
    let events = format!("/api/jobs/{watched}/events");
    let mut stream = customer.owner.get(&events).events();
    assert_eq!(stream.next().unwrap().data["status"], "Queued");
    let health = customer.test_server.anonymous().get("/healthz");
    let idle: Vec<Connection> = (0..300)
        .map(|number| {
            let mut connection = customer.owner.connect().unwrap();
            match number % 3 {
                0 => drop(connection.send(health.clone()).unwrap()),
                1 => connection.write(b"GET /healthz HTTP/1.1\r\nho").unwrap(),
                _ => {} // sends nothing at all
            }
            connection
        })
        .collect();
    for _ in 0..20 {
        health.clone().send().ok(200);
        customer.test_server.anonymous().get("/readyz").send().ok(200);
        let beat = customer.heartbeat(&job, json!({}));
        assert!(beat["problem"].is_null(), "{beat}");
    }
    // A connection with a request being served does not yield.
    customer.owner.post(&format!("/api/jobs/{watched}/cancel")).send().ok(202);
    let last = std::iter::from_fn(|| stream.next()).last().unwrap();
    assert_eq!(last.data["status"], "Cancelled", "{last:?}");
    drop(idle);
}

/// Answers that anonymous clients do not read take no places from callers with a credential.
#[test]
fn unread_anonymous_answers_do_not_block_heartbeats() {
    let settings = format!("[limits]\nconnections = 12\nwaiting = 10\nwrite_timeout = \"{NEVER}\"");
    let customer = Customer::of(&Arc::new(TestServer::with(&settings)));
    let job = customer.running("held");
    // More than the buffers of both ends hold.
    let pipelined = customer.test_server.anonymous().get("/openapi.json").bytes().repeat(400);
    let unread: Vec<Connection> = (0..12)
        .map(|_| {
            let mut connection = customer.owner.connect().unwrap();
            connection.write(&pipelined).unwrap();
            assert_eq!(connection.line().unwrap(), "HTTP/1.1 200 OK");
            connection
        })
        .collect();
    for _ in 0..5 {
        let beat = customer.heartbeat(&job, json!({}));
        assert!(beat["problem"].is_null(), "{beat}");
    }
    drop(unread);
}

/// New connections do not cut off requests that are being served, however many come.
#[test]
fn requests_under_way_keep_their_places() {
    let settings = "[limits]\nconnections = 12\nwaiting = 10\n\
                    waiting_per_principal = 10\nwaiting_per_job = 10";
    let customer = Customer::of(&Arc::new(TestServer::with(settings)));
    let id = customer.queued("waited-for");
    let path = format!("/api/jobs/{id}/events");
    // The head of an answer has come: the server has recognised the caller and serves it. A request
    // with `wait` does not show when the server has read it, and until then its connection may
    // yield.
    let mut served: Vec<Events> = (0..10).map(|_| customer.owner.get(&path).events()).collect();
    for _ in 0..50 {
        // Two places are left for four connections, so that two idle ones must yield.
        let idle = [(); 3].map(|()| customer.owner.connect().unwrap());
        customer.test_server.anonymous().get("/healthz").send().ok(200);
        drop(idle);
    }
    customer.owner.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    for stream in &mut served {
        let last = std::iter::from_fn(|| stream.next()).last().unwrap();
        assert_eq!(last.data["status"], "Cancelled", "{last:?}");
    }
}

#[test]
fn a_silent_connection_is_closed_soon() {
    let settings =
        format!("[limits]\nfirst_byte_timeout = \"300ms\"\nheader_timeout = \"{NEVER}\"");
    let test_server = TestServer::with(&settings);
    let mut silent = test_server.anonymous().connect().unwrap();
    let end = silent.answer("GET").unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    // A connection that has started a request has the time that headers have.
    let mut begun = test_server.anonymous().connect().unwrap();
    begun.write(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let mut silent = test_server.anonymous().connect().unwrap();
    silent.answer("GET").unwrap_err();
    begun.write(b"host: x\r\n\r\n").unwrap();
    begun.answer("GET").unwrap().ok(200);
}

#[test]
fn one_address_does_not_get_all_connections() {
    let settings = format!(
        "[limits]\nconnections = 100\nwaiting = 50\nwaiting_per_job = 40\nconnections_per_address = 10\nheader_timeout = \"{NEVER}\""
    );
    let customer = Customer::of(&Arc::new(TestServer::with(&settings)));
    let id = customer.queued("watched");
    let client = customer.owner.clone();
    let (greedy, other) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    let ask = client.get(&format!("/api/jobs/{id}/events"));
    let streams: Vec<Connection> = (0..10)
        .map(|_| {
            let mut stream = client.connect_from(IpAddr::V4(greedy)).unwrap();
            stream.write(&ask.bytes()).unwrap();
            assert_eq!(stream.line().unwrap(), "HTTP/1.1 200 OK");
            stream
        })
        .collect();
    let health = client.get("/healthz");
    let ask_from = |address| client.connect_from(IpAddr::V4(address))?.send(health.clone());
    for _ in 0..5 {
        assert!(ask_from(greedy).is_err(), "the address has its share");
        ask_from(other).unwrap().ok(200);
    }
    client.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    drop(streams);
    wait_until("it has room again", || ask_from(greedy).is_ok());
    // Idle connections yield to others of their own address.
    let idle: Vec<Connection> = (0..30)
        .map(|_| {
            let mut connection = client.connect_from(IpAddr::V4(greedy)).unwrap();
            connection.send(health.clone()).unwrap().ok(200);
            connection
        })
        .collect();
    drop(idle);
}

#[test]
fn a_proxy_that_is_trusted_has_no_share() {
    let settings = "[limits]\nconnections = 100\nwaiting = 50\nwaiting_per_job = 40\nconnections_per_address = 5\n\
                    [proxy]\ntrusted = [\"127.0.0.2/32\"]";
    let customer = Customer::of(&Arc::new(TestServer::with(settings)));
    let id = customer.queued("watched");
    let ask = customer.owner.get(&format!("/api/jobs/{id}/status?wait=60"));
    let proxy = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let mut waiting: Vec<Connection> =
        (0..20).map(|_| customer.owner.connect_from(proxy).unwrap()).collect();
    waiting.iter_mut().for_each(|one| one.write(&ask.bytes()).unwrap());
    customer.owner.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    waiting.iter_mut().for_each(|one| drop(one.answer("GET").unwrap().ok(200)));
}

#[test]
fn health_and_metrics_can_have_a_listener_of_their_own() {
    let port = free_port();
    let settings = format!(
        "[health]\nlisten = \"127.0.0.1:{port}\"\n[limits]\nconnections = 12\nwaiting = 10\n\
         waiting_per_principal = 10\nwaiting_per_job = 10\n"
    );
    let customer = Customer::of(&Arc::new(TestServer::with(&settings)));
    let metrics = customer.client(json!({"tenant": "*", "scopes": ["metrics:read"]}));
    let job = customer.client(json!({"scopes": ["jobs:read"]}));
    let apart = Client::new(Arc::new(AtomicU16::new(port)));
    let id = customer.queued("watched");
    let waiting = streams(&customer.owner, &format!("/api/jobs/{id}/status?wait=60"), 10);
    // Requests that do not end hold the rest.
    let begun = customer.owner.post("/api/jobs").header("content-type", "application/json");
    let begun = begun.header("content-length", "1000").bytes();
    let mut slow: Vec<Connection> = (0..2).map(|_| customer.owner.connect().unwrap()).collect();
    slow.iter_mut().for_each(|one| one.write(&begun).unwrap());
    apart.get("/healthz").send().ok(200);
    apart.get("/readyz").send().ok(200);
    apart.get("/metrics").send().problem(401, "UNAUTHENTICATED");
    let page = metrics.get("/metrics").at(&apart).send();
    assert!(page.status == 200 && page.text().contains("consign_http_requests_total"));
    job.get("/metrics").at(&apart).send().problem(403, "FORBIDDEN");
    customer.owner.get("/api/jobs").at(&apart).send().problem(404, "NOT_FOUND");
    apart.get("/docs").send().problem(404, "NOT_FOUND");
    drop((waiting, slow));
    // Idle ones do not fill it either.
    let idle: Vec<Connection> = (0..200).map(|_| apart.connect().unwrap()).collect();
    apart.get("/healthz").send().ok(200);
    drop(idle);
    assert_eq!(customer.test_server.stop().code(), Some(0));
}

/// As many as may be open at all: they yield before the descriptors run out.
#[test]
fn connections_stay_below_the_limit_of_open_files() {
    let _exclusive = exclusive();
    let test_server =
        TestServer::with_open_files_max(256, &format!("[limits]\nheader_timeout = \"{NEVER}\""));
    assert!(test_server.log().contains("connections are limited"), "{}", test_server.log());
    let client = test_server.anonymous();
    let idle: Vec<Connection> = (0..600)
        .map(|_| {
            let mut connection = client.connect().unwrap();
            drop(connection.send(client.get("/healthz")).unwrap());
            connection
        })
        .collect();
    assert!(files(test_server.id()) < 256 - 20, "{} files", files(test_server.id()));
    test_server.admin().post("/api/jobs").json(&json!({"jobType": "x"})).send().ok(202);
    assert!(!test_server.log().contains("was not accepted"), "{}", test_server.log());
    drop(idle);
}

#[test]
fn config_check_warns_of_too_few_descriptors() {
    let folder = TempDir::new().unwrap();
    let output = |words: &str| {
        let script = format!("ulimit -n 512; exec \"$0\" {words}");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_consign")]).current_dir(folder.path());
        crate::remove_consign_variables(&mut shell);
        let run = shell.output().unwrap();
        String::from_utf8(run.stdout).unwrap()
    };
    let check = output("config check");
    assert!(
        check.contains("warning: limits.connections is 10000") && check.contains("takes 192"),
        "{check}"
    );
    let doctor = output("doctor --quick");
    assert!(doctor.contains("192 connections"), "{doctor}");
    fs::write(folder.path().join("consign.toml"), "[limits]\nconnections = 150\nwaiting = 100")
        .unwrap();
    let fits = output("config check");
    assert!(fits.contains("are sound") && !fits.contains("limits.connections is"), "{fits}");
}

#[test]
fn the_health_listener_must_be_protected_too() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("consign.toml"), "[health]\nlisten = \"0.0.0.0:1\"").unwrap();
    let output = consign(folder.path(), &["config", "check"]);
    assert!(!output.success && output.out.contains("other machines can reach"), "{}", output.out);
}
