//! Planted secrets: used in every kind of request, also in those that fail, and found nowhere.

use super::{
    Client, Customer,
    customer::{SCOPES, fresh, lease_item},
    forgery::{Issuer, claims},
};
use serde_json::{Value, json};
use std::sync::Arc;

const PAYLOAD: &str = "planted-payload-7c1f";

/// All answers of the server, and the secrets that must not be in them.
#[derive(Default)]
struct Recorder {
    answers: Vec<(String, String)>,
    secrets: Vec<(&'static str, String)>,
}

impl Recorder {
    fn plant(&mut self, what: &'static str, secret: &str) {
        assert!(secret.len() >= 12, "{what} could be anywhere: {secret}");
        self.secrets.push((what, secret.into()));
    }

    /// Sends a request, and keeps the answer.
    fn send(&mut self, client: &Client, method: &str, path: &str, body: Option<&str>) -> u16 {
        let ask = client.ask(method, path);
        let answer = match body {
            Some(body) => ask.header("content-type", "application/json").body(body).send(),
            None => ask.send(),
        };
        let headers: Vec<String> =
            answer.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let text = format!("{}\n{}", headers.join("\n"), answer.text());
        self.answers.push((format!("{method} {}: {}", path_of(path), answer.status), text));
        answer.status
    }

