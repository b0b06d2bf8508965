//! Opening a store: the lock, the schema, the log, the time.

use super::{
    Options, Sqlite,
    body::{StoreMeta, to_row},
    checkpoint::{Checkpoints, checkpoint_all},
    error::{OpenError, Result, TransactionError},
    file::{folder, make_private, open_private, sync_folder, with_suffix, write_again},
    lock::LockFile,
    log::commits_out_of_reach,
    pending::PendingWrites,
    readers::Readers,
    writer::{Shared, WriteClass, Writer},
    writer_cache::{WriterCache, load_workers},
};
use crate::{
    clock::{Clock, StoreClock},
    dedicated_thread::DedicatedThread,
    job_cache::JobCache,
    random::RandomSource,
    store::StoreError,
};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

/// "Cons" in ASCII: distinguishes our files from all other SQLite files.
const APPLICATION_ID: i64 = 0x436f_6e73;

/// The migrations by name and in order. A released migration never changes.
pub(super) const MIGRATIONS: &[(&str, &str)] = &[
    ("tables", include_str!("migrations/0001_tables.sql")),
    ("audit", include_str!("migrations/0002_audit.sql")),
];

/// The schema that this version writes.
pub(super) const SCHEMA: i64 = MIGRATIONS.len() as i64;

impl Sqlite {
    /// Opens the store at `path`, and creates it if it does not exist.
    pub fn open(
        path: impl Into<PathBuf>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let files = Files { path: path.into(), vfs: options.vfs.clone() };
        let lock = match &files.vfs {
            None => Some(files.lock(&options.holder)?),
            Some(_) => None, // files of a test, which no other process can open
        };
        let unusable = |source| OpenError::Store { path: files.path.clone(), source };
        let cannot_start = |source| OpenError::File { path: files.path.clone(), source };
        let mut writer = files.open_writer(clock, random, &options)?;
        // Extends leases from here: no worker could send a heartbeat while the store was closed. On
        // a full disk, the first transaction that has space does it.
        match writer.transact(WriteClass::Progress, |_| Ok(())) {
            Ok(()) | Err(StoreError::Full(_)) => {}
            Err(source) => return Err(unusable(source)),
        }
        let shared = writer.shared.clone();
        let readers = Arc::new(Readers::new(files.clone()));
        let reader = |name| DedicatedThread::start(name, readers.clone()).map_err(cannot_start);
        Ok(Sqlite {
            slow_reads: reader("consign-reader")?,
            maintenance_reads: reader("consign-sweeper")?,
            listing_indexer: DedicatedThread::start("consign-listing", ()).map_err(cannot_start)?,
            writer: Arc::new(Mutex::new(writer)),
            writers_waiting: Arc::default(),
            is_indexing: Arc::default(),
            settings_version: AtomicU64::new(0),
            fail_stop: options.fail_stop,
            readers,
            shared,
            files,
            _lock: lock,
        })
    }
}

#[derive(Clone)]
pub(super) struct Files {
    pub(super) path: PathBuf,
    pub(super) vfs: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Checkpointer,
    WalReader,
    /// A one-time reader from outside the store, such as `doctor`.
    ExternalReader,
}

impl Files {
    /// Brings the schema up to date, recovers the log, and loads what the writer holds in memory.
    fn open_writer(
        &self,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        options: &Options,
    ) -> Result<Writer, OpenError> {
        let unusable = |error: TransactionError| OpenError::unusable(&self.path, error);
        let mut db = self.connect(Role::Writer).map_err(unusable)?;
        migrate(&mut db, &self.path)?;
        self.finish_log(&db)?;
        let cache = WriterCache::load(&db).map_err(unusable)?;
        let mut workers = load_workers(&db).map_err(unusable)?;
        let (time, tick) = StoreClock::starting_at(cache.time, clock.read());
        for seen in workers.values_mut() {
            seen.seen_at = seen.seen_at + tick.jumped;
        }
        let checkpointer = self.connect(Role::Checkpointer).map_err(unusable)?;
        let checkpoints =
            Checkpoints::start(checkpointer, options.log_pages, options.fail_stop.clone());
        Ok(Writer {
            db,
            pending: PendingWrites::default(),
            job_cache: JobCache::default(),
            random,
            cache,
            shared: Arc::new(Shared::new(clock, time, workers)),
            counts_before: BTreeMap::new(),
            last_served: HashMap::new(),
            serve_count: 0,
            unapplied_jump: tick.jumped,
            checkpoints: checkpoints
                .map_err(|source| OpenError::File { path: self.path.clone(), source })?,
            has_disk_space: disk_space_check(self, options.free_disk_bytes_min),
            limits: options.tenant_limits,
        })
    }

