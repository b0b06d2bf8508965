//! What is wrong with a store, and what repairs it. Reads everything and changes nothing, also
//! while the store is in use.

use super::{
    audit::{AUDIT_SINCE, verify},
    body::{event_about, event_from_row, from_row, job_from_row},
    error::{OpenError, Result, TransactionError},
    load::{self, all, blob, first, one, pair},
    maintenance::before,
    open::{Files, Role, refuse_foreign, schema_of},
    outbox_page::entries,
    records,
    seal::{Kind, unseal},
    writer_cache::{Queues, load_counts, load_queues, load_store_meta, load_workers},
};
use crate::{
    AuditChain,
    queue::{Counts, Queue},
    record::RecordKind,
    store::with_causes,
};
use engine::{Envelope, HistoryEntry, Job, JobId, Step, Timestamp};
use rusqlite::Connection;
use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::Duration};

/// The result of an examination.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Jobs that wait or run.
    pub live_jobs: u64,
    /// Jobs that have ended and are kept.
    pub ended_jobs: u64,
    /// Idempotency keys that are kept.
    pub keys: u64,
    /// What is wrong, damage first.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether data is damaged; if not, the finding only needs attention.
    pub damage: bool,
    /// What is wrong, and where.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
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
const PRUNE: &str = "is a server running on this store? its sweeper drops them in the background";

/// How many findings of one kind are listed one by one.
const LISTED_MAX: usize = 20;
/// A lease that ended longer ago than this should have been swept.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Examines the store at `path` and reports each step to `progress`.
pub fn examine(
    path: &Path,
    now: Timestamp,
    progress: &mut dyn FnMut(&str),
) -> Result<Health, OpenError> {
    examine_files(&Files::for_external_reader(path)?, now, progress)
}

/// Opens a store for one examination, and returns its schema version.
pub(super) fn open_read_only(files: &Files) -> Result<(Connection, i64), OpenError> {
    let opened =
        connect_read_only(files).map_err(|error| OpenError::unusable(&files.path, error))?;
    let (db, schema) = opened;
    refuse_foreign(schema, &files.path)?;
    Ok((db, schema.1))
}

fn connect_read_only(files: &Files) -> Result<(Connection, (i64, i64))> {
    let db = files.connect(Role::ExternalReader)?;
    let schema = schema_of(&db)?;
    // One snapshot for the whole examination: concurrent writes must not look like contradictions.
    db.execute_batch("begin")?;
    Ok((db, schema))
}

pub(super) fn examine_files(
    files: &Files,
    now: Timestamp,
    progress: &mut dyn FnMut(&str),
) -> Result<Health, OpenError> {
    let (db, schema) = match connect_read_only(files) {
        Ok(opened) => opened,
        Err(error) if error.is_no_database() => {
            return Err(OpenError::NotOurs { path: files.path.clone() });
        }
        Err(error) => {
            let what = format!("the file cannot be read: {}", with_causes(&error));
            let findings = vec![Finding { damage: true, what, remedy: RESTORE }];
            return Ok(Health { findings, ..Health::default() });
        }
    };
    refuse_foreign(schema, &files.path)?;
    let health = Health::default();
    let mut doctor = Doctor { db: &db, schema: schema.1, now, health, actual_counts: None };
    if let Some(damaged) = damaged_log(files) {
        doctor.damage(damaged.to_string());
    }
    for (name, check) in Doctor::CHECKS {
        progress(name);
        // A table that cannot be read is a finding, too, and the next check may find more.
        if let Err(error) = check(&mut doctor) {
            doctor.damage(format!("{name}: {}", with_causes(&error)));
        }
    }
    doctor.health.findings.sort_by_key(|finding| !finding.damage);
    Ok(doctor.health)
}

/// What is wrong with the log. A server in use may restart the log while this reads it; then a
/// second read finds nothing.
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
    /// How many jobs of each queue have each status, known after all jobs were read.
    actual_counts: Option<BTreeMap<i64, Counts>>,
}

type Check<'a> = fn(&mut Doctor<'a>) -> Result<()>;

impl<'a> Doctor<'a> {
    const CHECKS: [(&'static str, Check<'a>); 10] = [
        ("the file", Doctor::file),
        ("settings", Doctor::settings),
        ("jobs", Doctor::jobs),
        ("histories", Doctor::histories),
        ("steps and events", Doctor::steps_and_events),
        ("counters", Doctor::counters),
        ("leases", Doctor::leases),
        ("keys", Doctor::keys),
        ("credentials", Doctor::credentials),
        ("the audit log", Doctor::audit),
    ];

    fn damage(&mut self, what: String) {
        self.health.findings.push(Finding { damage: true, what, remedy: RESTORE });
    }

