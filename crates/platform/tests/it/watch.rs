//! Watches: they report that a job was touched, and that the node is closed.

use crate::controlled_store::{ControlledStore, claim_request};
use engine::{AuditNote, Command, CorrelationId, JobId, Scope, Status, WorkerId};
use platform::{Batcher, Changed, Limits, Watch};
use pollster::block_on;
use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};
use store::{Answer, Reply, Request, Store, StoreError};

struct WatchFixture {
    store: Arc<ControlledStore>,
    batcher: Arc<Batcher>,
}

impl WatchFixture {
    fn new() -> Self {
        let store = ControlledStore::new();
        let batcher = Arc::new(Batcher::start(store.clone(), Limits::default()).unwrap());
        WatchFixture { store, batcher }
    }

    fn execute(&self, request: Request) -> Result<Vec<Reply>, StoreError> {
        block_on(self.batcher.execute(vec![request]))
    }

    fn submit(&self) -> JobId {
        match &self.execute(self.store.submit("email", 1)).unwrap()[..] {
            [Ok(Answer::Submitted(jobs))] => jobs[0].job_id,
            other => panic!("not one submit: {other:?}"),
        }
    }

    fn cancel(&self, id: JobId) {
        let command = Command::Cancel;
        self.execute(Request::Command { scope: Scope::All, id, command })
            .unwrap()
            .remove(0)
            .unwrap();
        self.wait_until_notified();
    }

    /// Waits until the batcher has notified watches of all answered batches.
    fn wait_until_notified(&self) {
        let heartbeat =
            Request::WorkerAlive { scope: Scope::All, worker: WorkerId::parse("w").unwrap() };
        // The writer notifies watches before it takes the next batch.
        self.execute(heartbeat).unwrap();
    }

    fn status(&self, id: JobId) -> Status {
        block_on(self.store.memory.job(&Scope::All, id)).unwrap().unwrap().status()
    }
}

fn poll(watch: &mut Watch) -> Poll<Changed> {
    watch.poll_changed(&mut Context::from_waker(Waker::noop()))
}

const TOUCHED: Poll<Changed> = Poll::Ready(Changed::Touched);
const CLOSED: Poll<Changed> = Poll::Ready(Changed::Closed);

#[test]
fn a_watch_reports_each_change_of_its_own_job_only() {
    let fixture = WatchFixture::new();
    let (one, other) = (fixture.submit(), fixture.submit());
    fixture.wait_until_notified();
    let (mut watch, mut second) = (fixture.batcher.watch(one), fixture.batcher.watch(one));
    assert_eq!(poll(&mut watch), Poll::Pending);
    fixture.cancel(other);
    assert_eq!(poll(&mut watch), Poll::Pending);
    fixture.cancel(one);
    assert_eq!(poll(&mut watch), TOUCHED);
    assert_eq!(poll(&mut watch), Poll::Pending, "once is enough");
    assert_eq!(poll(&mut second), TOUCHED, "each watch gets its own report");
}

#[test]
fn a_watch_learns_of_what_is_recorded_as_well() {
    let fixture = WatchFixture::new();
    let id = fixture.submit();
    fixture.wait_until_notified();
    let mut watch = fixture.batcher.watch(id);
    let note = AuditNote {
        who: "key:1".into(),
        name: None,
        scope: Scope::All,
        action: "job.cancel",
        target: id.to_string().into(),
        detail: None,
        correlation: CorrelationId::parse("c").unwrap(),
    };
    let cancel = Request::Command { scope: Scope::All, id, command: Command::Cancel };
    let audited_cancel = cancel.audited(note);
    fixture.execute(audited_cancel).unwrap().remove(0).unwrap();
    fixture.wait_until_notified();
    assert_eq!(poll(&mut watch), TOUCHED);
}

#[test]
fn a_watch_learns_of_claims_and_of_waiting_claims() {
    let fixture = WatchFixture::new();
    let (one, two) = (fixture.submit(), fixture.submit());
    fixture.wait_until_notified();
    let (mut first, mut second) = (fixture.batcher.watch(one), fixture.batcher.watch(two));
    fixture
        .execute(Request::Claim {
            scope: Scope::All,
            claim_request: claim_request("a", &["email"], 1),
        })
        .unwrap();
    assert_eq!(block_on(first.changed()), Changed::Touched);
    assert_eq!(poll(&mut second), Poll::Pending);
    block_on(fixture.batcher.claim_waiting(Scope::All, claim_request("b", &["email"], 1))).unwrap();
    assert_eq!(block_on(second.changed()), Changed::Touched);
    assert_eq!((fixture.status(one), fixture.status(two)), (Status::Running, Status::Running));
}

#[test]
fn a_watch_reports_the_release_of_an_undelivered_claim() {
    let fixture = WatchFixture::new();
    let id = fixture.submit();
    fixture.wait_until_notified();
    let mut watch = fixture.batcher.watch(id);
    fixture.store.hold();
    let claim =
        Request::Claim { scope: Scope::All, claim_request: claim_request("a", &["email"], 1) };
    let mut call = Box::pin(fixture.batcher.execute(vec![claim]));
    let polled = Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    fixture.store.wait_begun(3); // a submit, a heartbeat, and the claim
    drop(call);
    fixture.store.release_one();
    assert_eq!(block_on(watch.changed()), Changed::Touched);
    assert_eq!(fixture.status(id), Status::Running);
    fixture.store.release();
    assert_eq!(block_on(watch.changed()), Changed::Touched);
    assert_eq!(fixture.status(id), Status::Queued);
}

