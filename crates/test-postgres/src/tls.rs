//! The certificates of a server with TLS.

use crate::supervisor::Supervisor;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

pub(crate) const AUTHORITY: &str = "ca.pem";
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server.key";

/// Makes an authority and a certificate for 127.0.0.1 and localhost, and returns the settings for
/// them.
pub(crate) fn make_certificates(supervisor: &Supervisor) -> Vec<String> {
    let (authority, issuer) = authority();
    let key = new_key();
    let certificate = server().signed_by(&key, &issuer).expect("the authority signs");
    supervisor.write_file(AUTHORITY, &authority);
    supervisor.write_file(CERTIFICATE, &certificate.pem());
    supervisor.write_file(KEY, &key.serialize_pem());
    let path = |name: &str| supervisor.folder().join(name).display().to_string();
    vec![
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", path(CERTIFICATE)),
        format!("ssl_key_file={}", path(KEY)),
    ]
}

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = params(&[], "authority of a test");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = new_key();
    let certificate = params.self_signed(&key).expect("it signs itself");
    (certificate.pem(), Issuer::new(params, key))
}

fn server() -> CertificateParams {
    params(&["localhost", "127.0.0.1"], "server of a test")
}

/// Each has a name of its own: with the same name, a certificate looks self-signed.
fn params(hosts: &[&str], name: &str) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("the hosts are names or addresses");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system has random bits")
}
