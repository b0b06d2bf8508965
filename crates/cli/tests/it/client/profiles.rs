//! Profiles.

use super::{Prompt, url};
use crate::serve::TestServer;
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

#[test]
fn a_profile_is_noted_used_and_forgotten() {
    let test_server = TestServer::start();
    let prompt = Prompt::unconfigured();
    let add = ["profile", "add", "here", "--url", &url(&test_server), "--key", "-"];
    prompt.types_into(&add, &format!("{}\n", test_server.admin_key())).well();
    let path = prompt.home().join(".config/consign/profiles.toml");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    prompt.types(&["queues"]).well();

    prompt.types(&["profile", "add", "there", "--url", "https://jobs.example.org"]).well();
    let list = prompt.types(&["profile", "list"]);
    assert!(list.well().contains("here") && list.out.contains("https://jobs.example.org"));
    assert!(
        !list.out.contains("csk_") && !list.out.contains(test_server.admin_key()),
        "{}",
        list.out
    );
    prompt.types(&["profile", "use", "there"]).well();
    prompt.types(&["queues", "--profile", "here"]).well();
    prompt.types(&["profile", "remove", "here"]).well();
    assert_eq!(prompt.types(&["queues", "--profile", "here"]).code, Some(2));
    assert!(!fs::read_to_string(&path).unwrap().contains(test_server.admin_key()));
}

#[test]
fn profiles_that_others_can_read_are_refused() {
    let prompt = Prompt::unconfigured();
    prompt.types(&["profile", "add", "x", "--url", "http://127.0.0.1:1", "--key", "k"]).well();
    let path = prompt.home().join(".config/consign/profiles.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let output = prompt.types(&["queues"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.err.contains("chmod 600"), "{}", output.err);
}
