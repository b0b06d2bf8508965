//! The Unix socket of a server in its data folder, for commands on the same machine.
//!
//! A TCP port on loopback belongs to the first process that takes it, of any user. A socket in the
//! data folder belongs to the user of that folder. So the key of the data folder is sent over this
//! socket and never over TCP. The server's TCP port is part of the name: nodes that share a folder
//! have a socket each, and a command finds the one that its URL means.

use super::{FileError, TEMPORARY};
use rustix::{
    fs::{Mode, OFlags},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use std::{
    ffi::OsStr,
    fs,
    io::{self, ErrorKind},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::{FileTypeExt, MetadataExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
};
use tracing::warn;

/// The path of the socket of the server at this TCP port.
pub fn path(folder: &Path, port: u16) -> PathBuf {
    folder.join(name(port))
}

/// The name of its file.
pub fn name(port: u16) -> String {
    format!("consign-{port}.sock")
}

/// Whether a file name is one that [`name`] gives.
pub fn is_name(name: &str) -> bool {
    let port = name.strip_prefix("consign-").and_then(|rest| rest.strip_suffix(".sock"));
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// A bound socket. Dropping it removes its file.
pub struct LocalSocket {
    path: PathBuf,
    /// Device and inode: the file at `path` may belong to a server that started since.
    identity: (u64, u64),
}

/// Binds the socket in the data folder. `None` where that is not possible: the server is then
/// reached over TCP only, and commands say that they need a key.
pub fn listen(folder: &Path, port: u16) -> Result<Option<(UnixListener, LocalSocket)>, FileError> {
    let path = path(folder, port);
    let shown = path.display();
    if is_taken(&path)? {
        warn!(path = %shown, "another server listens at this socket; commands on this machine ask that one");
        return Ok(None);
    }
    match bind(folder, &path) {
        Ok(listening) => Ok(Some(listening)),
        Err(error) => {
            warn!(path = %shown, %error, "no socket could be made in the data folder; commands on this machine need --key");
            Ok(None)
        }
    }
}

/// Whether a running server has this socket. A file there that is no socket of this user is an
/// error, and stays as it is.
fn is_taken(path: &Path) -> Result<bool, FileError> {
    let shown = path.display();
    let unexaminable = || FileError::caused(format!("{shown} cannot be examined"));
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(unexaminable()(error)),
    };
    if !metadata.file_type().is_socket() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(FileError::new(format!(
            "{shown} is where the server's socket belongs, and is no socket of this user; move it away"
        )));
    }
    let reachable = Reachable::new(path).map_err(unexaminable())?;
    // A killed server leaves its file behind; connections to it are refused.
    Ok(UnixStream::connect(reachable.path()).is_ok())
}

/// Binds under a random name and renames. So the socket has its mode before it listens, and it
/// replaces the file of a killed server in one step.
fn bind(folder: &Path, path: &Path) -> io::Result<(UnixListener, LocalSocket)> {
    let reachable = Reachable::new(path)?;
    let temporary_folder = reachable.path().parent().unwrap_or(folder).to_owned();
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY).suffix(".sock");
    let bound = builder.make_in(temporary_folder, |path| {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        rustix::net::listen(&socket, CONNECTIONS_PENDING_MAX)?;
        Ok(UnixListener::from(socket))
    })?;
    let metadata = fs::symlink_metadata(bound.path())?;
    let identity = (metadata.dev(), metadata.ino());
    let listener = bound.persist(reachable.path()).map_err(|failed| failed.error)?;
    Ok((listener, LocalSocket { path: path.to_owned(), identity }))
}

const CONNECTIONS_PENDING_MAX: i32 = 128;

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let metadata = fs::symlink_metadata(&self.path);
        if metadata.is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity) {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// A path by which a socket can be bound or connected. The system takes at most 107 bytes. A longer
/// path goes through a descriptor of its folder, and so does one into a folder that must not be
/// resolved again.
pub struct Reachable {
    path: PathBuf,
    _folder: Option<OwnedFd>,
}

impl Reachable {
    /// A path that the system takes for this one.
    pub fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok(Reachable { path: path.to_owned(), _folder: None });
        }
        let (folder, name) = (path.parent(), path.file_name());
        let (Some(folder), Some(name)) = (folder, name) else {
            return Err(ErrorKind::InvalidFilename.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Reachable::within(opened, name))
    }

    /// A path to `name` in a folder that is open already. It does not work without `/proc`.
    pub fn within(folder: OwnedFd, name: impl AsRef<OsStr>) -> Self {
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
        Reachable { path: path.join(name.as_ref()), _folder: Some(folder) }
    }

    /// Valid as long as `self` exists.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

const SOCKET_PATH_BYTES_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn listen_in(folder: &Path) -> (UnixListener, LocalSocket) {
        listen(folder, 1).unwrap().unwrap()
    }

    #[test]
    fn a_socket_is_private_and_gone_after_an_orderly_end() {
        let folder = TempDir::new().unwrap();
        let (_listener, socket) = listen_in(folder.path());
        let metadata = fs::symlink_metadata(path(folder.path(), 1)).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.mode() & 0o777, 0o600);
        drop(socket);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_socket_that_was_left_is_replaced_and_a_living_one_is_not() {
        let folder = TempDir::new().unwrap();
        let (listener, socket) = listen_in(folder.path());
        assert!(listen(folder.path(), 1).unwrap().is_none());
        drop(listener); // as after `kill -9`: nothing listens, and the file is there
        let (_second, _its_socket) = listen_in(folder.path());
        drop(socket); // the first one removes only its own file
        assert!(UnixStream::connect(path(folder.path(), 1)).is_ok());
    }

    #[test]
    fn a_foreign_file_at_the_socket_path_stops_the_start() {
        let folder = TempDir::new().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, path(folder.path(), 1)).unwrap();
        let error = listen(folder.path(), 1).err().unwrap().to_string();
        assert!(error.contains("move it away"), "{error}");
        fs::rename(&precious, path(folder.path(), 1)).unwrap();
        assert!(listen(folder.path(), 1).is_err());
        assert_eq!(fs::read(path(folder.path(), 1)).unwrap(), b"precious");
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_works() {
        let parent = TempDir::new().unwrap();
        let folder = parent.path().join("f".repeat(120));
        fs::create_dir(&folder).unwrap();
        let (_listener, socket) = listen_in(&folder);
        let long = path(&folder, 1);
        assert!(UnixStream::connect(&long).is_err(), "the system takes long paths now");
        let reachable = Reachable::new(&long).unwrap();
        UnixStream::connect(reachable.path()).unwrap();
        drop(socket);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn names_of_sockets_are_known() {
        assert!(is_name("consign-8470.sock"));
        for other in ["consign-.sock", "consign-x.sock", "consign-70000.sock", "consign.sock"] {
            assert!(!is_name(other), "{other}");
        }
    }
}
