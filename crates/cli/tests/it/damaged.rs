//! A damaged credential keeps clients out, and no job of this process from being submitted.

use super::open;
use engine::{Entropy, JobDraft, SigningKey, Tenant, Timestamp};
use platform::{Error, Platform, Settings, SystemClock, SystemRandom};
use pollster::block_on;
use std::sync::Arc;
use store::{Execute, Notification, Request, StoreError};
use tempfile::TempDir;

#[test]
fn jobs_are_submitted_beside_a_damaged_credential() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("consign.db");
    let key = SigningKey::new(Entropy(1 << 64), [Entropy(2), Entropy(3)], Timestamp::default());
    let put = Request::put_signing_key(&key);
    open(&path).execute(vec![put], Notification::default()).unwrap()[0].clone().unwrap();
    let tamper = "update record set body = x'00' where kind = 'signing_key'";
    assert_eq!(rusqlite::Connection::open(&path).unwrap().execute(tamper, []), Ok(1));

    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let platform = Platform::new(Arc::new(open(&path)), clock, random, Settings::default());
    let email = JobDraft { job_type: "email".into(), ..JobDraft::default() };
    block_on(platform.submit_all(&Tenant::default_tenant(), vec![email])).unwrap();
    for _ in 0..2 {
        let read = block_on(platform.refresh_settings());
        assert!(matches!(read, Err(Error::Store(StoreError::Damaged(Some(_))))), "{read:?}");
        assert!(platform.credentials().is_none(), "no client is let in");
    }
}
