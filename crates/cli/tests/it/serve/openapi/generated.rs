//! A client that an off-the-shelf generator makes from the document.

use super::{super::House, beside, succeed, tool};
use std::fs;
use tempfile::TempDir;

#[test]
fn a_generated_client_hands_a_job_over_works_on_it_and_follows_it_to_its_end() {
    let house = House::start();
    let folder = TempDir::new().unwrap();
    let document = house.stranger().get("/openapi.json").send();
    let path = folder.path().join("openapi.json");
    fs::write(&path, &document.body).unwrap();
    let package = folder.path().join("consign_client");
    // A warning would be an operation or a shape that the client does not have.
    let mut generate = tool("openapi-python-client");
    generate.args(["generate", "--fail-on-warning", "--meta", "none", "--path"]).arg(&path);
    succeed(generate.arg("--output-path").arg(&package).current_dir(folder.path()));
    let mut follow = tool("python");
    follow.arg(beside("follow.py")).env("PYTHONPATH", folder.path());
    follow.arg(format!("http://{}", house.stranger().address())).arg(house.admin_key());
    let said = String::from_utf8(succeed(&mut follow).stdout).unwrap();
    assert!(said.contains("followed to"), "{said}");
}