    #[track_caller]
    fn check(&self) {
        for (request, answer) in &self.answers {
            for (what, secret) in &self.secrets {
                assert!(!answer.contains(secret.as_str()), "{what} is in {request}: {answer}");
            }
        }
    }
}

fn path_of(address: &str) -> &str {
    address.split('?').next().unwrap()
}

#[test]
fn planted_secrets_appear_nowhere() {
    let issuer = Issuer::new();
    let test_server = Arc::new(issuer.test_server());
    let customer = Customer::of(&test_server);
    let mut recorder = Recorder::default();
    recorder.plant("the admin key", test_server.admin_key());
    let key = test_server.key(json!({"name": "k", "tenant": customer.tenant, "scopes": SCOPES}));
    recorder.plant("a key", &key);
    let token = issuer.token(&claims("jobs:read"));
    recorder.plant("a token", &token);
    recorder.plant("a payload", PAYLOAD);
    let clients = [
        test_server.admin(),
        test_server.anonymous(),
        test_server.anonymous().with_key(&key),
        test_server.anonymous().with_key(&token),
        test_server.anonymous().with_key(&format!("{key}x")),
        test_server.anonymous().with_key(&format!("{token}x")),
    ];
    let job_type = fresh("type");
    let client = test_server.anonymous().with_key(&key);
    let body = json!({
        "jobType": job_type, "payload": {"password": PAYLOAD}, "idempotencyKey": "k-1",
    });
    let taken = client.post("/api/jobs?withSignedUrl=true").json(&body).send().ok(202);
    let id = taken["jobId"].as_str().unwrap();
    let signed = taken["signedStatusUrl"].as_str().unwrap();
    recorder.plant("a signature", signed.split("sig=").nth(1).unwrap());
    let claimed = customer.claim(&job_type);
    let lease = claimed["lease"]["token"].as_str().unwrap();
    recorder.plant("a lease token", lease);
    assert_eq!(claimed["payload"]["password"], PAYLOAD);

    fail_in_every_way(&mut recorder, &clients, &claimed);
    let failed = json!({"outcome": "failed", "errorCode": "OOPS", "errorMessage": "it broke"});
    customer.settle(&claimed, failed);
    look_everywhere(&mut recorder, &clients, id, signed);
    let mut events = client.get(&format!("/api/jobs/{id}/events")).events();
    recorder.answers.push(("the stream".into(), format!("{:?}", events.next())));
    drop(events);
    assert!(test_server.stop().success());
    let log = test_server.log();
    assert!(log.contains("/api/work/settle"), "there is a log");
    recorder.answers.push(("the log".into(), log));
    assert!(recorder.answers.len() > 150, "{}", recorder.answers.len());
    recorder.check();
}

/// Whatever is wrong with a request, the answer must not repeat its content.
fn fail_in_every_way(recorder: &mut Recorder, clients: &[Client], claimed: &Value) {
    let item = |more: Value| json!({"items": [lease_item(claimed, more)]}).to_string();
    let lease = claimed["lease"]["token"].as_str().unwrap();
    let no_token = item(json!({"token": format!("{lease}0"), "outcome": "completed"}));
    let bodies = [
        ("/api/jobs", json!({"jobType": "NOT LAWFUL", "payload": PAYLOAD}).to_string()),
        ("/api/jobs", format!(r#"{{"jobType": "a", "payload": {{"password": "{PAYLOAD}"#)),
        ("/api/jobs", format!(r#"{{"jobType": {PAYLOAD}}}"#)),
        ("/api/jobs", json!({"jobType": {"secret": PAYLOAD}}).to_string()),
        ("/api/jobs", json!({"jobType": "a", "priority": PAYLOAD}).to_string()),
        ("/api/jobs", json!({"jobType": "a", "payload": PAYLOAD.repeat(5_000)}).to_string()),
        (
            "/api/jobs",
            json!({"jobType": claimed["jobType"], "payload": {"other": PAYLOAD},
            "idempotencyKey": "k-1"})
            .to_string(),
        ),
        ("/api/jobs/batch", json!({"jobs": [{"jobType": "A", "payload": PAYLOAD}]}).to_string()),
        (
            "/api/jobs/batch?partial=true",
            json!({"jobs": [{"jobType": "A", "payload": PAYLOAD}]}).to_string(),
        ),
        ("/api/work/settle", no_token),
        ("/api/work/settle", item(json!({"outcome": "nonsense"}))),
        ("/api/work/settle", item(json!({"outcome": "failed", "errorCode": PAYLOAD}))),
        ("/api/work/settle", item(json!({"jobId": "nobody", "outcome": "completed"}))),
        ("/api/work/release", item(json!({"token": format!("{lease}0")}))),
        ("/api/work/release", item(json!({"delaySeconds": PAYLOAD}))),
        (
            "/api/work/heartbeat",
            json!({"workerId": "w", "leases": [{"jobId": claimed["jobId"],
            "token": format!("{lease}0")}]})
            .to_string(),
        ),
        ("/api/work/heartbeat", json!({"workerId": PAYLOAD.repeat(20), "leases": []}).to_string()),
        (
            "/api/work/steps",
            json!({"jobId": claimed["jobId"], "token": format!("{lease}0"),
            "name": "s", "action": "begin"})
            .to_string(),
        ),
        ("/api/keys", json!({"name": "x", "scopes": [PAYLOAD]}).to_string()),
        ("/api/nowhere", json!({"payload": PAYLOAD}).to_string()),
    ];
    for (path, body) in &bodies {
        for client in clients {
            let status = recorder.send(client, "POST", path, Some(body));
            assert!(status < 500, "{path} {body}: {status}");
        }
    }
}

fn look_everywhere(recorder: &mut Recorder, clients: &[Client], id: &str, signed: &str) {
    let sig = signed.split("sig=").nth(1).unwrap();
    let paths = [
        signed.to_owned(),
        format!("{signed}0"),
        format!("/api/jobs/{id}/history"),
        format!("/api/jobs/{id}/history?sig={sig}"),
        format!("/api/jobs/{id}/explain"),
        format!("/api/jobs?sig={sig}&filter=status%20eq%20'{PAYLOAD}"),
        format!("/nowhere?sig={sig}"),
        "/api/jobs".into(),
        "/api/queues".into(),
        "/api/workers".into(),
        "/api/types".into(),
        "/api/poison".into(),
        "/api/keys".into(),
        "/api/audit?top=100".into(),
        "/api/nodes".into(),
        "/metrics".into(),
        "/readyz".into(),
    ];
    for path in &paths {
        for client in clients {
            let status = recorder.send(client, "GET", path, None);
            assert!(status < 500, "{path}: {status}");
        }
    }
}
