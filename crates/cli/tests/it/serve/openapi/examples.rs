//! Examples are valid, and the server answers them as documented.

use super::{
    super::{
        Answer, Customer, TestServer,
        customer::{fresh, id_of},
        matrix::{ask_as_owner, row_of},
    },
    Document, Operation,
};
use serde_json::Value;
use server::ROUTES;
use std::sync::Arc;

#[test]
fn every_example_keeps_its_schema() {
    let document = Document::of(&TestServer::start());
    let mut count = 0;
    let mut check = |name: &str, media_type: &Value| {
        let Some(example) = media_type.get("example") else { return };
        let faults = document.faults(&media_type["schema"], example);
        assert!(faults.is_empty(), "{name}: {faults:?}: {example}");
        count += 1;
    };
    for operation in document.operations() {
        if let Some(body) = operation.body() {
            check(operation.id(), body);
        }
        for (_, response) in operation.spec["responses"].as_object().unwrap() {
            let content = response["content"].as_object().into_iter().flatten();
            content.for_each(|(_, media_type)| check(operation.id(), media_type));
        }
    }
    assert!(count > 50, "{count}");
    let problem = &document.0["components"]["schemas"]["Problem"];
    for (code, example) in document.0["components"]["examples"].as_object().unwrap() {
        let faults = document.faults(problem, &example["value"]);
        assert!(faults.is_empty(), "{code}: {faults:?}");
    }
}

/// The ids in the examples.
const JOB: &str = "01a1e17f-dec5-7ff8-81e3-73a73ebb528a";
const TOKEN: &str = "0-1-8fbd6c2a90f14e7db3a5c6d7e8f90a1b";
const KEY: &str = "5d1a0c7e9b3f2486";

/// Sends them as they stand, and then with ids that exist: with those, each of them succeeds.
#[test]
fn every_example_is_sent_and_answered_as_documented() {
    let test_server = Arc::new(TestServer::start());
    let document = Document::of(&test_server);
    let customer = Customer::of(&test_server);
    for operation in document.operations() {
        let body = operation.body().map(|body| body["example"].to_string());
        let path = operation.example_path();
        document.check(&operation, &send(&test_server, &operation, &path, body.as_deref()));
        let real = Real::of(&customer, &operation, &format!("{path}{body:?}"));
        let body = body.map(|body| real.put_into(&body));
        let answer = send(&test_server, &operation, &real.put_into(&path), body.as_deref());
        assert!(answer.status < 300, "{}: {}", operation.id(), answer.text());
        document.check(&operation, &answer);
    }
}

fn send(test_server: &TestServer, operation: &Operation, path: &str, body: Option<&str>) -> Answer {
    let ask = test_server.admin().ask(&operation.method, path);
    match body {
        Some(body) => ask.header("content-type", "application/json").body(body).send(),
        None => ask.send(),
    }
}

/// The ids of a job and a key that exist.
struct Real([(&'static str, String); 3]);

impl Real {
    /// Makes only what the examples mention: an example may pause a queue.
    fn of(customer: &Customer, operation: &Operation, example_text: &str) -> Self {
        let (mut job, mut token, mut key) = (JOB.to_owned(), TOKEN.to_owned(), KEY.to_owned());
        match operation.id() {
            _ if !example_text.contains(JOB) => {}
            "eraseJob" | "streamJobEvents" => job = customer.completed(&fresh("example")),
            "redriveJob" => job = customer.poisoned(&fresh("example")),
            _ => {
                let running = customer.running(&fresh("example"));
                job = id_of(&running);
                token = running["lease"]["token"].as_str().unwrap().into();
            }
        }
        if example_text.contains(KEY) {
            let grant = serde_json::json!({"name": "x", "scopes": ["jobs:read"]});
            let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
            key = made["id"].as_str().unwrap().into();
        }
        Real([(JOB, job), (TOKEN, token), (KEY, key)])
    }

    fn put_into(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (example, real)| text.replace(example, real))
    }
}

/// The samples of the matrix, which all succeed: their answers match the document.
#[test]
fn every_route_answers_as_documented_when_all_is_well() {
    let customer = Customer::new();
    let document = Document::of(&customer.test_server);
    for route in ROUTES {
        let operations = document.operations();
        let is_it = |one: &&Operation| (&*one.method, &*one.path) == (route.method, route.path);
        let operation = operations.iter().find(is_it).unwrap();
        let answer = ask_as_owner(&customer, route);
        assert_eq!(answer.status, row_of(route).right, "{}", answer.text());
        document.check(operation, &answer);
    }
}
