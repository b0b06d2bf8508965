//! The echo server that the HTTP API is compared with: the same HTTP, and nothing behind it.

use axum::{
    Router,
    http::header::{CONTENT_TYPE, HeaderName},
    routing::{get, post},
    serve::ListenerExt,
};
use bytes::Bytes;
use std::{
    io::{self, BufRead, Write},
    net::Ipv4Addr,
};
use tokio::{net::TcpListener, runtime::Builder};

const JSON: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];

/// Answers a POST with its body, and a GET with the first line of `input`. Writes its address to
/// `output`. Ends with `input`, that is, when the process that started it is gone.
pub fn serve_echo(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut fixed_answer = String::new();
    input.read_line(&mut fixed_answer)?;
    let fixed_answer = Bytes::from(fixed_answer.trim_end().to_owned());
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    writeln!(output, "{}", listener.local_addr()?)?;
    output.flush()?;
    let router = Router::new()
        .route(super::requests::ECHO, post(move |body: Bytes| async move { (JSON, body) }))
        .route(super::requests::FIXED, get(move || async move { (JSON, fixed_answer) }));
    // Failure is harmless: the connection is only slower.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    runtime.spawn(async move { axum::serve(listener, router).await });
    io::copy(&mut input, &mut io::sink())?;
    runtime.shutdown_background();
    Ok(())
}
