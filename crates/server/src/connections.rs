//! The open connections of a listener: their number, their clients' addresses, and which one is
//! closed when a new connection comes at the limit.
//!
//! A connection without a credential costs its client nothing. So a connection that serves no
//! recognised caller yields: at the limit, the oldest of them is closed for the new one, even while
//! an answer is being sent to it. A request of a recognised caller is never cut off for another.

mod bounded_stream;

pub(crate) use bounded_stream::{BoundedStream, HangUp};

use crate::settings::{AddressShare, Limits};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use store::Clock;
use tokio::{sync::Notify, time::timeout};

pub(crate) struct Connections {
    connections_max: usize,
    shares: Shares,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Notified when a connection has closed.
    freed: Notify,
}

/// The number of connections that one address may have.
#[derive(Clone)]
pub(crate) struct Shares {
    share: AddressShare,
    trusted_proxies: outbound::AddressList,
}

#[derive(Default)]
struct State {
    open: usize,
    next_id: u64,
    by_address: HashMap<IpAddr, HashMap<u64, Arc<Connection>>>,
    /// The connections that had been idle for longest at the last scan, the oldest of them last.
    candidates: Vec<(u64, Arc<Connection>)>,
}

/// The number of candidates kept from one scan. Without them, every accepted connection would cost
/// a scan of all connections at the limit.
const CANDIDATES_MAX: usize = 64;

/// How long the accept loop waits for the end of a connection before it looks for an idle one
/// again.
const SCAN_INTERVAL: Duration = Duration::from_millis(50);

/// The address already has its share of connections.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShareExceeded;

impl Shares {
    pub(crate) fn new(limits: &Limits, trusted_proxies: &outbound::AddressList) -> Self {
        Shares { share: limits.connections_per_address, trusted_proxies: trusted_proxies.clone() }
    }

    pub(crate) fn unlimited() -> Self {
        let trusted_proxies = outbound::AddressList::default();
        Shares { share: AddressShare::Unlimited, trusted_proxies }
    }

    /// The share of this peer. A trusted proxy has none, because it stands for all its clients.
    fn of(&self, peer: IpAddr) -> Option<usize> {
        let share = match self.share {
            AddressShare::Unlimited => None,
            AddressShare::Remote(share) => {
                Some(share).filter(|_| !peer.to_canonical().is_loopback())
            }
            AddressShare::All(share) => Some(share),
        };
        share.filter(|_| !self.trusted_proxies.contains(peer))
    }
}

impl Connections {
    pub(crate) fn new(connections_max: usize, shares: Shares, clock: Arc<dyn Clock>) -> Arc<Self> {
        let (state, freed) = (Mutex::default(), Notify::new());
        Arc::new(Connections { connections_max, shares, clock, state, freed })
    }

    /// Admits a connection of `peer` as soon as the limit allows it. Only one accept loop calls
    /// this.
    pub(crate) async fn admit(self: &Arc<Self>, peer: IpAddr) -> Result<Admitted, ShareExceeded> {
        let address = counted_address(peer);
        if let Some(share) = self.shares.of(peer) {
            self.state().close_idle_of(address, share)?;
        }
        loop {
            {
                let mut state = self.state();
                if state.open < self.connections_max {
                    return Ok(self.add(&mut state, address));
                }
                state.close_oldest_idle();
            }
            // Every connection is serving a request, so the new one waits until one of them ends.
            drop(timeout(SCAN_INTERVAL, self.freed.notified()).await);
        }
    }

    fn add(self: &Arc<Self>, state: &mut State, address: IpAddr) -> Admitted {
        let id = state.next_id;
        state.next_id += 1;
        state.open += 1;
        let phase = AtomicU64::new(self.now_ms());
        let connection = Arc::new(Connection {
            phase,
            close_requested: Notify::new(),
            leasing: AtomicBool::new(false),
        });
        state.by_address.entry(address).or_default().insert(id, connection.clone());
        Admitted { connections: self.clone(), connection, address, id }
    }

