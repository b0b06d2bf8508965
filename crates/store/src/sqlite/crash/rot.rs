//! A disk that rots: bits flip, files are cut. A read returns what was written, or an error.

use super::{
    DB, WAL,
    check::health,
    open,
    points::on_all_cores,
    say,
    snapshot::Snapshot,
    story::{Plan, Story},
    with_causes,
};
use crate::{Answer, Execute, Notification, Request, SeededRandom, Sqlite, Store, StoreError};
use crash_disk::Disk;
use engine::{ClaimId, ClaimRequest, JobId, JobType, Scope, WorkerId};
use pollster::block_on;
use std::{
    collections::BTreeMap,
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

const PLAN: Plan =
    Plan { seed: 9, past_steps: 0, empty_commits: 0, steps: 90, overlaps_checkpoints: false };

#[test]
fn a_flipped_bit_of_the_file_is_seen_or_does_no_harm() {
    let story = Story::of(PLAN);
    let closed = copy(&story.disk);
    rots("bits of the file", &story, 3_000, |number| flipped(&closed, DB, number));
}

/// Few rows are essential for all others, and random damage would hardly ever hit them.
#[test]
fn a_flipped_bit_of_the_small_tables_is_seen_or_does_no_harm() {
    let story = Story::of(PLAN);
    let closed = copy(&story.disk);
    let bytes = story.disk.contents(DB).expect("it is there");
    for table in ["store_meta", "queue", "counter", "record", "audit"] {
        let page = root_of(&story.disk, table);
        let used: Vec<usize> = page.filter(|offset| bytes[*offset] != 0).collect();
        rots(&format!("bits of the table {table}"), &story, used.len() as u64 * 8, |number| {
            let (offset, bit) = (used[number as usize / 8], (number % 8) as u8);
            flip(&closed, DB, offset, bit)
        });
    }
}

fn root_of(disk: &Disk, table: &str) -> std::ops::Range<usize> {
    let db = copied(&copy(disk)).open(DB).expect("it opens");
    let root = "select rootpage from sqlite_schema where name = ?1";
    let root: usize = db.query_row(root, [table], |row| row.get(0)).expect("it is there");
    (root - 1) * 4_096..root * 4_096
}

#[test]
fn a_flipped_bit_of_the_log_is_seen_or_does_no_harm() {
    let (story, killed) = killed();
    rots("bits of the log", &story, 700, |number| flipped(&killed, WAL, number));
    rots("bits of the file under a log", &story, 300, |number| flipped(&killed, DB, number));
}

/// Behind a crash there are the pieces of one transaction, and never of two.
#[test]
fn a_flipped_bit_before_the_last_transaction_of_the_log_is_seen() {
    let story = Story::of(PLAN);
    let killed = (0..story.calls.len()).rev().find_map(|calls| {
        let files = copy(&story.disk.after_kill(story.calls[calls].begun));
        let last = last_transactions(files.iter().find(|(name, _)| name == WAL)?);
        last.filter(|last| last.len() > 4).map(|last| (calls, files, last))
    });
    let (calls, files, last) = killed.expect("some log holds more than four transactions");
    let before_the_last = last[last.len() - 2];
    let found = rots_after("bits before the last transaction", &story, calls, 500, |number| {
        let random = SeededRandom::new(number);
        let offset = 32 + random.next() as usize % (before_the_last - 32);
        flip(&files, WAL, offset, (random.next() % 8) as u8)
    });
    assert_eq!(found.get(&Verdict::Earlier), None, "what was acknowledged is forgotten in silence");
    assert!(found.contains_key(&Verdict::Detected));
}

/// Where the transactions of the newest log end.
fn last_transactions((_, log): &(String, Vec<u8>)) -> Option<Vec<usize>> {
    let salts = log.get(16..24)?;
    let frames = log[32..].chunks_exact(24 + 4_096).enumerate();
    let ours = frames.take_while(|(_, frame)| &frame[8..16] == salts);
    let ends = ours.filter(|(_, frame)| frame[4..8] != [0; 4]);
    Some(ends.map(|(number, _)| 32 + (number + 1) * (24 + 4_096)).collect())
}

#[test]
fn a_file_that_was_cut_is_seen() {
    let story = Story::of(PLAN);
    let closed = copy(&story.disk);
    rots("cuts of the file", &story, 200, |number| cut(&closed, DB, number));
    let (story, killed) = killed();
    rots("cuts of the log", &story, 200, |number| cut(&killed, WAL, number));
}

type Files = Vec<(String, Vec<u8>)>;

/// The files of a store whose process died before it could close them.
fn killed() -> (Story, Files) {
    let story = Story::of(PLAN);
    let closing = story.calls.last().expect("it was closed").begun;
    let files = copy(&story.disk.after_kill(closing));
    assert!(files.iter().any(|(name, bytes)| name == WAL && bytes.len() > 20_000));
    (story, files)
}

fn copy(disk: &Disk) -> Files {
    let names = disk.files().into_iter().map(|(name, _)| name);
    names.map(|name| (name.clone(), disk.contents(&name).expect("listed"))).collect()
}

fn copied(files: &Files) -> Disk {
    Disk::holding(files.clone())
}

fn flipped(files: &Files, name: &str, seed: u64) -> (Disk, String) {
    let random = SeededRandom::new(seed);
    let size = copied(files).contents(name).expect("it is there").len() as u64;
    flip(files, name, (random.next() % size) as usize, (random.next() % 8) as u8)
}

fn flip(files: &Files, name: &str, offset: usize, bit: u8) -> (Disk, String) {
    let disk = copied(files);
    disk.flip_bit(name, offset, bit);
    (disk, format!("bit {bit} of byte {offset} of {name}"))
}

fn cut(files: &Files, name: &str, seed: u64) -> (Disk, String) {
    let random = SeededRandom::new(seed);
    let disk = copied(files);
    let size = disk.contents(name).expect("it is there").len() as u64;
    let page = if random.next().is_multiple_of(2) { 4_096 } else { 1 };
    // Never to zero bytes: a store that is being created begins like that, so that damage is
    // invisible.
    let size = (random.next() % size / page * page).max(1) as usize;
    disk.cut(name, size);
    (disk, format!("{name} cut to {size}"))
}

/// The result of a piece of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// No answer differs.
    Harmless,
    /// A caller got an error.
    Detected,
    /// The end of the log is gone, and all is as at an earlier moment: before the last transaction,
    /// if a bit of it flipped, or before the cut. That cannot be distinguished from a crash.
    Earlier,
}

