//! Whose job it is: the credential's, never the body's.

use engine::Tenant;
use wire::{BatchRequest, read};

const FORGED: &[u8] = br#"{"jobs": [{"jobType": "email", "tenant": "victim"}]}"#;

#[test]
fn a_batch_item_has_no_tenant_of_its_own() {
    let credential = Tenant::parse("acme").unwrap();
    let batch: BatchRequest = read(FORGED).unwrap();
    assert_eq!(batch.jobs[0].tenant_for(&credential), credential);
}

#[cfg(feature = "seeded-bugs")]
#[test]
fn the_planted_mistake_is_a_real_one() {
    engine::plant(Some(engine::SeededBug::ItemTenantTrusted));
    let credential = Tenant::parse("acme").unwrap();
    let batch: BatchRequest = read(FORGED).unwrap();
    assert_eq!(batch.jobs[0].tenant_for(&credential).as_str(), "victim");
    engine::plant(None);
}
