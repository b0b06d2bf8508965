//! One client's connection, and the connection to the server that belongs to it.

use super::{
    Shared,
    message::{self, Kind, Message},
};
use std::{
    collections::{HashMap, VecDeque},
    io,
    net::Ipv4Addr,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::{AsyncWriteExt, BufReader, BufWriter},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// A client requests at most two kinds of encryption before its start-up packet.
const STARTUP_PACKETS_MAX: usize = 3;

/// The reading half of a connection.
type Reader = BufReader<OwnedReadHalf>;
/// The writing half of a connection.
type Writer = BufWriter<OwnedWriteHalf>;

/// Forwards messages both ways until one side ends or the plan cuts the connection; then closes
/// both sides.
pub(crate) async fn forward_connection(shared: &Shared, client: TcpStream) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.server)).await?;
    let (mut from_client, mut to_client) = split(client)?;
    let (from_server, mut to_server) = split(server)?;
    let startup_packet = read_startup_packet(&mut from_client, &mut to_client).await?;
    wait_while_paused(shared).await;
    to_server.write_all(&startup_packet).await?;
    to_server.flush().await?;
    let pending = PendingRequests::default();
    tokio::select! {
        ended = forward_requests(shared, &pending, from_client, to_server) => ended,
        ended = forward_replies(shared, &pending, from_server, to_client) => ended,
    }
}

fn split(stream: TcpStream) -> io::Result<(Reader, Writer)> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    Ok((BufReader::new(reader), BufWriter::new(writer)))
}

/// The client's start-up packet. Requests for encryption are refused.
async fn read_startup_packet(reader: &mut Reader, writer: &mut Writer) -> io::Result<Vec<u8>> {
    for _ in 0..STARTUP_PACKETS_MAX {
        let startup_packet = message::read_startup_packet(reader).await?;
        if !message::is_encryption_request(&startup_packet) {
            return Ok(startup_packet);
        }
        writer.write_all(b"N").await?;
        writer.flush().await?;
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn forward_requests(
    shared: &Shared,
    pending: &PendingRequests,
    mut client: Reader,
    mut server: Writer,
) -> io::Result<()> {
    let mut client_state = ClientState::default();
    while let Some(message) = Message::read(&mut client).await? {
        wait_while_paused(shared).await;
        if client_state.requests_commit(&message) && shared.plans().commits.hits() {
            shared.counts().commits_lost += 1;
            return Ok(());
        }
        if message.ends_request() {
            pending.queue().push_back(std::mem::take(&mut client_state.writes));
        }
        forward(&message, &client, &mut server).await?;
    }
    Ok(())
}

async fn forward_replies(
    shared: &Shared,
    pending: &PendingRequests,
    mut server: Reader,
    mut client: Writer,
) -> io::Result<()> {
    let (mut has_started, mut failed) = (false, false);
    while let Some(message) = Message::read(&mut server).await? {
        wait_while_paused(shared).await;
        failed |= message.is_error();
        let mut committed = message.is_commit_complete();
        if message.is_ready_for_query() {
            // The first such message answers the start-up packet.
            let wrote = has_started && pending.queue().pop_front().unwrap_or(false);
            committed |= wrote && !failed;
            (has_started, failed) = (true, false);
        }
        if committed && loses_reply(shared) {
            // Answers from before the COMMIT may reach the client.
            return client.flush().await;
        }
        forward(&message, &server, &mut client).await?;
    }
    client.flush().await
}

fn loses_reply(shared: &Shared) -> bool {
    let is_lost = shared.plans().replies.hits();
    let mut counts = shared.counts();
    counts.commits += 1;
    counts.replies_lost += usize::from(is_lost);
    is_lost
}

/// Flushes only when no further message is buffered: messages that came together stay together.
async fn forward(message: &Message, from: &Reader, to: &mut Writer) -> io::Result<()> {
    to.write_all(message.bytes()).await?;
    if from.buffer().is_empty() { to.flush().await } else { Ok(()) }
}

async fn wait_while_paused(shared: &Shared) {
    let mut paused = shared.paused.subscribe();
    if !*paused.borrow_and_update() {
        return;
    }
    shared.counts().delayed += 1;
    paused.wait_for(|paused| !paused).await.expect("the sender is in `shared`");
}

/// For each unanswered request: whether it is a transaction of its own that writes.
#[derive(Default)]
struct PendingRequests(Mutex<VecDeque<bool>>);

impl PendingRequests {
    fn queue(&self) -> MutexGuard<'_, VecDeque<bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the client has sent so far.
#[derive(Default)]
struct ClientState {
    /// Prepared statements by name. A name, above all the empty one, may be used again.
    prepared: HashMap<Vec<u8>, Kind>,
    /// Whether a transaction is open.
    in_transaction: bool,
    /// Whether the current request writes and is a transaction of its own.
    writes: bool,
}

impl ClientState {
    /// Whether a message requests a commit.
    fn requests_commit(&mut self, message: &Message) -> bool {
        if let Some((name, kind)) = message.prepared_statement() {
            self.prepared.insert(name.to_vec(), kind);
        }
        let bound = message.bound_statement().and_then(|name| self.prepared.get(name).copied());
        let kind = message.query_kind().or(bound).unwrap_or(Kind::Other);
        match kind {
            Kind::Begin => self.in_transaction = true,
            Kind::Commit | Kind::Rollback => self.in_transaction = false,
            Kind::Write => self.writes |= !self.in_transaction,
            Kind::Other => {}
        }
        kind == Kind::Commit || kind == Kind::Write && !self.in_transaction
    }
}
