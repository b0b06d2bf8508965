//! Where connections come from: TCP, or the Unix socket for commands on the same machine.

use std::{io, net::IpAddr};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A socket that takes connections.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Local(UnixListener),
}

/// A connection.
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

    /// The next connection, and the address that it comes from, where it has one.
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
