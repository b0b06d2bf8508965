//! A claim that gets nothing leaves nothing: neither a row nor a commit that has to reach the disk.

use super::{RUNTIME, fixture_of, open_at, testing};
use crate::{
    Store,
    conformance::fixture::{claim_request, email},
};
use engine::Scope;
use tokio_postgres::Client;

/// How many claims have a row, and which transaction last wrote the worker's row.
fn rows(client: &Client, schema: &str) -> (i64, Option<String>) {
    let rows = format!(
        "select (select count(*) from {schema}.claim), (select xmin::text from {schema}.worker)"
    );
    let rows = RUNTIME.block_on(client.query_typed(&rows, &[])).expect("lawful");
    (rows[0].get(0), rows[0].get(1))
}

#[test]
fn claims_that_find_no_job_write_nothing() {
    let (clock, random, address) = testing();
    let store = open_at(&address, &clock, &random);
    let fixture = fixture_of(&store, &clock, &random);
    fixture.submit(email());
    fixture.claim(claim_request("w", "given", &["email"], 1));
    let client = RUNTIME.block_on(address.connect()).expect("it answers");
    let before = rows(&client, address.schema());
    assert_eq!(before.0, 1, "of the claim that was given a job");
    // One type has a queue. The other has none, so nothing is scanned for it.
    for types in [&["email"][..], &["scan"]] {
        // What a worker reports of itself is written once.
        assert!(fixture.claim(claim_request("w", "first", types, 1)).is_empty());
        let after_first = rows(&client, address.schema());
        assert_eq!(after_first.0, before.0, "only the worker is written");
        for number in 0..20 {
            let claim = format!("idle-{number}");
            assert!(fixture.claim(claim_request("w", &claim, types, 1)).is_empty());
        }
        assert_eq!(rows(&client, address.schema()), after_first);
    }
    fixture.pass(60);
    assert!(fixture.claim(claim_request("w", "later", &["scan"], 1)).is_empty());
    let workers = RUNTIME.block_on(store.workers(&Scope::All)).expect("the store works");
    assert!(workers[0].live, "a node remembers a worker that it gives nothing");
    assert_eq!(rows(&client, address.schema()).0, before.0);
}
