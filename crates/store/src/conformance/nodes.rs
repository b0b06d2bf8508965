//! The guarantees between the nodes of one store: one leads, all are listed, and each receives the
//! notifications of the others.

use super::{
    audit::{note, recorded},
    credentials::key,
    fixture::{Fixture, claim_request, email, ending, job_type, keyed, settling, token},
};
use crate::{
    Answer, Claimed, ClusterView, LEADERSHIP_FOR, NODE_LOST_AFTER, NODES_KEPT, NodeInfo,
    NodeStatus, Notification, Reply, Request, Store, UnconfirmedNode,
};
use engine::{
    Command, Entropy, JobId, LeaseState, Outcome, Policy, Refusal, Scope, SigningKey, Status,
    Timestamp,
};
use pollster::block_on;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

/// An empty store that several nodes may open.
pub(crate) struct ClusterFixture {
    /// The first node.
    pub(crate) fixture: Fixture,
    /// Opens the same store once more, as a node in another process does.
    pub(crate) another: Box<dyn Fn() -> Arc<dyn Store>>,
}

impl ClusterFixture {
    fn pair(&self) -> [Arc<dyn Store>; 2] {
        [self.fixture.store().clone(), (self.another)()]
    }

    fn pass(&self, span: Duration) {
        self.fixture.clock.pass(span);
    }
}

const MOMENT: Duration = Duration::from_millis(1);

/// A node's description of itself.
pub(crate) fn info(id: &str) -> NodeInfo {
    NodeInfo {
        id: id.to_owned(),
        version: "0.1.0".to_owned(),
        started_at: Timestamp::from_unix_ms(1_700_000_000_000),
        draining: false,
    }
}

fn heartbeat_node(store: &Arc<dyn Store>, info: &NodeInfo) -> ClusterView {
    block_on(store.heartbeat_node(info)).expect("the store works")
}

fn leads(store: &Arc<dyn Store>, id: &str) -> bool {
    heartbeat_node(store, &info(id)).leads
}

fn number(store: &Arc<dyn Store>) -> usize {
    block_on(store.number_events(100)).expect("the store works")
}

fn prune_leftovers(store: &Arc<dyn Store>) -> usize {
    block_on(store.prune_leftovers(100)).expect("the store works")
}

pub(crate) fn a_single_node_leads(fixture: &Fixture) {
    let info = info("a");
    for _ in 0..2 {
        let view = heartbeat_node(&fixture.store(), &info);
        assert!(view.leads);
        let [seen] = &view.nodes[..] else { panic!("one node, not {:?}", view.nodes) };
        assert!(seen.info == info && seen.live && seen.leads, "{seen:?}");
        fixture.pass(3);
    }
    fixture.submit(email());
    assert_eq!(number(&fixture.store()), 1);
}

pub(crate) fn the_store_reads_versions_of_many_jobs_at_once(fixture: &Fixture) {
    let versions =
        |ids: &[JobId]| block_on(fixture.store().versions(ids)).expect("the store works");
    assert_eq!(versions(&[]), BTreeMap::new());
    let ended = fixture.submit(email());
    fixture.complete(&fixture.take()).unwrap();
    let queued = fixture.submit(email());
    let nobody = fixture.new_job(email(), "default").id;
    let before = versions(&[queued, nobody, ended]);
    let expected = [ended, queued].map(|id| (id, fixture.job(id).version));
    assert_eq!(before, BTreeMap::from(expected), "live and ended, and none that is not there");
    let claimed = fixture.take();
    let running = versions(&[queued, ended]);
    assert!(running[&queued] > before[&queued] && running[&ended] == before[&ended]);
    fixture.complete(&claimed).unwrap();
    assert!(versions(&[queued])[&queued] > running[&queued]);
}

pub(crate) fn one_node_leads_at_a_time(near: &ClusterFixture) {
    let [one, two] = near.pair();
    assert!(leads(&one, "one"), "one node has to");
    for _ in 0..3 {
        assert!(!leads(&two, "two"));
        near.pass(LEADERSHIP_FOR / 2);
        assert!(leads(&one, "one"), "its heartbeat is in time");
    }
    let view = heartbeat_node(&two, &info("two"));
    let leaders: Vec<&str> =
        view.nodes.iter().filter(|seen| seen.leads).map(|seen| &*seen.info.id).collect();
    assert_eq!(leaders, ["one"], "every node sees the leader");
}