    fn notice(&mut self, what: String, remedy: &'static str) {
        self.health.findings.push(Finding { damage: false, what, remedy });
    }

    fn file(&mut self) -> Result<()> {
        let sql = format!("pragma integrity_check({LISTED_MAX})");
        let messages: Vec<String> = all(self.db, &sql, [], |row| Ok(row.get(0)?))?;
        for message in messages.iter().filter(|message| *message != "ok") {
            self.damage(format!("SQLite reports: {}", message.trim()));
        }
        Ok(())
    }

    /// Checks that the small tables can be read.
    fn settings(&mut self) -> Result<()> {
        load_store_meta(self.db)?;
        records::load(self.db, &[RecordKind::Policy, RecordKind::Pause, RecordKind::FilePolicy])?;
        load_workers(self.db)?;
        load_queues(self.db).map(drop)
    }

    /// Checks that every job can be read, is either live or ended, and has a complete history.
    fn jobs(&mut self) -> Result<()> {
        let mut statement = self.db.prepare(
            "select h.no, h.id, h.envelope, h.payload, j.body, e.body, \
             coalesce(j.queue, e.queue), h.corrected_payload from submission h \
             left join job j on j.no = h.no left join job_ended e on e.no = h.no",
        )?;
        let mut rows = statement.query([])?;
        // If the names of queues are damaged, another check reports it, and this one goes on.
        let queues = load_queues(self.db).ok();
        let (mut actual_counts, mut damaged_jobs, mut all_read) =
            (BTreeMap::<i64, Counts>::new(), 0, true);
        while let Some(row) = rows.next()? {
            let read = read_job_rows(row);
            let wrong = match &read {
                Ok((job, recent)) => {
                    let queue = row.get(6)?;
                    let ended = job.status().is_ended();
                    self.health.ended_jobs += u64::from(ended);
                    self.health.live_jobs += u64::from(!ended);
                    actual_counts.entry(queue).or_default().count(None, Some(job));
                    let misplaced = |queues: &Queues| queues.get(queue) != Some(&Queue::of(job));
                    let misplaced = queues.as_ref().is_some_and(misplaced);
                    if !self.is_history_complete(row.get(0)?, job, recent)? {
                        Some(format!("the history of {} is incomplete", job.id()))
                    } else {
                        misplaced.then(|| {
                            format!("{} is stored in the queue of another type or tenant", job.id())
                        })
                    }
                }
                Err(error) => {
                    all_read = false;
                    Some(match <[u8; 16]>::try_from(blob(row, 1)?) {
                        Ok(id) => format!("job {}: {error}", JobId::from_bytes(id)),
                        Err(_) => error.to_string(),
                    })
                }
            };
            let Some(wrong) = wrong else { continue };
            damaged_jobs += 1;
            if damaged_jobs <= LISTED_MAX {
                self.damage(wrong);
            }
        }
        if damaged_jobs > LISTED_MAX {
            self.damage(format!("{} more jobs are damaged", damaged_jobs - LISTED_MAX));
        }
        self.actual_counts = all_read.then_some(actual_counts);
        let orphans = "select (select count(*) from job where no not in (select no from submission)) + \
            (select count(*) from job_ended where no not in (select no from submission))";
        let orphans: u64 = one(self.db, orphans, [])?;
        if orphans > 0 {
            self.damage(format!("{orphans} jobs have a state and have no submission"));
        }
        Ok(())
    }

    /// Checks that every history row can be read and is in its place.
    fn histories(&mut self) -> Result<()> {
        let mut misplaced = 0;
        all::<_, ()>(self.db, "select no, seq, body from history", [], |row| {
            let (no, seq): (i64, u64) = (row.get(0)?, row.get(1)?);
            let entry: HistoryEntry = from_row(no, blob(row, 2)?)?;
            misplaced += u64::from(entry.seq != seq);
            Ok(())
        })?;
        if misplaced > 0 {
            self.damage(format!("{misplaced} history rows are stored under another number"));
        }
        Ok(())
    }

    /// The rows in the history table come first; those in the job's row continue up to its last
    /// entry.
    fn is_history_complete(&self, no: i64, job: &Job, recent: &[HistoryEntry]) -> Result<bool> {
        let sql = "select count(*), coalesce(max(seq), 0) from history where no = ?1 and seq > 0";
        let stored = first(self.db, sql, [no], pair)?;
        let (count, last): (u64, u64) = stored.unwrap_or_default();
        let continues = recent.iter().map(|entry| entry.seq).eq(last + 1..=job.seq);
        Ok(count == last && continues)
    }

