//! A line between a client and PostgreSQL that breaks when a test says so.
//!
//! Between a COMMIT and its answer lies the one moment in which a client cannot know what happened.
//! It is a fraction of a millisecond long and never comes by itself in a test; here it comes on demand.

mod line;
mod message;
mod plan;
mod switchboard;

pub use plan::When;

use crate::Server;
use plan::Plan;
use std::{
    net::{Ipv4Addr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
};
use switchboard::Order;
use tokio::sync::{mpsc::UnboundedSender, watch};

/// A proxy that understands PostgreSQL's messages just enough to cut a connection at the worst moment.
///
/// It cannot read what is encrypted, so it tells clients that there is no TLS. It looks for COMMITs, in
/// the simple and in the extended protocol, and takes a statement that writes outside a transaction for one.
/// It has a thread of its own, and ends with this value.
pub struct ChaosProxy {
    port: u16,
    shared: Arc<Shared>,
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// What a proxy has seen and done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that clients made.
    pub connections: usize,
    /// COMMITs that the server has carried out, whether or not the client heard of it.
    pub commits: usize,
    /// Connections cut after the server had carried out a COMMIT, before the client heard of it.
    pub replies_lost: usize,
    /// Connections cut before the server heard of the client's COMMIT.
    pub commits_lost: usize,
    /// Connections cut by [`ChaosProxy::cut_all`].
    pub cut: usize,
    /// Messages that had to wait because of [`ChaosProxy::hold`].
    pub held: usize,
}

impl ChaosProxy {
    /// Starts a proxy before `server`, which changes nothing until it is told to.
    pub fn before(server: &Server) -> ChaosProxy {
        ChaosProxy::before_port(server.port())
    }

    /// Starts a proxy before whatever speaks as PostgreSQL does on a port of 127.0.0.1.
    pub fn before_port(server: u16) -> ChaosProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared::new(server));
        let (orders, received) = tokio::sync::mpsc::unbounded_channel();
        let run = {
            let shared = Arc::clone(&shared);
            move || switchboard::run(listener, shared, received)
        };
        let thread = thread::Builder::new().name("chaos-proxy".to_owned()).spawn(run);
        let thread = Some(thread.expect("a thread starts"));
        ChaosProxy { port, shared, orders: Some(orders), thread }
    }

    /// Where a user finds the server through this proxy.
    pub fn address(&self) -> String {
        format!("postgres://consign@127.0.0.1:{}/consign", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts connections after the server has carried out a COMMIT and before the client hears of it.
    pub fn lose_replies(&self, when: When) {
        self.shared.plans().replies = Plan::new(when);
    }

    /// Cuts connections when the client says COMMIT, before the server hears of it.
    pub fn lose_commits(&self, when: When) {
        self.shared.plans().commits = Plan::new(when);
    }

    /// Cuts all connections, and says how many there were. They are cut when this returns; new ones
    /// are welcome.
    pub fn cut_all(&self) -> usize {
        let (answer, answered) = mpsc::channel();
        let orders = self.orders.as_ref().expect("they end when this is dropped");
        orders.send(Order::CutAll(answer)).expect("the thread listens");
        answered.recv().expect("the thread answers")
    }

    /// Lets nothing pass in either direction until [`go_on`](ChaosProxy::go_on). Nothing is lost.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    /// Lets pass what was held, and everything after it.
    pub fn go_on(&self) {
        self.shared.held.send_replace(false);
    }

    /// What has happened so far. What a client can notice is counted before it can.
    pub fn counts(&self) -> Counts {
        *self.shared.counts()
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        // Without anybody to give orders the thread ends, and its connections with it.
        self.orders = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || !matches!(ended, Some(Err(_))), "the proxy panicked");
    }
}

/// What the test and the proxy's thread both know.
struct Shared {
    server: u16,
    plans: Mutex<Plans>,
    counts: Mutex<Counts>,
    held: watch::Sender<bool>,
}

struct Plans {
    replies: Plan,
    commits: Plan,
}

impl Shared {
    fn new(server: u16) -> Shared {
        let plans = Plans { replies: Plan::new(When::Never), commits: Plan::new(When::Never) };
        Shared {
            server,
            plans: Mutex::new(plans),
            counts: Mutex::default(),
            held: watch::Sender::new(false),
        }
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
