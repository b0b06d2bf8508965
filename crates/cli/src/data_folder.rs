//! The data folder: mode 0700 where Consign made it, and never one that other users can write to.
//!
//! The files in it have mode 0600 anyway. Write access to the folder is what counts: with it,
//! another user could put a store, a key or a socket of their own in the place of ours.

use crate::{
    args::{StoreAddress, folder_of},
    ready_made,
};
use anyhow::{Context, Result, bail};
use server::data_folder::{TEMPORARY, admin_key, local_socket};
use std::{
    env,
    fs::{self, DirBuilder, File, Metadata},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::Path,
};
use tracing::warn;

/// Makes the folder for this user alone where there is none. One that is there is made private if
/// it is empty or holds nothing but files of Consign, and refused if other users can write to it.
pub(crate) fn prepare(address: &StoreAddress) -> Result<()> {
    let folder = address.folder();
    let shown = folder.display();
    let missing =
        matches!(fs::symlink_metadata(folder), Err(error) if error.kind() == ErrorKind::NotFound);
    if missing {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        created.with_context(|| format!("the folder {shown} cannot be made"))?;
    }
    let opened = File::open(folder).and_then(|opened| Ok((opened.metadata()?, opened)));
    let (metadata, opened) =
        opened.with_context(|| format!("the folder {shown} cannot be used"))?;
    if !metadata.is_dir() {
        bail!("{shown} is no folder; name another store with --store");
    }
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user && metadata.uid() != 0 {
        bail!(
            "the data folder {shown} belongs to user {}, who could replace the files in it; run consign as that \
             user, or give it the folder: chown {user} {shown}",
            metadata.uid()
        );
    }
    if metadata.uid() == user && metadata.mode() & 0o077 != 0 && is_for_us(&metadata, address)? {
        let private = opened.set_permissions(fs::Permissions::from_mode(0o700));
        private.with_context(|| format!("the folder {shown} cannot be made private"))?;
        let mode = metadata.mode() & 0o777;
        warn!(folder = %shown, "other users could look into the data folder (mode {mode:o}); it is private now");
        return Ok(());
    }
    if is_writable_by_others(&metadata) {
        bail!(
            "other users can write to the data folder {shown} (mode {:o}), and could replace the store and its \
             keys; {}",
            metadata.mode() & 0o7777,
            writable_remedy(&metadata, address)
        );
    }
    if let Some(text) = warning(&metadata, address) {
        warn!("{text}");
    }
    Ok(())
}

/// The warning about a folder that other users can read and that is left as it is.
fn warning(metadata: &Metadata, address: &StoreAddress) -> Option<String> {
    let (folder, mode) = (address.folder().display(), metadata.mode() & 0o777);
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let is_mixed = is_own && !is_general(metadata, address.folder());
    (is_mixed && mode & 0o077 != 0).then(|| {
        format!(
            "other users can look into the data folder {folder} (mode {mode:o}), which holds other files too and is \
             left as it is; make it private with `chmod go-rwx {folder}`"
        )
    })
}

/// Refuses to make a copy in a folder where any user, or the folder's owner, could replace it while
/// it is made. A folder that a group shares for backups, or a sticky one, is the operator's choice.
pub(crate) fn check_target(copy: &Path) -> Result<()> {
    let folder = folder_of(copy);
    let Ok(metadata) = fs::metadata(folder) else { return Ok(()) };
    let (shown, owner, mode) = (folder.display(), metadata.uid(), metadata.mode() & 0o7777);
    let user = rustix::process::geteuid().as_raw();
    // The sticky bit binds other users, and not the owner of the folder.
    if owner != user && owner != 0 {
        bail!(
            "the folder {shown} belongs to user {owner}, who could exchange the copy while it is made; give it to \
             user {user}, as which consign runs, with `chown {user} {shown}`, or name another folder"
        );
    }
    if mode & 0o1002 == 0o002 {
        bail!(
            "all users can write to {shown} (mode {mode:o}), and could take the copy away while it is made; mend it \
             with `chmod o-w {shown}`, or name another folder"
        );
    }
    Ok(())
}

