//! The certificate of the door and its key, from PEM files.

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
    fs::{self, File, Metadata, OpenOptions},
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

/// Makes the cryptography that we use the one of this process, before anybody needs any.
pub(crate) fn install_provider() {
    // Only a second call could fail, and then it is there already.
    drop(aws_lc_rs::default_provider().install_default());
}

/// So often it is looked whether the files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The certificate that is served, and the files that it comes from.
pub(crate) struct Certificates {
    files: TlsFiles,
    served: Arc<Served>,
    stamp: Stamp,
}

impl Certificates {
    /// Reads both files, and sees to it that they belong together.
    pub(crate) fn load(files: &TlsFiles) -> Result<Self> {
        // Before they are read: a change in between is seen at the next look.
        let stamp = Stamp::of(files);
        let served = Arc::new(Served(RwLock::new(load(files)?)));
        Ok(Certificates { files: files.clone(), served, stamp })
    }

    /// How a server speaks TLS with whatever certificate is the current one.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_cert_resolver(self.served.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// Reads the files again whenever they change, until what it gives back is dropped. Connections
    /// that are open keep the certificate that they began with.
    pub(crate) fn follow(self) -> JoinSet<()> {
        let mut following = JoinSet::new();
        following.spawn(self.look_again_and_again());
        following
    }

    async fn look_again_and_again(mut self) {
        let mut failed = FailedLooks::default();
        loop {
            sleep(LOOK_EVERY).await;
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
                    failed = FailedLooks::default();
                    info!(cert = %self.files.cert.display(), "a renewed certificate is served");
                }
                Err(error) => {
                    // The next look tries again, also where the files stay as they are: the old
                    // certificate would otherwise be served until it expires.
                    if failed.count(stamp) == WARN_AT_LOOK {
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

/// A certificate is written before its key. So the first look at files that do not fit together
/// passes in silence, the second one warns, and later ones repeat nothing.
const WARN_AT_LOOK: u64 = 2;

/// How often the same files could not be used, one look after the other.
#[derive(Default)]
struct FailedLooks {
    stamp: Option<Stamp>,
    count: u64,
}

impl FailedLooks {
    /// Counts one more look that failed, and gives how many there were at files with this stamp.
    fn count(&mut self, stamp: Stamp) -> u64 {
        if self.stamp.as_ref() != Some(&stamp) {
            *self = FailedLooks { stamp: Some(stamp), count: 0 };
        }
        self.count += 1;
        self.count
    }
}

/// What new connections are shown.
#[derive(Debug)]
struct Served(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().expect(UNPOISONED).clone())
    }
}

const UNPOISONED: &str = "nothing panics with the certificate in hand";

/// What changes when a file is written or replaced, or gets another mode or owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp([Option<FileStamp>; 2]);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    /// Without it, the `chmod` that a warning asks for would not be seen.
    changed: (i64, i64),
    bytes: u64,
}

impl Stamp {
    /// Nothing of a file that is not there.
    fn of(files: &TlsFiles) -> Self {
        Stamp([&files.cert, &files.key].map(|path| {
            let file = fs::metadata(path).ok()?;
            Some(FileStamp {
                device: file.dev(),
                inode: file.ino(),
                modified: (file.mtime(), file.mtime_nsec()),
                changed: (file.ctime(), file.ctime_nsec()),
                bytes: file.len(),
            })
        }))
    }
}

/// Reads both files, and sees to it that they belong together.
pub(crate) fn load(files: &TlsFiles) -> Result<Arc<CertifiedKey>> {
    let chain = chain(&files.cert)?;
    let key = key(&files.key)?;
    let (cert, key_file) = (files.cert.display(), files.key.display());
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    let certified = certified.map_err(|error| {
        if let rustls::Error::InconsistentKeys(_) = error {
            return anyhow::anyhow!(
                "the key in {key_file} does not belong to the first certificate in {cert}; the server's own \
                 certificate must come first, those who vouch for it after it"
            );
        }
        anyhow::anyhow!("{cert} and {key_file} cannot be used for TLS: {error}")
    })?;
    Ok(Arc::new(certified))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let pem = PemFile::open(path, "certificate")?.read()?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(path, &error))?;
    if chain.is_empty() {
        bail!("{} holds no certificate: {}", path.display(), instead(&pem, "CERTIFICATE"));
    }
    Ok(chain)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let file = PemFile::open(path, "key")?;
    refuse_exposed(&file)?;
    let pem = file.read()?;
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

/// Refuses a key that other users can read. It is a file of this user with mode 0600, or one of
/// root that our group may read (0640), as PostgreSQL wants it.
fn refuse_exposed(key: &PemFile<'_>) -> Result<()> {
    let (shown, mode, owner) = (key.path.display(), key.found.mode() & 0o7777, key.found.uid());
    let user = rustix::process::geteuid().as_raw();
    let (mode_max, mend) = match owner {
        owner if owner == user => (0o600, "chmod 600"),
        0 => (0o640, "chmod 640"),
        _ => bail!(
            "the key {shown} belongs to user {owner}; it must belong to user {user}, as which consign runs, or to root"
        ),
    };
    if mode & 0o077 & !mode_max != 0 {
        bail!("other users can use the key {shown} (mode {mode:o}); mend it with: {mend} {shown}");
    }
    Ok(())
}

/// A file that is opened once: what is checked is what is read. Links are followed: tools that
/// renew certificates point with them to the newest.
struct PemFile<'a> {
    path: &'a Path,
    what: &'a str,
    file: File,
    found: Metadata,
}

impl<'a> PemFile<'a> {
    fn open(path: &'a Path, what: &'a str) -> Result<Self> {
        // A FIFO would hold up the thread that reads renewed certificates, for ever.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
        let (found, file) = opened.with_context(|| access_problem(path, what))?;
        if !found.is_file() {
            bail!("the {what} {} is no regular file", path.display());
        }
        Ok(PemFile { path, what, file, found })
    }

    fn read(mut self) -> Result<Vec<u8>> {
        let mut pem = Vec::new();
        let read = self.file.read_to_end(&mut pem);
        read.with_context(|| access_problem(self.path, self.what))?;
        Ok(pem)
    }
}

/// What is said of a file that the system does not let us read: whose it is, and who we are.
fn access_problem(path: &Path, what: &str) -> String {
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
