//! The sockets that accept connections: TCP, and a Unix socket for commands on the same machine.

use std::{io, net::IpAddr};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

pub(crate) enum Listener {
    Tcp(TcpListener),
    Local(UnixListener),
}

pub(crate) enum Stream {
    Tcp(TcpStream),
    Local(UnixStream),
}

impl Listener {
    pub(crate) fn tcp(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Listener::Tcp)
    }

    pub(crate) fn local(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener).map(Listener::Local)
    }

    /// Accepts the next connection. A TCP connection comes with its client's address.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Stream::Tcp(stream), Some(peer.ip())))
            }
            Listener::Local(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Local(stream), None))
            }
        }
    }
}
