//! §4: an address that follows one job, and opens nothing else.

use crate::serve::{Customer, customer::fresh};
use serde_json::json;

fn signed(customer: &Customer, job_type: &str) -> (String, String) {
    let job = json!({"jobType": job_type, "subjectId": "s"});
    let taken = customer.owner.post("/api/jobs?withSignedUrl=true").json(&job).send().ok(202);
    let text = |field: &str| taken[field].as_str().unwrap().to_owned();
    (text("jobId"), text("signedStatusUrl"))
}

#[test]
fn a_signed_address_follows_its_job_to_the_end() {
    let customer = Customer::new();
    let anonymous = customer.test_server.anonymous();
    let job_type = fresh("type");
    let (id, url) = signed(&customer, &job_type);
    assert!(url.starts_with(&format!("/api/jobs/{id}/status?")), "{url}");
    let seen = anonymous.get(&url).send().ok(200);
    assert_eq!(seen, customer.status(&id), "what its tenant sees");
    let mut events = anonymous.get(&url.replace("/status?", "/events?")).events();
    assert_eq!(events.next().unwrap().data["status"], "Queued");
    let job = customer.claim(&job_type);
    assert_eq!(events.next().unwrap().data["status"], "Running");
    customer.settle(&job, json!({"outcome": "completed"}));
    assert_eq!(events.next().unwrap().data["status"], "Completed");
    assert!(events.next().is_none());
    let ended = anonymous.get(&format!("{url}&wait=10")).send().ok(200);
    assert_eq!(ended["status"], "Completed");
}

#[test]
fn a_signed_url_grants_no_other_route_or_job() {
    let customer = Customer::new();
    let anonymous = customer.test_server.anonymous();
    let (id, url) = signed(&customer, &fresh("type"));
    let (other, _) = signed(&customer, &fresh("type"));
    let query = url.split_once('?').unwrap().1;
    let refused = [
        ("DELETE", format!("/api/jobs/{id}/status?{query}")),
        ("GET", format!("/api/jobs/{id}?{query}")),
        ("DELETE", format!("/api/jobs/{id}?{query}")),
        ("GET", format!("/api/jobs/{id}/history?{query}")),
        ("GET", format!("/api/jobs/{id}/explain?{query}")),
        ("POST", format!("/api/jobs/{id}/cancel?{query}")),
        ("POST", format!("/api/jobs/{id}/redrive?{query}")),
        ("GET", format!("/api/jobs?{query}")),
        ("GET", format!("/api/keys?{query}")),
        ("GET", format!("/metrics?{query}")),
        ("GET", format!("/api/jobs/{other}/status?{query}")),
        ("GET", format!("/api/jobs/{other}/events?{query}")),
        ("GET", format!("/api/jobs/{id}/status")),
        ("GET", format!("/api/jobs/{id}/status?sig=")),
    ];
    for (method, path) in refused {
        let answer = anonymous.ask(method, &path).send();
        assert_eq!(answer.status, 401, "{method} {path}: {}", answer.text());
        answer.problem(401, "UNAUTHENTICATED");
    }
    assert_eq!(customer.status(&id)["status"], "Queued");
}

/// Every letter of the signature matters.
#[test]
fn a_forged_url_signature_is_refused() {
    let customer = Customer::new();
    let anonymous = customer.test_server.anonymous();
    let (_, url) = signed(&customer, &fresh("type"));
    let (head, sig) = url.split_once("sig=").unwrap();
    for at in 0..sig.len() {
        let mut bytes = sig.as_bytes().to_vec();
        bytes[at] = match bytes[at] {
            b'0' => b'1',
            b'a' => b'b',
            b'A' => b'B',
            b'.' => b'0',
            byte if byte.is_ascii_digit() => b'0',
            byte if byte.is_ascii_lowercase() => b'a',
            _ => b'A',
        };
        let forged = format!("{head}sig={}", String::from_utf8(bytes).unwrap());
        let answer = anonymous.get(&forged).send();
        assert_eq!(answer.status, 401, "{at}: {forged}");
    }
    anonymous
        .get(&format!("{head}sig={}", &sig[..sig.len() - 1]))
        .send()
        .problem(401, "UNAUTHENTICATED");
    anonymous.get(&url).send().ok(200);
    // A wrong key beside a good signature is a wrong key.
    let both = anonymous.get(&url).header("authorization", "Bearer csk_wrong").send();
    both.problem(401, "UNAUTHENTICATED");
}

/// A signed address outlives the process, and ends with the key that signed it.
#[test]
fn a_signing_key_can_be_revoked() {
    let test_server = std::sync::Arc::new(crate::serve::TestServer::start());
    let customer = Customer::of(&test_server);
    let (_, url) = signed(&customer, &fresh("type"));
    test_server.kill();
    test_server.restart();
    test_server.anonymous().get(&url).send().ok(200);
    let keys = test_server.admin().get("/api/keys?top=1000").send().ok(200);
    let signing = keys["items"].as_array().unwrap().iter().filter(|key| key["kind"] == "signing");
    let ids: Vec<&str> = signing.map(|key| key["id"].as_str().unwrap()).collect();
    assert!(!ids.is_empty(), "{keys}");
    for id in ids {
        let own = customer.owner.delete(&format!("/api/keys/{id}")).send();
        own.problem(404, "KEY_NOT_FOUND");
        assert_eq!(test_server.admin().delete(&format!("/api/keys/{id}")).send().status, 204);
    }
    test_server.anonymous().get(&url).send().problem(401, "UNAUTHENTICATED");
    let (_, new) = signed(&customer, &fresh("type"));
    test_server.anonymous().get(&new).send().ok(200);
}
