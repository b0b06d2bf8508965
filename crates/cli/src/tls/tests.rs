//! Files that are right, and every way in which they are not.

use super::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        install_provider();
        let files = Files { folder: TempDir::new().unwrap() };
        for name in ["one", "other"] {
            let CertifiedKey { cert, signing_key } =
                generate_simple_self_signed(vec!["localhost".into()]).unwrap();
            files.write(&format!("{name}.pem"), &cert.pem());
            files.write(&format!("{name}.key"), &signing_key.serialize_pem());
        }
        files
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn load(&self, cert: &str, key: &str) -> Result<Arc<ServerConfig>> {
        let path = |name| self.folder.path().join(name);
        load(&TlsFiles { cert: path(cert), key: path(key) })
    }

    #[track_caller]
    fn refuses(&self, cert: &str, key: &str, said: &str) {
        let wrong = format!("{:#}", self.load(cert, key).unwrap_err());
        assert!(wrong.contains(said), "{wrong}");
    }
}

#[test]
fn a_certificate_and_its_key_open_both_versions_of_http() {
    let config = Files::new().load("one.pem", "one.key").unwrap();
    assert_eq!(config.alpn_protocols, [b"http/1.1".to_vec()]);
}

#[test]
fn whatever_is_wrong_with_the_files_is_said() {
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
