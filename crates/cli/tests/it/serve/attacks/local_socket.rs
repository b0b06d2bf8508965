//! The key of the data folder goes to the server of that folder, and to no other process.

use super::files::Running;
use crate::{
    client::{Prompt, url},
    serve::TestServer,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::{
        fs::{FileTypeExt, chown},
        net::UnixListener,
    },
    path::PathBuf,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A process that took the port and answers every request; it passes on what it received.
fn stranger() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    // It ends with the test's process; only this thread knows the listener.
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap_or(0);
            drop(sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()));
            let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\
                          Connection: close\r\n\r\n{\"items\":[]}";
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    (port, requests)
}

/// A user at a prompt who knows the data folder of a server, and no key.
fn neighbour(test_server: &TestServer, port: u16) -> Prompt {
    let store = format!("sqlite:{}", test_server.store().display());
    let prompt = Prompt::unconfigured().set("CONSIGN_STORE", &store);
    prompt.set("CONSIGN_URL", &format!("http://127.0.0.1:{port}"))
}

fn port(test_server: &TestServer) -> u16 {
    url(test_server).rsplit(':').next().unwrap().parse().unwrap()
}

fn socket(test_server: &TestServer) -> PathBuf {
    test_server.data().join(format!("consign-{}.sock", port(test_server)))
}

#[test]
fn a_foreign_process_at_the_port_gets_no_key() {
    let test_server = TestServer::start();
    let key = test_server.admin_key().to_owned();
    let (port, requests) = stranger();
    let output = neighbour(&test_server, port).types(&["queues"]);
    let sent: Vec<String> = requests.try_iter().collect();
    assert!(!sent.iter().any(|sent| sent.contains(&key)), "the stranger has the key");
    assert!(sent.is_empty(), "the stranger was asked: {sent:?}");
    assert_eq!(output.code, Some(4), "{output:?}");
    let remedy = format!("--key @{}", test_server.data().join("admin.key").display());
    assert!(output.err.contains(".sock") && output.err.contains(&remedy), "{}", output.err);
    // A user who trusts the server names the key.
    let named =
        neighbour(&test_server, port).types(&["queues", "--key", &remedy["--key ".len()..]]);
    named.well();
    assert!(requests.try_iter().any(|sent| sent.contains(&key)));
}

#[test]
fn commands_on_this_machine_ask_by_the_socket_of_the_data_folder() {
    let test_server = TestServer::start();
    let prompt = || neighbour(&test_server, port(&test_server));
    prompt().types(&["queues"]).well();
    assert!(fs::symlink_metadata(socket(&test_server)).unwrap().file_type().is_socket());
    test_server.kill();
    assert!(socket(&test_server).exists(), "a killed server cannot take its socket away");
    assert_eq!(prompt().types(&["queues"]).code, Some(4));
    test_server.restart_in_place();
    let id = prompt().enqueues(&["mail", "-p", "{}"]);
    assert!(prompt().types(&["show", &id]).well().contains(&id));
    let path = socket(&test_server);
    assert!(test_server.stop().success());
    assert!(!path.exists(), "an orderly end leaves no socket");
}

#[test]
fn a_data_folder_with_a_long_path_has_a_socket_too() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("deep".repeat(30));
    let test_server = TestServer::on(folder, data, "");
    assert!(socket(&test_server).exists());
    neighbour(&test_server, port(&test_server)).types(&["queues"]).well();
    assert!(test_server.stop().success());
    assert!(!socket(&test_server).exists());
}

#[test]
fn a_socket_in_a_place_that_others_can_change_gets_no_key() {
    use std::os::unix::fs::PermissionsExt;
    let test_server = TestServer::start();
    let prompt = neighbour(&test_server, port(&test_server));
    fs::set_permissions(test_server.data(), PermissionsExt::from_mode(0o770)).unwrap();
    let output = prompt.types(&["queues"]);
    assert!(output.code == Some(1) && output.err.contains("chmod go-w"), "{output:?}");
    fs::set_permissions(test_server.data(), PermissionsExt::from_mode(0o700)).unwrap();
    prompt.types(&["queues"]).well();
    if rustix::process::geteuid().is_root() {
        let path = socket(&test_server);
        fs::remove_file(&path).unwrap();
        let planted = UnixListener::bind(&path).unwrap();
        chown(&path, Some(65_534), None).unwrap();
        planted.set_nonblocking(true).unwrap();
        let output = prompt.types(&["queues"]);
        assert!(
            output.code == Some(1) && output.err.contains("is no socket of user 0"),
            "{output:?}"
        );
        assert!(planted.accept().is_err(), "the planted socket was asked");
    }
}

#[test]
fn the_local_socket_of_a_tls_server_needs_no_certificate() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = folder.path().join("key.pem");
    fs::write(folder.path().join("cert.pem"), cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let settings = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
    fs::write(folder.path().join("consign.toml"), settings).unwrap();
    let running = Running::start(folder.path(), ":", &[]);
    let store = folder.path().join("consign-data/consign.db");
    let prompt = Prompt::unconfigured()
        .set("CONSIGN_STORE", &format!("sqlite:{}", store.display()))
        .set("CONSIGN_URL", &format!("https://localhost:{}", running.port));
    prompt.types(&["queues"]).well();
    running.stop();
}
