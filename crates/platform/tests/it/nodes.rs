//! Several nodes over one store: each learns what the others do.

use engine::{
    ClaimId, ClaimRequest, CorrelationId, Grant, JobDraft, JobId, JobType, KeyDraft, KeyId,
    KeyName, PolicyDraft, Principal, Right, Scope, Status, Tenant, Timestamp, WorkerId,
};
use platform::{Changed, Error, Node, Settings, SystemClock, SystemRandom, Watch};
use pollster::block_on;
use std::{
    sync::{Arc, mpsc},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};
use store::{
    Claimed, Clock, ManualClock, Memory, NODE_LOST_AFTER, NodeStatus, Notification,
    SETTINGS_TRUSTED_FOR, SeededRandom, Store, StoreError,
};

/// A test fails after waiting this long.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Polling finds a change far sooner than this.
const POLL_WAIT_MAX: Duration = Duration::from_secs(15);

fn start(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Node {
    Node::start(store, clock, Arc::new(SystemRandom), Settings::default()).unwrap()
}

/// A store to share, and the clock of all its nodes.
fn shared_store() -> (Memory, Arc<SystemClock>) {
    let clock = Arc::new(SystemClock::new());
    (Memory::shared(clock.clone(), Arc::new(SystemRandom)), clock)
}

/// Two nodes that know of each other.
fn two_nodes() -> (Node, Node, Arc<SystemClock>) {
    let (memory, clock) = shared_store();
    let near = start(Arc::new(memory.another()), clock.clone());
    let far = start(Arc::new(memory), clock.clone());
    for node in [&near, &far] {
        wait_until("each knows both", || node.nodes().len() == 2);
    }
    (near, far, clock)
}

/// Two nodes whose clock stands still, so that neither polls: the first learns of changes by the
/// second only from notifications. The second knows of the first.
fn two_nodes_without_time() -> (Node, Node) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
    clock.pass(Duration::from_secs(60));
    let memory = Memory::shared(clock.clone(), Arc::new(SeededRandom::new(1)));
    let near = start(Arc::new(memory.another()), clock.clone());
    wait_until("the first leads", || near.nodes()[0].leads);
    let far = start(Arc::new(memory), clock);
    wait_until("the second knows the first", || far.nodes().len() == 2);
    (near, far)
}

/// Two nodes whose notifications are all lost.
fn two_nodes_without_notifications() -> (Node, Node, Arc<SystemClock>) {
    let (memory, clock) = shared_store();
    let [near, far] = [memory.another(), memory].map(|memory| {
        memory.lose_notifications();
        start(Arc::new(memory), clock.clone())
    });
    (near, far, clock)
}

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !condition() {
        assert!(clock.read().monotonic < WAIT_MAX, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The result of the future, within the bound.
#[track_caller]
fn within<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(block_on(future)));
    result.recv_timeout(WAIT_MAX).expect("it happens")
}

fn email() -> JobDraft {
    JobDraft { job_type: "email".into(), ..JobDraft::default() }
}

fn job_type() -> JobType {
    JobType::parse("email").unwrap()
}

fn submit(node: &Node, draft: JobDraft) -> Result<JobId, Error> {
    block_on(node.submit(&Tenant::default_tenant(), draft)).map(|submitted| submitted.job_id)
}

fn claim_request(claim: &str) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::parse("w").unwrap(),
        host: None,
        claim: ClaimId::parse(claim).unwrap(),
        job_types: vec![job_type()],
        max: 1,
        lease: Some(Duration::from_secs(1)),
    }
}

/// A claim that the node has tried once and that waits.
fn waiting_claim(node: &Node, claim: &str) -> impl Future<Output = Vec<Claimed>> + Send + use<> {
    let waiting_claim = node.claim_waiting(Scope::All, claim_request(claim));
    // The writer runs one batch after another, so the claim was in this batch or an earlier one.
    block_on(node.platform().heartbeat(&Scope::All, &WorkerId::parse("w").unwrap(), Vec::new()))
        .unwrap();
    async { waiting_claim.await.unwrap() }
}

fn status(node: &Node, id: JobId) -> Status {
    block_on(node.job(&Scope::All, id)).unwrap().status()
}

/// Waits as the HTTP API does: watches, reads, and reads again only when the watch reports a
/// change.
fn wait_for_end(node: &Node, id: JobId) -> impl Future<Output = Status> + Send + use<> {
    let (mut watch, platform) = (node.watch(id), node.platform().clone());
    assert_eq!(status(node, id), Status::Queued);
    async move {
        loop {
            assert_eq!(watch.changed().await, Changed::Touched);
            let status = platform.job(&Scope::All, id).await.unwrap().status();
            if status.is_ended() {
                return status;
            }
        }
    }
}

