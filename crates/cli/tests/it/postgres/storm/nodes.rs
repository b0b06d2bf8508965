//! Three nodes of one database, whose clocks are twenty minutes apart.

use super::clocks::NodeClock;
use crate::serve::{Client, TestServer, storm::checker::time, wait_for, wait_until};
use engine::Timestamp;
use platform::SystemClock;
use rustix::process::Signal;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard};
use store::Clock;

pub(super) const NODES: usize = 3;
const NODE_CLOCKS: [NodeClock; NODES] = [NodeClock::Right, NodeClock::Fast, NodeClock::Slow];

/// A node that was restarted.
pub(super) struct RestartedNode {
    number: usize,
    /// By the true time, which the database has.
    since: Timestamp,
}

pub(super) struct Nodes {
    clock: SystemClock,
    test_servers: [TestServer; NODES],
    clients: [Client; NODES],
    /// The id of each node, until its next restart.
    ids: Mutex<Vec<String>>,
}

impl Nodes {
    /// Starts the nodes one after another, so that each new id belongs to the new node.
    pub(super) fn start(addresses: [&str; NODES], settings: &str) -> Self {
        let mut addresses_and_clocks = addresses.into_iter().zip(NODE_CLOCKS);
        let test_servers = [(); NODES].map(|()| {
            let (address, node_clock) =
                addresses_and_clocks.next().expect("as many as there are nodes");
            let test_server = TestServer::launched_in(node_clock.variables(), address, settings);
            test_server.wait_until_ready();
            test_server
        });
        let key = test_servers[0].admin_key().to_owned();
        let clients =
            test_servers.each_ref().map(|test_server| test_server.anonymous().with_key(&key));
        let (clock, ids) = (SystemClock::new(), Mutex::new(Vec::new()));
        let nodes = Nodes { clock, test_servers, clients, ids };
        wait_until("all nodes are seen", || nodes.nodes_listed_at(0).len() == NODES);
        nodes.tell_apart();
        nodes
    }

    /// Tells nodes apart by their clocks: each reports its start by its own.
    fn tell_apart(&self) {
        let (seen, now) = (self.nodes_listed_at(0), self.clock.read().wall);
        *self.ids() = NODE_CLOCKS
            .map(|node_clock| {
                let shows = |node: &&Value| node_clock.is_shown(time(&node["startedAt"]), now);
                let shown: Vec<&Value> = seen.iter().filter(shows).collect();
                let [node] = &shown[..] else { panic!("{node_clock:?}: {seen:#?}") };
                id(node)
            })
            .to_vec();
    }

    pub(super) fn node_client(&self, number: usize) -> &Client {
        &self.clients[number]
    }

    pub(super) fn clients(&self) -> Vec<Client> {
        self.clients.to_vec()
    }

    pub(super) fn key(&self) -> &str {
        self.test_servers[0].admin_key()
    }

    /// `kill -9`.
    pub(super) fn kill(&self, number: usize) {
        self.test_servers[number].kill();
    }

    /// Restarts a killed node; the test may kill it again before it is ready.
    pub(super) fn launch(&self, number: usize) -> RestartedNode {
        let since = self.clock.read().wall;
        self.test_servers[number].launch_in_place();
        RestartedNode { number, since }
    }

    /// Waits until a restarted node serves, and learns its new id. A node that was killed during
    /// its start may be listed, too, but has sent no heartbeat since.
    pub(super) fn wait_until_seen(&self, RestartedNode { number, since }: RestartedNode) {
        self.test_servers[number].wait_until_ready();
        let new = wait_for("the node is seen", || {
            let ids = self.ids();
            let mut seen = self.nodes_listed_at(number).into_iter();
            let new = |node: &Value| time(&node["lastSeenAt"]) > since && !ids.contains(&id(node));
            seen.find(new).map(|node| id(&node))
        });
        self.ids()[number] = new;
    }

    pub(super) fn pause(&self, number: usize) {
        self.test_servers[number].send(Signal::STOP);
    }

    pub(super) fn resume(&self, number: usize) {
        self.test_servers[number].send(Signal::CONT);
    }

    /// The leader, as this node knows it; `None` where the node does not answer.
    pub(super) fn leader_at(&self, number: usize) -> Option<usize> {
        let leader =
            self.nodes_listed_at(number).into_iter().find(|node| node["leader"] == true)?;
        self.ids().iter().position(|listed| *listed == id(&leader))
    }

    fn nodes_listed_at(&self, number: usize) -> Vec<Value> {
        let answer = self.clients[number].get("/api/nodes").try_send();
        let seen = answer.ok().filter(|answer| answer.status == 200);
        seen.map(|answer| answer.json()["items"].as_array().unwrap().clone()).unwrap_or_default()
    }

    fn ids(&self) -> MutexGuard<'_, Vec<String>> {
        self.ids.lock().unwrap()
    }

    /// Whether no job waits and none runs.
    pub(super) fn are_idle(&self) -> bool {
        let answer = self.clients[0].get("/api/queues").try_send();
        let Some(answer) = answer.ok().filter(|answer| answer.status == 200) else { return false };
        let queues = answer.json();
        let mut queues = queues["items"].as_array().unwrap().iter();
        queues.all(|queue| queue["queued"] == 0 && queue["running"] == 0)
    }

    /// No node has ended by itself.
    pub(super) fn all_live(&self) -> bool {
        self.test_servers.iter().all(|test_server| !test_server.has_ended())
    }
}

fn id(node: &Value) -> String {
    node["nodeId"].as_str().unwrap().into()
}