pub(crate) fn is_writable_by_others(folder: &Metadata) -> bool {
    folder.mode() & 0o022 != 0
}

/// What to do about a data folder that other users can write to.
fn writable_remedy(metadata: &Metadata, address: &StoreAddress) -> String {
    // A sticky folder such as /tmp is shared on purpose. Other users cannot exchange a folder of
    // ours in it; without the sticky bit they could.
    let is_shared = metadata.mode() & 0o1000 != 0;
    let folder = address.folder();
    let elsewhere = match address {
        StoreAddress::Sqlite(path) if is_shared => {
            let own = folder.join("consign-data").join(path.file_name().unwrap_or_default());
            return format!("give the store a folder of its own: --store sqlite:{}", own.display());
        }
        StoreAddress::Sqlite(_) => "name a store in another folder with --store",
        StoreAddress::Postgres(_) if is_shared => return "start consign in another folder".into(),
        StoreAddress::Postgres(_) => "start consign in another folder",
    };
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let instruction = if is_own { "mend it" } else { "have root mend it" };
    format!("{instruction} with `chmod go-w {}`, or {elsewhere}", folder.display())
}

/// Whether the folder is the current one or the home folder, where a shell or a project lives, or a
/// sticky one, which is shared on purpose.
fn is_general(metadata: &Metadata, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    let home = env::home_dir().and_then(|home| real(&home));
    let is_home = home.is_some() && real(folder) == home;
    is_home || real(folder) == real(Path::new(".")) || metadata.mode() & 0o1000 != 0
}