#[test]
fn a_refused_command_wakes_no_watch() {
    let fixture = WatchFixture::new();
    let id = fixture.submit();
    fixture.wait_until_notified();
    let mut watch = fixture.batcher.watch(id);
    let command = Command::Discard;
    let refused = fixture.execute(Request::Command { scope: Scope::All, id, command }).unwrap();
    assert!(refused[0].is_err());
    fixture.wait_until_notified();
    assert_eq!(poll(&mut watch), Poll::Pending);
}

#[test]
fn a_commit_of_unknown_outcome_notifies_every_watch() {
    let fixture = WatchFixture::new();
    let (one, other) = (fixture.submit(), fixture.submit());
    fixture.wait_until_notified();
    let mut watch = fixture.batcher.watch(one);
    fixture.store.fail(|| StoreError::Unavailable(None));
    let cancel = |id| Request::Command { scope: Scope::All, id, command: Command::Cancel };
    fixture.execute(cancel(one)).unwrap_err();
    assert_eq!(poll(&mut watch), Poll::Pending, "nothing was done");
    fixture.store.fail(|| StoreError::OutcomeUnknown(None));
    fixture.execute(cancel(other)).unwrap_err();
    assert_eq!(block_on(watch.changed()), Changed::Touched);
}

#[test]
fn a_touch_is_not_lost_with_the_future_that_waited_for_it() {
    let fixture = WatchFixture::new();
    let id = fixture.submit();
    fixture.wait_until_notified();
    let mut watch = fixture.batcher.watch(id);
    {
        let mut waiting = pin!(watch.changed());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        fixture.cancel(id);
    }
    assert_eq!(poll(&mut watch), TOUCHED);
}

#[test]
fn a_node_that_closes_ends_every_watch_after_what_there_was_to_tell() {
    let fixture = WatchFixture::new();
    let (id, idle) = (fixture.submit(), fixture.submit());
    fixture.wait_until_notified();
    let (mut watch, mut waiting) = (fixture.batcher.watch(id), fixture.batcher.watch(idle));
    let waiter = thread::spawn(move || block_on(waiting.changed()));
    fixture.cancel(id);
    fixture.batcher.close();
    assert_eq!(waiter.join().unwrap(), Changed::Closed);
    assert_eq!(poll(&mut watch), TOUCHED);
    assert_eq!((poll(&mut watch), poll(&mut watch)), (CLOSED, CLOSED));
    assert_eq!(poll(&mut fixture.batcher.watch(id)), CLOSED, "so does a later watch");
}

#[test]
fn a_store_that_panics_ends_every_watch() {
    let fixture = WatchFixture::new();
    let id = fixture.submit();
    let mut watch = fixture.batcher.watch(id);
    fixture.execute(fixture.store.submit("panic", 1)).unwrap_err();
    while block_on(watch.changed()) != Changed::Closed {}
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_change_wakes_only_the_watches_of_its_job() {
    let fixture = WatchFixture::new();
    let (busy, idle) = (fixture.submit(), fixture.submit());
    fixture.wait_until_notified();
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    let both = (0..5_000).flat_map(|_| [fixture.batcher.watch(busy), fixture.batcher.watch(idle)]);
    let mut watches: Vec<Watch> = both.collect();
    watches.iter_mut().for_each(|watch| assert!(watch.poll_changed(&mut cx).is_pending()));
    watches.truncate(8_000); // dropped watches are not woken
    fixture.cancel(busy);
    fixture.cancel(busy); // no second wake-up before the report is read
    assert_eq!(count.0.load(Ordering::SeqCst), 4_000);
}

/// A waker that uses watches while it is woken.
struct ReentrantWaker {
    batcher: Arc<Batcher>,
    id: JobId,
    other_watch: Mutex<Option<Watch>>,
    woken: AtomicUsize,
}

impl Wake for ReentrantWaker {
    fn wake(self: Arc<Self>) {
        drop(self.other_watch.lock().unwrap().take());
        drop(self.batcher.watch(self.id));
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_batcher_wakes_watches_without_holding_its_lock() {
    let fixture = WatchFixture::new();
    let id = fixture.submit();
    fixture.wait_until_notified();
    let mut watch = fixture.batcher.watch(id);
    let reentrant = Arc::new(ReentrantWaker {
        batcher: fixture.batcher.clone(),
        id,
        other_watch: Mutex::new(Some(fixture.batcher.watch(id))),
        woken: AtomicUsize::new(0),
    });
    let waker = Waker::from(reentrant.clone());
    assert!(watch.poll_changed(&mut Context::from_waker(&waker)).is_pending());
    fixture.cancel(id);
    assert_eq!(reentrant.woken.load(Ordering::SeqCst), 1);
    assert!(reentrant.other_watch.lock().unwrap().is_none());
}
