//! The backend of the simulation: a store, and how its process dies and restarts.

use crate::{
    mistakes::{Mistake, MistakenRules},
    sim_clock::SimClock,
};
use std::{
    path::Path,
    sync::{Arc, LazyLock, Mutex},
};
use store::{
    Clock, Execute, Memory, Notification, Options, Postgres, PostgresAddress, PostgresOptions,
    RandomSource, Reply, Request, Sqlite, Store, StoreError, control_clock, wipe,
};
use tempfile::TempDir;
use test_postgres::Server;
use tokio::runtime::{Builder, Runtime};

/// The store of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Memory,
    /// In memory, with a mistake.
    Mistaken(Mistake),
    Sqlite,
    Postgres,
}

impl StoreKind {
    /// As in `CONSIGN_SIM_STORE` and in `failed_once.txt`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StoreKind::Memory | StoreKind::Mistaken(_) => "memory",
            StoreKind::Sqlite => "sqlite",
            StoreKind::Postgres => "postgres",
        }
    }

    pub(crate) fn mistake(self) -> Option<Mistake> {
        match self {
            StoreKind::Mistaken(mistake) => Some(mistake),
            StoreKind::Memory | StoreKind::Sqlite | StoreKind::Postgres => None,
        }
    }
}

pub(crate) enum Backend {
    Memory(Arc<Memory>),
    Sqlite(Box<File>),
    Postgres(Box<Database>),
}

/// A store in a file.
pub(crate) struct File {
    store: Mutex<Option<Arc<dyn Store>>>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    // Dropped last: the store is closed before its folder is deleted.
    folder: TempDir,
}

/// A store in a database.
pub(crate) struct Database {
    store: Mutex<Option<Arc<dyn Store>>>,
    address: PostgresAddress,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
}

impl Backend {
    pub(crate) fn new(
        store_kind: StoreKind,
        sim_clock: &Arc<SimClock>,
        random: Arc<dyn RandomSource>,
    ) -> Self {
        let clock: Arc<dyn Clock> = sim_clock.clone();
        match store_kind {
            StoreKind::Memory => Backend::Memory(Arc::new(Memory::new(clock, random))),
            StoreKind::Mistaken(mistake) => {
                let rules = MistakenRules { mistake, clock: sim_clock.clone() };
                let memory = Memory::new(clock, random).with_rules(Arc::new(rules));
                Backend::Memory(Arc::new(memory))
            }
            StoreKind::Sqlite => {
                let folder = folder();
                let store = Mutex::new(Some(open(&folder, &clock, &random)));
                Backend::Sqlite(Box::new(File { store, clock, random, folder }))
            }
            StoreKind::Postgres => {
                let address = ADDRESS.with(Clone::clone);
                RUNTIME
                    .block_on(control_clock(&address, sim_clock.manual_clock()))
                    .expect("it is ours");
                RUNTIME.block_on(wipe(&address)).expect("it can be emptied");
                let store = Mutex::new(Some(open_database(&address, &clock, &random)));
                Backend::Postgres(Box::new(Database { store, address, clock, random }))
            }
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Backend::Memory(memory) => memory.clone(),
            Backend::Sqlite(file) => current_store(&file.store),
            Backend::Postgres(database) => current_store(&database.store),
        }
    }

    pub(crate) fn restart(&self) {
        match self {
            Backend::Memory(memory) => memory.restart(),
            Backend::Sqlite(file) => {
                reopen(&file.store, || open(&file.folder, &file.clock, &file.random));
            }
            Backend::Postgres(database) => {
                let Database { store, address, clock, random } = &**database;
                reopen(store, || open_database(address, clock, random));
            }
        }
    }

    /// An answer that is sent before a commit which then fails.
    pub(crate) fn execute_and_forget(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        let Backend::Memory(memory) = self else {
            unreachable!("mistakes are made in memory only")
        };
        let before = memory.backup();
        let replies = memory.execute(batch, Notification::default());
        memory.rewind(before);
        replies
    }
}

fn current_store(store: &Mutex<Option<Arc<dyn Store>>>) -> Arc<dyn Store> {
    store.lock().unwrap().clone().expect("it is only empty while it is opened again")
}

/// Closes a store, and only then opens the next one: both need the same file.
fn reopen(store: &Mutex<Option<Arc<dyn Store>>>, open: impl FnOnce() -> Arc<dyn Store>) {
    let mut store = store.lock().unwrap();
    drop(store.take());
    *store = Some(open());
}

fn open(
    folder: &TempDir,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn RandomSource>,
) -> Arc<dyn Store> {
    let options = Options { fail_stop: Arc::new(|_| {}), ..Options::default() };
    let path = folder.path().join("consign.db");
    let store = Sqlite::open(path, clock.clone(), random.clone(), options);
    Arc::new(store.expect("it can be opened"))
}

/// The runtime for the connections of all simulations.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("it can be built")
});

thread_local! {
    /// The simulations of one thread run one after another, so they may share tables. They connect
    /// by the socket in the server's folder: the auditor asks so often that latency counts.
    static ADDRESS: PostgresAddress = {
        let server = Server::shared();
        let address: PostgresAddress = server.unix_address().parse().expect("lawful");
        address.with_schema(&server.fresh_schema_name()).expect("lawful")
    };
}

fn open_database(
    address: &PostgresAddress,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn RandomSource>,
) -> Arc<dyn Store> {
    let options = PostgresOptions { writers: 1, readers: 1, ..PostgresOptions::default() };
    let postgres = Postgres::open(address, clock.clone(), random.clone(), options);
    Arc::new(RUNTIME.block_on(postgres).expect("it can be opened"))
}

/// In memory where there is such a folder: a million syncs would prove nothing here. Other tests
/// use disks that lose data.
fn folder() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let folder = if in_memory.is_dir() { TempDir::new_in(in_memory) } else { TempDir::new() };
    folder.expect("a folder can be created")
}
