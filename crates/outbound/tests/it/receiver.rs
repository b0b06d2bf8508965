//! A server that receives pushed jobs, and answers as a test wants.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// One request as it came.
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    /// The value of a header, by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields
            .into_iter()
            .find(|(header, _)| header.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Answers every request on every connection with `answer`, byte for byte, and passes the requests
/// on.
pub(crate) fn receiver(answer: impl Into<Vec<u8>>) -> (SocketAddr, Receiver<Request>) {
    let answer = answer.into();
    serve(move |stream| {
        stream.write_all(&answer)?;
        // Until the client hangs up, or sends another request.
        Ok(())
    })
}

/// Lets `answer` answer every request.
pub(crate) fn serve(
    answer: impl Fn(&mut TcpStream) -> io::Result<()> + Send + 'static,
) -> (SocketAddr, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while let Ok(request) = read(&mut stream) {
                if sender.send(request).is_err() || answer(&mut stream).is_err() {
                    break;
                }
            }
        }
    });
    (address, requests)
}

fn read(stream: &mut TcpStream) -> io::Result<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let mut request = Request { head: String::from_utf8(head).unwrap(), body: String::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    request.body = String::from_utf8(body).unwrap();
    Ok(request)
}
