//! What a disk may contain after a power failure.
//!
//! Only synced data is certain. Of the rest, each write may be there, or not, or in part,
//! independently of the writes before and after it: caches write back in any order. Names are
//! safer: a folder is journaled, so that for each name some prefix of its changes is found.

use crate::{
    log::{Base, Change, FileId, Name, Op, Sync, write},
    split_mix::SplitMix,
};
use std::{collections::BTreeMap, ops::Range};

/// What a disk writes atomically. A longer write can be torn at these borders.
const SECTOR: usize = 512;

/// What happens to data that was not synced.
pub(crate) enum Unsynced {
    /// All of it is lost.
    None,
    /// A random choice for each piece.
    Some(SplitMix),
}

/// The files after a power failure behind all of `log`.
pub(crate) fn after_power_loss(
    base: &Base,
    log: &[Op],
    mut unsynced: Unsynced,
) -> BTreeMap<Name, Vec<u8>> {
    let certain = certain(log);
    let mut files = BTreeMap::new();
    for (name, file) in names(base, log, &certain, &mut unsynced) {
        let before = base.values().find(|(id, _)| *id == file).map(|(_, bytes)| bytes.to_vec());
        let changes = log.iter().zip(&certain).filter_map(|(op, certain)| match op {
            Op::Change { file: changed, change } if *changed == file => Some((change, *certain)),
            Op::Change { .. }
            | Op::Create { .. }
            | Op::Delete { .. }
            | Op::Sync { .. }
            | Op::SyncFolder { .. } => None,
        });
        files.insert(name, contents(before.unwrap_or_default(), changes, &mut unsynced));
    }
    files
}

/// For each operation, whether a later sync (or its kind) made it certain.
fn certain(log: &[Op]) -> Vec<bool> {
    let mut certain = vec![false; log.len()];
    let mut uncertain = UncertainOps::default();
    for (number, op) in log.iter().enumerate() {
        match op {
            Op::Create { file, .. } => uncertain.creations.push((*file, number)),
            Op::Delete { .. } => uncertain.deletions.push(number),
            Op::Change { change, .. } if change.is_damage() => certain[number] = true,
            Op::Change { file, .. } => uncertain.changes.entry(*file).or_default().push(number),
            Op::Sync { file, sync: Sync::Done } => uncertain.synced(*file, &mut certain),
            Op::SyncFolder { sync: Sync::Done } => uncertain.folder_synced(&mut certain),
            Op::Sync { file, sync: Sync::Failed } => drop(uncertain.changes.remove(file)),
            Op::Sync { sync: Sync::Ignored, .. } => {}
            Op::SyncFolder { sync: Sync::Ignored | Sync::Failed } => {}
        }
    }
    certain
}

/// Operations that the next sync may make certain.
#[derive(Default)]
struct UncertainOps {
    changes: BTreeMap<FileId, Vec<usize>>,
    creations: Vec<(FileId, usize)>,
    deletions: Vec<usize>,
}

impl UncertainOps {
    /// A sync of a file makes its bytes and its name durable. It makes every deletion durable as
    /// well, because one journal of the file system holds them all, in order. Not so the name of
    /// another new file: it may be there, but a program that never synced that file must not rely
    /// on it.
    fn synced(&mut self, file: FileId, certain: &mut [bool]) {
        let changes = self.changes.remove(&file).unwrap_or_default();
        let creations = self.creations.extract_if(.., |(created, _)| *created == file);
        let kept = changes.into_iter().chain(creations.map(|(_, number)| number));
        kept.chain(self.deletions.drain(..)).for_each(|number| certain[number] = true);
    }

    fn folder_synced(&mut self, certain: &mut [bool]) {
        let creations = self.creations.drain(..).map(|(_, number)| number);
        creations.chain(self.deletions.drain(..)).for_each(|number| certain[number] = true);
    }
}

