//! A proxy between a client and PostgreSQL that breaks connections when a test says so.
//!
//! Between a COMMIT and its answer, a client cannot know whether it committed. That moment is a
//! fraction of a millisecond long and hardly ever occurs in a test; the proxy makes it occur.

mod accept_loop;
mod connection;
mod message;
mod plan;

pub use plan::When;

use crate::Server;
use accept_loop::ProxyCommand;
use plan::Plan;
use std::{
    net::{Ipv4Addr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
};
use tokio::sync::{mpsc::UnboundedSender, watch};

/// A proxy that understands PostgreSQL's messages just enough to cut a connection at the worst
/// moment.
///
/// It cannot read encrypted messages, so it refuses TLS. It detects COMMITs in the simple and in
/// the extended protocol, and counts a statement that writes outside a transaction as one. It runs
/// on a thread of its own, and ends when dropped.
pub struct ChaosProxy {
    port: u16,
    shared: Arc<Shared>,
    commands: Option<UnboundedSender<ProxyCommand>>,
    thread: Option<JoinHandle<()>>,
}

/// What a proxy has counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that clients made.
    pub connections: usize,
    /// COMMITs that the server executed, whether or not the client got the answer.
    pub commits: usize,
    /// Connections cut after the server executed a COMMIT, before the client got the answer.
    pub replies_lost: usize,
    /// Connections cut before the server received the client's COMMIT.
    pub commits_lost: usize,
    /// Connections cut by [`ChaosProxy::cut_all`].
    pub cut: usize,
    /// Messages delayed by [`ChaosProxy::pause`].
    pub delayed: usize,
}

impl ChaosProxy {
    /// Starts a proxy in front of `server`, which forwards everything until a test changes that.
    pub fn before(server: &Server) -> ChaosProxy {
        ChaosProxy::before_port(server.port())
    }

    /// Starts a proxy in front of any server that speaks PostgreSQL's protocol on a port of
    /// 127.0.0.1.
    pub fn before_port(server: u16) -> ChaosProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared::new(server));
        let (commands, command_receiver) = tokio::sync::mpsc::unbounded_channel();
        let run = {
            let shared = Arc::clone(&shared);
            move || accept_loop::run(listener, shared, command_receiver)
        };
        let thread = thread::Builder::new().name("chaos-proxy".to_owned()).spawn(run);
        let thread = Some(thread.expect("a thread starts"));
        ChaosProxy { port, shared, commands: Some(commands), thread }
    }

    /// The address of the server through this proxy.
    pub fn address(&self) -> String {
        format!("postgres://consign@127.0.0.1:{}/consign", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts connections after the server executed a COMMIT and before the client gets the answer.
    pub fn lose_replies(&self, when: When) {
        self.shared.plans().replies = Plan::new(when);
    }

    /// Cuts connections when the client sends COMMIT, before the server receives it.
    pub fn lose_commits(&self, when: When) {
        self.shared.plans().commits = Plan::new(when);
    }

    /// Cuts all connections, and returns how many there were. They are closed when this returns;
    /// new ones are accepted.
    pub fn cut_all(&self) -> usize {
        let (answer_sender, answer_receiver) = mpsc::channel();
        let commands = self.commands.as_ref().expect("only drop takes it");
        commands.send(ProxyCommand::CutAll(answer_sender)).expect("the thread listens");
        answer_receiver.recv().expect("the thread answers")
    }

    /// Delays all messages in both directions until [`resume`](ChaosProxy::resume). Nothing is
    /// lost.
    pub fn pause(&self) {
        self.shared.paused.send_replace(true);
    }

    /// Forwards the delayed messages, and everything after them.
    pub fn resume(&self) {
        self.shared.paused.send_replace(false);
    }

    /// What has happened so far. An event is counted before a client can notice it.
    pub fn counts(&self) -> Counts {
        *self.shared.counts()
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        // Dropping the sender ends the thread and its connections.
        self.commands = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || !matches!(ended, Some(Err(_))), "the proxy panicked");
    }
}

/// What the test and the proxy's thread share.
struct Shared {
    server: u16,
    plans: Mutex<Plans>,
    counts: Mutex<Counts>,
    paused: watch::Sender<bool>,
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
            paused: watch::Sender::new(false),
        }
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
