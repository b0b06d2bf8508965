//! New jobs are written in one round trip by a prediction, and a wrong prediction is detected.

use super::{
    RUNTIME, neighbours, open_at,
    order::{event_versions, new_job},
    testing,
};
use crate::{
    Execute, Notification, Postgres, PostgresAddress, Request, SeededRandom, Store,
    conformance::fixture::{email, job_type},
};
use engine::{JobId, Policy, Scope};
use pollster::block_on;
use std::{sync::Arc, time::Duration};
use test_postgres::{ChaosProxy, Server, When};
use tokio::time::{sleep, timeout};

/// A store behind a proxy that cuts connections, with a clock that stands still.
pub(super) struct FastSubmitFixture {
    pub(super) proxy: ChaosProxy,
    random: Arc<SeededRandom>,
    pub(super) store: Arc<Postgres>,
    /// The address without the proxy.
    direct: PostgresAddress,
}

impl FastSubmitFixture {
    pub(super) fn new() -> Self {
        let (clock, random, direct) = testing();
        let proxy = ChaosProxy::before(Server::shared());
        let address: PostgresAddress = proxy.address().parse().expect("lawful");
        let address = address.with_schema(direct.schema()).expect("lawful");
        let store = open_at(&address, &clock, &random);
        stop_inbox(&store);
        FastSubmitFixture { proxy, random, store, direct }
    }

    pub(super) fn fast_submit(&self) -> JobId {
        let new = new_job(&self.random);
        let id = new.id;
        let batch = vec![Request::Submit(vec![new])];
        let replies =
            self.store.execute(batch, Notification::default()).expect("it is carried out");
        assert!(replies[0].is_ok(), "{replies:?}");
        id
    }

    /// Submits a job, and checks that it took the fast path: it used the reserved outbox position.
    fn submit_at_once(&self) {
        let event_seq = self.store.inner.event_seq_stock().free.first().copied();
        self.fast_submit();
        let next = self.store.inner.event_seq_stock().free.first().copied();
        assert!(event_seq.is_some() && next > event_seq, "{event_seq:?}");
    }
}

/// Stops the inbox task. It opens connections and commits at times of its own. A new connection
/// makes the store forget its outbox positions, and the proxy could lose a commit of that task
/// instead of the test's.
fn stop_inbox(store: &Postgres) {
    const APART: Duration = Duration::from_millis(1);
    store.inbox_task.abort();
    let ended = async {
        while !store.inbox_task.is_finished() {
            sleep(APART).await;
        }
    };
    let ended = RUNTIME.block_on(async { timeout(Duration::from_secs(60), ended).await });
    ended.expect("a task that is aborted ends");
}

#[test]
fn a_submit_whose_connection_breaks_is_stored_once() {
    let fixture = FastSubmitFixture::new();
    let lose: [fn(&ChaosProxy, When); 2] = [ChaosProxy::lose_replies, ChaosProxy::lose_commits];
    for lose in lose {
        fixture.fast_submit();
        fixture.submit_at_once();
        lose(&fixture.proxy, When::Next(1));
        let id = fixture.fast_submit();
        assert_eq!(RUNTIME.block_on(event_versions(&fixture.store, id)), [1]);
    }
    let counts = fixture.proxy.counts();
    assert_eq!((counts.replies_lost, counts.commits_lost), (1, 1));
    let depths = block_on(fixture.store.queues(&Scope::All)).expect("the store works");
    assert_eq!(depths[0].counts.queued, 6, "each of them once");
}

/// The job may even be erased before the store determines the outcome of its commit.
#[test]
fn an_erased_job_with_a_lost_reply_is_not_resubmitted() {
    let fixture = FastSubmitFixture::new();
    fixture.fast_submit();
    fixture.submit_at_once();
    let (schema, client) = (fixture.direct.schema(), fixture.direct.connect());
    let client = RUNTIME.block_on(client).expect("it answers");
    // From now on a job is erased as soon as it is written.
    let hook = format!(
        "create function {schema}.erase() returns trigger language plpgsql as $$ begin \
           insert into {schema}.erased select new.no, 0, new.envelope; return null; end $$; \
         create trigger gone before insert on {schema}.submission for each row execute function {schema}.erase(); \
         create function {schema}.gone() returns trigger language plpgsql as $$ begin return null; end $$; \
         create trigger gone before insert on {schema}.job for each row execute function {schema}.gone()"
    );
    RUNTIME.block_on(client.batch_execute(&hook)).expect("lawful");
    fixture.proxy.lose_replies(When::Next(1));
    fixture.fast_submit();
    let count = format!("select count(*) from {schema}.outbox");
    let count = RUNTIME.block_on(client.query_typed(&count, &[])).expect("lawful");
    assert_eq!(count[0].get::<_, i64>(0), 3, "each of the three has one event");
}

#[test]
fn a_submit_uses_a_policy_that_another_node_set() {
    let near = neighbours();
    let (fixture, other) = (&near.fixture, (near.another)());
    fixture.submit(email());
    let policy = Policy { max_attempts: 9, ..Policy::default() };
    let set = vec![Request::set_policy(&job_type("email"), &policy)];
    other.execute(set, Notification::default()).expect("the store works");
    assert_eq!(fixture.job(fixture.submit(email())).max_attempts, 9);
}

#[test]
fn a_clock_that_was_set_is_followed() {
    let fixture = neighbours().fixture;
    let start = fixture.job(fixture.submit(email())).envelope.created_at.unix_ms();
    let created_after = |ms: i64| {
        fixture.clock.set_off(ms);
        fixture.job(fixture.submit(email())).envelope.created_at.unix_ms() - start
    };
    assert_eq!([created_after(0), created_after(1_500), created_after(-1_000)], [0, 1_500, 1_500]);
}