    fn now_ms(&self) -> u64 {
        let now = u64::try_from(self.clock.read().monotonic.as_millis()).unwrap_or(SINCE_MAX);
        now.min(SINCE_MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the lock of the connections")
    }
}

/// The address that a share counts: an IPv6 host has a whole /64 network, so that network counts.
fn counted_address(peer: IpAddr) -> IpAddr {
    const NETWORK: u128 = u128::MAX << 64;
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
    }
}

impl State {
    /// Where `address` has used up its share, its oldest idle connection yields.
    fn close_idle_of(&self, address: IpAddr, share: usize) -> Result<(), ShareExceeded> {
        let Some(own) = self.by_address.get(&address).filter(|own| own.len() >= share) else {
            return Ok(());
        };
        let oldest = || {
            let idle = own.values().filter_map(|one| Some((one.idle_since()?, one)));
            idle.min_by_key(|(since, _)| *since)
        };
        // A connection that becomes busy in between is passed over, and the next one is tried.
        while let Some((since, one)) = oldest() {
            if one.close_if_idle_since(since) {
                return Ok(());
            }
        }
        Err(ShareExceeded)
    }

    /// Closes the connection that has been idle for longest, if any is idle.
    fn close_oldest_idle(&mut self) {
        if !self.close_candidate() {
            self.scan_for_candidates();
            self.close_candidate();
        }
    }

    fn close_candidate(&mut self) -> bool {
        while let Some((since, connection)) = self.candidates.pop() {
            if connection.close_if_idle_since(since) {
                return true;
            }
        }
        false
    }

    fn scan_for_candidates(&mut self) {
        let all = self.by_address.values().flat_map(HashMap::values);
        let mut idle: Vec<(u64, Arc<Connection>)> =
            all.filter_map(|one| Some((one.idle_since()?, one.clone()))).collect();
        if idle.len() > CANDIDATES_MAX {
            idle.select_nth_unstable_by_key(CANDIDATES_MAX, |(since, _)| *since);
            idle.truncate(CANDIDATES_MAX);
        }
        idle.sort_unstable_by_key(|(since, _)| std::cmp::Reverse(*since));
        self.candidates = idle;
    }
}

/// A connection that counts towards the limit. Drop ends that.
pub(crate) struct Admitted {
    connections: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
    address: IpAddr,
    id: u64,
}

impl Admitted {
    /// Waits until this connection must close in favour of another.
    pub(crate) async fn close_requested(&self) {
        self.connection.close_requested.notified().await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.open -= 1;
        if let Some(own) = state.by_address.get_mut(&self.address) {
            own.remove(&self.id);
            if own.is_empty() {
                state.by_address.remove(&self.address);
            }
        }
        drop(state);
        self.connections.freed.notify_one();
    }
}

/// One connection, shared by the accept loop and the connection's own task.
pub(crate) struct Connection {
    /// Milliseconds since when the connection is idle (no request, an unfinished head, or a request
    /// without a recognised caller), or one of the constants below.
    phase: AtomicU64,
    close_requested: Notify,
    /// Whether the answer may carry leases, which a client that has hung up must not get.
    leasing: AtomicBool,
}

/// The connection serves a request of a recognised caller.
const BUSY: u64 = u64::MAX;
/// The answer has ended, but is not yet fully written.
const FLUSHING: u64 = u64::MAX - 1;
/// The connection yields to another.
const CLOSING: u64 = u64::MAX - 2;
const SINCE_MAX: u64 = u64::MAX - 3;

