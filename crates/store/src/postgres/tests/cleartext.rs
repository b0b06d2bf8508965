//! A server whose identity is not verified asks for the password in clear text.

use super::{PostgresAddress, RUNTIME};
use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

const PASSWORD: &str = "hunter2";
/// What the client has not sent within this time, it does not send.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves one connection as a fake server, and returns everything that the client sent.
fn fake_server() -> (u16, thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client comes");
        client.set_read_timeout(Some(PATIENCE)).expect("lawful");
        let mut received = Vec::new();
        serve(&mut client, &mut received);
        received
    });
    (port, server)
}

fn serve(client: &mut TcpStream, received: &mut Vec<u8>) {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut head = [0; 8];
    client.read_exact(&mut head).expect("a client says something");
    if head == SSL_REQUEST {
        client.write_all(b"N").expect("it listens");
        if client.read_exact(&mut head).is_err() {
            return;
        }
    }
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    client.read_exact(&mut vec![0; length - 8]).expect("a whole greeting");
    // AuthenticationCleartextPassword, byte by byte.
    for byte in [b'R', 0, 0, 0, 8, 0, 0, 0, 3] {
        client.write_all(&[byte]).expect("it listens");
    }
    let mut answer = [0; 1_024];
    match client.read(&mut answer) {
        Ok(length) => received.extend(&answer[..length]),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the client neither answers nor leaves: {error}"),
    }
}

/// What a client sends to the fake server, and which error its user gets.
fn connect_to_fake(query: &str, host: &str) -> (String, String) {
    let (port, server) = fake_server();
    let address = format!("postgres://u:{PASSWORD}@{host}:{port}/d?{query}");
    let address: PostgresAddress = address.parse().expect("lawful");
    let error = RUNTIME.block_on(address.connect()).expect_err("no server is there");
    let error_chain = format!("{error}: {}", chain(&error));
    let received = server.join().expect("it serves");
    assert!(received.is_empty(), "{query}: {:?}", String::from_utf8_lossy(&received));
    assert!(!error.may_pass(), "waiting does not help: {error_chain}");
    (String::from_utf8_lossy(&received).into_owned(), error_chain)
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn an_unverified_server_never_gets_a_clear_text_password() {
    for query in ["", "sslmode=disable", "sslmode=prefer"] {
        let (received, error_chain) = connect_to_fake(query, "127.0.0.1");
        assert!(received.is_empty(), "{query}: {received:?}");
        assert!(
            error_chain.contains("clear text") && error_chain.contains("scram-sha-256"),
            "{query}: {error_chain}"
        );
        assert!(!error_chain.contains(PASSWORD), "{error_chain}");
    }
}

#[test]
fn a_remote_server_must_be_verified_by_default() {
    let (received, error_chain) = connect_to_fake("hostaddr=127.0.0.1", "db.example");
    assert!(received.is_empty(), "{received:?}");
    for part in ["TLS", "sslmode", "sslrootcert"] {
        assert!(error_chain.contains(part), "{error_chain}");
    }
}
