//! The files of a server beside its store: the first key, secrets, and the socket for commands on
//! the same machine. `consign serve` and programs that embed a server share them.

pub mod admin_key;
pub mod local_socket;
pub mod secret_file;

use std::error::Error;

/// How the names of temporary files and folders in the data folder begin.
pub const TEMPORARY: &str = ".consign-";

/// Why a file of the data folder cannot be used: what is wrong, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct FileError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl FileError {
    fn new(message: impl Into<String>) -> Self {
        FileError { message: message.into(), source: None }
    }

    /// The error with its cause.
    fn caused<E: Into<Box<dyn Error + Send + Sync>>>(
        message: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        move |cause| FileError { message: message.into(), source: Some(cause.into()) }
    }
}
