//! One client's connection, and the one to the server that belongs to it.

use super::{Shared, message, message::Message};
use std::{collections::HashSet, io, net::Ipv4Addr};
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
    tokio::select! {
        ended = requests(shared, from_client, to_server) => ended,
        ended = replies(shared, from_server, to_client) => ended,
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

async fn requests(shared: &Shared, mut client: Ear, mut server: Mouth) -> io::Result<()> {
    let mut commits = Commits::default();
    while let Some(message) = Message::read(&mut client).await? {
        wait_while_held(shared).await;
        if commits.are_asked_for(&message) && shared.plans().commits.hits() {
            shared.counts().commits_lost += 1;
            return Ok(());
        }
        pass_on(&message, &client, &mut server).await?;
    }
    Ok(())
}

async fn replies(shared: &Shared, mut server: Ear, mut client: Mouth) -> io::Result<()> {
    while let Some(message) = Message::read(&mut server).await? {
        wait_while_held(shared).await;
        if message.says_committed() && loses_reply(shared) {
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

/// The names under which a client has prepared a COMMIT.
#[derive(Default)]
struct Commits(HashSet<Vec<u8>>);

impl Commits {
    fn are_asked_for(&mut self, message: &Message) -> bool {
        if let Some((name, is_commit)) = message.prepares() {
            self.note(name, is_commit);
        }
        message.asks_for_commit() || message.binds().is_some_and(|name| self.0.contains(name))
    }

    /// A name, above all the empty one, may be used again for something else.
    fn note(&mut self, name: &[u8], is_commit: bool) {
        if is_commit {
            self.0.insert(name.to_vec());
        } else {
            self.0.remove(name);
        }
    }
}
