//! The folders of servers, and the sockets in them.

use std::path::Path;
use tempfile::{Builder, TempDir};

const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "consign-test-";

/// A folder in memory, or on disk if the machine has no folder in memory.
pub(crate) fn in_memory() -> TempDir {
    if !Path::new(MEMORY).is_dir() {
        return on_disk();
    }
    Builder::new().prefix(PREFIX).tempdir_in(MEMORY).expect("a folder can be made in memory")
}

pub(crate) fn on_disk() -> TempDir {
    Builder::new().prefix(PREFIX).tempdir().expect("a folder can be made")
}

/// The address of the socket in `folder`. Unlike a port, it cannot belong to another program.
pub(crate) fn socket_address(folder: &Path, user: &str, port: u16, database: &str) -> String {
    let folder = folder.display().to_string().replace('/', "%2F");
    format!("postgres://{user}@{folder}:{port}/{database}")
}
