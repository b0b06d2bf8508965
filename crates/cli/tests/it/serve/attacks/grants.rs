//! The reach of a key that another credential made, and what ends with it.

use crate::{
    client::Prompt,
    serve::{
        Client, TestServer,
        forgery::{Issuer, claims},
    },
};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// An absent tenant used to mean the maker's: with the admin key, every tenant.
#[test]
fn a_key_without_a_tenant_is_good_for_one() {
    let test_server = TestServer::start();
    let make = |client: &Client, grant: Value| client.post("/api/keys").json(&grant).send();
    let made = make(&test_server.admin(), json!({"name": "shop", "scopes": ["jobs:read"]})).ok(201);
    assert_eq!(made["tenant"], "default");
    test_server
        .client(json!({"name": "a", "tenant": "acme", "scopes": ["jobs:enqueue"]}))
        .post("/api/jobs")
        .json(&json!({"jobType": "secret"}))
        .send()
        .ok(202);
    let shop = test_server.anonymous().with_key(made["key"].as_str().unwrap());
    assert_eq!(shop.get("/api/jobs").send().ok(200)["items"], json!([]));
    let all = json!({"name": "all", "tenant": "*", "scopes": ["jobs:read"]});
    assert_eq!(make(&test_server.admin(), all).ok(201)["tenant"], "*", "where it is written");
    let owner = test_server.client(json!({"name": "o", "tenant": "acme", "scopes": ["admin"]}));
    let own = make(&owner, json!({"name": "x", "scopes": ["work"]})).ok(201);
    assert_eq!(own["tenant"], "acme", "an admin of one tenant makes keys of that tenant");
    let typed =
        Prompt::of(&test_server).types(&["keys", "create", "x", "--scope", "work", "--json"]);
    assert_eq!(typed.json()["tenant"], "default");
}

/// A credential with an expiry made keys that never expired.
#[test]
fn a_key_ends_no_later_than_its_maker() {
    let test_server = TestServer::start();
    let end = "2031-01-01T00:00:00.000Z";
    let grant = json!({"name": "o", "tenant": "acme", "scopes": ["admin"], "expiresAt": end});
    let owner = test_server.client(grant);
    let make = |more: Value| {
        let mut grant = json!({"name": "x", "scopes": ["admin"]});
        grant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        owner.post("/api/keys").json(&grant).send()
    };
    let child = make(json!({})).ok(201);
    assert_eq!(child["expiresAt"], end, "where nothing is said, its maker's end");
    let sooner = make(json!({"expiresAt": "2030-12-31T00:00:00Z"})).ok(201);
    assert_eq!(sooner["expiresAt"], "2030-12-31T00:00:00.000Z");
    let later = make(json!({"expiresAt": "2031-01-01T00:00:00.001Z"}));
    let problem = later.problem(400, "INVALID_FIELD");
    assert_eq!(problem["errors"][0]["pointer"], "/expiresAt", "{problem}");
    let grandchild = test_server
        .anonymous()
        .with_key(child["key"].as_str().unwrap())
        .post("/api/keys")
        .json(&json!({"name": "y", "scopes": ["work"]}))
        .send()
        .ok(201);
    assert_eq!(grandchild["expiresAt"], end);
}

#[test]
fn a_key_made_with_a_token_ends_with_the_token() {
    let issuer = Issuer::new();
    let test_server = issuer.test_server();
    let token_claims = claims("admin");
    let owner = test_server.anonymous().with_key(&issuer.token(&token_claims));
    let make = |grant: Value| owner.post("/api/keys").json(&grant).send();
    let made = make(json!({"name": "x", "scopes": ["work"]})).ok(201);
    let ends = wire::parse_time("expiresAt", made["expiresAt"].as_str().unwrap()).unwrap();
    assert_eq!(ends.unix_ms(), token_claims["exp"].as_i64().unwrap() * 1_000);
    let forever = json!({"name": "x", "scopes": ["work"], "expiresAt": "2050-01-01T00:00:00Z"});
    make(forever).problem(400, "INVALID_FIELD");
}

