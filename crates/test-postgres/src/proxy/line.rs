//! One client's connection, and the one to the server that belongs to it.

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

/// A client asks for two kinds of encryption at most before it says who it is.
const GREETINGS_MAX: usize = 3;

/// A side that is listened to.
type Ear = BufReader<OwnedReadHalf>;
/// A side that is spoken to.
type Mouth = BufWriter<OwnedWriteHalf>;

/// Carries messages to and fro until one side ends or the plan says so; then both sides are cut.
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

fn ear_and_mouth(stream: TcpStream) -> io::Result<(Ear, Mouth)> {
    stream.set_nodelay(true)?;
    let (ear, mouth) = stream.into_split();
    Ok((BufReader::new(ear), BufWriter::new(mouth)))
}

/// The client's first packet for the server. Requests for encryption are answered with no.
async fn hear_greeting(ear: &mut Ear, mouth: &mut Mouth) -> io::Result<Vec<u8>> {
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
    mut client: Ear,
    mut server: Mouth,
) -> io::Result<()> {
    let mut asked = Asked::default();
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
    mut server: Ear,
    mut client: Mouth,
) -> io::Result<()> {
    let (mut greeted, mut failed) = (false, false);
    while let Some(message) = Message::read(&mut server).await? {
        wait_while_held(shared).await;
        failed |= message.says_failed();
        let mut committed = message.says_committed();
        if message.ends_answer() {
            // The first of these answers the greeting.
            let wrote = greeted && under_way.questions().pop_front().unwrap_or(false);
            committed |= wrote && !failed;
            (greeted, failed) = (true, false);
        }
        if committed && loses_reply(shared) {
            // What was answered before the COMMIT may have arrived.
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

/// Messages that came together go together.
async fn pass_on(message: &Message, from: &Ear, to: &mut Mouth) -> io::Result<()> {
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

/// Of each question that is not answered yet, whether it is a transaction of its own that writes.
#[derive(Default)]
struct UnderWay(Mutex<VecDeque<bool>>);

impl UnderWay {
    fn questions(&self) -> MutexGuard<'_, VecDeque<bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a client has said so far.
#[derive(Default)]
struct Asked {
    /// What it has prepared, by name. A name, above all the empty one, may be used again for something else.
    prepared: HashMap<Vec<u8>, Kind>,
    /// Whether it has begun a transaction.
    open: bool,
    /// Whether the question that it is asking writes, and is a transaction of its own.
    writes: bool,
}

impl Asked {
    /// Whether a message asks for something to be committed.
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
