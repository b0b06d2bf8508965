//! A client that an off-the-shelf generator makes from the document.

use super::{super::TestServer, beside, succeed, tool};
use std::fs;
use tempfile::TempDir;

#[test]
fn a_generated_client_hands_a_job_over_works_on_it_and_follows_it_to_its_end() {
    let test_server = TestServer::start();
    let folder = TempDir::new().unwrap();
    let document = test_server.anonymous().get("/openapi.json").send();
    let path = folder.path().join("openapi.json");
    fs::write(&path, &document.body).unwrap();
    let package = folder.path().join("consign_client");
    // A warning would be an operation or a schema that the client does not have.
    let mut generate = tool("openapi-python-client");
    generate.args(["generate", "--fail-on-warning", "--meta", "none", "--path"]).arg(&path);
    succeed(generate.arg("--output-path").arg(&package).current_dir(folder.path()));
    let mut follow = tool("python");
    follow.arg(beside("follow.py")).env("PYTHONPATH", folder.path());
    follow
        .arg(format!("http://{}", test_server.anonymous().address()))
        .arg(test_server.admin_key());
    let output = String::from_utf8(succeed(&mut follow).stdout).unwrap();
    assert!(output.contains("followed to"), "{output}");
}
