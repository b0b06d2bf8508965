//! A proxy that answers some requests with 401, as a node does that does not know a new key yet.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const PROBLEM: &str =
    r#"{"status": 401, "errorCode": "UNAUTHENTICATED", "detail": "of the proxy"}"#;

/// A proxy in front of a server. Its threads end with the process of the test.
pub(super) struct RejectingProxy {
    address: SocketAddr,
    to_reject: Arc<AtomicUsize>,
}

impl RejectingProxy {
    pub(super) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let to_reject = Arc::new(AtomicUsize::new(0));
        let rest = to_reject.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let rest = rest.clone();
                // A client that hangs up is none of the proxy's business.
                thread::spawn(move || drop(serve(client, server, &rest)));
            }
        });
        RejectingProxy { address, to_reject }
    }

    /// Rejects the next connections, and returns its address.
    pub(super) fn reject_next(&self, count: usize) -> String {
        self.to_reject.store(count, Ordering::SeqCst);
        self.address.to_string()
    }
}

fn serve(client: TcpStream, server: SocketAddr, to_reject: &AtomicUsize) -> io::Result<()> {
    let take_one = |rest: usize| rest.checked_sub(1);
    if to_reject.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take_one).is_ok() {
        return reject(client);
    }
    let server = TcpStream::connect(server)?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || drop(forward(from_client, to_server)));
    forward(server, client)
}

/// Reads until the client waits for its answer, and rejects the request.
fn reject(mut client: TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_millis(200)))?;
    // It ends by the timeout, or when the client hangs up.
    drop(io::copy(&mut client, &mut io::sink()));
    let length = PROBLEM.len();
    write!(
        client,
        "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{PROBLEM}"
    )
}

fn forward(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let read = from.read(&mut bytes)?;
        if read == 0 {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&bytes[..read])?;
    }
}