    /// Locks the store for this process alone, and creates its file if it does not exist.
    pub(super) fn lock(&self, holder: &str) -> Result<LockFile, OpenError> {
        let failed = |source| OpenError::File { path: self.path.clone(), source };
        let lock = LockFile::lock(&self.path, holder)?;
        for ending in ["-wal", "-shm", "-journal"] {
            make_private(&with_suffix(&self.path, ending))?;
        }
        self.check_log()?;
        drop(open_private(&self.path)?);
        sync_folder(&self.path).map_err(failed)?;
        lock.and_store_file(&self.path)
    }

    /// The files at `path`, for a reader outside the store. A user without the right to read them
    /// gets that error, and not "damage".
    pub(super) fn for_external_reader(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::File { path: path.to_owned(), source };
        // Checked before the file is opened: opening a FIFO would wait for a writer.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(OpenError::NotOurs { path: path.to_owned() });
        }
        File::open(path).map_err(failed)?;
        Ok(Files { path: path.to_owned(), vfs: None })
    }

    fn has_log(&self) -> bool {
        self.vfs.is_some() || with_suffix(&self.path, "-wal").exists()
    }

    /// Makes sure that the content of the log is on the disk before any caller is served: after a
    /// failed sync it may only be in the system's memory, and look as if it were on the disk.
    fn finish_log(&self, db: &Connection) -> Result<(), OpenError> {
        match checkpoint_all(db) {
            Ok(()) => Ok(()),
            // A backup reads an older snapshot and blocks the checkpoint. Then the log itself is
            // written again.
            Err(TransactionError::Busy) if self.vfs.is_none() => {
                let path = with_suffix(&self.path, "-wal");
                write_again(&path).map_err(|source| OpenError::File { path, source })
            }
            Err(error) => Err(OpenError::unusable(&self.path, error)),
        }
    }

    /// Refuses a log whose last commits SQLite would drop.
    pub(super) fn check_log(&self) -> Result<(), OpenError> {
        let path = with_suffix(&self.path, "-wal");
        let failed = |source| OpenError::File { path: path.clone(), source };
        let log = match File::open(&path) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        match commits_out_of_reach(BufReader::with_capacity(1 << 16, log)).map_err(failed)? {
            Some(commits) => Err(OpenError::LogDamaged { path, commits }),
            None => Ok(()),
        }
    }

    pub(super) fn connect(&self, role: Role) -> Result<Connection> {
        let access = match role {
            Role::Writer => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Role::Checkpointer => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Role::WalReader => OpenFlags::SQLITE_OPEN_READ_ONLY,
            // A read-only connection cannot delete the empty log that its reading creates. A closed
            // store has no log, and must be one file again afterwards.
            Role::ExternalReader if self.has_log() => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Role::ExternalReader => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        // Only one thread at a time uses a connection, so SQLite need not lock it as well.
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs.as_str())?,
            None => Connection::open_with_flags(&self.path, flags)?,
        };
        db.busy_timeout(BUSY_MAX)?;
        db.set_prepared_statement_cache_capacity(128);
        // One statement, one plan. Otherwise SQLite plans anew whenever other values are bound:
        // that took half of the time.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        db.execute_batch(&format!(
            "pragma synchronous = full; pragma wal_autocheckpoint = 0; \
             pragma journal_size_limit = {LOG_BYTES_KEPT}; pragma secure_delete = fast; \
             pragma cache_size = -{}; pragma trusted_schema = off; pragma cell_size_check = on",
            if role == Role::Writer { WRITER_CACHE_KIB } else { READER_CACHE_KIB },
        ))?;
        Ok(db)
    }
}

