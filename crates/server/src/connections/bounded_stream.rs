//! The stream of a connection, with time limits on its client.
//!
//! `tokio-io-timeout` bounds each read and each write, as `stalled` does. It does not know a limit
//! for the first byte, one for a whole answer, or a client that is recognised in the meantime.

use super::{Admitted, Connection, Connections};
use rustix::net::{RecvFlags, recv};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    time::{Sleep, sleep},
};
use tokio_rustls::server::TlsStream;

/// Ends when the first byte does not come, when the client reads nothing of an answer for too long,
/// or when a client that was not recognised takes too long for a whole answer. Reports to its
/// connection when everything is written.
pub(crate) struct BoundedStream<S> {
    stream: S,
    connections: Arc<Connections>,
    connection: Arc<Connection>,
    write_timeout: Duration,
    /// Runs until the first byte has come.
    first_byte: Option<Timer>,
    /// Runs while the client does not read.
    stalled: Option<Timer>,
    /// Runs from the first byte of an answer until all of it is written, however slowly it is read.
    answer: Option<Timer>,
}

type Timer = Pin<Box<Sleep>>;

impl<S> BoundedStream<S> {
    /// Wraps `stream` in time limits. `first_byte_timeout` bounds the wait for its first byte.
    /// `write_timeout` bounds the time in which a client must read some of an answer; a client that
    /// was not recognised must read all of it in that time.
    pub(crate) fn new(
        stream: S,
        admitted: &Admitted,
        first_byte_timeout: Duration,
        write_timeout: Duration,
    ) -> Self {
        BoundedStream {
            stream,
            connections: admitted.connections.clone(),
            connection: admitted.connection.clone(),
            write_timeout,
            first_byte: Some(Box::pin(sleep(first_byte_timeout))),
            stalled: None,
            answer: None,
        }
    }

    /// Passes on the result of a write, unless the client has read nothing for too long.
    fn unless_stalled<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        if has_expired(&mut self.stalled, self.write_timeout, cx) { timed_out() } else { polled }
    }

    /// Passes on the result of a write, unless a client that was not recognised takes too long.
    fn with_answer_limit<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let polled = self.unless_stalled(cx, polled);
        if self.connection.is_protected() {
            self.answer = None;
            return polled;
        }
        if has_expired(&mut self.answer, self.write_timeout, cx) { timed_out() } else { polled }
    }
}

/// Polls the timer, starting it if needed: whether it has expired.
fn has_expired(timer: &mut Option<Timer>, timeout: Duration, cx: &mut Context<'_>) -> bool {
    timer.get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(cx).is_ready()
}

fn timed_out<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

/// A stream that can ask the kernel whether its client is gone.
pub(crate) trait HangUp {
    /// Whether the client has closed its side and all that it sent was read. The runtime learns of
    /// a close only when it next polls its driver. Under load that is after a lease was made and
    /// its answer written.
    fn has_hung_up(&self) -> bool;
}

impl HangUp for TcpStream {
    fn has_hung_up(&self) -> bool {
        is_at_end(self.as_fd())
    }
}

impl HangUp for UnixStream {
    fn has_hung_up(&self) -> bool {
        is_at_end(self.as_fd())
    }
}

impl HangUp for TlsStream<TcpStream> {
    fn has_hung_up(&self) -> bool {
        is_at_end(self.get_ref().0.as_fd())
    }
}

fn is_at_end(socket: BorrowedFd<'_>) -> bool {
    let received = recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(received, Ok((_, 0)))
}

impl<S: AsyncRead + HangUp + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_ready() {
            self.first_byte = None;
            return polled;
        }
        if self.connection.is_leasing() && self.stream.has_hung_up() {
            return Poll::Ready(Ok(())); // the end of the stream, by which hyper drops the request
        }
        let first_byte_late =
            self.first_byte.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
        if first_byte_late { timed_out() } else { Poll::Pending }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.with_answer_limit(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.with_answer_limit(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = polled {
            (self.stalled, self.answer) = (None, None);
            self.connection.flushed(|| self.connections.now_ms());
            return polled;
        }
        self.with_answer_limit(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.unless_stalled(cx, polled)
    }
}