    fn steps_and_events(&mut self) -> Result<()> {
        all::<_, ()>(self.db, "select no, body from step", [], |row| {
            Ok(from_row::<Step>(row.get(0)?, blob(row, 1)?).map(drop)?)
        })?;
        all(self.db, "select first_event, page from outbox order by first_event", [], |row| {
            for entry in entries(row.get(0)?, blob(row, 1)?)? {
                let (no, _) = event_about(entry.number, entry.sealed)?;
                event_from_row(entry.number, entry.sealed, Arc::new(load::envelope(self.db, no)?))?;
            }
            Ok(())
        })
    }

    /// Checks that the counters equal a count of all jobs.
    fn counters(&mut self) -> Result<()> {
        // If a job could not be read, the true counts are unknown, and the job's damage is reported
        // already.
        let Some(actual_counts) = self.actual_counts.take() else { return Ok(()) };
        let counted = load_counts(self.db)?.counts;
        let queues = load_queues(self.db)?;
        for (no, queue) in queues.all() {
            let stored = counted.get(&no).copied().unwrap_or_default();
            let mut actual = actual_counts.get(&no).copied().unwrap_or_default();
            // Erased jobs cannot be counted any more, so the stored number of them is taken as
            // true.
            actual.erased = stored.erased;
            actual.submitted += stored.erased;
            if stored != actual {
                let Queue { job_type, tenant } = queue;
                let what = format!(
                    "the counters of {job_type} of {tenant} say {stored:?}, \
                    but there are {actual:?}"
                );
                self.damage(what);
            }
        }
        Ok(())
    }

    fn leases(&mut self) -> Result<()> {
        let stuck = "select count(*) from job where lease_until <= ?1";
        let late = before(self.now, STUCK_AFTER);
        let stuck: u64 = one(self.db, stuck, [late])?;
        if stuck > 0 {
            let what = format!("{stuck} leases are over for more than a minute and not swept");
            self.notice(what, SWEEP);
        }
        Ok(())
    }

    fn keys(&mut self) -> Result<()> {
        self.health.keys = one(self.db, "select count(*) from key", [])?;
        let wrong = self.wrong_keys()?;
        if wrong > 0 {
            self.damage(format!("{wrong} keys point to jobs that do not have them"));
        }
        // Twice the longest window of the default policy: an operator who set a longer one has a
        // reason.
        let old = "select count(*) from key where ended_at <= ?1";
        let window = engine::Policy::default().key_window * 2;
        let old: u64 = one(self.db, old, [before(self.now, window)])?;
        if old > 0 {
            let days = window.as_secs() / 86_400;
            let what = format!(
                "{old} of {} keys belong to jobs that ended more than {days} days ago",
                self.health.keys
            );
            self.notice(what, PRUNE);
        }
        Ok(())
    }

    /// Checks that every API key and every key that signs can be read.
    fn credentials(&mut self) -> Result<()> {
        let kinds = [
            RecordKind::ApiKey,
            RecordKind::SigningKey,
            RecordKind::WebhookKey,
            RecordKind::KeyUse,
        ];
        records::load(self.db, &kinds).map(drop)
    }

    /// Checks that the audit log was not changed.
    fn audit(&mut self) -> Result<()> {
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

    /// How many keys point to a job that was not submitted with them.
    fn wrong_keys(&self) -> Result<u64> {
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

fn read_job_rows(row: &rusqlite::Row<'_>) -> Result<(Job, Vec<HistoryEntry>)> {
    let no = row.get(0)?;
    let id: Vec<u8> = row.get(1)?;
    let envelope: Envelope = from_row(no, blob(row, 2)?)?;
    if envelope.id.to_bytes()[..] != id[..] {
        return Err(TransactionError::Inconsistent("a job is stored under another id"));
    }
    unseal(Kind::Payload, no, blob(row, 3)?)?;
    if let Ok(Some(corrected)) = row.get_ref(7)?.as_blob_or_null() {
        unseal(Kind::Payload, no, corrected)?;
    }
    let (live, ended) = (row.get_ref(4)?, row.get_ref(5)?);
    let body = match (live.as_blob_or_null(), ended.as_blob_or_null()) {
        (Ok(Some(body)), Ok(None)) | (Ok(None), Ok(Some(body))) => body,
        (_, _) => {
            return Err(TransactionError::Inconsistent(
                "a job is in both job tables, or in neither",
            ));
        }
    };
    let (job, recent) = job_from_row(no, body, Arc::new(envelope))?;
    if job.status().is_ended() != (live.as_blob_or_null() == Ok(None)) {
        return Err(TransactionError::Inconsistent(
            "the table of a job does not agree with its status",
        ));
    }
    let recent = recent.rows(no)?.into_iter().map(|row| row.entry).collect();
    Ok((job, recent))
}