/// How long a connection waits for another connection of this process.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(10);
/// A log that grew beyond this during a long read is cut when SQLite restarts it.
const LOG_BYTES_KEPT: u64 = 64 * 1024 * 1024;
const WRITER_CACHE_KIB: u32 = 32 * 1024;
const READER_CACHE_KIB: u32 = 4 * 1024;

/// Brings the schema up to date, in one transaction.
pub(super) fn migrate(db: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let path = path.to_owned();
    let read = schema_of(db);
    let unusable = |error: TransactionError| OpenError::unusable(&path, error);
    let (application, version) = read.map_err(unusable)?;
    let is_new = version == 0 && is_empty(db).map_err(unusable)?;
    if !is_new {
        refuse_foreign((application, version), &path)?;
    }
    // Only after the check: a file of another program stays as it is.
    use_wal(db).map_err(unusable)?;
    run_missing(db, version).map_err(unusable)
}

/// Runs the migrations that a store of this version lacks, in one transaction.
pub(super) fn run_missing(db: &mut Connection, version: i64) -> Result<()> {
    if version == SCHEMA {
        return Ok(());
    }
    let missing = &MIGRATIONS[usize::try_from(version).unwrap_or(0)..];
    Ok(run(db, missing, version == 0)?)
}

fn use_wal(db: &Connection) -> Result<()> {
    let mode: String = db.query_row("pragma journal_mode = wal", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(TransactionError::Inconsistent(
            "SQLite cannot use a write-ahead log on this file system",
        ));
    }
    Ok(())
}

fn run(
    db: &mut Connection,
    migrations: &[(&str, &str)],
    is_new: bool,
) -> Result<(), rusqlite::Error> {
    let transaction = db.transaction()?;
    for (_, sql) in migrations {
        transaction.execute_batch(sql)?;
    }
    if is_new {
        let store_meta = to_row(1, &StoreMeta::default());
        transaction
            .execute("insert into store_meta (singleton, body) values (1, ?1)", [store_meta])?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    transaction.commit()
}

/// The application id and the schema version of the file.
pub(super) fn schema_of(db: &Connection) -> Result<(i64, i64)> {
    let number = |pragma| db.pragma_query_value(None, pragma, |row| row.get(0));
    Ok((number("application_id")?, number("user_version")?))
}

/// Refuses a file that is not a store, or whose schema this version cannot read.
pub(super) fn refuse_foreign(
    (application, version): (i64, i64),
    path: &Path,
) -> Result<(), OpenError> {
    let path = path.to_owned();
    match (application, version) {
        (APPLICATION_ID, version) if version > SCHEMA => {
            Err(OpenError::TooNew { path, version, supported_version: SCHEMA })
        }
        (APPLICATION_ID, 1..) => Ok(()),
        (_, _) => Err(OpenError::NotOurs { path }),
    }
}

fn is_empty(db: &Connection) -> Result<bool> {
    Ok(db.query_row("select not exists (select 1 from sqlite_schema)", [], |row| row.get(0))?)
}

/// Asks the file system for its free space. If it does not answer, SQLite itself reports a full
/// disk.
fn disk_space_check(files: &Files, bytes_min: u64) -> Box<dyn Fn(WriteClass) -> bool + Send> {
    if files.vfs.is_some() || bytes_min == 0 {
        return Box::new(|_| true);
    }
    let folder = folder(&files.path).to_owned();
    Box::new(move |write_class| {
        let free = rustix::fs::statvfs(&folder);
        let needed = match write_class {
            WriteClass::New => bytes_min,
            WriteClass::Progress => bytes_min / 4,
        };
        free.map_or(true, |free| free.f_bavail.saturating_mul(free.f_frsize) >= needed)
    })
}
