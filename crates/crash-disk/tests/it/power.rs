//! The power fails, or the process dies, after every single operation.

use crate::workload::{
    Commit, DB, Mode, WAL_FULL, WAL_NORMAL, Wrong, commit, compare, connect, run_workload,
};
use crash_disk::Disk;
use std::{collections::BTreeMap, io::Write};

const SEEDS: u64 = 6;

#[test]
fn wal_with_full_syncs_keeps_every_commit_through_every_power_loss() {
    keeps_all("wal, synchronous = full", WAL_FULL);
}

#[test]
fn a_rollback_journal_whose_deletion_is_synced_keeps_every_commit() {
    keeps_all("rollback journal", Mode { journal: "delete", synchronous: "extra" });
    keeps_all("truncated journal", Mode { journal: "truncate", synchronous: "full" });
}

#[test]
fn a_rollback_journal_may_come_back_when_its_deletion_is_not_synced() {
    let disk = Disk::new();
    let commits = run_workload(&disk, Mode { journal: "delete", synchronous: "full" });
    let tally = every_moment(&disk, &commits);
    tally.print("rollback journal, synchronous = full");
    assert!(tally.lost > 0, "a lost deletion is not seen");
    assert_eq!((tally.corrupt, tally.other), (0, 0), "a lost commit is lost whole");
}

#[test]
fn wal_with_normal_syncs_loses_commits_but_stays_whole() {
    let disk = Disk::new();
    let commits = run_workload(&disk, WAL_NORMAL);
    let tally = every_moment(&disk, &commits);
    tally.print("wal, synchronous = normal");
    assert!(tally.lost > 0, "the disk is too kind");
    assert_eq!((tally.corrupt, tally.other), (0, 0), "normal syncs are enough to stay whole");
}

#[test]
fn a_disk_that_ignores_syncs_loses_commits_and_breaks_the_database() {
    let disk = Disk::new();
    disk.ignore_syncs(true);
    let commits = run_workload(&disk, WAL_FULL);
    let tally = every_moment(&disk, &commits);
    tally.print("a disk that lies");
    assert!(tally.lost > 0 && tally.corrupt > 0, "the disk is too kind");
}

#[test]
fn without_syncs_a_killed_process_loses_nothing() {
    let disk = Disk::new();
    let commits = run_workload(&disk, Mode { journal: "wal", synchronous: "off" });
    for at in 0..=disk.ops() {
        assert_eq!(compare(&disk.after_kill(at), at, &commits), Ok(()), "killed at {at}");
    }
    assert!(every_moment(&disk, &commits).lost > 0, "the disk is too kind");
}

#[test]
fn the_power_may_fail_again_while_the_database_recovers() {
    let disk = Disk::new();
    let commits = run_workload(&disk, WAL_FULL);
    let mut points = 0;
    for at in (0..=disk.ops()).step_by(7) {
        for again in [disk.after_power_loss(at, 1), disk.after_kill(at)] {
            let before = again.ops();
            points += fails_again(&again, before, at, &commits);
        }
    }
    writeln!(std::io::stderr(), "recovery: {points} second crash points").expect("it prints");
}

/// Recovers, commits one more row, and checks every moment of that. Commits that were acknowledged
/// before the first crash must be there at each moment.
fn fails_again(disk: &Disk, before: usize, at: usize, commits: &[Commit]) -> usize {
    let acknowledged: Vec<Commit> = commits.iter().copied().filter(|c| c.done <= at).collect();
    if acknowledged.is_empty() {
        return 0;
    }
    let acknowledged = acknowledged.into_iter().map(|c| Commit { begun: 0, done: 0, ..c });
    let more = commit(disk, &connect(disk, WAL_FULL), 100);
    let commits: Vec<Commit> = acknowledged.chain([more]).collect();
    let mut points = 0;
    for again in before.max(1)..=disk.ops() {
        let found = disk.after_power_loss(again, 2);
        assert_eq!(compare(&found, again, &commits), Ok(()), "first {at}, then {again}");
        points += 1;
    }
    points
}

#[test]
fn the_same_seed_finds_the_same() {
    let disk = Disk::new();
    run_workload(&disk, WAL_FULL);
    let found = |at, seed| everything(&disk.after_power_loss(at, seed));
    let mut different = 0;
    for at in 0..=disk.ops() {
        assert_eq!(found(at, 3), found(at, 3));
        different += usize::from(found(at, 3) != found(at, 4));
    }
    assert!(different > disk.ops() / 4, "only {different} moments depend on chance");
}

fn everything(disk: &Disk) -> BTreeMap<String, Vec<u8>> {
    let contents = |name: &str| disk.contents(name).expect("it is listed");
    disk.files().into_iter().map(|(name, _)| (name.clone(), contents(&name))).collect()
}

#[track_caller]
fn keeps_all(what: &str, mode: Mode) {
    let disk = Disk::new();
    let commits = run_workload(&disk, mode);
    let tally = every_moment(&disk, &commits);
    tally.print(what);
    assert_eq!(tally.wrong(), 0, "{:?}", tally.first);
    assert!(disk.files().iter().any(|(name, _)| name == DB));
}

/// How many disks were checked, and what was wrong with them.
#[derive(Default)]
struct Tally {
    points: usize,
    lost: usize,
    corrupt: usize,
    other: usize,
    first: Option<String>,
}

impl Tally {
    fn wrong(&self) -> usize {
        self.lost + self.corrupt + self.other
    }

    fn count(&mut self, how: &str, at: usize, verdict: Result<(), Wrong>) {
        self.points += 1;
        let Err(wrong) = verdict else { return };
        match wrong {
            Wrong::Lost(_) => self.lost += 1,
            Wrong::Corrupt(_) => self.corrupt += 1,
            Wrong::Early(_) | Wrong::Partial(_) => self.other += 1,
        }
        self.first.get_or_insert(format!("{how} at {at}: {wrong:?}"));
    }

    fn print(&self, what: &str) {
        let Tally { points, lost, corrupt, other, .. } = self;
        let line =
            format!("{what}: {points} crash points, lost {lost}, corrupt {corrupt}, other {other}");
        writeln!(std::io::stderr(), "{line}").expect("it prints");
    }
}

fn every_moment(disk: &Disk, commits: &[Commit]) -> Tally {
    let mut tally = Tally::default();
    for at in 0..=disk.ops() {
        tally.count("killed", at, compare(&disk.after_kill(at), at, commits));
        tally.count("strict", at, compare(&disk.after_power_loss_strict(at), at, commits));
        for seed in 0..SEEDS {
            let found = disk.after_power_loss(at, seed);
            tally.count(&format!("seed {seed}"), at, compare(&found, at, commits));
        }
    }
    tally
}