/// The file of each name. Of the changes of a name, the last certain one and all before it are
/// there; how many follow is random.
fn names(
    base: &Base,
    log: &[Op],
    certain: &[bool],
    unsynced: &mut Unsynced,
) -> BTreeMap<Name, FileId> {
    let mut changes_by_name: BTreeMap<Name, Vec<(Option<FileId>, bool)>> = BTreeMap::new();
    for (name, (file, _)) in base {
        changes_by_name.entry(name.clone()).or_default().push((Some(*file), true));
    }
    for (op, certain) in log.iter().zip(certain) {
        let (name, file) = match op {
            Op::Create { file, name } => (name, Some(*file)),
            Op::Delete { name } => (name, None),
            Op::Change { .. } | Op::Sync { .. } | Op::SyncFolder { .. } => continue,
        };
        changes_by_name.entry(name.clone()).or_default().push((file, *certain));
    }
    let ends =
        changes_by_name.into_iter().map(|(name, changes)| (name, unsynced.file_at_end(&changes)));
    ends.filter_map(|(name, file)| Some((name, file?))).collect()
}

impl Unsynced {
    fn file_at_end(&mut self, changes: &[(Option<FileId>, bool)]) -> Option<FileId> {
        let certain = changes.iter().rposition(|(_, certain)| *certain).map_or(0, |last| last + 1);
        let end = match self {
            Unsynced::None => certain,
            Unsynced::Some(random) => {
                certain + random.below((changes.len() - certain) as u64 + 1) as usize
            }
        };
        end.checked_sub(1).and_then(|last| changes[last].0)
    }
}

/// The bytes of one file, which had `bytes` before all `changes`.
fn contents<'a>(
    mut bytes: Vec<u8>,
    changes: impl Iterator<Item = (&'a Change, bool)>,
    unsynced: &mut Unsynced,
) -> Vec<u8> {
    let mut odds = KeepOdds::of(unsynced);
    for (change, certain) in changes {
        match &mut odds {
            _ if certain => change.apply(&mut bytes),
            Some(odds) => odds.change(&mut bytes, change),
            None => {}
        }
    }
    bytes
}

/// How likely the writes of one file are kept. Files differ, so that one may be complete while
/// another is lost: with an even chance for each write, long runs of either would never occur.
struct KeepOdds<'a> {
    random: &'a mut SplitMix,
    kept_eighths: u64,
    torn_eighths: u64,
}

impl<'a> KeepOdds<'a> {
    fn of(unsynced: &'a mut Unsynced) -> Option<Self> {
        let Unsynced::Some(random) = unsynced else { return None };
        let kept_eighths = [0, 1, 4, 7, 8][random.below(5) as usize];
        let torn_eighths = [0, 2, 6][random.below(3) as usize];
        Some(KeepOdds { random, kept_eighths, torn_eighths })
    }

    fn change(&mut self, bytes: &mut Vec<u8>, change: &Change) {
        match change {
            Change::Write { offset, data } => self.write(bytes, *offset, data),
            Change::Truncate { .. } if self.random.eighths(self.kept_eighths) => {
                change.apply(bytes);
            }
            Change::Truncate { .. } => {}
            Change::FlipBit { .. } | Change::Cut { .. } => change.apply(bytes),
        }
    }

    fn write(&mut self, bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
        if self.random.eighths(self.torn_eighths) {
            self.grow(bytes, offset + data.len());
            for part in sectors(offset, data.len()) {
                if self.random.eighths(4) {
                    write(bytes, offset + part.start, &data[part]);
                }
            }
        } else if self.random.eighths(self.kept_eighths) {
            write(bytes, offset, data);
        } else {
            self.grow(bytes, offset + data.len());
        }
    }

    /// The size of a file may be kept without its bytes. Then it holds zeros, or old data of
    /// another file.
    fn grow(&mut self, bytes: &mut Vec<u8>, size: usize) {
        if size <= bytes.len() || self.random.eighths(5) {
            return;
        }
        let junk = self.random.eighths(4);
        let random = &mut *self.random;
        bytes.resize_with(size, || if junk { random.next() as u8 } else { 0 });
    }
}

