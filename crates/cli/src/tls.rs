//! The certificate of the door and its key, from PEM files.

use crate::settings::TlsFiles;
use anyhow::{Context, Result, bail};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error, PemObject},
    },
};
use std::{fs, os::unix::fs::MetadataExt, path::Path, sync::Arc};

/// Makes the cryptography that we use the one of this process, before anybody needs any.
pub(crate) fn install_provider() {
    // Only a second call could fail, and then it is there already.
    drop(aws_lc_rs::default_provider().install_default());
}

/// Reads both files, and sees to it that they belong together.
pub(crate) fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>> {
    let chain = chain(&files.cert)?;
    let key = key(&files.key)?;
    let (cert, key_file) = (files.cert.display(), files.key.display());
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(|error| {
        if let rustls::Error::InconsistentKeys(_) = error {
            return anyhow::anyhow!(
                "the key in {key_file} does not belong to the first certificate in {cert}; the server's own \
                 certificate must come first, those who vouch for it after it"
            );
        }
        anyhow::anyhow!("{cert} and {key_file} cannot be used for TLS: {error}")
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let pem = read(path, "certificate")?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(path, &error))?;
    if chain.is_empty() {
        bail!("{} holds no certificate: {}", path.display(), instead(&pem, "CERTIFICATE"));
    }
    Ok(chain)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let pem = read(path, "key")?;
    match PrivateKeyDer::from_pem_slice(&pem) {
        Ok(key) => Ok(key),
        Err(Error::NoItemsFound) if has(&pem, "ENCRYPTED PRIVATE KEY") => bail!(
            "the key in {} is encrypted, and nobody could type its passphrase at the start; keep it without \
             one in a file that only this user can read",
            path.display()
        ),
        Err(Error::NoItemsFound) => {
            bail!("{} holds no private key: {}", path.display(), instead(&pem, "PRIVATE KEY"))
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| {
        let user = rustix::process::geteuid().as_raw();
        let owner = fs::metadata(path).map(|file| {
            format!(
                " (mode {:o}, of user {} and group {})",
                file.mode() & 0o7777,
                file.uid(),
                file.gid()
            )
        });
        let owner = owner.unwrap_or_default();
        format!("the {what} {}{owner} cannot be read by user {user}", path.display())
    })
}

/// The text of a key is nobody's business: only what kind of damage it has is told.
#[expect(clippy::wildcard_enum_match_arm, reason = "more kinds of damage may come")]
fn unreadable(path: &Path, error: &Error) -> anyhow::Error {
    let why = match error {
        Error::MissingSectionEnd { .. } => "a section has no end",
        Error::IllegalSectionStart { .. } => "a section begins wrongly",
        Error::Base64Decode(_) => "a section is no base64",
        Error::NoItemsFound => "nothing is in it",
        _ => "it is damaged",
    };
    anyhow::anyhow!("{} is no PEM file: {why}", path.display())
}

/// What was found instead of what was looked for.
fn instead(pem: &[u8], wanted: &str) -> String {
    for other in ["PRIVATE KEY", "CERTIFICATE REQUEST", "CERTIFICATE", "PUBLIC KEY"] {
        if has(pem, other) {
            return format!("there is a {} in it", other.to_lowercase());
        }
    }
    format!("it must be PEM, with a line such as -----BEGIN {wanted}-----")
}

fn has(pem: &[u8], section: &str) -> bool {
    let pem = String::from_utf8_lossy(pem);
    pem.lines().any(|line| line.starts_with("-----BEGIN") && line.contains(section))
}

#[cfg(test)]
mod tests;
