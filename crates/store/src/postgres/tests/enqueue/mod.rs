//! Jobs that are submitted by SQL, in an application's transaction.

mod checks;
mod keys;
mod life;
mod nodes;
mod rights;

use super::{RUNTIME, open_at, testing};
use crate::{
    Answer, Claimed, Execute, ManualClock, Notification, Postgres, PostgresAddress, Reply, Request,
    SeededRandom, Store,
    conformance::fixture::{claim_request, claiming, job_type},
    postgres::uuid::id_of,
};
use engine::{Job, JobId, Policy, Scope};
use std::{sync::Arc, time::Duration};
use tokio_postgres::{Client, Row};

/// The longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store, and an application beside it that uses only SQL.
struct EnqueueFixture {
    store: Arc<Postgres>,
    app: Client,
    address: PostgresAddress,
    clock: Arc<ManualClock>,
    random: Arc<SeededRandom>,
}

/// What `enqueue` returns: the job, and whether an earlier submission had its key.
type Enqueued = Result<(JobId, bool), tokio_postgres::Error>;

impl EnqueueFixture {
    fn new() -> Self {
        let (clock, random, address) = testing();
        let store = open_at(&address, &clock, &random);
        let app = connect(&address);
        EnqueueFixture { store, app, address, clock, random }
    }

    /// A fixture whose node promotes inbox rows only on request.
    fn idle() -> Self {
        let fixture = EnqueueFixture::new();
        fixture.store.inbox_task.abort();
        fixture
    }

    /// Another node on the same tables.
    fn another_node(&self) -> Arc<Postgres> {
        open_at(&self.address, &self.clock, &Arc::new(SeededRandom::new(2)))
    }

    fn enqueue(&self, arguments: &str) -> Enqueued {
        self.enqueue_by(&self.app, arguments)
    }

    fn enqueue_by(&self, app: &Client, arguments: &str) -> Enqueued {
        let call = format!("select job_id, duplicate from consign.enqueue({arguments})");
        let rows = RUNTIME.block_on(app.query_typed(&self.named(&call), &[]))?;
        Ok((id_of(&rows[0], 0)?, rows[0].get(1)))
    }

    /// The id of a job whose submission must succeed.
    fn must(&self, arguments: &str) -> JobId {
        let (id, duplicate) = self.enqueue(arguments).expect("it is taken");
        assert!(!duplicate);
        id
    }

    fn sql(&self, sql: &str) {
        RUNTIME.block_on(self.app.batch_execute(&self.named(sql))).expect("lawful");
    }

    fn rows(&self, sql: &str) -> Vec<Row> {
        RUNTIME.block_on(self.app.query_typed(&self.named(sql), &[])).expect("lawful")
    }

    fn count(&self, table: &str) -> i64 {
        self.rows(&format!("select count(*) from consign.{table}"))[0].get(0)
    }

    fn named(&self, sql: &str) -> String {
        sql.replace("consign.", &format!("{}.", self.address.schema()))
    }

    fn one(&self, request: Request) -> Reply {
        let replies = self.store.execute(vec![request], Notification::default());
        replies.expect("the store works").pop().expect("one reply for one request")
    }

    fn job(&self, id: JobId) -> Option<Job> {
        RUNTIME.block_on(self.store.job(&Scope::All, id)).expect("the store works")
    }

    fn claim(&self, types: &[&str], max: usize) -> Vec<Claimed> {
        let name = format!("c{}", crate::RandomSource::entropy(&*self.random).0);
        match self.one(claiming(claim_request("w1", &name, types, max))) {
            Ok(Answer::Claimed(jobs)) => jobs,
            other => panic!("a claim is answered as one, not by {other:?}"),
        }
    }

    fn set_policy(&self, name: &str, policy: Policy) {
        let set = self.one(Request::set_policy(&job_type(name), &policy));
        assert_eq!(set, Ok(Answer::Done));
    }
}

fn connect(address: &PostgresAddress) -> Client {
    RUNTIME.block_on(address.connect()).expect("it answers")
}

/// SQLSTATE, error code and message of a refusal.
#[track_caller]
fn refused(enqueued: Enqueued) -> (String, String, String) {
    let error = enqueued.expect_err("it is refused");
    let error = error.as_db_error().expect("by the database");
    let detail = error.detail().unwrap_or_default();
    (error.code().code().into(), detail.into(), error.message().into())
}
