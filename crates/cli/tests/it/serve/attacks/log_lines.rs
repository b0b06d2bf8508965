//! Every request line in the log says who asked, as far as that is known, and from where.

use super::requests::line;
use crate::serve::{Client, Customer, TestServer, customer::fresh};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

fn who(client: &Client, test_server: &TestServer, method: &str, path: &str, status: u16) -> Value {
    let id = fresh("line");
    let answer = client.ask(method, path).header("x-correlation-id", &id).send();
    assert_eq!(answer.status, status, "{}", answer.text());
    let line = line(test_server, &id);
    assert_eq!((&line["peer"], &line["status"]), (&json!("127.0.0.1"), &json!(status)), "{line}");
    line["who"].clone()
}

#[test]
fn refused_requests_are_logged_with_their_caller() {
    let test_server = Arc::new(TestServer::with("[rate]\nper_second = 1\nburst = 8"));
    let customer = Customer::of(&test_server);
    let key = customer
        .test_server
        .key(json!({"name": "k", "tenant": customer.tenant, "scopes": ["jobs:read"]}));
    let named = json!(format!("key:{}", key.split('_').nth(1).unwrap()));
    let client = test_server.anonymous().with_key(&key);
    let ask = |method, path, status| who(&client, &test_server, method, path, status);
    assert_eq!(ask("GET", "/api/jobs", 200), named);
    assert_eq!(ask("POST", "/api/jobs", 403), named);
    assert_eq!(ask("GET", "/api/keys", 403), named);
    let none = "/api/jobs/018f0000-0000-7000-8000-000000000000";
    assert_eq!(ask("GET", none, 404), named);
    assert_eq!(ask("GET", "/api/jobs?filter=nonsense", 400), named);
    let limited = (0..20).any(|_| client.get("/api/jobs").send().status == 429);
    assert!(limited);
    assert_eq!(ask("GET", "/api/jobs", 429), named);
    let anonymous = test_server.anonymous();
    assert_eq!(who(&anonymous, &test_server, "GET", "/api/jobs", 401), Value::Null);
    let wrong = anonymous.with_key("csk_0000000000000000_nothing");
    assert_eq!(who(&wrong, &test_server, "GET", "/api/jobs", 401), Value::Null);
    // A client with a revoked key is named; a client that only knows the key's id is not.
    let id = key.split('_').nth(1).unwrap();
    assert_eq!(test_server.admin().delete(&format!("/api/keys/{id}")).send().status, 204);
    assert_eq!(ask("GET", "/api/jobs", 401), named);
    assert_eq!(ask("POST", "/api/jobs", 401), named);
    let (head, last) = key.split_at(key.len() - 1);
    let guess = anonymous.with_key(&format!("{head}{}", if last == "A" { "B" } else { "A" }));
    assert_eq!(who(&guess, &test_server, "GET", "/api/jobs", 401), Value::Null);
}

/// Sends a request from that address with these headers, and returns what is logged: the peer, and
/// the client behind it.
fn from(test_server: &TestServer, local: [u8; 4], headers: &[(&str, &str)]) -> (Value, Value) {
    let id = fresh("from");
    let client = test_server.anonymous();
    let mut connection = client.connect_from(IpAddr::V4(Ipv4Addr::from(local))).unwrap();
    let ask = client.get("/nowhere").header("x-correlation-id", &id);
    let ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    connection.send(ask).unwrap();
    let line = line(test_server, &id);
    (line["peer"].clone(), line["client"].clone())
}

#[test]
fn a_forwarded_address_is_believed_of_trusted_proxies_alone() {
    let xff = "x-forwarded-for";
    let test_server = TestServer::start();
    let headers = [(xff, "203.0.113.9")];
    assert_eq!(from(&test_server, [127, 0, 0, 1], &headers), (json!("127.0.0.1"), Value::Null));
    let test_server = TestServer::with("[proxy]\ntrusted = [\"127.0.0.2\", \"10.0.0.0/8\"]");
    let check = |local, value: &str, client: Value| {
        let (peer, seen) = from(&test_server, local, &[(xff, value)]);
        assert_eq!(seen, client, "{value} by {peer}");
    };
    check([127, 0, 0, 3], "203.0.113.9", Value::Null);
    check([127, 0, 0, 2], "203.0.113.9", json!("203.0.113.9"));
    // What the client wrote itself stands further left.
    check([127, 0, 0, 2], "8.8.8.8, 203.0.113.9", json!("203.0.113.9"));
    check([127, 0, 0, 2], "8.8.8.8, 203.0.113.9, 10.1.2.3", json!("203.0.113.9"));
    check([127, 0, 0, 2], "203.0.113.9:4711", json!("203.0.113.9"));
    check([127, 0, 0, 2], "[2001:db8::7]:4711, 10.0.0.1", json!("2001:db8::7"));
    check([127, 0, 0, 2], "2001:db8::7", json!("2001:db8::7"));
    check([127, 0, 0, 2], "203.0.113.9, nonsense", Value::Null);
    check([127, 0, 0, 2], "10.1.1.1, 10.2.2.2", json!("10.1.1.1"));
    let two = [(xff, "8.8.8.8"), (xff, "203.0.113.9")];
    assert_eq!(from(&test_server, [127, 0, 0, 2], &two).1, json!("203.0.113.9"));
    // The other header is the client's own here: this proxy does not write it.
    let other = [("forwarded", "for=8.8.8.8")];
    assert_eq!(from(&test_server, [127, 0, 0, 2], &other).1, Value::Null);
    let test_server =
        TestServer::with("[proxy]\ntrusted = [\"127.0.0.2\"]\nheader = \"forwarded\"");
    let headers =
        [("forwarded", "for=8.8.8.8;proto=http, For=\"[2001:db8::7]:47\";by=_x"), (xff, "9.9.9.9")];
    assert_eq!(from(&test_server, [127, 0, 0, 2], &headers).1, json!("2001:db8::7"));
    let hidden = [("forwarded", "for=8.8.8.8, for=_hidden")];
    assert_eq!(from(&test_server, [127, 0, 0, 2], &hidden).1, Value::Null);
}
