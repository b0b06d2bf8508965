//! The proxy's thread: accepts connections, and cuts them.

use super::{Shared, connection};
use std::{
    net::TcpListener,
    sync::{Arc, mpsc},
};
use tokio::{net::TcpStream, sync::mpsc::UnboundedReceiver, task::JoinSet};

/// Commands of the test to the thread; everything else that a test sets is in [`Shared`].
pub(crate) enum ProxyCommand {
    /// Cuts all connections, and then sends how many there were.
    CutAll(mpsc::Sender<usize>),
}

/// Runs until the test drops its end of the channel.
pub(crate) fn run(
    listener: TcpListener,
    shared: Arc<Shared>,
    commands: UnboundedReceiver<ProxyCommand>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(serve(listener, shared, commands));
}

async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut commands: UnboundedReceiver<ProxyCommand>,
) {
    listener.set_nonblocking(true).expect("it is ours");
    let listener = tokio::net::TcpListener::from_std(listener).expect("it does not block");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(ProxyCommand::CutAll(answer)) => cut_all(&mut connections, &shared, &answer).await,
                None => return,
            },
            Ok((client, _)) = listener.accept() => start_connection(&mut connections, &shared, client),
            Some(ended) = connections.join_next() => ended.expect("a connection ends without a panic"),
        }
    }
}

fn start_connection(connections: &mut JoinSet<()>, shared: &Arc<Shared>, client: TcpStream) {
    shared.counts().connections += 1;
    let shared = Arc::clone(shared);
    connections.spawn(async move {
        // Both ends notice how their connection ended.
        let _ = connection::forward_connection(&shared, client).await;
    });
}

async fn cut_all(connections: &mut JoinSet<()>, shared: &Shared, answer: &mpsc::Sender<usize>) {
    // Connections that ended by themselves do not count as cut.
    while connections.try_join_next().is_some() {}
    let count = connections.len();
    shared.counts().cut += count;
    connections.shutdown().await;
    // If the receiver is gone, the test has ended.
    let _ = answer.send(count);
}