#[test]
fn a_notification_gives_a_waiting_claim_the_job_of_another_node() {
    let (near, far) = two_nodes_without_time();
    let waiting_claim = waiting_claim(&near, "1");
    let id = submit(&far, email()).unwrap();
    assert_eq!(within(waiting_claim)[0].job.id(), id);
}

#[test]
fn a_waiting_claim_gets_the_job_of_another_node_when_notifications_are_lost() {
    let (near, far, clock) = two_nodes_without_notifications();
    let waiting_claim = waiting_claim(&near, "1");
    let (id, started_at) = (submit(&far, email()).unwrap(), clock.read().monotonic);
    assert_eq!(within(waiting_claim)[0].job.id(), id);
    let waited = clock.read().monotonic - started_at;
    assert!(waited < POLL_WAIT_MAX, "{waited:?}");
}

#[test]
fn a_notification_wakes_a_watch_at_another_node() {
    let (near, far) = two_nodes_without_time();
    let id = submit(&far, email()).unwrap();
    let status_at_end = wait_for_end(&near, id);
    block_on(far.cancel(&Scope::All, id, None)).unwrap();
    assert_eq!(within(status_at_end), Status::Cancelled);
}

#[test]
fn a_watch_sees_remote_changes_when_notifications_are_lost() {
    let (near, far, clock) = two_nodes_without_notifications();
    let id = submit(&far, email()).unwrap();
    let (status_at_end, started_at) = (wait_for_end(&near, id), clock.read().monotonic);
    block_on(far.cancel(&Scope::All, id, None)).unwrap();
    assert_eq!(within(status_at_end), Status::Cancelled);
    let waited = clock.read().monotonic - started_at;
    assert!(waited < POLL_WAIT_MAX, "{waited:?}");
}

fn poll(watch: &mut Watch) -> Poll<Changed> {
    watch.poll_changed(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_remote_change_notifies_only_the_watches_of_its_job() {
    let (near, far, _) = two_nodes_without_notifications();
    let [busy, quiet] = [(); 2].map(|()| submit(&far, email()).unwrap());
    let [mut first, mut other] = [busy, quiet].map(|id| near.watch(id));
    for watch in [&mut first, &mut other] {
        // The first read notifies all watches, because changes before it are unknown.
        wait_until("the first read", || poll(watch) == Poll::Ready(Changed::Touched));
    }
    block_on(far.cancel(&Scope::All, busy, None)).unwrap();
    wait_until("the change is reported", || poll(&mut first) == Poll::Ready(Changed::Touched));
    assert_eq!(poll(&mut other), Poll::Pending, "of the same read");
}

#[test]
fn a_job_that_becomes_due_wakes_claims_at_every_node() {
    let (near, far, clock) = two_nodes_without_notifications();
    let waiting_claim = waiting_claim(&near, "1");
    let id = submit(&far, JobDraft { delay_seconds: Some(1), ..email() }).unwrap();
    assert_eq!(within(waiting_claim)[0].job.id(), id);
    let waited = clock.read().monotonic;
    // The store counts in whole milliseconds, so a measured second may be a little shorter.
    assert!(waited >= Duration::from_millis(999) && waited < POLL_WAIT_MAX, "{waited:?}");
}

#[test]
fn a_deferred_work_hint_reaches_the_other_nodes() {
    let (memory, clock) = shared_store();
    let observer = memory.another();
    let nodes = [memory.another(), memory].map(|memory| start(Arc::new(memory), clock.clone()));
    wait_until("each knows both", || nodes.iter().all(|node| node.nodes().len() == 2));
    // A job for later hints at no work now: the hint can only be sent when it is due.
    submit(&nodes[0], JobDraft { delay_seconds: Some(1), ..email() }).unwrap();
    let mut all = Notification::default();
    let received = within(async move {
        while !all.any_work {
            all.add(observer.notification().await);
        }
        all
    });
    assert!(received.work.is_empty() && received.touched, "{received:?}");
}

fn leaders(nodes: &[NodeStatus]) -> Vec<&str> {
    nodes.iter().filter(|node| node.leads).map(|node| &*node.info.id).collect()
}

#[test]
fn one_node_leads_and_all_know_which() {
    let (near, far, _) = two_nodes();
    let nodes = near.nodes();
    assert_eq!(leaders(&nodes).len(), 1);
    assert_eq!(leaders(&nodes), leaders(&far.nodes()));
    let ids: Vec<&str> = nodes.iter().map(|node| &*node.info.id).collect();
    assert!(ids.contains(&near.id()) && ids.contains(&far.id()) && near.id() != far.id());
}

#[test]
fn a_node_that_drains_goes_on_serving_and_leads_no_more() {
    let (near, far, _) = two_nodes();
    let (leader, other) =
        if leaders(&near.nodes()) == [near.id()] { (near, far) } else { (far, near) };
    leader.drain();
    wait_until("the other leads", || leaders(&other.nodes()) == [other.id()]);
    let nodes = other.nodes();
    let gone = nodes.iter().find(|node| node.info.id == leader.id()).unwrap();
    assert!(gone.info.draining && gone.live, "{gone:?}");
    submit(&leader, email()).unwrap();
}

#[test]
fn the_chores_of_a_node_that_closed_are_done_by_another() {
    let (near, far, _) = two_nodes();
    let (leader, other) =
        if leaders(&near.nodes()) == [near.id()] { (near, far) } else { (far, near) };
    let quick = PolicyDraft { backoff_base_ms: Some(0), ..PolicyDraft::default() };
    block_on(leader.set_policy(job_type(), &quick, None)).unwrap();
    let id = submit(&leader, email()).unwrap();
    let first = within(waiting_claim(&leader, "1"));
    leader.close();
    let next = within(waiting_claim(&other, "2"));
    assert_eq!((first[0].job.id(), next[0].job.id()), (id, id), "its lease was found lapsed");
    wait_until("announcements are numbered", || !block_on(other.events(0, 10)).unwrap().is_empty());
}

#[test]
fn a_node_that_loses_the_store_goes_on_trying_and_leads_no_more() {
    let (memory, clock) = shared_store();
    let connection = Arc::new(memory.another());
    let near = start(connection.clone(), clock.clone());
    wait_until("it leads", || leaders(&near.nodes()) == [near.id()]);
    let far = start(Arc::new(memory), clock);
    wait_until("it knows the other", || near.nodes().len() == 2);
    let id = submit(&far, email()).unwrap();
    let mut watch = near.watch(id);
    wait_until("the first read", || poll(&mut watch) == Poll::Ready(Changed::Touched));
    connection.cut_off(true);
    let refused = submit(&near, email()).unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Unavailable(_))), "{refused:?}");
    wait_until("it does not lead", || leaders(&near.nodes()).is_empty());
    wait_until("another leads", || leaders(&far.nodes()) == [far.id()]);
    block_on(far.cancel(&Scope::All, id, None)).unwrap();
    connection.cut_off(false);
    wait_until("the change is reported", || poll(&mut watch) == Poll::Ready(Changed::Touched));
    let waiting_claim = waiting_claim(&near, "1");
    let next = submit(&far, email()).unwrap();
    assert_eq!(within(waiting_claim)[0].job.id(), next);
    wait_until("it follows", || leaders(&near.nodes()) == [far.id()]);
}

