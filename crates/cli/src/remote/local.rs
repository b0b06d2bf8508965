//! The key of the data folder, and the one way in which it leaves the process.

use crate::{
    args::{ConnectionArgs, SettingsArgs},
    config_command, data_folder,
};
use anyhow::{Context, Result, anyhow};
use client::{Address, Client};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use server::data_folder::{
    admin_key,
    local_socket::{self, Reachable},
};
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use wire::Secret;

/// A client of the server at `address` on this machine. With the key of the data folder it connects
/// to the socket in that folder and nowhere else: over TCP it could not know which user listens.
/// Without that key it connects over TCP, and the server decides what callers without one may do.
pub(super) fn client(address: &Address, args: &ConnectionArgs) -> Result<Option<Client>> {
    let settings = SettingsArgs { store: args.store.clone(), ..SettingsArgs::default() };
    let Ok(settings) = config_command::load(&settings) else { return Ok(None) };
    let Some(folder) = OpenFolder::open(settings.store.folder()) else { return Ok(None) };
    let Some(key) = folder.read_key() else { return Ok(None) };
    let port = address.port();
    key.check(&folder, port).map_err(|reason| {
        let path = key.path.display();
        anyhow!("the key in {path} was not sent: {reason}; where you know the server, give it: --key @{path}")
    })?;
    let socket = local_socket::path(folder.path, port);
    let context = format!("the folder {} cannot be used", folder.path.display());
    let reachable_path = folder.into_reachable(port).context(context)?;
    Ok(Some(Client::over_socket(
        &address.to_string(),
        Some(&key.secret),
        &socket,
        &reachable_path,
    )?))
}

/// A data folder that is opened once. The key and the socket are looked up from this handle: a user
/// who can write to a parent folder could otherwise exchange the folder between the checks and the
/// connection.
struct OpenFolder<'a> {
    /// As the user named it.
    path: &'a Path,
    handle: File,
}

/// `admin.key` of a data folder on this machine.
struct FolderKey {
    secret: Secret,
    path: PathBuf,
    owner: u32,
}

impl<'a> OpenFolder<'a> {
    fn open(path: &'a Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        Some(OpenFolder { path, handle: File::from(handle) })
    }

    fn read_key(&self) -> Option<FolderKey> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.handle, admin_key::NAME, flags, Mode::empty());
        let mut file = File::from(opened.ok()?);
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        let path = self.path.join(admin_key::NAME);
        Some(FolderKey { secret: Secret::new(text.trim()), path, owner: metadata.uid() })
    }

    /// A path to the socket of the server at `port`, valid as long as this process.
    fn into_reachable(self, port: u16) -> io::Result<PathBuf> {
        let reachable = Reachable::within(self.handle.into(), local_socket::name(port));
        // Without /proc, the path of the folder is the only way to the socket.
        let has_proc = reachable.path().parent().is_some_and(Path::exists);
        let reachable = match has_proc {
            true => reachable,
            false => Reachable::new(&local_socket::path(self.path, port))?,
        };
        let path = reachable.path().to_owned();
        // Never closed: the path goes through the descriptor, and the client may connect again.
        std::mem::forget(reachable);
        Ok(path)
    }
}

impl FolderKey {
    /// Makes sure that the socket belongs to the owner of the key. Root may use the key of another
    /// user, with a server of that user.
    fn check(&self, folder: &OpenFolder<'_>, port: u16) -> Result<(), String> {
        let user = rustix::process::geteuid().as_raw();
        if self.owner != user && user != 0 {
            return Err(format!("it belongs to user {}", self.owner));
        }
        let shown = folder.path.display();
        let unreadable = |error| format!("{shown} cannot be examined: {error}");
        let folder_metadata = folder.handle.metadata().map_err(unreadable)?;
        if data_folder::is_writable_by_others(&folder_metadata)
            || ![self.owner, 0].contains(&folder_metadata.uid())
        {
            return Err(format!(
                "other users can write to {shown}, and may have put a socket there (chmod go-w {shown} mends that)"
            ));
        }
        // A server that is down has no socket, and the connection will fail.
        let (name, flags) = (local_socket::name(port), AtFlags::SYMLINK_NOFOLLOW);
        let Ok(metadata) = rustix::fs::statat(&folder.handle, name, flags) else { return Ok(()) };
        let is_socket = FileType::from_raw_mode(metadata.st_mode).is_socket();
        if !is_socket || metadata.st_uid != self.owner {
            let socket = local_socket::path(folder.path, port);
            return Err(format!("{} is no socket of user {}", socket.display(), self.owner));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::{
            fs::DirBuilderExt,
            net::{UnixListener, UnixStream},
        },
    };
    use tempfile::TempDir;

    const PORT: u16 = 1;

    /// Makes a folder with a key and a socket.
    fn make_folder(folder: &Path, key: &str) -> UnixListener {
        fs::DirBuilder::new().mode(0o700).create(folder).unwrap();
        fs::write(folder.join(admin_key::NAME), key).unwrap();
        let listener = UnixListener::bind(local_socket::path(folder, PORT)).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    #[test]
    fn a_folder_that_a_neighbour_exchanges_gets_neither_key_nor_connection() {
        let parent = TempDir::new().unwrap();
        let (data, aside) = (parent.path().join("data"), parent.path().join("aside"));
        let own = make_folder(&data, "ours");
        let folder = OpenFolder::open(&data).unwrap();
        fs::rename(&data, &aside).unwrap();
        let planted = make_folder(&data, "planted");
        let key = folder.read_key().unwrap();
        assert_eq!((key.secret.expose(), &key.path), ("ours", &data.join(admin_key::NAME)));
        key.check(&folder, PORT).unwrap();
        UnixStream::connect(folder.into_reachable(PORT).unwrap()).unwrap();
        assert!(own.accept().is_ok() && planted.accept().is_err());
    }

    #[test]
    fn a_fifo_is_not_read_as_an_admin_key() {
        let parent = TempDir::new().unwrap();
        let path = parent.path().join(admin_key::NAME);
        let folder = OpenFolder::open(parent.path()).unwrap();
        assert!(folder.read_key().is_none());
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(folder.read_key().is_none());
    }
}
