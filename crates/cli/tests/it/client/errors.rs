//! Error messages and exit codes.

use super::{Prompt, url};
use crate::serve::TestServer;
use serde_json::Value;
use std::net::TcpListener;

const MISSING: &str = "01a1e17f-dec5-7ff8-81e3-73a73ebb528a";

#[test]
fn refusals_are_printed_with_code_correlation_and_hint() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let output = prompt.types(&["status", MISSING]);
    assert_eq!((output.code, output.out.as_str()), (Some(1), ""), "{output:?}");
    let lines: Vec<&str> = output.err.lines().collect();
    assert!(lines[0].starts_with("consign: "), "{}", output.err);
    assert_eq!(lines[1], "  code         JOB_NOT_FOUND");
    assert!(lines[2].starts_with("  correlation  "), "{}", output.err);
    assert!(lines[3].starts_with("  hint         ids look like"), "{}", output.err);

    let output = prompt.types(&["status", MISSING, "--json"]);
    let problem: Value = serde_json::from_str(&output.err).unwrap();
    assert_eq!((problem["errorCode"].as_str(), output.code), (Some("JOB_NOT_FOUND"), Some(1)));
}

#[test]
fn fields_that_are_wrong_are_pointed_at() {
    let test_server = TestServer::start();
    let output = Prompt::of(&test_server).types(&["enqueue", "Email", "--priority", "10"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.err.contains("\n  /jobType ") && output.err.contains("\n  /priority "),
        "{}",
        output.err
    );
}

#[test]
fn a_missing_or_wrong_key_is_refused_with_the_remedy() {
    let test_server = TestServer::start();
    let anonymous = Prompt::unconfigured().set("CONSIGN_URL", &url(&test_server));
    for prompt in [&anonymous, &Prompt::of(&test_server).set("CONSIGN_KEY", "csk_wrong")] {
        let output = prompt.types(&["list"]);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(
            output.err.contains("UNAUTHENTICATED") && output.err.contains("CONSIGN_KEY"),
            "{}",
            output.err
        );
    }
}

#[test]
fn the_key_of_the_data_folder_is_found_on_this_machine() {
    let test_server = TestServer::start();
    let store = format!("sqlite:{}", test_server.store().display());
    let prompt = Prompt::unconfigured().set("CONSIGN_URL", &url(&test_server));
    prompt.types(&["queues", "--store", &store]).well();
    prompt.set("CONSIGN_STORE", &store).types(&["queues"]).well();
}

#[test]
fn a_server_that_is_not_there_is_an_ending_of_its_own() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = Prompt::unconfigured().types(&["queues", "--url", &format!("http://{free}")]);
    assert_eq!(output.code, Some(4), "{output:?}");
    assert!(
        output.err.contains("cannot be reached") && output.err.contains("consign serve"),
        "{}",
        output.err
    );
    let output =
        Prompt::unconfigured().types(&["enqueue", "email", "--url", &format!("http://{free}")]);
    assert_eq!(output.code, Some(4), "{output:?}");
    assert_eq!(output.err.matches("trying again").count(), 3, "{}", output.err);
}

/// The position is that in the text as it was typed.
#[test]
fn a_wrong_filter_is_pointed_at_where_it_is_wrong() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    for words in [&["list"][..], &["list", "--type", "email"], &["cancel", "--type", "email"]] {
        let output = prompt.types(&[words, &["--filter", "status EQ 'Queued'"]].concat());
        let expected = "consign: --filter must have 'eq' in lower case (at character 8)\n";
        assert_eq!((output.code, output.err.as_str()), (Some(2), expected), "{words:?}");
    }
}

#[test]
fn wrong_arguments_are_usage_errors() {
    let unconfigured = Prompt::unconfigured();
    for words in [
        &["queues", "--url", "nowhere"][..],
        &["queues", "--profile", "prod"],
        &["queues", "--key", ""],
        &["list", "--status", "Lost"],
        &["list", "--since", "yesterday"],
        &["list", "--type", "email", "--filter", "status EQ 'Queued'"],
        &["cancel", "--filter", " "],
        &["enqueue"],
    ] {
        let output = unconfigured.types(words);
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{words:?} {output:?}");
    }
}
