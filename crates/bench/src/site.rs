//! Where one store of a run is: in a file, or in a schema of a database.

use crate::{Error, database::Schema, files::failed};
use std::{fs, path::PathBuf};

#[derive(Clone)]
pub(crate) enum Site {
    File(PathBuf),
    Schema(Schema),
}

impl Site {
    /// Puts what was written where it belongs. A closed file has done so by itself.
    pub(crate) async fn settle(&self) -> Result<(), Error> {
        match self {
            Site::File(_) => Ok(()),
            Site::Schema(schema) => schema.settle().await,
        }
    }

    pub(crate) async fn bytes(&self) -> Result<u64, Error> {
        match self {
            Site::File(path) => match fs::metadata(path) {
                Ok(file) => Ok(file.len()),
                Err(error) => Err(failed("weighing", path, error)),
            },
            Site::Schema(schema) => schema.bytes().await,
        }
    }
}