#[test]
fn a_policy_that_one_node_sets_holds_at_the_others() {
    let (near, far, clock) = two_nodes();
    submit(&near, email()).unwrap();
    let schema = r#"{"type": "object", "required": ["to"]}"#.into();
    let policy = PolicyDraft { schema: Some(schema), ..PolicyDraft::default() };
    block_on(far.set_policy(job_type(), &policy, None)).unwrap();
    let set_at = clock.read().monotonic;
    wait_until("it holds", || submit(&near, email()).is_err());
    let waited = clock.read().monotonic - set_at;
    assert!(waited < POLL_WAIT_MAX, "{waited:?}");
    submit(&near, JobDraft { payload: Some(r#"{"to": "a"}"#.into()), ..email() }).unwrap();
}

const REPEATS: usize = 20;

/// Waits, as the node that changed settings does, until every live node has confirmed the change.
#[track_caller]
fn wait_for_confirmations(setter: &Node) {
    wait_until("every node confirms", || count_unconfirmed(setter) == 0);
}

/// How many nodes a change still waits for.
fn count_unconfirmed(setter: &Node) -> usize {
    block_on(setter.unconfirmed_nodes()).unwrap().iter().filter(|node| node.live).count()
}

fn principal() -> Principal {
    let rights = [Right::Admin].into_iter().collect();
    let grant = Grant { scope: Scope::All, rights, types: Vec::new(), subjects: Vec::new() };
    Principal { who: "test".into(), name: None, grant, expires_at: None }
}

fn make_key(node: &Node) -> KeyId {
    let principal = principal();
    let name = KeyName::parse("k").unwrap();
    let draft = KeyDraft { name, grant: principal.grant.clone(), expires_at: None };
    let correlation = CorrelationId::parse("c").unwrap();
    block_on(node.create_key(&principal, correlation, draft)).unwrap().0.id
}

fn revoke_key(node: &Node, id: KeyId) {
    let correlation = CorrelationId::parse("c").unwrap();
    block_on(node.revoke_key(&principal(), correlation, &Scope::All, id)).unwrap();
}

/// Whether the node accepts the key now; `None` where it must read the settings first.
fn accepts_key(node: &Node, id: KeyId) -> Option<bool> {
    let credentials = node.credentials()?;
    Some(credentials.key(id).is_some_and(|key| key.key.revoked_at.is_none()))
}

#[test]
fn settings_are_in_force_at_every_node_that_confirmed_them() {
    let (near, far, _) = two_nodes();
    for number in 0..REPEATS {
        let id = make_key(&far);
        assert_eq!(accepts_key(&far, id), Some(true), "at once where it was made");
        wait_for_confirmations(&far);
        assert_eq!(accepts_key(&near, id), Some(true));
        revoke_key(&far, id);
        assert_eq!(accepts_key(&far, id), Some(false));
        let job_type = JobType::parse(&format!("t{number}")).unwrap();
        let draft = || JobDraft { job_type: job_type.to_string(), ..JobDraft::default() };
        submit(&near, draft()).unwrap();
        let schema = Some(r#"{"type": "object"}"#.into());
        let policy = PolicyDraft { schema, ..PolicyDraft::default() };
        block_on(far.set_policy(job_type.clone(), &policy, None)).unwrap();
        wait_for_confirmations(&far);
        assert_eq!(accepts_key(&near, id), Some(false));
        assert!(submit(&near, draft()).is_err(), "the schema holds");
    }
}

#[test]
fn nodes_confirm_settings_even_when_notifications_are_lost() {
    let (near, far, _) = two_nodes_without_notifications();
    wait_until("each knows both", || [&near, &far].iter().all(|node| node.nodes().len() == 2));
    let id = make_key(&far);
    wait_for_confirmations(&far);
    assert_eq!(accepts_key(&near, id), Some(true));
    revoke_key(&far, id);
    wait_for_confirmations(&far);
    assert_eq!(accepts_key(&near, id), Some(false));
}

#[test]
fn a_node_that_cannot_read_settings_stops_trusting_its_cache() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
    clock.pass(Duration::from_secs(60));
    let memory = Memory::shared(clock.clone(), Arc::new(SeededRandom::new(1)));
    let connection = Arc::new(memory.another());
    let near = start(connection.clone(), clock.clone());
    let far = start(Arc::new(memory), clock.clone());
    let id = make_key(&near);
    assert_eq!(accepts_key(&near, id), Some(true));
    connection.cut_off(true);
    clock.pass(SETTINGS_TRUSTED_FOR - Duration::from_millis(1));
    assert_eq!(accepts_key(&near, id), Some(true), "its heartbeat still counts");
    clock.pass(Duration::from_millis(1));
    assert_eq!(accepts_key(&near, id), None, "it has to read the settings");
    let refused = submit(&near, email()).unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Unavailable(_))), "{refused:?}");
    revoke_key(&far, id);
    clock.pass(NODE_LOST_AFTER);
    wait_until("it is not waited for any more", || {
        block_on(far.refresh_settings()).unwrap();
        count_unconfirmed(&far) == 0
    });
    connection.cut_off(false);
    block_on(near.refresh_settings()).unwrap();
    assert_eq!(accepts_key(&near, id), Some(false));
}

