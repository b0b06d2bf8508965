//! The server's certificate and its key, from PEM files.

use crate::settings::TlsFiles;
use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error, PemObject},
    },
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    fs::{self, Metadata, OpenOptions},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    sync::{Arc, RwLock},
    time::Duration,
};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::sleep,
};
use tracing::{info, warn};

/// Makes our cryptography provider the default of this process, before its first use.
pub(crate) fn install_provider() {
    // Only a second call can fail, and then it is installed already.
    drop(aws_lc_rs::default_provider().install_default());
}

const POLL_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) struct Certificates {
    files: TlsFiles,
    served: Arc<ServedCertificate>,
    stamp: Stamp,
}

impl Certificates {
    /// Reads both files, and checks that they belong together.
    pub(crate) fn load(files: &TlsFiles) -> Result<Self> {
        // Before the files are read: the next check then sees a change in between.
        let stamp = Stamp::of(files);
        let served = Arc::new(ServedCertificate(RwLock::new(load(files)?)));
        Ok(Certificates { files: files.clone(), served, stamp })
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_cert_resolver(self.served.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// Reloads the files whenever they change, until the returned set is dropped. Open connections
    /// keep the certificate with which they started.
    pub(crate) fn reload_on_change(self) -> JoinSet<()> {
        let mut reload_task = JoinSet::new();
        reload_task.spawn(self.reload_when_changed());
        reload_task
    }

    async fn reload_when_changed(mut self) {
        // Files that could not be used, and at how many checks in a row.
        let mut failed: Option<(Stamp, u64)> = None;
        loop {
            sleep(POLL_INTERVAL).await;
            let stamp = Stamp::of(&self.files);
            if stamp == self.stamp {
                continue;
            }
            let files = self.files.clone();
            let Ok(loaded) = spawn_blocking(move || load(&files)).await else { continue };
            match loaded {
                Ok(certified) => {
                    *self.served.0.write().expect(UNPOISONED) = certified;
                    self.stamp = stamp;
                    failed = None;
                    info!(cert = %self.files.cert.display(), "a renewed certificate is served");
                }
                // The next check tries again, also where the files stay as they are: the old
                // certificate would otherwise be served until it expires.
                Err(error) => {
                    let earlier = failed.filter(|(seen, _)| *seen == stamp);
                    let checks = earlier.map_or(0, |(_, checks)| checks) + 1;
                    failed = Some((stamp, checks));
                    if checks == WARN_AT_CHECK {
                        let error = format!("{error:#}");
                        warn!(
                            error,
                            "the new certificate cannot be used: the old one is still served"
                        );
                    }
                }
            }
        }
    }
}

/// Tools write a certificate before its key. So the first check of files that do not match is
/// silent, the second one warns, and later ones repeat nothing.
const WARN_AT_CHECK: u64 = 2;

#[derive(Debug)]
struct ServedCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().expect(UNPOISONED).clone())
    }
}

const UNPOISONED: &str = "no code panics while it holds the lock of the certificate";

/// Changes when either file is written or replaced, or gets another mode or owner. `None` for a
/// missing file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp([Option<FileStamp>; 2]);

/// Device and inode, time of the content, time of mode and owner, bytes. Without the third, the
/// `chmod` that a warning asks for would not be seen.
type FileStamp = ((u64, u64), (i64, i64), (i64, i64), u64);

impl Stamp {
    fn of(files: &TlsFiles) -> Self {
        Stamp([&files.cert, &files.key].map(|path| {
            let file = fs::metadata(path).ok()?;
            let (modified, changed) =
                ((file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec()));
            Some(((file.dev(), file.ino()), modified, changed, file.len()))
        }))
    }
}

