//! The operations of a disk, in order.

use std::{collections::BTreeMap, fmt, sync::Arc};

pub(crate) type Name = Arc<str>;

/// One file, whatever its name: a file that is deleted and created again is two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u64);

/// The files on the disk before its log begins, all of them durable.
pub(crate) type Base = BTreeMap<Name, (FileId, Arc<[u8]>)>;

/// One operation of a disk, which has happened as far as a running process can see.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Create { file: FileId, name: Name },
    Delete { name: Name },
    Change { file: FileId, change: Change },
    Sync { file: FileId, sync: Sync },
    SyncFolder { sync: Sync },
}

/// How the bytes of a file change.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: usize, data: Arc<[u8]> },
    Truncate { size: usize },
    // The last two are damage: no program requested them, and no sync is needed to keep them.
    FlipBit { offset: usize, bit: u8 },
    Cut { size: usize },
}

/// What a sync achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Done,
    /// The disk reported success and did nothing.
    Ignored,
    /// The disk reported a failure, and dropped the data that it still had to write.
    Failed,
}

impl Change {
    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write { offset, data } => write(bytes, *offset, data),
            Change::Truncate { size } => bytes.resize(*size, 0),
            Change::FlipBit { offset, bit } => {
                if let Some(byte) = bytes.get_mut(*offset) {
                    *byte ^= 1 << bit;
                }
            }
            Change::Cut { size } => bytes.truncate(*size),
        }
    }

    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Change::FlipBit { .. } | Change::Cut { .. } => true,
            Change::Write { .. } | Change::Truncate { .. } => false,
        }
    }
}

/// Writes `data` at its offset; a gap behind the end of the file becomes zeros.
pub(crate) fn write(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create { file, name } => write!(f, "create {name} as file {}", file.0),
            Op::Delete { name } => write!(f, "delete {name}"),
            Op::Change { file, change } => write!(f, "file {}: {change}", file.0),
            Op::Sync { file, sync } => write!(f, "file {}: sync {sync:?}", file.0),
            Op::SyncFolder { sync } => write!(f, "sync of the folder {sync:?}"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Write { offset, data } => write!(f, "write {} bytes at {offset}", data.len()),
            Change::Truncate { size } => write!(f, "truncate to {size}"),
            Change::FlipBit { offset, bit } => write!(f, "bit {bit} of {offset} flips"),
            Change::Cut { size } => write!(f, "cut to {size}"),
        }
    }
}
