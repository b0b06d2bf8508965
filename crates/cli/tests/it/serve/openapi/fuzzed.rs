//! All requests that schemathesis generates, valid and invalid: no 5xx, no undocumented status or
//! code, every body as its schema says.

use super::{super::TestServer, beside, succeed, tool};
use tempfile::TempDir;

#[test]
fn schemathesis_finds_no_contract_violation() {
    let test_server = TestServer::start();
    let folder = TempDir::new().unwrap();
    let address = format!("http://{}", test_server.anonymous().address());
    let mut command = tool("schemathesis");
    command.current_dir(folder.path()).arg("--config-file").arg(beside("schemathesis.toml"));
    command.arg("run").arg(format!("{address}/openapi.json"));
    command.env("CONSIGN_TEST_URL", &address).env("CONSIGN_TEST_KEY", test_server.admin_key());
    let job = serde_json::json!({"jobType": "found", "payload": {"n": 1}});
    let job = test_server.admin().post("/api/jobs").json(&job).send().ok(202);
    command.env("CONSIGN_TEST_JOB", job["jobId"].as_str().unwrap());
    command.env("CONSIGN_TEST_KEY_ID", admin_key_id(&test_server));
    command.env("CONSIGN_TEST_HOOKS", beside("hooks.py")).env("HOME", folder.path());
    let output = String::from_utf8(succeed(&mut command).stdout).unwrap();
    // All but the stream, and the document that it has read already.
    let operations = format!("Tested: {}", server::ROUTES.len() - 2);
    assert!(output.contains(&operations), "{output}");
    assert!(!test_server.log().contains("panicked"), "{}", test_server.log());
    admin_key_id(&test_server); // which is still valid
}

fn admin_key_id(test_server: &TestServer) -> String {
    let keys = test_server.admin().get("/api/keys").send().ok(200);
    let keys = keys["items"].as_array().unwrap();
    let admin = keys.iter().find(|key| key["name"] == "admin").unwrap();
    admin["id"].as_str().unwrap().into()
}
