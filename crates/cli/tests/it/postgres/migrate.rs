//! `consign migrate` on a database.

use super::{PASSWORD, SETTINGS, fresh, live};
use crate::{RunResult, consign, serve::TestServer};
use tempfile::TempDir;
use test_postgres::Server;

#[test]
fn a_schema_is_shown_planned_and_made_and_nodes_do_not_mind() {
    let address = fresh(Server::shared());
    let schema = address.rsplit_once('=').unwrap().1.to_owned();
    let folder = TempDir::new().unwrap();
    let migrate = |word: &str| -> RunResult {
        let result = consign(folder.path(), &["migrate", word, "--store", &address]);
        assert!(
            result.success && !format!("{}{}", result.out, result.err).contains(PASSWORD),
            "{}",
            result.err
        );
        result
    };
    let status = migrate("status").out;
    assert!(status.contains("has schema 0") && status.contains("missing: 0001 tables"), "{status}");
    let plan = migrate("plan").out;
    assert!(plan.contains(&format!("create table {schema}.job")), "{plan}");
    assert!(!plan.contains("consign."), "every name has its schema: {plan}");
    assert!(migrate("status").out.contains("has schema 0"), "nothing was run");
    assert!(migrate("up").out.contains("from schema 0 to"));
    let test_server = TestServer::of_database(&address, SETTINGS);
    assert!(migrate("up").out.contains("is up to date"));
    assert_eq!(migrate("plan").out, "");
    assert!(migrate("status").out.contains("it is up to date"));
    live(&test_server.admin(), "meanwhile");
}
