//! TLS from outside: renewed certificates, and headers that are sent only under TLS.

use crate::{command, serve::wait_until};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::{
    fs::{CWD, Mode, mkfifoat},
    process::{Pid, Signal, kill_process},
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, pki_types::CertificateDer,
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Stdio},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

/// A server with TLS, killed on drop.
struct Secure {
    folder: TempDir,
    child: Child,
}

type Secured = StreamOwned<ClientConnection, TcpStream>;

impl Secure {
    fn start(more: &str) -> (Self, CertificateDer<'static>) {
        let folder = TempDir::new().unwrap();
        let first = issue(folder.path());
        let settings = format!("[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n{more}");
        fs::write(folder.path().join("consign.toml"), settings).unwrap();
        let child = command(folder.path(), &["serve", "--listen", "127.0.0.1:0"])
            .stderr(fs::File::create(folder.path().join("log")).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let secure = Secure { folder, child };
        wait_until("it listens", || secure.log().contains(r#""message":"listening""#));
        (secure, first)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn address(&self) -> SocketAddr {
        let log = self.log();
        let line = log.lines().find(|line| line.contains(r#""message":"listening""#)).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["address"].as_str().unwrap().parse().unwrap()
    }

    /// A connection that trusts this certificate and no other.
    fn connect(&self, trusted: &CertificateDer<'static>) -> std::io::Result<Secured> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut client =
            ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let mut socket = TcpStream::connect(self.address())?;
        socket.set_read_timeout(Some(Duration::from_secs(30)))?;
        while client.is_handshaking() {
            client.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(client, socket))
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
        drop(self.child.wait());
    }
}

/// Writes a new certificate and its key into `folder`.
fn issue(folder: &Path) -> CertificateDer<'static> {
    issue_with_key_mode(folder, 0o600)
}

fn issue_with_key_mode(folder: &Path, key_mode: u32) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    // As renewal tools do: written beside, and moved into place.
    let replace = |name: &str, text: String, mode: u32| {
        let new = folder.join(format!("{name}.new"));
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
        fs::rename(new, folder.join(name)).unwrap();
    };
    replace("cert.pem", cert.pem(), 0o600);
    replace("key.pem", signing_key.serialize_pem(), key_mode);
    cert.der().clone()
}

/// Sends a request and keeps the connection open; returns the head of the answer.
fn ask(stream: &mut Secured) -> std::io::Result<String> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut seen = Vec::new();
    while !seen.ends_with(b"}") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        seen.push(byte[0]);
    }
    Ok(String::from_utf8(seen).unwrap())
}

#[test]
fn a_renewed_certificate_is_served_without_a_restart() {
    let (secure, first) = Secure::start("");
    let mut old = secure.connect(&first).unwrap();
    assert!(ask(&mut old).unwrap().starts_with("HTTP/1.1 200"));
    let second = issue(secure.folder.path());
    wait_until("the new one is served", || secure.connect(&second).is_ok());
    assert!(ask(&mut secure.connect(&second).unwrap()).unwrap().starts_with("HTTP/1.1 200"));
    assert!(secure.connect(&first).is_err(), "the old one is served no more");
    // Open connections stay open.
    assert!(ask(&mut old).unwrap().starts_with("HTTP/1.1 200"));
    // The server refuses broken files, and logs it.
    fs::write(secure.folder.path().join("cert.pem"), "no certificate").unwrap();
    wait_until("it is said", || secure.log().contains("holds no certificate"));
    assert!(ask(&mut secure.connect(&second).unwrap()).unwrap().starts_with("HTTP/1.1 200"));
    let third = issue(secure.folder.path());
    wait_until("it is mended", || secure.connect(&third).is_ok());
}

/// `chmod` changes neither the text of a key nor its modification time.
#[test]
fn a_renewed_tls_key_is_served_once_its_mode_is_private() {
    let (secure, first) = Secure::start("");
    let second = issue_with_key_mode(secure.folder.path(), 0o644);
    wait_until("it is said", || secure.log().contains("mend it with: chmod 600"));
    assert!(secure.connect(&first).is_ok(), "the old one is served meanwhile");
    let key = secure.folder.path().join("key.pem");
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    wait_until("the new one is served", || secure.connect(&second).is_ok());
    assert_eq!(secure.log().matches("mend it with: chmod 600").count(), 1, "{}", secure.log());
}

#[test]
fn a_fifo_in_the_place_of_a_certificate_does_not_end_renewals() {
    let (secure, first) = Secure::start("");
    let cert = secure.folder.path().join("cert.pem");
    fs::remove_file(&cert).unwrap();
    mkfifoat(CWD, &cert, Mode::RUSR | Mode::WUSR).unwrap();
    wait_until("it is said", || secure.log().contains("is no regular file"));
    assert!(secure.connect(&first).is_ok(), "the old one is served meanwhile");
    let second = issue(secure.folder.path());
    wait_until("the new one is served", || secure.connect(&second).is_ok());
}

#[test]
fn answers_over_tls_carry_hsts() {
    let (secure, certificate) = Secure::start("");
    let answer = ask(&mut secure.connect(&certificate).unwrap()).unwrap();
    let answer = answer.to_ascii_lowercase();
    assert!(answer.contains("\r\nstrict-transport-security: max-age=31536000\r\n"), "{answer}");
    let plain = crate::serve::Customer::new().owner.get("/healthz").send();
    assert_eq!(plain.header("strict-transport-security"), None);
}

/// The limit for the first byte holds before the handshake and after it.
#[test]
fn silent_tls_connections_are_closed_soon() {
    let limits = "[limits]\nfirst_byte_timeout = \"500ms\"\nheader_timeout = \"10m\"";
    let (secure, certificate) = Secure::start(limits);
    let mut silent = TcpStream::connect(secure.address()).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    let mut secured = secure.connect(&certificate).unwrap();
    let ended = secured.read(&mut [0]);
    let stood = |error: &std::io::Error| {
        matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
    };
    assert!(!ended.as_ref().is_err_and(stood), "{ended:?}");
}