impl Connection {
    /// A request begins. `None` means that the connection is being closed, and the request gets no
    /// answer.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Serving> {
        (self.phase.load(Ordering::Acquire) != CLOSING).then(|| Serving(self.clone()))
    }

    /// The caller is recognised, so the connection does not yield until the answer is written.
    /// `false` means that the connection is already being closed: then nothing may be done for the
    /// request.
    pub(crate) fn protect(&self) -> bool {
        let busy = |phase: u64| (phase != CLOSING).then_some(BUSY);
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, busy).is_ok()
    }

    /// Marks the request as one that may bring leases. Then the connection checks for a hang-up
    /// before it sends them. Other requests are spared that system call.
    pub(crate) fn begin_leasing(&self) {
        self.leasing.store(true, Ordering::Release);
    }

    fn is_leasing(&self) -> bool {
        self.leasing.load(Ordering::Acquire)
    }

    fn is_protected(&self) -> bool {
        self.phase.load(Ordering::Acquire) > SINCE_MAX
    }

    fn idle_since(&self) -> Option<u64> {
        Some(self.phase.load(Ordering::Acquire)).filter(|phase| *phase <= SINCE_MAX)
    }

    /// Decides the race between a new request and the end of the connection: exactly one wins.
    fn close_if_idle_since(&self, since: u64) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let won = self.phase.compare_exchange(since, CLOSING, order.0, order.1).is_ok();
        if won {
            self.close_requested.notify_one();
        }
        won
    }

    /// Everything that was answered has been written.
    fn flushed(&self, now_ms: impl FnOnce() -> u64) {
        if self.phase.load(Ordering::Acquire) == FLUSHING {
            let order = (Ordering::AcqRel, Ordering::Acquire);
            // If this fails, a new request has made the connection busy again.
            let _lost = self.phase.compare_exchange(FLUSHING, now_ms(), order.0, order.1);
        }
    }
}

/// A request that is being served. Drop marks the end of its answer.
pub(crate) struct Serving(Arc<Connection>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.leasing.store(false, Ordering::Release);
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let _only = self.0.phase.compare_exchange(BUSY, FLUSHING, order.0, order.1);
    }
}

/// The body of an answer. Its request counts as being served for as long as the body exists.
pub(crate) struct ServedBody {
    body: axum::body::Body,
    _serving: Serving,
}

impl ServedBody {
    pub(crate) fn new(body: axum::body::Body, serving: Serving) -> Self {
        ServedBody { body, _serving: serving }
    }
}

