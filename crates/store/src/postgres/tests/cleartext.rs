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
    let served = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client comes");
        client.set_read_timeout(Some(PATIENCE)).expect("lawful");
        let mut heard = Vec::new();
        serve(&mut client, &mut heard);
        heard
    });
    (port, served)
}

fn serve(client: &mut TcpStream, heard: &mut Vec<u8>) {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut begun = [0; 8];
    client.read_exact(&mut begun).expect("a client says something");
    if begun == SSL_REQUEST {
        client.write_all(b"N").expect("it listens");
        if client.read_exact(&mut begun).is_err() {
            return;
        }
    }
    let length = u32::from_be_bytes([begun[0], begun[1], begun[2], begun[3]]) as usize;
    client.read_exact(&mut vec![0; length - 8]).expect("a whole greeting");
    // AuthenticationCleartextPassword, byte by byte.
    for byte in [b'R', 0, 0, 0, 8, 0, 0, 0, 3] {
        client.write_all(&[byte]).expect("it listens");
    }
    let mut answer = [0; 1_024];
    match client.read(&mut answer) {
        Ok(length) => heard.extend(&answer[..length]),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the client neither answers nor leaves: {error}"),
    }
}

/// What a client sends to the fake server, and which error its user gets.
fn met(query: &str, host: &str) -> (String, String) {
    let (port, served) = fake_server();
    let address = format!("postgres://u:{PASSWORD}@{host}:{port}/d?{query}");
    let address: PostgresAddress = address.parse().expect("lawful");
    let error = RUNTIME.block_on(address.connect()).expect_err("no server is there");
    let told = format!("{error}: {}", chain(&error));
    let heard = served.join().expect("it serves");
    assert!(heard.is_empty(), "{query}: {:?}", String::from_utf8_lossy(&heard));
    assert!(!error.may_pass(), "waiting does not help: {told}");
    (String::from_utf8_lossy(&heard).into_owned(), told)
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn an_unverified_server_never_gets_a_clear_text_password() {
    for query in ["", "sslmode=disable", "sslmode=prefer"] {
        let (heard, told) = met(query, "127.0.0.1");
        assert!(heard.is_empty(), "{query}: {heard:?}");
        assert!(told.contains("clear text") && told.contains("scram-sha-256"), "{query}: {told}");
        assert!(!told.contains(PASSWORD), "{told}");
    }
}

#[test]
fn a_remote_server_must_be_verified_by_default() {
    let (heard, told) = met("hostaddr=127.0.0.1", "db.example");
    assert!(heard.is_empty(), "{heard:?}");
    for part in ["TLS", "sslmode", "sslrootcert"] {
        assert!(told.contains(part), "{told}");
    }
}