pub(crate) fn a_silent_leader_is_followed_after_its_time_and_not_before(near: &ClusterFixture) {
    let [one, two] = near.pair();
    assert!(leads(&one, "one") && !leads(&two, "two"));
    near.pass(LEADERSHIP_FOR - MOMENT);
    assert!(!leads(&two, "two"), "its time is not over");
    near.pass(MOMENT);
    assert!(leads(&two, "two"));
    assert!(!leads(&one, "one"), "a node that comes back follows");
}

pub(crate) fn a_leader_that_comes_back_late_does_no_maintenance(near: &ClusterFixture) {
    let [one, two] = near.pair();
    assert!(leads(&one, "one"));
    near.fixture.submit(keyed("k", "1"));
    near.fixture.complete(&near.fixture.take()).unwrap();
    near.pass(Duration::from_secs(40 * 86_400)); // its key and worker are past their retention
    assert!(leads(&two, "two"));
    assert_eq!(
        (number(&one), prune_leftovers(&one)),
        (0, 0),
        "it does not know yet that it was followed"
    );
    assert!(!leads(&one, "one"));
    assert_eq!((number(&one), prune_leftovers(&one)), (0, 0), "and now it does");
    assert_eq!(number(&two), 3);
    assert!(prune_leftovers(&two) >= 2);
}

pub(crate) fn a_leader_that_was_away_does_no_chores_unfollowed(near: &ClusterFixture) {
    let [one, _] = near.pair();
    assert!(leads(&one, "one"));
    near.fixture.submit(email());
    near.pass(LEADERSHIP_FOR);
    assert_eq!(number(&one), 0, "another node may have become the leader at any moment");
    assert!(leads(&one, "one"));
    assert_eq!(number(&one), 1, "no node did, and it leads again");
}

pub(crate) fn a_draining_node_gives_the_lead_up(near: &ClusterFixture) {
    let [one, two] = near.pair();
    assert!(leads(&one, "one") && !leads(&two, "two"));
    near.fixture.submit(email());
    let ending = NodeInfo { draining: true, ..info("one") };
    assert!(!heartbeat_node(&one, &ending).leads);
    assert_eq!(number(&one), 0);
    assert!(leads(&two, "two"), "at once");
    assert_eq!(number(&two), 1);
    assert!(!heartbeat_node(&one, &ending).leads && leads(&two, "two"));
}

pub(crate) fn a_draining_node_does_not_lead(near: &ClusterFixture) {
    let [one, _] = near.pair();
    let ending = NodeInfo { draining: true, ..info("one") };
    assert!(!heartbeat_node(&one, &ending).leads, "not even alone");
    assert!(leads(&one, "one"), "unless it thinks better of it");
}

pub(crate) fn a_node_that_never_sent_a_heartbeat_may_number_events(near: &ClusterFixture) {
    let [one, tool] = near.pair();
    assert!(leads(&one, "one"));
    near.fixture.submit(email());
    assert_eq!(number(&tool), 1);
}

pub(crate) fn the_node_list_shows_each_node_as_last_seen(near: &ClusterFixture) {
    let [one, two] = near.pair();
    let older = NodeInfo { started_at: Timestamp::from_unix_ms(1), ..info("two") };
    let newer = NodeInfo { version: "0.2.0".to_owned(), ..info("one") };
    heartbeat_node(&one, &newer);
    let began = block_on(one.next_due(Timestamp::default())).unwrap().now;
    near.pass(NODE_LOST_AFTER - MOMENT);
    let view = heartbeat_node(&two, &older);
    let seen = |info: &NodeInfo, after, live, leads| {
        let seen_at = began + after;
        NodeStatus { info: info.clone(), seen_at, live, leads }
    };
    let late = NODE_LOST_AFTER - MOMENT;
    let expected = [seen(&older, late, true, true), seen(&newer, Duration::ZERO, true, false)];
    assert_eq!(view.nodes, expected, "oldest first");
    near.pass(MOMENT);
    let view = heartbeat_node(&two, &older).nodes;
    let silent = seen(&newer, Duration::ZERO, false, false);
    assert_eq!(view, [seen(&older, NODE_LOST_AFTER, true, true), silent]);
    let ending = NodeInfo { draining: true, ..newer };
    let view = heartbeat_node(&one, &ending).nodes;
    assert_eq!(view[1], seen(&ending, NODE_LOST_AFTER, true, false), "it is back, and says more");
}

