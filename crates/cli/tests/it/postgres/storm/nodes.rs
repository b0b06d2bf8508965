//! Three nodes of one database, whose clocks are twenty minutes apart.

use super::clocks::Watch;
use crate::serve::{Client, House, storm::checker::time, wait_for, wait_until};
use engine::Timestamp;
use platform::SystemClock;
use rustix::process::Signal;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard};
use store::Clock;

pub(super) const NODES: usize = 3;
const WATCHES: [Watch; NODES] = [Watch::Right, Watch::Fast, Watch::Slow];

/// A node that was started again.
pub(super) struct Launched {
    number: usize,
    /// By the true time, which the database has.
    since: Timestamp,
}

pub(super) struct Nodes {
    clock: SystemClock,
    houses: [House; NODES],
    doors: [Client; NODES],
    /// What each calls itself, until it is started again.
    ids: Mutex<Vec<String>>,
}

impl Nodes {
    /// Starts them one after another, so that each is known by the name that is new.
    pub(super) fn start(addresses: [&str; NODES], settings: &str) -> Self {
        let mut places = addresses.into_iter().zip(WATCHES);
        let houses = [(); NODES].map(|()| {
            let (address, watch) = places.next().expect("as many as there are nodes");
            let house = House::launched_in(watch.variables(), address, settings);
            house.wait_until_ready();
            house
        });
        let key = houses[0].admin_key().to_owned();
        let doors = houses.each_ref().map(|house| house.stranger().with_key(&key));
        let (clock, ids) = (SystemClock::new(), Mutex::new(Vec::new()));
        let nodes = Nodes { clock, houses, doors, ids };
        wait_until("all nodes are seen", || nodes.seen_at(0).len() == NODES);
        nodes.tell_apart();
        nodes
    }

    /// By their clocks: each says by its own when it began.
    fn tell_apart(&self) {
        let (seen, now) = (self.seen_at(0), self.clock.read().wall);
        *self.ids() = WATCHES
            .map(|watch| {
                let shows = |node: &&Value| watch.is_shown(time(&node["startedAt"]), now);
                let shown: Vec<&Value> = seen.iter().filter(shows).collect();
                let [node] = &shown[..] else { panic!("{watch:?}: {seen:#?}") };
                id(node)
            })
            .to_vec();
    }

    pub(super) fn door(&self, number: usize) -> &Client {
        &self.doors[number]
    }

    pub(super) fn doors(&self) -> Vec<Client> {
        self.doors.to_vec()
    }

    pub(super) fn key(&self) -> &str {
        self.houses[0].admin_key()
    }

    /// `kill -9`.
    pub(super) fn kill(&self, number: usize) {
        self.houses[number].kill();
    }

    /// Starts one that was killed; it may be killed again before it is ready.
    pub(super) fn launch(&self, number: usize) -> Launched {
        let since = self.clock.read().wall;
        self.houses[number].launch_in_place();
        Launched { number, since }
    }

    /// Waits until one that was launched serves, and learns its new name. Whoever was killed in the midst of its start
    /// may have been seen, too, but not since.
    pub(super) fn greet(&self, Launched { number, since }: Launched) {
        self.houses[number].wait_until_ready();
        let new = wait_for("the node is seen", || {
            let ids = self.ids();
            let mut seen = self.seen_at(number).into_iter();
            let new = |node: &Value| time(&node["lastSeenAt"]) > since && !ids.contains(&id(node));
            seen.find(new).map(|node| id(&node))
        });
        self.ids()[number] = new;
    }

    pub(super) fn pause(&self, number: usize) {
        self.houses[number].send(Signal::STOP);
    }

    pub(super) fn go_on(&self, number: usize) {
        self.houses[number].send(Signal::CONT);
    }

    /// Who leads, as this node has heard; nobody where it cannot be asked.
    pub(super) fn leader_at(&self, number: usize) -> Option<usize> {
        let leader = self.seen_at(number).into_iter().find(|node| node["leader"] == true)?;
        self.ids().iter().position(|known| *known == id(&leader))
    }

    fn seen_at(&self, number: usize) -> Vec<Value> {
        let asked = self.doors[number].get("/api/nodes").try_send();
        let seen = asked.ok().filter(|answer| answer.status == 200);
        seen.map(|answer| answer.json()["items"].as_array().unwrap().clone()).unwrap_or_default()
    }

    fn ids(&self) -> MutexGuard<'_, Vec<String>> {
        self.ids.lock().unwrap()
    }

    /// Whether nothing waits and nothing runs.
    pub(super) fn are_idle(&self) -> bool {
        let asked = self.doors[0].get("/api/queues").try_send();
        let Some(answer) = asked.ok().filter(|answer| answer.status == 200) else { return false };
        let queues = answer.json();
        let mut queues = queues["items"].as_array().unwrap().iter();
        queues.all(|queue| queue["queued"] == 0 && queue["running"] == 0)
    }

    /// None of them has ended by itself.
    pub(super) fn all_live(&self) -> bool {
        self.houses.iter().all(|house| !house.has_ended())
    }
}

fn id(node: &Value) -> String {
    node["nodeId"].as_str().unwrap().into()
}
