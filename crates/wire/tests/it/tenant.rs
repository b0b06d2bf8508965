//! The tenant of a job comes from the credential, never from the body.

use engine::{Entropy, JobId, PAYLOAD_BYTES_MAX, SubmitContext, Tenant, Timestamp};
use wire::{BatchRequest, read};

#[test]
fn a_batch_item_has_no_tenant_of_its_own() {
    let forged = br#"{"jobs": [{"jobType": "email", "tenant": "victim"}]}"#;
    let batch: BatchRequest = read(forged).unwrap();
    let draft = batch.read().next().unwrap().unwrap().into_draft().unwrap();
    let tenant = Tenant::parse("acme").unwrap();
    let context = SubmitContext {
        id: JobId::new(Timestamp::default(), Entropy(1)),
        tenant: tenant.clone(),
        entropy: Entropy(2),
        payload_bytes_max: PAYLOAD_BYTES_MAX,
    };
    assert_eq!(draft.check(context).unwrap().tenant, tenant);
}
