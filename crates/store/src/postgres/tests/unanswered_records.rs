//! Records are part of the transaction that sets them, even if the connection breaks.

use super::fast_submit::FastSubmitFixture;
use crate::{Answer, Execute, Notification, Request, Store, conformance::fixture::job_type};
use engine::Policy;
use pollster::block_on;
use test_postgres::{ChaosProxy, When};

/// Several statements write a record. All of them come before the COMMIT: a connection cut right
/// after it loses none of them.
#[test]
fn a_record_write_is_atomic_when_the_connection_breaks() {
    let fixture = FastSubmitFixture::new();
    fixture.fast_submit();
    let lose: [fn(&ChaosProxy, When); 2] = [ChaosProxy::lose_replies, ChaosProxy::lose_commits];
    for (lose, max_attempts) in lose.into_iter().zip([7, 8]) {
        let policy = Policy { max_attempts, ..Policy::default() };
        lose(&fixture.proxy, When::Next(1));
        let set = vec![Request::set_policy(&job_type("email"), &policy)];
        let done = fixture.store.execute(set, Notification::default());
        let is_set = block_on(fixture.store.policies()).expect("the store works");
        let is_set = is_set.get(&job_type("email")) == Some(&policy);
        match done {
            Ok(replies) => assert_eq!((&replies[..], is_set), (&[Ok(Answer::Done)][..], true)),
            Err(error) => assert!(!is_set, "{error:?}"),
        }
    }
    let counts = fixture.proxy.counts();
    assert_eq!((counts.replies_lost, counts.commits_lost), (1, 1));
}