/// Damages the disk at the end of a whole story.
fn rots(what: &str, story: &Story, times: u64, damage: impl Fn(u64) -> (Disk, String) + Sync) {
    rots_after(what, story, story.calls.len(), times, damage);
}

/// Damages the disk after the first `calls` calls of a story.
fn rots_after(
    what: &str,
    story: &Story,
    calls: usize,
    times: u64,
    damage: impl Fn(u64) -> (Disk, String) + Sync,
) -> BTreeMap<Verdict, usize> {
    let tally: Mutex<BTreeMap<Verdict, usize>> = Mutex::default();
    let wrong: Mutex<Vec<String>> = Mutex::default();
    on_all_cores(times, |number| {
        let (disk, description) = damage(number);
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&disk, story, calls)));
        match judged.unwrap_or_else(|_| Err("it panicked".into())) {
            Ok(verdict) => *tally.lock().unwrap().entry(verdict).or_default() += 1,
            Err(error) => wrong.lock().unwrap().push(format!("{description}: {error}")),
        }
    });
    let tally = tally.into_inner().unwrap();
    say(&format!("{times} {what}: {tally:?}"));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {times} {what}:\n{}", wrong.len(), wrong.join("\n"));
    tally
}

fn judge(disk: &Disk, story: &Story, calls: usize) -> Result<Verdict, String> {
    let has_log = disk.contents(WAL).is_some();
    let Ok(store) = open(disk) else { return Ok(Verdict::Detected) };
    let sound = health(&store.files).is_ok_and(|findings| findings.is_empty());
    let snapshot = story.snapshot_after(calls);
    if sound && has_log && is_earlier(&store, story, calls) {
        return Ok(Verdict::Earlier);
    }
    let mut reading = Reading { store: &store, reported: !sound, missing: None };
    reading.read_all(snapshot)?;
    reading.work(snapshot)?;
    match (reading.reported, reading.missing) {
        (true, _) => Ok(Verdict::Detected),
        (false, None) => Ok(Verdict::Harmless),
        (false, Some(what)) => Err(format!("{what} is not there, and no error reports it")),
    }
}

