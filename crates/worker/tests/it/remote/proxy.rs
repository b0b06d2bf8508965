//! A proxy between a worker and a server, which a test can cut, and which can lose answers.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
};

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    link: Arc<Link>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Once,
    Always,
}

struct Link {
    server: SocketAddr,
    cut: AtomicBool,
    disconnect: Notify,
    /// Which path loses its answers: the next one, or all.
    lose: Mutex<Option<(&'static str, Loss)>>,
    lost: AtomicUsize,
    claims: AtomicUsize,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let link = Arc::new(Link {
            server,
            cut: AtomicBool::new(false),
            disconnect: Notify::new(),
            lose: Mutex::default(),
            lost: AtomicUsize::new(0),
            claims: AtomicUsize::new(0),
        });
        tokio::spawn(accept(listener, link.clone()));
        Proxy { address, link }
    }

    /// Lets nothing through any more.
    pub(crate) fn cut(&self) {
        self.link.cut.store(true, Ordering::SeqCst);
        self.link.disconnect.notify_waiters();
    }

    pub(crate) fn restore(&self) {
        self.link.cut.store(false, Ordering::SeqCst);
    }

    /// The server executes the next request to this path, and its answer gets lost.
    pub(crate) fn lose_answer_to(&self, path: &'static str) {
        *self.link.lose.lock().unwrap() = Some((path, Loss::Once));
    }

    /// The server executes requests to this path, and all their answers get lost.
    pub(crate) fn lose_answers_to(&self, path: &'static str) {
        *self.link.lose.lock().unwrap() = Some((path, Loss::Always));
    }

    pub(crate) fn answers_lost(&self) -> usize {
        self.link.lost.load(Ordering::SeqCst)
    }

    /// How many claims were sent.
    pub(crate) fn claims(&self) -> usize {
        self.link.claims.load(Ordering::SeqCst)
    }
}

impl Link {
    /// Whether the answer to this request gets lost.
    fn loses(&self, request: &str) -> bool {
        let mut lose = self.lose.lock().unwrap();
        let Some((_, loss)) = lose.filter(|(path, _)| request.contains(path)) else { return false };
        if loss == Loss::Once {
            *lose = None;
        }
        true
    }
}

async fn accept(listener: TcpListener, link: Arc<Link>) {
    while let Ok((client, _)) = listener.accept().await {
        if !link.cut.load(Ordering::SeqCst) {
            tokio::spawn(relay(client, link.clone()));
        }
    }
}

async fn relay(client: TcpStream, link: Arc<Link>) {
    let Ok(server) = TcpStream::connect(link.server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let losing = AtomicBool::new(false);
    tokio::select! {
        () = link.disconnect.notified() => {}
        () = relay_requests(from_client, to_server, &link, &losing) => {}
        () = relay_answers(from_server, to_client, &link, &losing) => {}
    }
}

async fn relay_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    link: &Link,
    losing: &AtomicBool,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        if text.contains("POST /api/work/claim") {
            link.claims.fetch_add(1, Ordering::SeqCst);
        }
        if link.loses(&text) {
            losing.store(true, Ordering::SeqCst);
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn relay_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    link: &Link,
    losing: &AtomicBool,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if losing.load(Ordering::SeqCst) {
            link.lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
