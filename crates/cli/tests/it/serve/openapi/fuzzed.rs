//! Whatever schemathesis can think of, right and wrong: no 5xx, no status and no code that is not documented, every body
//! as its schema says.

use super::{super::House, beside, succeed, tool};
use tempfile::TempDir;

#[test]
fn schemathesis_finds_nothing() {
    let house = House::start();
    let folder = TempDir::new().unwrap();
    let address = format!("http://{}", house.stranger().address());
    let mut command = tool("schemathesis");
    command.current_dir(folder.path()).arg("--config-file").arg(beside("schemathesis.toml"));
    command.arg("run").arg(format!("{address}/openapi.json"));
    command.env("CONSIGN_TEST_URL", &address).env("CONSIGN_TEST_KEY", house.admin_key());
    let job = serde_json::json!({"jobType": "found", "payload": {"n": 1}});
    let job = house.admin().post("/api/jobs").json(&job).send().ok(202);
    command.env("CONSIGN_TEST_JOB", job["jobId"].as_str().unwrap());
    command.env("CONSIGN_TEST_KEY_ID", admin_key_id(&house));
    command.env("CONSIGN_TEST_HOOKS", beside("hooks.py")).env("HOME", folder.path());
    let said = String::from_utf8(succeed(&mut command).stdout).unwrap();
    // All but the stream, and the document that it has read already.
    let operations = format!("Tested: {}", server::ROUTES.len() - 2);
    assert!(said.contains(&operations), "{said}");
    assert!(!house.log().contains("panicked"), "{}", house.log());
    admin_key_id(&house); // which still opens the door
}

fn admin_key_id(house: &House) -> String {
    let keys = house.admin().get("/api/keys").send().ok(200);
    let keys = keys["items"].as_array().unwrap();
    let admin = keys.iter().find(|key| key["name"] == "admin").unwrap();
    admin["id"].as_str().unwrap().into()
}