/// A thief who made keys of its own kept them after the stolen key was revoked.
#[test]
fn revoking_a_key_can_take_its_descendants_with_it() {
    let test_server = TestServer::start();
    let make = |client: &Client, scopes: &[&str]| {
        let grant = json!({"name": "x", "scopes": scopes});
        let made = client.post("/api/keys").json(&grant).send().ok(201);
        let client = test_server.anonymous().with_key(made["key"].as_str().unwrap());
        (made["id"].as_str().unwrap().to_owned(), client)
    };
    let works = |client: &Client| client.get("/api/jobs").send().status;
    let (bystander_id, bystander) = make(&test_server.admin(), &["admin"]);
    let (stolen_id, stolen) = make(&test_server.admin(), &["admin"]);
    let (child_id, child) = make(&stolen, &["admin"]);
    let (grandchild_id, grandchild) = make(&child, &["jobs:read"]);
    // Without `descendants`, the keys that it made stay.
    assert_eq!(test_server.admin().delete(&format!("/api/keys/{stolen_id}")).send().status, 204);
    assert_eq!([&stolen, &child, &grandchild].map(works), [401, 200, 200]);
    // The flag works later, too.
    let path = format!("/api/keys/{stolen_id}?descendants=true");
    assert_eq!(test_server.admin().delete(&path).send().status, 204);
    assert_eq!([&stolen, &child, &grandchild, &bystander].map(works), [401, 401, 401, 200]);
    let audit = test_server.admin().get("/api/audit").send().ok(200);
    let revoked = |id: &str| {
        let entries = audit["items"].as_array().unwrap().iter();
        entries.filter(|one| one["action"] == "key.revoke" && one["target"] == id).count()
    };
    let ids = [&stolen_id, &child_id, &grandchild_id, &bystander_id];
    assert_eq!(ids.map(|id| revoked(id)), [1, 1, 1, 0], "{audit}");
    let (_, later) = make(&bystander, &["jobs:read"]);
    let prompt = Prompt::of(&test_server);
    let output = prompt.types(&["keys", "revoke", &bystander_id, "--descendants"]);
    assert!(output.well().contains("made with it"), "{}", output.out);
    assert_eq!([&bystander, &later].map(works), [401, 401]);
    let wrong = format!("/api/keys/{stolen_id}?descendent=true");
    test_server.admin().delete(&wrong).send().problem(400, "INVALID_FIELD");
}

/// A key that is revoked while it makes another: the request passed authorization before, and
/// stores a key that no search for descendants has found.
#[test]
fn a_key_that_was_revoked_meanwhile_makes_no_other() {
    let test_server = TestServer::start();
    let grant = json!({"name": "thief", "scopes": ["admin", "jobs:read"]});
    let stolen = test_server.admin().post("/api/keys").json(&grant).send().ok(201);
    let (id, key) = (stolen["id"].as_str().unwrap(), stolen["key"].as_str().unwrap());
    let body = json!({"name": "heir", "scopes": ["jobs:read"]}).to_string();
    let mut socket = TcpStream::connect(test_server.anonymous().address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let length = body.len();
    let head = format!(
        "POST /api/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    // The server asks for its body: the key was valid.
    let mut continue_line = [0; 25];
    socket.read_exact(&mut continue_line).unwrap();
    assert_eq!(&continue_line, b"HTTP/1.1 100 Continue\r\n\r\n");
    let revoke = test_server.admin().delete(&format!("/api/keys/{id}?descendants=true"));
    assert_eq!(revoke.send().status, 204);
    socket.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 ") && !answer.contains("csk_"), "{answer}");
    let keys = test_server.admin().get("/api/keys").send().ok(200);
    let heirs = keys["items"].as_array().unwrap().iter().filter(|key| key["name"] == "heir");
    let mut valid = heirs.filter(|key| key["revokedAt"].is_null());
    assert!(valid.next().is_none(), "{keys}");
}