pub(crate) fn nodes_that_are_long_gone_are_forgotten(near: &ClusterFixture) {
    let [one, two] = near.pair();
    heartbeat_node(&one, &info("one"));
    near.pass(NODES_KEPT - MOMENT);
    assert_eq!(heartbeat_node(&two, &info("two")).nodes.len(), 2);
    near.pass(MOMENT);
    let view = heartbeat_node(&two, &info("two")).nodes;
    assert_eq!(view.iter().map(|seen| &*seen.info.id).collect::<Vec<_>>(), ["two"]);
}

/// A notification may get lost, above all before the other side listens. The test repeats it at
/// most so often.
const REPEATS_MAX: usize = 60;
const REPEAT_AFTER: Duration = Duration::from_secs(1);

/// Collects the notifications that a node receives until they are enough, while `tell` sends them
/// again and again.
fn receive_until(
    listener: &Arc<dyn Store>,
    tell: impl Fn(),
    enough: impl Fn(&Notification) -> bool,
) -> Notification {
    let (sender, notification) = mpsc::channel();
    let mut all = Notification::default();
    let listen = || {
        let (listener, sender) = (listener.clone(), sender.clone());
        thread::spawn(move || sender.send(block_on(listener.notification())))
    };
    listen();
    for _ in 0..REPEATS_MAX {
        tell();
        let Ok(more) = notification.recv_timeout(REPEAT_AFTER) else { continue };
        all.add(more);
        if enough(&all) {
            return all;
        }
        listen();
    }
    panic!("the node received only {all:?}");
}

fn work(name: &str) -> Notification {
    Notification { work: BTreeSet::from([job_type(name)]), ..Notification::default() }
}

fn touched() -> Notification {
    Notification { touched: true, ..Notification::default() }
}

pub(crate) fn all_other_nodes_receive_a_notification(near: &ClusterFixture) {
    let [one, two] = near.pair();
    let three = (near.another)();
    for listener in [&two, &three] {
        receive_until(listener, || one.notify_peers(work("email")), |all| *all == work("email"));
    }
    let any = Notification { any_work: true, ..Notification::default() };
    receive_until(&two, || three.notify_peers(any.clone()), |all| all.any_work);
    // The node's own notifications would be in here, if it received them.
    let back = receive_until(&one, || two.notify_peers(touched()), |all| all.touched);
    assert_eq!(back.work, BTreeSet::new());
}

pub(crate) fn a_batch_sends_its_notification(near: &ClusterFixture) {
    let [one, two] = near.pair();
    receive_until(&two, || one.notify_peers(touched()), |all| all.touched); // from now on it listens
    let submit = || {
        let new = near.fixture.new_job(email(), "default");
        let done = one.execute(vec![Request::Submit(vec![new])], work("consign.email"));
        done.expect("the store works").remove(0).expect("it is lawful");
    };
    // Both as the first notification and after others.
    receive_until(&two, submit, |all| all.work == work("consign.email").work);
    receive_until(
        &two,
        || (0..3).for_each(|_| submit()),
        |all| all.work == work("consign.email").work,
    );
}

pub(crate) fn notifications_that_wait_are_merged(near: &ClusterFixture) {
    let [one, two] = near.pair();
    receive_until(&two, || one.notify_peers(touched()), |all| all.touched); // from now on it listens
    one.notify_peers(work("email"));
    one.notify_peers(work("invoice"));
    receive_until(&two, || one.notify_peers(touched()), |all| all.work.len() == 2);
}

