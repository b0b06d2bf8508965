//! The key of the data folder, and the one way on which it leaves the process.

use crate::{
    admin_key,
    args::{ConnectionArgs, SettingsArgs},
    config, data_folder,
    local_socket::{self, Reachable},
};
use anyhow::{Context, Result, anyhow};
use client::{Address, Client};
use rustix::fs::OFlags;
use std::{
    fs::{self, OpenOptions},
    io::Read,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};
use wire::Secret;

/// `admin.key` of a data folder on this machine.
struct FolderKey {
    secret: Secret,
    path: PathBuf,
    owner: u32,
}

/// A client of the server at `address` on this machine. With the key of the data folder it asks
/// the socket in that folder and nothing else: over TCP it could not know which user listens.
/// Without that key it asks over TCP, and the server says what it thinks of callers without one.
pub(super) fn client(address: &Address, args: &ConnectionArgs) -> Result<Option<Client>> {
    let settings = SettingsArgs { store: args.store.clone(), ..SettingsArgs::default() };
    let Ok(settings) = config::load(&settings) else { return Ok(None) };
    let folder = settings.store.folder();
    let Some(key) = read_key(folder) else { return Ok(None) };
    let socket = local_socket::path(folder, address.port());
    key.check(folder, &socket).map_err(|why| {
        let path = key.path.display();
        anyhow!("the key in {path} was sent to nobody: {why}; where you know the server, give it: --key @{path}")
    })?;
    let reachable = Reachable::new(&socket)
        .with_context(|| format!("the folder {} cannot be used", folder.display()))?;
    let by = reachable.path().to_owned();
    // A path through a descriptor is good while that is open, and the client may connect again.
    std::mem::forget(reachable);
    Ok(Some(Client::over_socket(&address.to_string(), Some(&key.secret), &socket, &by)?))
}

/// The key, where this user can read it.
fn read_key(folder: &Path) -> Option<FolderKey> {
    let path = folder.join(admin_key::NAME);
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(&path).ok()?;
    let found = file.metadata().ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(FolderKey { secret: Secret::new(text.trim()), path, owner: found.uid() })
}

impl FolderKey {
    /// Makes sure that the socket is one of the user whose key this is. Root may use the key of
    /// another user, with a server of that user.
    fn check(&self, folder: &Path, socket: &Path) -> Result<(), String> {
        let user = rustix::process::geteuid().as_raw();
        if self.owner != user && user != 0 {
            return Err(format!("it belongs to user {}", self.owner));
        }
        let unreadable = |error| format!("{} cannot be looked at: {error}", folder.display());
        let around = fs::metadata(folder).map_err(unreadable)?;
        if data_folder::is_writable_by_others(&around) || ![self.owner, 0].contains(&around.uid()) {
            let folder = folder.display();
            return Err(format!(
                "other users can write to {folder}, and may have put a socket there (chmod go-w {folder} mends that)"
            ));
        }
        // A server that is not up has none, and to connect will fail.
        let Ok(found) = fs::symlink_metadata(socket) else { return Ok(()) };
        if !found.file_type().is_socket() || found.uid() != self.owner {
            return Err(format!("{} is no socket of user {}", socket.display(), self.owner));
        }
        Ok(())
    }
}
