//! A setting that one node has acknowledged is in force at every live node.

use super::{fresh, schema_at};
use crate::serve::{Client, TestServer, WAIT_MAX, wait_until};
use engine::{Entropy, KeySecret};
use platform::SystemClock;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{thread, time::Duration};
use store::Clock;
use test_postgres::{PgBouncer, Server};

const REPEATS: usize = 25;
const HEADER: &str = "consign-unconfirmed-nodes";
/// A heartbeat is valid for ten seconds; the rest is for a busy machine.
const LOST_WITHIN: Duration = Duration::from_secs(25);

/// Two nodes of one database, which know each other.
fn two(address: &str) -> [TestServer; 2] {
    let one = TestServer::of_database(address, "");
    let two = TestServer::of_database(address, "");
    wait_until("each knows both", || {
        [&one, &two].iter().all(|test_server| {
            let nodes = test_server.anonymous().with_key(one.admin_key()).get("/api/nodes").send();
            nodes.status == 200 && live(&nodes.json()) == 2
        })
    });
    [one, two]
}

fn live(nodes: &Value) -> usize {
    nodes["items"].as_array().unwrap().iter().filter(|node| node["state"] == "live").count()
}

/// Makes a key at a node: the key, and its id.
fn make_key(admin: &Client) -> (String, String) {
    let grant = json!({"name": "k", "tenant": "acme", "scopes": ["jobs:read", "jobs:enqueue"]});
    let answer = admin.post("/api/keys").json(&grant).send();
    assert_eq!(answer.header(HEADER), None, "every node has confirmed it");
    let key_made = answer.ok(201);
    (key_made["key"].as_str().unwrap().into(), key_made["id"].as_str().unwrap().into())
}

fn revoke(admin: &Client, id: &str) {
    let answer = admin.delete(&format!("/api/keys/{id}")).send();
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert_eq!(answer.header(HEADER), None, "every node has confirmed it");
}

fn status_with(client: &Client) -> u16 {
    client.get("/api/queues").send().status
}

#[test]
fn a_key_is_good_and_revoked_at_every_node_when_it_is_answered() {
    let [one, two] = two(&fresh(Server::shared()));
    for _ in 0..REPEATS {
        let (key, id) = make_key(&one.admin());
        let other_client = two.anonymous().with_key(&key);
        assert_eq!(status_with(&other_client), 200, "made at the other node");
        revoke(&one.admin(), &id);
        assert_eq!(status_with(&other_client), 401, "revoked at the other node");
    }
}

#[test]
fn schemas_and_pauses_hold_at_every_node_when_they_are_answered() {
    let [one, two] = two(&fresh(Server::shared()));
    let admin = one.admin();
    let other_client = two.anonymous().with_key(one.admin_key());
    for number in 0..REPEATS {
        let job_type = format!("letter-{number}");
        let job = json!({"jobType": job_type, "payload": {}});
        let submit = || other_client.post("/api/jobs").json(&job).send();
        submit().ok(202);
        let policy = json!({"schema": {"type": "object", "required": ["to"]}});
        let set = admin.put(&format!("/api/types/{job_type}")).json(&policy).send();
        assert_eq!((set.status, set.header(HEADER)), (200, None), "{}", set.text());
        submit().problem(422, "SCHEMA_MISMATCH");
        admin.post(&format!("/api/queues/{job_type}/pause")).send().ok(200);
        let claim_request = json!({"workerId": "w", "claimId": job_type, "jobTypes": [job_type]});
        let claimed = other_client.post("/api/work/claim").json(&claim_request).send().ok(200);
        assert_eq!(claimed["jobs"], json!([]), "its queue is paused");
        admin.post(&format!("/api/queues/{job_type}/resume")).send().ok(200);
        let claimed = other_client.post("/api/work/claim").json(&claim_request).send().ok(200);
        assert_eq!(claimed["jobs"].as_array().unwrap().len(), 1);
    }
}

/// LISTEN does not pass the pooler, so each change waits until the other node polls.
#[test]
fn key_changes_reach_all_nodes_behind_a_pooler() {
    let server = Server::shared();
    let bouncer = PgBouncer::before(server);
    let [one, two] = two(&schema_at(&bouncer.address(), server));
    for _ in 0..2 {
        let (key, id) = make_key(&one.admin());
        let other_client = two.anonymous().with_key(&key);
        assert_eq!(status_with(&other_client), 200);
        revoke(&one.admin(), &id);
        assert_eq!(status_with(&other_client), 401);
    }
}

