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

/// Answers a POST with its body, and a GET with the first line of `words`. Writes its address to
/// `told`. Ends with `words`, that is, when the process that started it is gone.
pub fn serve_echo(mut words: impl BufRead, mut told: impl Write) -> io::Result<()> {
    let mut fixed = String::new();
    words.read_line(&mut fixed)?;
    let fixed = Bytes::from(fixed.trim_end().to_owned());
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    writeln!(told, "{}", listener.local_addr()?)?;
    told.flush()?;
    let router = Router::new()
        .route(super::requests::ECHO, post(move |body: Bytes| async move { (JSON, body) }))
        .route(super::requests::FIXED, get(move || async move { (JSON, fixed) }));
    // Failure is harmless: the connection is only slower.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    runtime.spawn(async move { axum::serve(listener, router).await });
    io::copy(&mut words, &mut io::sink())?;
    runtime.shutdown_background();
    Ok(())
}
