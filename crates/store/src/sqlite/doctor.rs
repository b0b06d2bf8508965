//! What is wrong with a store, and what mends it. Looks at everything and changes nothing, also while
//! the store is at work.

use super::{
    audit::{AUDIT_SINCE, verify},
    body::{event_about, event_from_row, from_row, job_from_row},
    error::{OpenError, TransactionError},
    load::{self, all, blob, first, one, pair},
    maintenance::before,
    open::{Files, Role, refuse_foreign, schema_of},
    outbox_page::lines,
    records,
    seal::{Kind, unseal},
    writer_cache::{Queues, load_counts, load_house, load_queues, load_workers},
};
use crate::{
    AuditChain,
    queue::{Counts, Queue},
    record::RecordKind,
};
use engine::{Envelope, HistoryEntry, Job, JobId, Step, Timestamp};
use rusqlite::Connection;
use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::Duration};

/// What an examination came to.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Jobs that wait or run.
    pub live_jobs: u64,
    /// Jobs that have ended and are kept.
    pub ended_jobs: u64,
    /// Idempotency keys that are remembered.
    pub keys: u64,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether data is damaged; otherwise it is something to look at.
    pub damage: bool,
    /// What is wrong, and where.
    pub what: String,
    /// What to do about it.
    pub cure: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.damage { "damage" } else { "notice" };
        write!(f, "{level}: {}", self.what)
    }
}

const RESTORE: &str =
    "stop the store, keep its files for a closer look, and restore the last backup";
const SWEEP: &str = "is a server running on this store? its sweeper frees them within seconds";
const TIDY: &str = "is a server running on this store? its sweeper drops them in the background";

/// So many findings of one kind are told one by one.
const TOLD_MAX: usize = 20;
/// A lease that is over for longer than this should have been swept.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Examines the store at `path`; `progress` hears what is being looked at.
pub fn examine(
    path: &Path,
    now: Timestamp,
    progress: &mut dyn FnMut(&str),
) -> Result<Health, OpenError> {
    examine_files(&Files::of_visitor(path)?, now, progress)
}

/// Opens a store to look at it once, and says which schema it has.
pub(super) fn visit(files: &Files) -> Result<(Connection, i64), OpenError> {
    let opened = enter(files).map_err(|trouble| OpenError::unusable(&files.path, trouble))?;
    let (db, schema) = opened;
    refuse_foreign(schema, &files.path)?;
    Ok((db, schema.1))
}

fn enter(files: &Files) -> Result<(Connection, (i64, i64)), TransactionError> {
    let db = files.connect(Role::Visitor)?;
    let schema = schema_of(&db)?;
    // One moment for all of it: what is written meanwhile must not look like a contradiction.
    db.execute_batch("begin")?;
    Ok((db, schema))
}

pub(super) fn examine_files(
    files: &Files,
    now: Timestamp,
    progress: &mut dyn FnMut(&str),
) -> Result<Health, OpenError> {
    let (db, schema) = match enter(files) {
        Ok(opened) => opened,
        Err(trouble) if trouble.is_no_database() => {
            return Err(OpenError::NotOurs { path: files.path.clone() });
        }
        Err(trouble) => {
            let what = format!("the file cannot be read: {}", Chain(&trouble));
            let findings = vec![Finding { damage: true, what, cure: RESTORE }];
            return Ok(Health { findings, ..Health::default() });
        }
    };
    refuse_foreign(schema, &files.path)?;
    let health = Health::default();
    let mut doctor = Doctor { db: &db, schema: schema.1, now, health, truth: None };
    if let Some(damaged) = damaged_log(files) {
        doctor.damage(damaged.to_string());
    }
    for (name, look) in Doctor::LOOKS {
        progress(name);
        // What cannot even be read is a finding, too, and the next look may tell more.
        if let Err(trouble) = look(&mut doctor) {
            doctor.damage(format!("{name}: {}", Chain(&trouble)));
        }
    }
    doctor.health.findings.sort_by_key(|finding| !finding.damage);
    Ok(doctor.health)
}

/// What is wrong with the log. A server at work may begin it anew while it is read; then a second look
/// finds nothing.
fn damaged_log(files: &Files) -> Option<OpenError> {
    if files.vfs.is_some() {
        return None; // a test's own files
    }
    files.check_log().err()?;
    files.check_log().err()?;
    files.check_log().err()
}

struct Doctor<'a> {
    db: &'a Connection,
    schema: i64,
    now: Timestamp,
    health: Health,
    /// How many jobs of each queue stand where, once all of them were read.
    truth: Option<BTreeMap<i64, Counts>>,
}

type Look<'a> = fn(&mut Doctor<'a>) -> Result<(), TransactionError>;

impl<'a> Doctor<'a> {
    const LOOKS: [(&'static str, Look<'a>); 10] = [
        ("the file", Doctor::file),
        ("settings", Doctor::settings),
        ("jobs", Doctor::jobs),
        ("histories", Doctor::histories),
        ("steps and announcements", Doctor::others),
        ("counters", Doctor::counters),
        ("leases", Doctor::leases),
        ("keys", Doctor::keys),
        ("credentials", Doctor::credentials),
        ("the audit log", Doctor::audit),
    ];