/// Whether the folder is for Consign alone: it holds files of Consign and no others, or nothing
/// yet, as a fresh volume does.
fn is_for_us(metadata: &Metadata, address: &StoreAddress) -> Result<bool> {
    let folder = address.folder();
    let unreadable = || format!("the folder {} cannot be read", folder.display());
    if is_general(metadata, folder) {
        return Ok(false);
    }
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let name = entry.with_context(unreadable)?.file_name();
        if !name.to_str().is_some_and(|name| is_ours(name, address)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_ours(name: &str, address: &StoreAddress) -> bool {
    let beside_store = match address {
        StoreAddress::Sqlite(path) => {
            let store = path.file_name().unwrap_or_default().to_str();
            let ending = store.and_then(|store| name.strip_prefix(store));
            ending.is_some_and(|ending| ["", "-wal", "-shm", "-journal", ".lock"].contains(&ending))
        }
        StoreAddress::Postgres(_) => false,
    };
    beside_store
        || [admin_key::NAME, ready_made::SIGNING_KEY].contains(&name)
        || name.starts_with(TEMPORARY)
        || local_socket::is_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;
    use tempfile::TempDir;

    fn folder_of_mode(mode: u32, names: &[&str]) -> (TempDir, StoreAddress) {
        let parent = TempDir::new().unwrap();
        let folder = parent.path().join("data");
        fs::create_dir(&folder).unwrap();
        for name in names {
            fs::write(folder.join(name), "").unwrap();
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let address = StoreAddress::Sqlite(folder.join("consign.db"));
        (parent, address)
    }

    #[track_caller]
    fn check(mode: u32, names: &[&str], expected: Result<u32, &str>) {
        let (_parent, address) = folder_of_mode(mode, names);
        let outcome = prepare(&address).map_err(|error| format!("{error:#}"));
        let after = fs::metadata(address.folder()).unwrap().mode() & 0o7777;
        match expected {
            Ok(mode) => assert_eq!((outcome, after), (Ok(()), mode)),
            Err(expected) => {
                let error = outcome.unwrap_err();
                assert!(error.contains(expected), "{error}");
                assert_eq!(after, mode, "a folder that is refused stays as it is");
            }
        }
    }

    #[test]
    fn a_folder_of_ours_becomes_private_and_another_stays_as_it_is() {
        let ours = ["consign.db", "consign.db-wal", "admin.key", "consign-8470.sock", ".consign-x"];
        check(0o755, &ours, Ok(0o700));
        check(0o777, &ours, Ok(0o700));
        check(0o700, &["anything"], Ok(0o700));
        check(0o755, &["consign.db", "thesis.txt"], Ok(0o755));
        // A fresh volume.
        check(0o755, &[], Ok(0o700));
        check(0o777, &[], Ok(0o700));
    }

    #[test]
    fn a_folder_in_which_others_can_write_is_refused_with_the_remedy() {
        check(0o777, &["thesis.txt"], Err("chmod go-w "));
        check(0o775, &["consign.db", "consign.db.bak"], Err("chmod go-w "));
        check(0o777, &["thesis.txt"], Err("name a store in another folder with --store"));
        check(0o1777, &[], Err("a folder of its own"));
        check(0o1777, &[], Err("data/consign-data/consign.db"));
    }

    /// In a folder that is not sticky, another user could replace the folder that the remedy
    /// proposes.
    #[test]
    fn a_folder_of_its_own_is_offered_only_where_it_would_be_safe() {
        for mode in [0o777, 0o775, 0o770] {
            let (_parent, address) = folder_of_mode(mode, &["thesis.txt"]);
            let error = format!("{:#}", prepare(&address).unwrap_err());
            assert!(!error.contains("consign-data"), "{mode:o}: {error}");
        }
    }

    #[test]
    fn a_folder_that_stays_open_is_warned_of_with_the_remedy() {
        let (_parent, address) = folder_of_mode(0o755, &["consign.db", "thesis.txt"]);
        prepare(&address).unwrap();
        let metadata = fs::metadata(address.folder()).unwrap();
        let error = warning(&metadata, &address).unwrap();
        let remedy = format!("`chmod go-rwx {}`", address.folder().display());
        assert!(error.contains(&remedy) && error.contains("(mode 755)"), "{error}");
        fs::set_permissions(address.folder(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(warning(&fs::metadata(address.folder()).unwrap(), &address), None);
    }

    #[test]
    fn a_shared_folder_such_as_tmp_is_not_to_be_changed() {
        let (_parent, address) = folder_of_mode(0o1777, &[]);
        let error = format!("{:#}", prepare(&address).unwrap_err());
        assert!(!error.contains("chmod"), "{error}");
    }

    #[test]
    fn a_copy_is_not_made_where_any_user_could_take_it_away() {
        for (mode, allowed) in [(0o777, false), (0o1777, true), (0o770, true), (0o755, true)] {
            let (_parent, address) = folder_of_mode(mode, &[]);
            let copy = address.folder().join("copy.db");
            assert_eq!(check_target(&copy).is_ok(), allowed, "{mode:o}");
        }
    }

    #[test]
    fn a_copy_is_not_made_in_a_folder_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tested: only root can give a folder to another user");
            return;
        }
        for mode in [0o700, 0o755, 0o1777] {
            let (_parent, address) = folder_of_mode(mode, &[]);
            chown(address.folder(), Some(65_534), None).unwrap();
            let error = check_target(&address.folder().join("copy.db")).unwrap_err().to_string();
            let remedy = format!("`chown 0 {}`", address.folder().display());
            assert!(error.contains("belongs to user 65534") && error.contains(&remedy), "{error}");
        }
    }

    #[test]
    fn folders_are_made_private_on_the_way() {
        let parent = TempDir::new().unwrap();
        let address = StoreAddress::Sqlite(parent.path().join("a/b/consign.db"));
        prepare(&address).unwrap();
        for created in ["a", "a/b"] {
            let mode = fs::metadata(parent.path().join(created)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o700, "{created}");
        }
    }
}