impl Body for ServedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::io;
    use store::Reading;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::sleep,
    };

    /// A clock that moves by a millisecond at each read, so that every age differs.
    #[derive(Default)]
    struct TickingClock(AtomicU64);

    impl Clock for TickingClock {
        fn read(&self) -> Reading {
            let ms = self.0.fetch_add(1, Ordering::Relaxed);
            Reading { wall: Default::default(), monotonic: Duration::from_millis(ms) }
        }
    }

    fn connections(max: usize, share: AddressShare) -> Arc<Connections> {
        let trusted_proxies = outbound::AddressList::parse(&["10.0.0.0/8"]).unwrap();
        let shares = Shares { share, trusted_proxies };
        Connections::new(max, shares, Arc::new(TickingClock::default()))
    }

    async fn admit(to: &Arc<Connections>, peer: &str) -> Result<Admitted, ShareExceeded> {
        to.admit(peer.parse().unwrap()).await
    }

    /// An in-process pipe reports its end by itself.
    impl HangUp for tokio::io::DuplexStream {
        fn has_hung_up(&self) -> bool {
            false
        }
    }

    /// The runtime does not poll its driver in between, as on an overloaded machine.
    #[tokio::test]
    async fn a_client_that_hung_up_is_noticed_where_leases_may_be_sent() {
        let (client, server) = tokio::net::UnixStream::pair().unwrap();
        let all = connections(1, AddressShare::Unlimited);
        let admitted = admit(&all, "192.0.2.1").await.unwrap();
        let serving = begin_recognised(&admitted).unwrap();
        let mut stream = BoundedStream::new(server, &admitted, ANSWER_TIMEOUT, ANSWER_TIMEOUT);
        drop(client);
        let buffer = &mut [0; 1];
        assert!(stream.read(buffer).now_or_never().is_none(), "the runtime does not know yet");
        admitted.connection.begin_leasing();
        assert_eq!(stream.read(buffer).now_or_never().unwrap().unwrap(), 0);
        drop(serving);
        assert!(!admitted.connection.is_leasing());
    }

    const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

    fn begin_recognised(admitted: &Admitted) -> Option<Serving> {
        let serving = admitted.connection.begin()?;
        admitted.connection.protect().then_some(serving)
    }

    fn is_closing(admitted: &Admitted) -> bool {
        admitted.connection.phase.load(Ordering::Acquire) == CLOSING
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_idle_connection_yields_and_one_that_is_served_does_not() {
        let all = connections(3, AddressShare::Unlimited);
        let served = admit(&all, "192.0.2.1").await.unwrap();
        let serving = begin_recognised(&served).unwrap();
        let oldest = admit(&all, "192.0.2.2").await.unwrap();
        let younger = admit(&all, "192.0.2.3").await.unwrap();
        let leaves = async {
            oldest.close_requested().await;
            drop(oldest);
        };
        let (new, ()) = tokio::join!(admit(&all, "192.0.2.4"), leaves);
        assert!(new.is_ok() && !is_closing(&served) && !is_closing(&younger));
        // An answered connection does not yield until the answer is written. Then it is as old as
        // its last answer.
        drop(serving);
        assert_eq!(served.connection.idle_since(), None);
        let mut stream =
            BoundedStream::new(tokio::io::sink(), &served, Duration::from_secs(1), ANSWER_TIMEOUT);
        stream.flush().await.unwrap();
        let (new, since) = (new.unwrap(), served.connection.idle_since().unwrap());
        assert!(since > new.connection.idle_since().unwrap());
    }

    /// A request costs its client nothing until its credential is recognised.
    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_recognised_caller_yields_also_while_it_is_answered() {
        let all = connections(1, AddressShare::Unlimited);
        let stranger = admit(&all, "192.0.2.1").await.unwrap();
        let serving = stranger.connection.begin().unwrap();
        let leaves = async {
            stranger.close_requested().await;
            drop((serving, stranger));
        };
        let (new, ()) = tokio::join!(admit(&all, "192.0.2.2"), leaves);
        // After a request of a recognised caller, an unrecognised request does not keep the place
        // either.
        let new = new.unwrap();
        drop(begin_recognised(&new).unwrap());
        let mut stream =
            BoundedStream::new(tokio::io::sink(), &new, Duration::from_secs(1), ANSWER_TIMEOUT);
        stream.flush().await.unwrap();
        let _answered = new.connection.begin().unwrap();
        assert!(new.connection.idle_since().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn only_unrecognised_callers_have_a_response_deadline() {
        for recognised in [false, true] {
            let all = connections(1, AddressShare::Unlimited);
            let admitted = admit(&all, "192.0.2.1").await.unwrap();
            let _serving = admitted.connection.begin().unwrap();
            assert!(!recognised || admitted.connection.protect());
            let (mut client, server) = duplex(1);
            let mut server =
                BoundedStream::new(server, &admitted, Duration::from_secs(1), ANSWER_TIMEOUT);
            // One byte a second: a bound on each write alone would let this answer last for ever.
            let reading = tokio::spawn(async move {
                while client.read(&mut [0; 1]).await.is_ok_and(|bytes| bytes > 0) {
                    sleep(Duration::from_secs(1)).await;
                }
            });
            let written = server.write_all(&[1; 100]).await;
            assert_eq!(written.is_ok(), recognised, "{written:?}");
            reading.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_waits_while_all_others_are_busy() {
        let all = connections(1, AddressShare::Unlimited);
        let served = admit(&all, "192.0.2.1").await.unwrap();
        let serving = begin_recognised(&served).unwrap();
        assert!(timeout(Duration::from_secs(60), admit(&all, "192.0.2.2")).await.is_err());
        drop((serving, served));
        assert!(admit(&all, "192.0.2.2").await.is_ok());
    }

    #[tokio::test]
    async fn a_cut_connection_serves_no_request() {
        let all = connections(1, AddressShare::Unlimited);
        let admitted = admit(&all, "192.0.2.1").await.unwrap();
        let since = admitted.connection.idle_since().unwrap();
        assert!(admitted.connection.close_if_idle_since(since));
        assert!(admitted.connection.begin().is_none() && !admitted.connection.protect());
        admitted.close_requested().await;
    }

    #[tokio::test]
    async fn an_address_has_its_share_and_a_network_of_version_6_is_one_address() {
        for (peer, other) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8:0:1::1")] {
            let all = connections(100, AddressShare::All(2));
            let held: Vec<_> = [admit(&all, peer).await, admit(&all, peer).await]
                .into_iter()
                .map(|admitted| admitted.ok().unwrap())
                .map(|admitted| (begin_recognised(&admitted).unwrap(), admitted))
                .collect();
            assert!(admit(&all, peer).await.is_err());
            let neighbour = peer.replace("::1", "::ffff:2");
            assert!(admit(&all, &neighbour).await.is_err(), "{neighbour}");
            assert!(admit(&all, other).await.is_ok());
            drop(held);
            assert!(admit(&all, peer).await.is_ok());
            assert_eq!(all.state().by_address.len(), 0, "nothing is remembered of who is gone");
        }
        for (share, peer, limited) in [
            (AddressShare::All(1), "10.1.2.3", false), // a trusted proxy
            (AddressShare::All(1), "127.0.0.1", true),
            (AddressShare::Remote(1), "127.0.0.1", false),
            (AddressShare::Remote(1), "::ffff:127.0.0.1", false),
            (AddressShare::Remote(1), "192.0.2.1", true),
        ] {
            let all = connections(100, share);
            let first = admit(&all, peer).await.unwrap();
            let serving = begin_recognised(&first);
            assert_eq!(admit(&all, peer).await.is_err(), limited, "{share:?} {peer}");
            drop(serving);
        }
    }

    #[tokio::test]
    async fn an_idle_connection_yields_to_another_of_its_address() {
        let all = connections(100, AddressShare::All(2));
        let oldest = admit(&all, "192.0.2.1").await.unwrap();
        let younger = admit(&all, "192.0.2.1").await.unwrap();
        let newest = admit(&all, "192.0.2.1").await.unwrap();
        assert_eq!([&oldest, &younger, &newest].map(is_closing), [true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_byte_that_does_not_come_ends_the_stream() {
        let all = connections(100, AddressShare::Unlimited);
        let admitted = admit(&all, "192.0.2.1").await.unwrap();
        let (mut client, server) = duplex(16);
        let mut server =
            BoundedStream::new(server, &admitted, Duration::from_secs(5), ANSWER_TIMEOUT);
        let error = server.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let (mut client_2, server) = duplex(16);
        let mut server =
            BoundedStream::new(server, &admitted, Duration::from_secs(5), ANSWER_TIMEOUT);
        client_2.write_all(b"x").await.unwrap();
        server.read_exact(&mut [0; 1]).await.unwrap();
        let silent = timeout(Duration::from_secs(60), server.read(&mut [0; 1])).await;
        assert!(silent.is_err(), "only the first byte is waited for");
        client.shutdown().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off_and_one_that_does_is_not() {
        let all = connections(100, AddressShare::Unlimited);
        let admitted = admit(&all, "192.0.2.1").await.unwrap();
        let _serving = begin_recognised(&admitted).unwrap();
        let (mut client, server) = duplex(16);
        let mut server =
            BoundedStream::new(server, &admitted, Duration::from_secs(5), ANSWER_TIMEOUT);
        let reading = tokio::spawn(async move {
            let mut bytes = [0; 16];
            client.read_exact(&mut bytes).await.unwrap();
            client
        });
        server.write_all(&[1; 16]).await.unwrap();
        let _client = reading.await.unwrap();
        let error = server.write_all(&[1; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