pub(crate) fn a_change_at_one_node_is_visible_at_another(near: &ClusterFixture) {
    let [one, two] = near.pair();
    let id = near.fixture.submit(email());
    let claim =
        Request::Claim { scope: Scope::All, claim_request: claim_request("w", "c", &["email"], 1) };
    two.execute(vec![claim], Notification::default()).unwrap().remove(0).unwrap();
    let job = block_on(one.job(&Scope::All, id)).unwrap().unwrap();
    assert_eq!(job.status(), Status::Running);
    assert_eq!(block_on(one.versions(&[id])).unwrap(), block_on(two.versions(&[id])).unwrap());
}

fn command(store: &Arc<dyn Store>, id: JobId, command: Command) -> Reply {
    let request = Request::Command { scope: Scope::All, id, command };
    store.execute(vec![request], Notification::default()).expect("the store works").remove(0)
}

/// Reports about several jobs in one batch.
fn reports(store: &Arc<dyn Store>, reports: Vec<(JobId, Command)>) -> Vec<Reply> {
    let request = |(id, command)| Request::Command { scope: Scope::All, id, command };
    let batch = reports.into_iter().map(request).collect();
    store.execute(batch, Notification::default()).expect("the store works")
}

fn beating(claimed: &Claimed) -> Command {
    Command::Heartbeat { token: token(claimed), progress: None }
}

fn completing(claimed: &Claimed) -> Command {
    settling(claimed, &ending(Outcome::Completed))
}

const COMPLETED: Reply =
    Ok(Answer::Job(engine::Answer::Settled { status: Status::Completed, parent: None }));

/// A node caches the jobs that it leased, and must not rely on the cache after another node has
/// changed the job.
pub(crate) fn a_report_at_one_node_knows_what_happened_at_another(near: &ClusterFixture) {
    let [one, two] = near.pair();
    let fixture = &near.fixture;
    fixture.submit_many(4, "default");
    let claimed = fixture.claim(claim_request("w", "c", &["email"], 4));
    let [cancelled, beaten, settled, alone] = &claimed[..] else { panic!("four: {claimed:?}") };
    let ids = claimed.iter().map(|claimed| claimed.job.id()).collect::<Vec<_>>();
    command(&two, ids[0], Command::Cancel).expect("lawful");
    near.pass(MOMENT);
    command(&two, ids[1], beating(beaten)).expect("lawful");
    assert_eq!(command(&two, ids[2], completing(settled)), COMPLETED);
    let replies = reports(&one, vec![(ids[0], beating(cancelled)), (ids[3], completing(alone))]);
    let Ok(Answer::Job(engine::Answer::LeaseState(LeaseState::CancelRequested(_)))) = &replies[0]
    else {
        panic!("the other node was asked for it: {replies:?}")
    };
    assert_eq!(replies[1], COMPLETED);
    let rest = [(ids[1], completing(beaten)), (ids[2], completing(settled))];
    assert_eq!(reports(&one, rest.to_vec()), [COMPLETED, COMPLETED], "one of them again");
    for id in [ids[1], ids[2], ids[3]] {
        assert_eq!(fixture.status(id), Status::Completed);
        let history = fixture.history(id);
        assert!(history.iter().map(|entry| entry.seq).eq(1..=3), "{history:?}");
    }
}

pub(crate) fn a_lease_that_another_node_gave_counts_everywhere(near: &ClusterFixture) {
    let [one, two] = near.pair();
    let id = near.fixture.submit(email());
    let lost = near.fixture.take();
    near.pass(Duration::from_secs(3_600));
    for late in block_on(two.overdue(10)).unwrap() {
        command(&two, late.id, late.command).expect("lawful");
    }
    near.pass(Duration::from_secs(3_600)); // past every delay and deadline
    let claim =
        Request::Claim { scope: Scope::All, claim_request: claim_request("v", "d", &["email"], 1) };
    let Ok(Answer::Claimed(jobs)) =
        two.execute(vec![claim], Notification::default()).unwrap().remove(0)
    else {
        panic!("a claim is answered as one")
    };
    assert_eq!(command(&one, id, completing(&lost)), Err(Refusal::LeaseLost));
    assert_eq!(command(&one, id, completing(&jobs[0])), COMPLETED);
}