    fn damage(&mut self, what: String) {
        self.health.findings.push(Finding { damage: true, what, cure: RESTORE });
    }

    fn notice(&mut self, what: String, cure: &'static str) {
        self.health.findings.push(Finding { damage: false, what, cure });
    }

    fn file(&mut self) -> Result<(), TransactionError> {
        let sql = format!("pragma integrity_check({TOLD_MAX})");
        let said: Vec<String> = all(self.db, &sql, [], |row| Ok(row.get(0)?))?;
        for said in said.iter().filter(|said| *said != "ok") {
            self.damage(format!("SQLite says: {}", said.trim()));
        }
        Ok(())
    }

    /// The small tables can be read.
    fn settings(&mut self) -> Result<(), TransactionError> {
        load_house(self.db)?;
        records::load(self.db, &[RecordKind::Policy, RecordKind::Pause])?;
        load_workers(self.db)?;
        load_queues(self.db).map(drop)
    }

    /// Every job can be read, is live or ended and not both, and has a whole history.
    fn jobs(&mut self) -> Result<(), TransactionError> {
        let mut statement = self.db.prepare(
            "select h.no, h.id, h.envelope, h.payload, j.body, e.body, \
             coalesce(j.queue, e.queue) from submission h \
             left join job j on j.no = h.no left join job_ended e on e.no = h.no",
        )?;
        let mut rows = statement.query([])?;
        // Where the names of queues are damaged, another look says so, and this one goes on.
        let queues = load_queues(self.db).ok();
        let (mut truth, mut told, mut all_read) = (BTreeMap::<i64, Counts>::new(), 0, true);
        while let Some(row) = rows.next()? {
            let read = read_whole(row);
            let wrong = match &read {
                Ok((job, recent)) => {
                    let queue = row.get(6)?;
                    let ended = job.status().is_ended();
                    self.health.ended_jobs += u64::from(ended);
                    self.health.live_jobs += u64::from(!ended);
                    truth.entry(queue).or_default().count(None, Some(job));
                    let misplaced = |queues: &Queues| queues.get(queue) != Some(&Queue::of(job));
                    let misplaced = queues.as_ref().is_some_and(misplaced);
                    if !self.history_is_whole(row.get(0)?, job, recent)? {
                        Some(format!("the history of {} is not whole", job.id()))
                    } else {
                        misplaced
                            .then(|| format!("{} is kept in the queue of another type", job.id()))
                    }
                }
                Err(trouble) => {
                    all_read = false;
                    Some(match <[u8; 16]>::try_from(blob(row, 1)?) {
                        Ok(id) => format!("job {}: {trouble}", JobId::from_bytes(id)),
                        Err(_) => trouble.to_string(),
                    })
                }
            };
            let Some(wrong) = wrong else { continue };
            told += 1;
            if told <= TOLD_MAX {
                self.damage(wrong);
            }
        }
        if told > TOLD_MAX {
            self.damage(format!("{} more jobs are damaged", told - TOLD_MAX));
        }
        self.truth = all_read.then_some(truth);
        let orphans = "select (select count(*) from job where no not in (select no from submission)) + \
            (select count(*) from job_ended where no not in (select no from submission))";
        let orphans: u64 = one(self.db, orphans, [])?;
        if orphans > 0 {
            self.damage(format!("{orphans} jobs have a state, but were never handed over"));
        }
        Ok(())
    }

    /// Every history row can be read and is in its place.
    fn histories(&mut self) -> Result<(), TransactionError> {
        let mut misplaced = 0;
        all::<_, ()>(self.db, "select no, seq, body from history", [], |row| {
            let (no, seq): (i64, u64) = (row.get(0)?, row.get(1)?);
            let entry: HistoryEntry = from_row(no, blob(row, 2)?)?;
            misplaced += u64::from(entry.seq != seq);
            Ok(())
        })?;
        if misplaced > 0 {
            self.damage(format!("{misplaced} history rows are in another's place"));
        }
        Ok(())
    }

    /// The rows of its own come first, and those in the job's row go on from there to its last.
    fn history_is_whole(
        &self,
        no: i64,
        job: &Job,
        recent: &[HistoryEntry],
    ) -> Result<bool, TransactionError> {
        let sql = "select count(*), coalesce(max(seq), 0) from history where no = ?1 and seq > 0";
        let counted = first(self.db, sql, [no], pair)?;
        let (count, last): (u64, u64) = counted.unwrap_or_default();
        let goes_on = recent.iter().map(|entry| entry.seq).eq(last + 1..=job.seq);
        Ok(count == last && goes_on)
    }

    fn others(&mut self) -> Result<(), TransactionError> {
        all::<_, ()>(self.db, "select no, body from step", [], |row| {
            Ok(from_row::<Step>(row.get(0)?, blob(row, 1)?).map(drop)?)
        })?;
        all(self.db, "select event, sheet from outbox order by event", [], |row| {
            for line in lines(row.get(0)?, blob(row, 1)?)? {
                let (no, _) = event_about(line.number, line.sealed)?;
                event_from_row(line.number, line.sealed, Arc::new(load::envelope(self.db, no)?))?;
            }
            Ok(())
        })
    }

