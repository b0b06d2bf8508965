//! Commands that open a database themselves.

use super::{SETTINGS, claim, fresh, live, settle, status, submit};
use crate::{RunResult, consign, serve::TestServer};
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;
use test_postgres::Server;

fn run(folder: &TempDir, words: &[&str], address: &str) -> RunResult {
    consign(folder.path(), &[words, &["--store", address]].concat())
}

#[test]
fn files_are_for_files_and_what_databases_have_is_named() {
    let (folder, address) = (TempDir::new().unwrap(), fresh(Server::shared()));
    let backup = run(&folder, &["backup", "copy.db"], &address);
    assert!(!backup.success && backup.err.contains("pg_dump"), "{}", backup.err);
    let restore = run(&folder, &["restore", "copy.db"], &address);
    let names_remedy =
        restore.err.contains("pg_restore") && restore.err.contains("consign restored");
    assert!(!restore.success && names_remedy, "{}", restore.err);
    let restored = run(&folder, &["restored"], "sqlite:x.db");
    assert!(!restored.success && restored.err.contains("consign restore FILE"), "{}", restored.err);
}

#[test]
fn after_a_restore_leases_from_before_are_void_and_it_is_noted() {
    let (folder, address) = (TempDir::new().unwrap(), fresh(Server::shared()));
    let test_server = TestServer::of_database(&address, SETTINGS);
    let admin = test_server.admin();
    submit(&admin, "held");
    let leased = claim(&admin, "holder", 1, 600);
    let result = run(&folder, &["restored"], &address);
    assert!(result.success, "{}", result.err);
    let late = settle(&admin, &leased[0]).ok(200);
    assert_eq!(late["items"][0]["problem"]["errorCode"], "LEASE_LOST", "{late}");
    let audit = admin.get("/api/audit").send().ok(200);
    assert_eq!(audit["items"][0]["action"], "store.restored", "{audit}");
    let verified = run(&folder, &["audit", "verify"], &address);
    assert!(
        verified.success && verified.out.contains("3 entries"),
        "{}{}",
        verified.out,
        verified.err
    );
}

/// The line of docs/operating.md that begins so, about the database `database` instead of `jobs`.
fn line_of_handbook(begin: &str, database: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
    let page = fs::read_to_string(page).unwrap();
    let line =
        page.lines().map(|line| line.trim_start_matches("$ ")).find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("docs/operating.md has no line {begin}"));
    line.split_whitespace()
        .map(|word| {
            word.strip_suffix("jobs").map_or(word.into(), |head| format!("{head}{database}"))
        })
        .collect::<Vec<String>>()
        .join(" ")
}

/// Runs a shell's line as a role of the server.
fn shell(server: &Server, role: &str, folder: &Path, line: &str) -> RunResult {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder);
    command.env("PGHOST", "127.0.0.1").env("PGPORT", server.port().to_string()).env("PGUSER", role);
    RunResult::of(command.output().unwrap())
}

/// The commands of docs/operating.md as they stand there, where `consign` owns the schema and not
/// the database.
#[test]
fn a_dump_is_restored_with_the_rights_that_the_handbook_names() {
    let (server, folder) = (Server::shared(), TempDir::new().unwrap());
    let database = format!("restored_{}", std::process::id());
    let run_as = |role: &str, line: &str| shell(server, role, folder.path(), line);
    let sql = |database: &str, statement: &str| {
        let result =
            run_as("postgres", &format!("psql --quiet --command='{statement}' {database}"));
        assert!(result.success, "{}", result.err);
    };
    sql("postgres", &format!("create database {database}"));
    sql(&database, "create schema consign authorization consign");
    let address = server.address();
    let address = format!("{}/{database}", address.strip_suffix("/consign").unwrap());
    let test_server = TestServer::of_database(&address, SETTINGS);
    let id = submit(&test_server.admin(), "kept");
    test_server.stop();
    let dumped = run_as("consign", &line_of_handbook("pg_dump", &database));
    assert!(dumped.success, "{}", dumped.err);
    sql(&database, "drop schema consign cascade");

    let restore = line_of_handbook("pg_restore", &database);
    let denied = run_as("consign", &restore);
    assert!(!denied.success && denied.err.contains("permission denied"), "{}", denied.err);
    sql(&database, &line_of_handbook("grant create on database", &database));
    let restored = run_as("consign", &restore);
    assert!(restored.success, "{}", restored.err);
    let noted = run(&folder, &["restored"], &address);
    assert!(noted.success, "{}", noted.err);
    test_server.restart();
    assert_eq!(status(&test_server.admin(), &id)["status"], "Queued");
}

#[test]
fn an_operator_without_a_key_is_let_in_while_nodes_run() {
    let (folder, address) = (TempDir::new().unwrap(), fresh(Server::shared()));
    let test_server = TestServer::of_database(&address, SETTINGS);
    let result = run(&folder, &["keys", "bootstrap"], &address);
    assert!(result.success, "{}", result.err);
    let guess = engine::KeySecret::new(engine::Entropy(1), [engine::Entropy(2); 2]).expose();
    let guesser = test_server.anonymous().with_key(&guess);
    guesser.get("/api/queues").send().problem(401, "UNAUTHENTICATED");
    let key = fs::read_to_string(folder.path().join("consign-data/admin.key")).unwrap();
    let client = test_server.anonymous().with_key(key.trim());
    // No node made this key, so the node has to read it, also right after it read in vain.
    client.get("/api/queues").send().ok(200);
    live(&client, "let in");
}

#[test]
fn the_doctor_checks_the_database() {
    let (folder, address) = (TempDir::new().unwrap(), fresh(Server::shared()));
    let test_server = TestServer::of_database(&address, SETTINGS);
    live(&test_server.admin(), "well");
    let result = run(&folder, &["doctor", "--json"], &address);
    let report: serde_json::Value = serde_json::from_str(&result.out).expect(&result.err);
    let level = |area: &str| -> Vec<&str> {
        let all = report["findings"].as_array().unwrap().iter();
        all.filter(|found| found["area"] == area).map(|f| f["level"].as_str().unwrap()).collect()
    };
    for area in ["version", "schema", "rights", "schemas", "clock", "connections", "audit"] {
        assert_eq!(level(area), ["well"], "{area}: {report:#}");
    }
    // The tests' PostgreSQL is fast because fsync is off, which is exactly what the doctor must
    // find.
    assert!(level("settings").contains(&"wrong"), "{report:#}");
    assert!(
        result.out.contains("fsync is off") && result.out.contains("alter system set fsync = on")
    );
    let unreachable = run(&folder, &["doctor"], "postgres://consign@127.0.0.1:1/consign");
    assert!(!unreachable.success && unreachable.out.contains("pg_isready"), "{}", unreachable.out);
}
