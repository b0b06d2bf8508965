//! The proxy's thread: accepts connections, and cuts them.

use super::{Shared, line};
use std::{
    net::TcpListener,
    sync::{Arc, mpsc},
};
use tokio::{net::TcpStream, sync::mpsc::UnboundedReceiver, task::JoinSet};

/// Commands of the test to the thread; everything else that a test sets is in [`Shared`].
pub(crate) enum Order {
    /// Cuts all connections, and then sends how many there were.
    CutAll(mpsc::Sender<usize>),
}

/// Runs until the test drops its end of the channel.
pub(crate) fn run(listener: TcpListener, shared: Arc<Shared>, orders: UnboundedReceiver<Order>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(serve(listener, shared, orders));
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, mut orders: UnboundedReceiver<Order>) {
    listener.set_nonblocking(true).expect("it is ours");
    let listener = tokio::net::TcpListener::from_std(listener).expect("it does not block");
    let mut lines = JoinSet::new();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::CutAll(answer)) => cut_all(&mut lines, &shared, &answer).await,
                None => return,
            },
            Ok((client, _)) = listener.accept() => begin(&mut lines, &shared, client),
            Some(ended) = lines.join_next() => ended.expect("a line ends without a panic"),
        }
    }
}

fn begin(lines: &mut JoinSet<()>, shared: &Arc<Shared>, client: TcpStream) {
    shared.counts().connections += 1;
    let shared = Arc::clone(shared);
    lines.spawn(async move {
        // Both ends notice how their connection ended.
        let _ = line::carry(&shared, client).await;
    });
}

async fn cut_all(lines: &mut JoinSet<()>, shared: &Shared, answer: &mpsc::Sender<usize>) {
    // Connections that ended by themselves do not count as cut.
    while lines.try_join_next().is_some() {}
    let count = lines.len();
    shared.counts().cut += count;
    lines.shutdown().await;
    // If the receiver is gone, the test has ended.
    let _ = answer.send(count);
}
