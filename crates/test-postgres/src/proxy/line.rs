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
const GREETINGS_MAX: usize = 3;

/// The reading half of a connection.
type Reader = BufReader<OwnedReadHalf>;
/// The writing half of a connection.
type Writer = BufWriter<OwnedWriteHalf>;

/// Forwards messages both ways until one side ends or the plan cuts the connection; then closes
/// both sides.
pub(crate) async fn carry(shared: &Shared, client: TcpStream) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.server)).await?;
    let (mut from_client, mut to_client) = ear_and_mouth(client)?;
    let (from_server, mut to_server) = ear_and_mouth(server)?;
    let greeting = hear_greeting(&mut from_client, &mut to_client).await?;
    wait_while_held(shared).await;
    to_server.write_all(&greeting).await?;
    to_server.flush().await?;
    let under_way = UnderWay::default();
    tokio::select! {
        ended = requests(shared, &under_way, from_client, to_server) => ended,
        ended = replies(shared, &under_way, from_server, to_client) => ended,
    }
}

fn ear_and_mouth(stream: TcpStream) -> io::Result<(Reader, Writer)> {
    stream.set_nodelay(true)?;
    let (ear, mouth) = stream.into_split();
    Ok((BufReader::new(ear), BufWriter::new(mouth)))
}

/// The client's start-up packet. Requests for encryption are refused.
async fn hear_greeting(ear: &mut Reader, mouth: &mut Writer) -> io::Result<Vec<u8>> {
    for _ in 0..GREETINGS_MAX {
        let greeting = message::read_greeting(ear).await?;
        if !message::asks_for_encryption(&greeting) {
            return Ok(greeting);
        }
        mouth.write_all(b"N").await?;
        mouth.flush().await?;
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn requests(
    shared: &Shared,
    under_way: &UnderWay,
    mut client: Reader,
    mut server: Writer,
) -> io::Result<()> {
    let mut asked = ClientState::default();
    while let Some(message) = Message::read(&mut client).await? {
        wait_while_held(shared).await;
        if asked.commits(&message) && shared.plans().commits.hits() {
            shared.counts().commits_lost += 1;
            return Ok(());
        }
        if message.ends_question() {
            under_way.questions().push_back(std::mem::take(&mut asked.writes));
        }
        pass_on(&message, &client, &mut server).await?;
    }
    Ok(())
}

async fn replies(
    shared: &Shared,
    under_way: &UnderWay,
    mut server: Reader,
    mut client: Writer,
) -> io::Result<()> {
    let (mut greeted, mut failed) = (false, false);
    while let Some(message) = Message::read(&mut server).await? {
        wait_while_held(shared).await;
        failed |= message.says_failed();
        let mut committed = message.says_committed();
        if message.ends_answer() {
            // The first such message answers the start-up packet.
            let wrote = greeted && under_way.questions().pop_front().unwrap_or(false);
            committed |= wrote && !failed;
            (greeted, failed) = (true, false);
        }
        if committed && loses_reply(shared) {
            // Answers from before the COMMIT may reach the client.
            return client.flush().await;
        }
        pass_on(&message, &server, &mut client).await?;
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
async fn pass_on(message: &Message, from: &Reader, to: &mut Writer) -> io::Result<()> {
    to.write_all(message.bytes()).await?;
    if from.buffer().is_empty() { to.flush().await } else { Ok(()) }
}

async fn wait_while_held(shared: &Shared) {
    let mut held = shared.held.subscribe();
    if !*held.borrow_and_update() {
        return;
    }
    shared.counts().held += 1;
    held.wait_for(|held| !held).await.expect("we hold the sender ourselves");
}

/// For each unanswered request: whether it is a transaction of its own that writes.
#[derive(Default)]
struct UnderWay(Mutex<VecDeque<bool>>);

impl UnderWay {
    fn questions(&self) -> MutexGuard<'_, VecDeque<bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the client has sent so far.
#[derive(Default)]
struct ClientState {
    /// Prepared statements by name. A name, above all the empty one, may be used again.
    prepared: HashMap<Vec<u8>, Kind>,
    /// Whether a transaction is open.
    open: bool,
    /// Whether the current request writes and is a transaction of its own.
    writes: bool,
}

impl ClientState {
    /// Whether a message requests a commit.
    fn commits(&mut self, message: &Message) -> bool {
        if let Some((name, kind)) = message.prepares() {
            self.prepared.insert(name.to_vec(), kind);
        }
        let bound = message.binds().and_then(|name| self.prepared.get(name).copied());
        let kind = message.asks().or(bound).unwrap_or(Kind::Other);
        match kind {
            Kind::Begin => self.open = true,
            Kind::Commit | Kind::Rollback => self.open = false,
            Kind::Write => self.writes |= !self.open,
            Kind::Other => {}
        }
        kind == Kind::Commit || kind == Kind::Write && !self.open
    }
}