#[test]
fn a_node_that_has_closed_keeps_no_setter_waiting() {
    let (near, far, _) = two_nodes();
    near.close();
    make_key(&far);
    assert_eq!(block_on(far.unconfirmed_nodes()).unwrap(), []);
    assert!(near.credentials().is_none(), "it serves nothing any more");
}

/// The node that wrote last is not always the one that saw the key last.
#[test]
fn the_newest_use_of_a_key_wins_on_all_nodes() {
    let (near, far, _) = two_nodes();
    let id = make_key(&near);
    let at = |minute: i64| Timestamp::from_unix_ms(minute * 60_000 + 7);
    let used = |node: &Node, minute| {
        wait_until("the node knows the key", || accepts_key(node, id) == Some(true));
        node.note_key_use(node.credentials().unwrap().key(id).unwrap(), at(minute));
    };
    let seen = |node: &Node| block_on(node.key_uses()).unwrap().get(&id).map(|one| one.time());
    let minute = |minute: i64| Some(Timestamp::from_unix_ms(minute * 60_000));
    assert_eq!(seen(&near), None);
    used(&near, 9);
    assert_eq!(seen(&near), minute(9), "at once on its own node");
    wait_until("the other node sees it", || seen(&far) == minute(9));
    used(&far, 8);
    assert_eq!(seen(&far), minute(9));
    used(&far, 10);
    wait_until("the newest use is seen", || seen(&near) == minute(10));
}