/// Whether all is exactly as at an earlier moment of the story.
fn is_earlier(store: &Sqlite, story: &Story, calls: usize) -> bool {
    let Ok(found) = Snapshot::read(store) else { return false };
    let mut snapshots = (0..=calls).map(|calls| story.snapshot_after(calls));
    found != *story.snapshot_after(calls) && snapshots.any(|snapshot| *snapshot == found)
}

/// Reads all that should be there. An answer may be an error or nothing, but never wrong data.
struct Reading<'a> {
    store: &'a Sqlite,
    /// Whether a caller got an error about the damage.
    reported: bool,
    missing: Option<String>,
}

impl Reading<'_> {
    fn read_all(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        for (id, view) in &snapshot.jobs {
            let job = block_on(self.store.job(&Scope::All, *id));
            self.compare(&format!("job {id}"), job, &view.job)?;
            let payload = block_on(self.store.payload(&Scope::All, *id));
            self.compare(&format!("payload of {id}"), payload, &view.payload)?;
            let history = block_on(self.store.history(&Scope::All, *id, 0));
            let history = history.map(|rows| Some(rows).filter(|rows| !rows.is_empty()));
            self.compare(&format!("history of {id}"), history, &view.history)?;
        }
        // The number of published events is plain, and may be wrong; the events may not.
        let found = super::snapshot::events(self.store)
            .or_else(|error| self.fails("events", &error).map(|()| Vec::new()))?;
        match found.iter().zip(&*snapshot.events).find(|(found, reported)| found != reported) {
            Some((found, reported)) => Err(format!("{found:?} is announced, not {reported:?}")),
            None => Ok(()),
        }
    }

    fn compare<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        answer: Result<Option<T>, StoreError>,
        expected: &T,
    ) -> Result<(), String> {
        match answer {
            Ok(Some(found)) if found == *expected => {}
            Ok(Some(found)) => return Err(format!("{what} is {found:?}, not {expected:?}")),
            Ok(None) => self.missing = Some(what.to_owned()),
            Err(error) => self.fails(what, &error)?,
        }
        Ok(())
    }

    fn fails(&mut self, what: &str, error: &StoreError) -> Result<(), String> {
        self.reported = true;
        let error = with_causes(error);
        // The error text of a broken `oneshot`: a thread of the store is gone.
        if error.contains("the sender is gone") { Err(format!("{what}: {error}")) } else { Ok(()) }
    }

    /// Work on damaged data may at most fail.
    fn work(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        let numbered = block_on(self.store.number_events(1_000));
        numbered.or_else(|error| self.fails("number events", &error).map(|()| 0))?;
        let pruned = block_on(self.store.prune_leftovers(100));
        pruned.or_else(|error| self.fails("prune", &error).map(|()| 0))?;
        let overdue = block_on(self.store.overdue(100));
        overdue.map(drop).or_else(|error| self.fails("overdue", &error))?;
        let queues = block_on(self.store.queues(&Scope::All));
        queues.map(drop).or_else(|error| self.fails("queues", &error))?;
        let claimed = self.store.execute(vec![claim()], Notification::default());
        match claimed.as_deref() {
            Ok([Ok(Answer::Claimed(jobs))]) => {
                for claimed in jobs {
                    is_as_submitted(snapshot, claimed.job.id(), &claimed.payload)?;
                }
                Ok(())
            }
            Ok(other) => Err(format!("a claim was answered by {other:?}")),
            Err(error) => self.fails("claim", error),
        }
    }
}

fn is_as_submitted(
    snapshot: &Snapshot,
    id: JobId,
    payload: &engine::JsonText,
) -> Result<(), String> {
    let view = snapshot.jobs.get(&id).ok_or(format!("{id} was never submitted"))?;
    if view.payload == *payload && !view.job.status().is_ended() {
        return Ok(());
    }
    Err(format!("{id} was given to a worker and should not have been"))
}

fn claim() -> Request {
    let types = ["email", "report", "import"];
    let claim_request = ClaimRequest {
        worker: WorkerId::parse("w9").expect("lawful"),
        host: None,
        claim: ClaimId::parse("c9").expect("lawful"),
        job_types: types.iter().map(|name| JobType::parse(name).expect("lawful")).collect(),
        max: 100,
        lease: None,
    };
    Request::Claim { scope: Scope::All, claim_request }
}
