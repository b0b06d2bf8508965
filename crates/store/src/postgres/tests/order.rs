//! The events of one job are in the order of its history, whichever transaction was faster.

use super::{RUNTIME, open_at, testing};
use crate::{
    Execute, Notification, PAGE_MAX, Postgres, PostgresAddress, Reply, Request, SeededRandom,
    Store, StoreError,
    conformance::fixture::{claim_request, claiming, email, tenant},
};
use engine::{JobId, NewJob, PAYLOAD_BYTES_MAX, SubmitContext, Timestamp};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

/// The longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

fn now() -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000)
}

/// A batch begins before a job is submitted, is blocked, and then starts that job. The event's
/// position in the outbox must not be the one that the batch had at its beginning.
#[test]
fn the_start_event_of_a_job_follows_its_submit_event() {
    let (clock, random, address) = testing();
    let store = open_at(&address, &clock, &random);
    RUNTIME.block_on(async {
        // The queue exists, so that nothing else blocks the batch.
        submit(&store, &random).await;
        let app = address.connect().await.expect("it answers");
        let slow = new_job(&random);
        block_submit_of(&app, &address, slow.id).await;
        let batch =
            vec![Request::Submit(vec![slow]), claiming(claim_request("w", "c", &["email"], 10))];
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { execute(&store, batch).await }
        });
        wait_until_blocked(&address).await;
        let overtaken = submit(&store, &random).await;
        app.batch_execute("rollback").await.expect("it lets go");
        waiting.await.expect("no panic").expect("it is carried out");
        assert_eq!(event_versions(&store, overtaken).await, [1, 2]);
    });
}

/// Blocks any transaction that submits a job with this id.
async fn block_submit_of(app: &Client, address: &PostgresAddress, id: JobId) {
    let schema = address.schema();
    // A copy of another row, so that the test does not name columns.
    let blocked = format!(
        "begin; insert into {schema}.submission select (jsonb_populate_record(h, '{{\"no\": 1, \"id\": \"{id}\"}}')).* \
         from {schema}.submission h limit 1"
    );
    app.batch_execute(&blocked).await.expect("lawful");
}

/// Polls on another connection: within one transaction, the view would never change.
async fn wait_until_blocked(address: &PostgresAddress) {
    let watch = address.connect().await.expect("it answers");
    let waiting = format!(
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}.submission%'",
        address.schema()
    );
    let blocked = async {
        while watch.query_typed(&waiting, &[]).await.expect("lawful").is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, blocked).await.expect("the batch waits");
}

pub(super) fn new_job(random: &SeededRandom) -> NewJob {
    let entropy = || crate::RandomSource::entropy(random);
    let context = SubmitContext {
        id: JobId::new(now(), entropy()),
        tenant: tenant("default"),
        entropy: entropy(),
        payload_bytes_max: PAYLOAD_BYTES_MAX,
    };
    email().check(context).expect("a lawful draft")
}

async fn submit(store: &Arc<Postgres>, random: &SeededRandom) -> JobId {
    let new = new_job(random);
    let id = new.id;
    let batch = vec![Request::Submit(vec![new])];
    let replies = execute(store, batch).await.expect("the store works");
    assert!(replies[0].is_ok(), "{replies:?}");
    id
}

/// Executes a batch on a thread that may block.
pub(super) async fn execute(
    store: &Arc<Postgres>,
    batch: Vec<Request>,
) -> Result<Vec<Reply>, StoreError> {
    let store = store.clone();
    let done = tokio::task::spawn_blocking(move || store.execute(batch, Notification::default()));
    done.await.expect("no panic")
}

/// The transitions of a job in the order of its events.
pub(super) async fn event_versions(store: &Postgres, id: JobId) -> Vec<u64> {
    store.number_events(PAGE_MAX).await.expect("the store works");
    let events = store.events(0, PAGE_MAX).await.expect("the store works");
    let own = events.iter().filter(|numbered| numbered.event.job.id() == id);
    own.map(|numbered| numbered.event.job.seq).collect()
}