/// The parts of a write of `len` bytes at `offset` that lie in one sector each.
fn sectors(offset: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    let first_end = SECTOR - offset % SECTOR;
    let starts = std::iter::once(0).chain((first_end..len).step_by(SECTOR));
    starts.map(move |start| start..len.min(start + SECTOR - (offset + start) % SECTOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, sync::Arc};

    const FILE: FileId = FileId(1);

    #[test]
    fn a_write_is_cut_at_the_borders_of_sectors() {
        assert_eq!(sectors(0, 1024).collect::<Vec<_>>(), [0..512, 512..1024]);
        assert_eq!(sectors(500, 600).collect::<Vec<_>>(), [0..12, 12..524, 524..600]);
        assert_eq!(sectors(512, 600).collect::<Vec<_>>(), [0..512, 512..600]);
    }

    #[test]
    fn synced_writes_survive_and_unsynced_writes_vary() {
        let log = [create(), put(0, 1), sync(Sync::Done), put(0, 2), put(1, 3)];
        let seen: BTreeSet<Vec<u8>> = (0..200).map(|seed| file(&log, seed)).collect();
        let must: [&[u8]; 6] = [&[1], &[2], &[1, 3], &[2, 3], &[1, 0], &[2, 0]];
        assert!(must.iter().all(|bytes| seen.contains(*bytes)), "{seen:?}");
        assert!(seen.iter().all(|bytes| bytes[0] == 1 || bytes[0] == 2), "{seen:?}");
        assert_eq!(after_power_loss(&Base::new(), &log, Unsynced::None)["f"], [1]);
    }

    #[test]
    fn a_failed_sync_leaves_its_writes_uncertain_for_ever() {
        let log = [create(), put(0, 1), sync(Sync::Failed), put(1, 2), sync(Sync::Done)];
        assert_eq!(after_power_loss(&Base::new(), &log, Unsynced::None)["f"], [0, 2]);
    }

    #[test]
    fn an_ignored_sync_is_no_sync() {
        let log = [create(), put(0, 1), sync(Sync::Ignored)];
        assert!(after_power_loss(&Base::new(), &log, Unsynced::None).is_empty());
        let missing = |seed| !after_power_loss(&Base::new(), &log, some(seed)).contains_key("f");
        assert_eq!((0..50).map(missing).collect::<BTreeSet<_>>().len(), 2);
    }

    #[test]
    fn a_deletion_is_certain_after_any_sync() {
        let other = Op::Sync { file: FileId(2), sync: Sync::Done };
        let mut log = vec![create(), sync(Sync::Done), Op::Delete { name: "f".into() }];
        let exists =
            |log: &[Op], seed| after_power_loss(&Base::new(), log, some(seed)).contains_key("f");
        assert_eq!((0..50).map(|seed| exists(&log, seed)).collect::<BTreeSet<_>>().len(), 2);
        log.push(other);
        assert!((0..50).all(|seed| !exists(&log, seed)));
    }

    #[test]
    fn damage_needs_no_sync() {
        let flip = Change::FlipBit { offset: 0, bit: 1 };
        let log = [create(), put(0, 1), sync(Sync::Done), Op::Change { file: FILE, change: flip }];
        assert_eq!(after_power_loss(&Base::new(), &log, Unsynced::None)["f"], [3]);
    }

    fn file(log: &[Op], seed: u64) -> Vec<u8> {
        after_power_loss(&Base::new(), log, some(seed))["f"].clone()
    }

    fn some(seed: u64) -> Unsynced {
        Unsynced::Some(SplitMix::new(seed, 0))
    }

    fn create() -> Op {
        Op::Create { file: FILE, name: "f".into() }
    }

    fn put(offset: usize, byte: u8) -> Op {
        Op::Change { file: FILE, change: Change::Write { offset, data: Arc::new([byte]) } }
    }

    fn sync(sync: Sync) -> Op {
        Op::Sync { file: FILE, sync }
    }
}
