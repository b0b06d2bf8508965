//! Every request line says who asked, as far as that is known, and from where.

use super::requests::line;
use crate::serve::{Client, Customer, House, customer::fresh};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

fn who(client: &Client, house: &House, method: &str, path: &str, status: u16) -> Value {
    let id = fresh("line");
    let answer = client.ask(method, path).header("x-correlation-id", &id).send();
    assert_eq!(answer.status, status, "{}", answer.text());
    let line = line(house, &id);
    assert_eq!((&line["peer"], &line["status"]), (&json!("127.0.0.1"), &json!(status)), "{line}");
    line["who"].clone()
}

#[test]
fn refused_requests_are_logged_with_their_caller() {
    let house = Arc::new(House::with("[rate]\nper_second = 1\nburst = 8"));
    let customer = Customer::of(&house);
    let key = customer
        .house
        .key(json!({"name": "k", "tenant": customer.tenant, "scopes": ["jobs:read"]}));
    let named = json!(format!("key:{}", key.split('_').nth(1).unwrap()));
    let client = house.stranger().with_key(&key);
    let ask = |method, path, status| who(&client, &house, method, path, status);
    assert_eq!(ask("GET", "/api/jobs", 200), named);
    assert_eq!(ask("POST", "/api/jobs", 403), named);
    assert_eq!(ask("GET", "/api/keys", 403), named);
    let none = "/api/jobs/018f0000-0000-7000-8000-000000000000";
    assert_eq!(ask("GET", none, 404), named);
    assert_eq!(ask("GET", "/api/jobs?filter=nonsense", 400), named);
    let limited = (0..20).any(|_| client.get("/api/jobs").send().status == 429);
    assert!(limited);
    assert_eq!(ask("GET", "/api/jobs", 429), named);
    let stranger = house.stranger();
    assert_eq!(who(&stranger, &house, "GET", "/api/jobs", 401), Value::Null);
    let wrong = stranger.with_key("csk_0000000000000000_nothing");
    assert_eq!(who(&wrong, &house, "GET", "/api/jobs", 401), Value::Null);
    // Who goes on with a key that was revoked is named; who only knows the key's id is not.
    let id = key.split('_').nth(1).unwrap();
    assert_eq!(house.admin().delete(&format!("/api/keys/{id}")).send().status, 204);
    assert_eq!(ask("GET", "/api/jobs", 401), named);
    assert_eq!(ask("POST", "/api/jobs", 401), named);
    let (head, last) = key.split_at(key.len() - 1);
    let guess = stranger.with_key(&format!("{head}{}", if last == "A" { "B" } else { "A" }));
    assert_eq!(who(&guess, &house, "GET", "/api/jobs", 401), Value::Null);
}

/// Asks from that address, with these headers more, and gives what is logged: the peer, and the
/// client behind it.
fn from(house: &House, local: [u8; 4], headers: &[(&str, &str)]) -> (Value, Value) {
    let id = fresh("from");
    let client = house.stranger();
    let mut connection = client.connect_from(IpAddr::V4(Ipv4Addr::from(local))).unwrap();
    let ask = client.get("/nowhere").header("x-correlation-id", &id);
    let ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    connection.send(ask).unwrap();
    let line = line(house, &id);
    (line["peer"].clone(), line["client"].clone())
}

#[test]
fn a_forwarded_address_is_believed_of_trusted_proxies_alone() {
    let xff = "x-forwarded-for";
    let house = House::start();
    let told = [(xff, "203.0.113.9")];
    assert_eq!(from(&house, [127, 0, 0, 1], &told), (json!("127.0.0.1"), Value::Null));
    let house = House::with("[proxy]\ntrusted = [\"127.0.0.2\", \"10.0.0.0/8\"]");
    let check = |local, value: &str, client: Value| {
        let (peer, seen) = from(&house, local, &[(xff, value)]);
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
    assert_eq!(from(&house, [127, 0, 0, 2], &two).1, json!("203.0.113.9"));
    // The other header is the client's own here: this proxy does not write it.
    let other = [("forwarded", "for=8.8.8.8")];
    assert_eq!(from(&house, [127, 0, 0, 2], &other).1, Value::Null);
    let house = House::with("[proxy]\ntrusted = [\"127.0.0.2\"]\nheader = \"forwarded\"");
    let told =
        [("forwarded", "for=8.8.8.8;proto=http, For=\"[2001:db8::7]:47\";by=_x"), (xff, "9.9.9.9")];
    assert_eq!(from(&house, [127, 0, 0, 2], &told).1, json!("2001:db8::7"));
    let hidden = [("forwarded", "for=8.8.8.8, for=_hidden")];
    assert_eq!(from(&house, [127, 0, 0, 2], &hidden).1, Value::Null);
}
