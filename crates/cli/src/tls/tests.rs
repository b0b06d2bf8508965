//! Valid files, and every way in which files are invalid.

use super::*;
use rcgen::generate_simple_self_signed;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use tempfile::TempDir;

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        install_provider();
        let files = Files { folder: TempDir::new().unwrap() };
        for name in ["one", "other"] {
            let rcgen::CertifiedKey { cert, signing_key } =
                generate_simple_self_signed(vec!["localhost".into()]).unwrap();
            files.write(&format!("{name}.pem"), &cert.pem());
            files.write(&format!("{name}.key"), &signing_key.serialize_pem());
        }
        files
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn named(&self, cert: &str, key: &str) -> TlsFiles {
        let path = |name| self.folder.path().join(name);
        TlsFiles { cert: path(cert), key: path(key) }
    }

    fn load(&self, cert: &str, key: &str) -> Result<Arc<CertifiedKey>> {
        load(&self.named(cert, key))
    }

    #[track_caller]
    fn refuses(&self, cert: &str, key: &str, expected: &str) {
        let wrong = format!("{:#}", self.load(cert, key).unwrap_err());
        assert!(wrong.contains(expected), "{wrong}");
    }
}

#[test]
fn a_certificate_and_its_key_open_both_versions_of_http() {
    let files = Files::new();
    let config = Certificates::load(&files.named("one.pem", "one.key")).unwrap().config();
    assert_eq!(config.alpn_protocols, [b"http/1.1".to_vec()]);
}

#[test]
fn a_file_that_is_written_or_replaced_is_seen() {
    let files = Files::new();
    let named = files.named("one.pem", "one.key");
    let before = Stamp::of(&named);
    assert_eq!(before, Stamp::of(&named));
    files.write("new", &fs::read_to_string(&named.cert).unwrap());
    fs::rename(files.folder.path().join("new"), &named.cert).unwrap();
    let replaced = Stamp::of(&named);
    assert_ne!(before, replaced);
    fs::remove_file(&named.key).unwrap();
    assert_ne!(replaced, Stamp::of(&named));
}

#[test]
fn unusable_tls_files_are_refused_with_the_reason() {
    let files = Files::new();
    files.write("empty.pem", "");
    files.write("text.pem", "hello");
    let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    files.write("cut.pem", cut);
    files.write(
        "locked.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    files.write("wrong.key", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n");
    files.refuses("none.pem", "one.key", "none.pem cannot be read by user ");
    files.refuses("one.pem", "none.key", "the key ");
    files.refuses("empty.pem", "one.key", "holds no certificate: it must be PEM");
    files.refuses("one.key", "one.key", "holds no certificate: there is a private key in it");
    files.refuses("cut.pem", "one.key", "cut.pem is no PEM file: a section has no end");
    files.refuses("one.pem", "text.pem", "holds no private key: it must be PEM");
    files.refuses("one.pem", "one.pem", "holds no private key: there is a certificate in it");
    files.refuses("one.pem", "locked.key", "is encrypted");
    files.refuses("one.pem", "other.key", "does not belong to the first certificate");
    files.refuses("one.pem", "wrong.key", "cannot be used for TLS");
}

#[test]
fn a_key_that_other_users_can_use_is_refused() {
    let files = Files::new();
    let key = files.folder.path().join("one.key");
    let mode = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    symlink(&key, files.folder.path().join("live.key")).unwrap();
    for exposed in [0o644, 0o604, 0o620, 0o606] {
        mode(exposed);
        files.refuses("one.pem", "one.key", &format!("(mode {exposed:o}); mend it with: chmod 6"));
        files.refuses("one.pem", "live.key", "mend it with: chmod 6");
    }
    mode(0o400);
    files.load("one.pem", "live.key").unwrap();
    files.refuses("one.pem", "../", "is no regular file");
    if rustix::process::geteuid().is_root() {
        chown(&key, Some(65_534), None).unwrap();
        files.refuses("one.pem", "one.key", "belongs to user 65534");
    }
}
