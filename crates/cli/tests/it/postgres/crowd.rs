//! Ten nodes that start at once on an empty database.

use super::{SETTINGS, fresh, live};
use crate::serve::House;
use serde_json::Value;
use test_postgres::Server;

const NODES: usize = 10;

#[test]
fn ten_nodes_make_one_schema_one_key_and_one_note_of_each_type() {
    let address = fresh(Server::shared());
    let launch = |_| House::launched_on_database(&address, SETTINGS);
    let houses: Vec<House> = (0..NODES).map(launch).collect();
    houses.iter().for_each(House::wait_until_ready);
    let keys = houses.iter().filter(|house| house.data().join("admin.key").exists());
    let first: Vec<&House> = keys.collect();
    assert_eq!(first.len(), 1, "one key is made and announced");
    let announced = houses.iter().filter(|house| house.log().contains("admin.key")).count();
    assert_eq!(announced, 1);
    let key = first[0].admin_key();
    for (number, house) in houses.iter().enumerate() {
        live(&house.stranger().with_key(key), &format!("at node {number}"));
    }
    let admin = first[0].admin();
    let keys = admin.get("/api/keys").send().ok(200);
    assert_eq!(items(&keys).len(), 2, "one that opens, one that signs: {keys:#}");
    let audit = admin.get("/api/audit").send().ok(200);
    let mut actions: Vec<&str> =
        items(&audit).iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    actions.sort_unstable();
    assert_eq!(actions, ["key.create", "type.put"], "{audit:#}");
}

fn items(page: &Value) -> &Vec<Value> {
    page["items"].as_array().unwrap()
}