/// A signed address opens its job at every node at once, and at no node after its key is revoked.
#[test]
fn a_revoked_signing_key_is_refused_at_every_node() {
    let [one, two] = two(&fresh(Server::shared()));
    let admin = one.admin();
    let other_client = two.anonymous();
    for _ in 0..3 {
        let job = admin.post("/api/jobs?withSignedUrl=true").json(&json!({"jobType": "letter"}));
        let address = job.send().ok(202)["signedStatusUrl"].as_str().unwrap().to_owned();
        assert_eq!(other_client.get(&address).send().status, 200, "{address}");
        let keys = admin.get("/api/keys").send().ok(200);
        let keys = keys["items"].as_array().unwrap();
        let signing = keys.iter().filter(|key| key["kind"] == "signing");
        for key in signing.filter(|key| key["revokedAt"].is_null()) {
            revoke(&admin, key["id"].as_str().unwrap());
        }
        assert_eq!(other_client.get(&address).send().status, 401);
    }
}

/// A paused node cannot confirm. A revocation waits for it as long as its last heartbeat is valid,
/// and the answer says so. When the node resumes, it does not act by its cache.
#[test]
fn a_paused_node_delays_a_revocation_for_a_while_and_never_serves_the_key_again() {
    let [one, two] = two(&fresh(Server::shared()));
    let (key, id) = make_key(&one.admin());
    let other_client = two.anonymous().with_key(&key);
    assert_eq!(status_with(&other_client), 200, "it is in the memory of the node");
    two.send(Signal::STOP);
    // The request waits in the socket; the node serves it when it resumes.
    let request = thread::spawn({
        let other_client = other_client.clone();
        move || other_client.get("/api/queues").within(WAIT_MAX * 2).send().status
    });
    let begun = SystemClock::new();
    let revoked = one.admin().delete(&format!("/api/keys/{id}")).within(WAIT_MAX * 2).send();
    let took = begun.read().monotonic;
    two.send(Signal::CONT);
    assert_eq!(revoked.status, 204, "{}", revoked.text());
    assert!(took < LOST_WITHIN, "{took:?}");
    assert_eq!(revoked.header(HEADER), Some("1"), "the answer says so: {took:?}");
    // The node may find that the database has closed its connections in the meantime. It never
    // accepts the key.
    let answer = request.join().unwrap();
    assert!(matches!(answer, 401 | 503), "{answer}");
    wait_until("it has looked", || match status_with(&other_client) {
        401 => true,
        503 => false,
        other => panic!("it acts by what it remembers: {other}"),
    });
    // And it takes part again.
    wait_until("it confirms again", || {
        let (_, id) = make_key_slowly(&one.admin());
        let answer = one.admin().delete(&format!("/api/keys/{id}")).within(WAIT_MAX * 2).send();
        answer.status == 204 && answer.header(HEADER).is_none()
    });
}

fn make_key_slowly(admin: &Client) -> (String, String) {
    let grant = json!({"name": "k", "tenant": "acme", "scopes": ["jobs:read"]});
    let key_made = admin.post("/api/keys").json(&grant).within(WAIT_MAX * 2).send().ok(201);
    (key_made["key"].as_str().unwrap().into(), key_made["id"].as_str().unwrap().into())
}

/// Changes do not wait for a node that was stopped in order.
#[test]
fn a_node_that_has_stopped_keeps_no_change_waiting() {
    let [one, two] = two(&fresh(Server::shared()));
    assert!(two.stop().success(), "{}", two.log());
    let begun = SystemClock::new();
    let (_, id) = make_key(&one.admin());
    revoke(&one.admin(), &id);
    let took = begun.read().monotonic;
    assert!(took < Duration::from_secs(8), "{took:?}");
}

/// Every guess is looked up, but lookups have a minimal distance, and guesses that come together
/// share one.
#[test]
fn guessed_keys_share_database_lookups() {
    let test_server = TestServer::of_database(&fresh(Server::shared()), "");
    let guess = |number: u128| {
        let secret = KeySecret::new(Entropy(number << 64), [Entropy(number), Entropy(1)]).expose();
        test_server
            .anonymous()
            .with_key(&secret)
            .get("/api/queues")
            .send()
            .problem(401, "UNAUTHENTICATED");
    };
    let clock = SystemClock::new();
    (1..=11).for_each(guess);
    let one_by_one = clock.read().monotonic;
    assert!(one_by_one >= Duration::from_secs(1), "a look for each, 100 ms apart: {one_by_one:?}");
    let clock = SystemClock::new();
    thread::scope(|scope| {
        for number in 0..100 {
            let guess = &guess;
            scope.spawn(move || guess(100 + number));
        }
    });
    let together = clock.read().monotonic;
    assert!(together < Duration::from_secs(3), "as if each had its own look: {together:?}");
    test_server.admin().get("/api/queues").send().ok(200);
}