/// Reads both files, and checks that they belong together.
pub(crate) fn load(files: &TlsFiles) -> Result<Arc<CertifiedKey>> {
    let chain = chain(&files.cert)?;
    let key = key(&files.key)?;
    let (cert, key_file) = (files.cert.display(), files.key.display());
    match CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()) {
        Ok(certified) => Ok(Arc::new(certified)),
        Err(rustls::Error::InconsistentKeys(_)) => bail!(
            "the key in {key_file} does not belong to the first certificate in {cert}; the server's own \
             certificate must come first, those who vouch for it after it"
        ),
        Err(error) => bail!("{cert} and {key_file} cannot be used for TLS: {error}"),
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let (pem, _) = read(path, "certificate")?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(path, &error))?;
    if chain.is_empty() {
        bail!("{} holds no certificate: {}", path.display(), describe_content(&pem, "CERTIFICATE"));
    }
    Ok(chain)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let (pem, metadata) = read(path, "key")?;
    refuse_exposed(path, &metadata)?;
    match PrivateKeyDer::from_pem_slice(&pem) {
        Ok(key) => Ok(key),
        Err(Error::NoItemsFound) if has(&pem, "ENCRYPTED PRIVATE KEY") => bail!(
            "the key in {} is encrypted, and a server cannot ask for its passphrase at the start; keep it without \
             one in a file that only this user can read",
            path.display()
        ),
        Err(Error::NoItemsFound) => {
            bail!(
                "{} holds no private key: {}",
                path.display(),
                describe_content(&pem, "PRIVATE KEY")
            )
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Refuses a key that other users can read. It is a file of this user with mode 0600, or one of
/// root that our group may read (0640), as PostgreSQL wants it.
fn refuse_exposed(path: &Path, metadata: &Metadata) -> Result<()> {
    let (shown, mode, owner) = (path.display(), metadata.mode() & 0o7777, metadata.uid());
    let user = rustix::process::geteuid().as_raw();
    let (mode_max, command) = match owner {
        owner if owner == user => (0o600, "chmod 600"),
        0 => (0o640, "chmod 640"),
        _ => bail!(
            "the key {shown} belongs to user {owner}; it must belong to user {user}, as which consign runs, or to root"
        ),
    };
    if mode & 0o077 & !mode_max != 0 {
        bail!(
            "other users can use the key {shown} (mode {mode:o}); mend it with: {command} {shown}"
        );
    }
    Ok(())
}

/// Opens a file once: the checked file is the one that is read. Links are followed: tools that
/// renew certificates point with them to the newest.
fn read(path: &Path, what: &str) -> Result<(Vec<u8>, Metadata)> {
    let problem = || access_problem(path, what);
    // A FIFO would block the thread that reads renewed certificates, for ever.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = opened.with_context(problem)?;
    let metadata = file.metadata().with_context(problem)?;
    if !metadata.is_file() {
        bail!("the {what} {} is no regular file", path.display());
    }
    let mut pem = Vec::new();
    file.read_to_end(&mut pem).with_context(problem)?;
    Ok((pem, metadata))
}

/// The error for a file that the system does not let us read: its owner, and our user.
fn access_problem(path: &Path, what: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    let mode_and_owner = fs::metadata(path).map_or(String::new(), |file| {
        let mode = file.mode() & 0o7777;
        format!(" (mode {mode:o}, of user {} and group {})", file.uid(), file.gid())
    });
    format!("the {what} {}{mode_and_owner} cannot be read by user {user}", path.display())
}

/// The error names only the kind of damage: the text of a key is secret.
#[expect(clippy::wildcard_enum_match_arm, reason = "more kinds of damage may come")]
fn unreadable(path: &Path, error: &Error) -> anyhow::Error {
    let damage = match error {
        Error::MissingSectionEnd { .. } => "a section has no end",
        Error::IllegalSectionStart { .. } => "a section begins wrongly",
        Error::Base64Decode(_) => "a section is no base64",
        Error::NoItemsFound => "nothing is in it",
        _ => "it is damaged",
    };
    anyhow::anyhow!("{} is no PEM file: {damage}", path.display())
}

fn describe_content(pem: &[u8], section_name: &str) -> String {
    let others = ["PRIVATE KEY", "CERTIFICATE REQUEST", "CERTIFICATE", "PUBLIC KEY"];
    match others.into_iter().find(|other| has(pem, other)) {
        Some(other) => format!("there is a {} in it", other.to_lowercase()),
        None => format!("it must be PEM, with a line such as -----BEGIN {section_name}-----"),
    }
}

fn has(pem: &[u8], section: &str) -> bool {
    let pem = String::from_utf8_lossy(pem);
    pem.lines().any(|line| line.starts_with("-----BEGIN") && line.contains(section))
}

#[cfg(test)]
mod tests;