fn settings_version(store: &Arc<dyn Store>) -> u64 {
    block_on(store.settings_version()).expect("the store works")
}

/// How many live nodes have not confirmed this version.
fn unconfirmed(store: &Arc<dyn Store>, version: u64) -> usize {
    let nodes = block_on(store.unconfirmed_nodes(version)).expect("the store works");
    nodes.iter().filter(|node| node.live).count()
}

fn confirm(store: &Arc<dyn Store>, id: &str, version: u64) {
    block_on(store.confirm_settings(&info(id), version)).expect("the store works");
}

/// A change of each setting that nodes cache.
fn settings() -> Vec<Request> {
    vec![
        Request::set_policy(&job_type("email"), &Policy::default()),
        Request::Pause {
            scope: Scope::All,
            job_type: job_type("email"),
            note: engine::PauseNote::default(),
        },
        Request::Resume { scope: Scope::All, job_type: job_type("email") },
        Request::put_key(&key(1, Scope::All)),
        Request::put_signing_key(&SigningKey::new(
            Entropy(2),
            [Entropy(3), Entropy(4)],
            Timestamp::default(),
        )),
        recorded("key", Request::put_key(&key(1, Scope::All))),
    ]
}

pub(crate) fn everything_that_is_set_is_counted(near: &ClusterFixture) {
    let [one, two] = near.pair();
    for setting in settings() {
        let before = settings_version(&two);
        one.execute(vec![setting.clone()], Notification::default()).unwrap().remove(0).unwrap();
        assert!(settings_version(&two) > before, "{setting:?}");
    }
    let before = settings_version(&two);
    near.fixture.submit(email());
    near.fixture.complete(&near.fixture.take()).unwrap();
    let audit = Request::Audit(note(Scope::All, "job"));
    one.execute(vec![audit], Notification::default()).unwrap().remove(0).unwrap();
    assert_eq!(settings_version(&two), before, "jobs and notes set nothing");
}

pub(crate) fn a_node_confirms_what_it_acts_by(near: &ClusterFixture) {
    let [one, two] = near.pair();
    assert_eq!(unconfirmed(&one, 1), 0, "no node, no wait");
    heartbeat_node(&one, &info("one"));
    heartbeat_node(&two, &info("two"));
    assert_eq!((unconfirmed(&one, 0), unconfirmed(&one, 3)), (0, 2));
    confirm(&two, "two", 3);
    assert_eq!((unconfirmed(&one, 3), unconfirmed(&one, 4)), (1, 2));
    heartbeat_node(&two, &info("two"));
    confirm(&two, "two", 2);
    assert_eq!(unconfirmed(&one, 3), 1, "what was confirmed stays so");
    confirm(&one, "one", 4);
    assert_eq!((unconfirmed(&two, 3), unconfirmed(&two, 4)), (0, 1));
    let three = (near.another)();
    confirm(&three, "three", 3);
    assert_eq!(unconfirmed(&two, 4), 2, "what confirms is a node");
}

pub(crate) fn silent_nodes_are_not_waited_for(near: &ClusterFixture) {
    let [one, two] = near.pair();
    heartbeat_node(&one, &info("one"));
    heartbeat_node(&two, &info("two"));
    near.pass(NODE_LOST_AFTER - MOMENT);
    assert_eq!(unconfirmed(&one, 1), 2);
    confirm(&one, "one", 0);
    near.pass(MOMENT);
    assert_eq!(unconfirmed(&one, 1), 1, "a confirmation is a sign of life");
    let mut nodes = block_on(one.unconfirmed_nodes(1)).unwrap();
    nodes.sort_by(|a, b| a.id.cmp(&b.id));
    let named = |id: &str, live| UnconfirmedNode { id: id.into(), live };
    assert_eq!(nodes, [named("one", true), named("two", false)], "the silent one is named");
    confirm(&two, "two", 1);
    assert_eq!(block_on(one.unconfirmed_nodes(1)).unwrap(), [named("one", true)]);
}