    /// What the counters say is what a count of all jobs says.
    fn counters(&mut self) -> Result<(), TransactionError> {
        // Where a job could not be read, nobody knows the truth, and that was told.
        let Some(truth) = self.truth.take() else { return Ok(()) };
        let counted = load_counts(self.db)?.counts;
        let queues = load_queues(self.db)?;
        for (no, queue) in queues.all() {
            let said = counted.get(&no).copied().unwrap_or_default();
            let mut is = truth.get(&no).copied().unwrap_or_default();
            // Erased jobs cannot be counted any more; they must make up the difference.
            is.erased = said.erased;
            is.submitted += said.erased;
            if said != is {
                let Queue { job_type, tenant } = queue;
                let what = format!(
                    "the counters of {job_type} of {tenant} say {said:?}, \
                    but there are {is:?}"
                );
                self.damage(what);
            }
        }
        Ok(())
    }

    fn leases(&mut self) -> Result<(), TransactionError> {
        let stuck = "select count(*) from job where lease_until <= ?1";
        let late = before(self.now, STUCK_AFTER);
        let stuck: u64 = one(self.db, stuck, [late])?;
        if stuck > 0 {
            let what = format!("{stuck} leases are over for more than a minute and not swept");
            self.notice(what, SWEEP);
        }
        Ok(())
    }

    fn keys(&mut self) -> Result<(), TransactionError> {
        self.health.keys = one(self.db, "select count(*) from key", [])?;
        let wrong = self.wrong_keys()?;
        if wrong > 0 {
            self.damage(format!("{wrong} keys mean no job that has them"));
        }
        // Twice the longest time that the default allows: whoever set more knows why.
        let old = "select count(*) from key where ended_at <= ?1";
        let window = engine::Policy::default().key_window * 2;
        let old: u64 = one(self.db, old, [before(self.now, window)])?;
        if old > 0 {
            let days = window.as_secs() / 86_400;
            let what = format!(
                "{old} of {} keys belong to jobs that ended more than {days} days ago",
                self.health.keys
            );
            self.notice(what, TIDY);
        }
        Ok(())
    }

    /// Every API key and every signing key can be read.
    fn credentials(&mut self) -> Result<(), TransactionError> {
        records::load(self.db, &[RecordKind::ApiKey, RecordKind::SigningKey]).map(drop)
    }

    /// Nobody changed what people did.
    fn audit(&mut self) -> Result<(), TransactionError> {
        if self.schema < AUDIT_SINCE {
            return Ok(());
        }
        if let AuditChain::Broken { number } = verify(self.db, &mut |_| {})? {
            self.damage(format!(
                "the audit log is broken: entry {number} is missing or not as it was written"
            ));
        }
        Ok(())
    }

    /// How many keys do not mean the job that came with them.
    fn wrong_keys(&self) -> Result<u64, TransactionError> {
        let sql =
            "select k.name, k.no, h.envelope from key k left join submission h on h.no = k.no";
        let mut wrong = 0;
        all::<_, ()>(self.db, sql, [], |row| {
            let (name, no): (String, i64) = (row.get(0)?, row.get(1)?);
            let sealed = row.get_ref(2)?.as_blob_or_null().unwrap_or_default();
            let envelope = sealed.map(|sealed| from_row::<Envelope>(no, sealed)).transpose()?;
            let own = envelope.and_then(|envelope| envelope.key);
            wrong += u64::from(own.is_none_or(|own| own.name.as_str() != name));
            Ok(())
        })?;
        Ok(wrong)
    }
}

fn read_whole(row: &rusqlite::Row<'_>) -> Result<(Job, Vec<HistoryEntry>), TransactionError> {
    let no = row.get(0)?;
    let id: Vec<u8> = row.get(1)?;
    let envelope: Envelope = from_row(no, blob(row, 2)?)?;
    if envelope.id.to_bytes()[..] != id[..] {
        return Err(TransactionError::Impossible("a job is kept under another's id"));
    }
    unseal(Kind::Payload, no, blob(row, 3)?)?;
    let (live, ended) = (row.get_ref(4)?, row.get_ref(5)?);
    let body = match (live.as_blob_or_null(), ended.as_blob_or_null()) {
        (Ok(Some(body)), Ok(None)) | (Ok(None), Ok(Some(body))) => body,
        (_, _) => return Err(TransactionError::Impossible("a job is live and ended, or neither")),
    };
    let (job, recent) = job_from_row(no, body, Arc::new(envelope))?;
    if job.status().is_ended() != (live.as_blob_or_null() == Ok(None)) {
        return Err(TransactionError::Impossible("a job has ended and is kept with the living"));
    }
    let recent = recent.rows(no)?.into_iter().map(|noted| noted.entry).collect();
    Ok((job, recent))
}

/// An error with all its causes, on one line.
pub(super) struct Chain<'a>(pub(super) &'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
