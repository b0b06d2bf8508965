//! The backend in this process: a node over a store of its own.

use crate::{Consign, Error, backend::ConsignBackend};
use async_trait::async_trait;
use engine::{FieldProblem, JobId, Refusal, Scope, Tenant};
use platform::{Changed, Node, QueueSummary, RedriveOptions, Settings, SystemClock, SystemRandom};
use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use store::{Memory, OpenError, Options, Sqlite, Store};
use tokio::time::{Instant, timeout_at};
use wire::{
    Explanation, FullJob, JobStatus, PAUSES_MAX, QueuePause, QueueStatus, SubmittedJob, Transition,
};
use worker::{JobRequest, Runner};

#[derive(Clone)]
pub(crate) struct Local {
    pub(crate) node: Arc<Node>,
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "for the HTTP API"))]
    pub(crate) store: Arc<dyn Store>,
    /// The folder of a store in a file.
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "for the HTTP API"))]
    pub(crate) folder: Option<PathBuf>,
    tenant: Tenant,
    /// Whether its runners take the jobs of all tenants.
    runs_all_tenants: bool,
}

/// Why Consign could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConsignError {
    /// The file could not be opened as a store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database could not be opened as a store.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] store::PostgresError),
    /// The path is the address of something else.
    #[error("{0}")]
    NoFile(&'static str),
    /// The folder of the file could not be made, or the system gave no thread.
    #[error("the store could not be started")]
    System(#[from] io::Error),
}

impl Consign {
    /// Opens the store in this file, or creates one. Only one process can open it at a time.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ConsignError> {
        let path = path.as_ref();
        check_is_file(path)?;
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        if let Some(folder) = folder {
            // The store holds payloads, so a new folder is readable by this user alone.
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let store = Arc::new(Sqlite::open(path, clock, random, Options::default())?);
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        Ok(Self::with_local(Local::start(store, Some(folder))?))
    }

    /// A store that forgets everything when it is dropped.
    pub fn in_memory() -> Result<Self, ConsignError> {
        let memory = Memory::new(Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        Ok(Self::with_store(Arc::new(memory))?)
    }

    /// Opens the store in a PostgreSQL database that any number of processes share, such as
    /// `postgres://consign:…@db.example.org/jobs`, and creates its tables where there are none.
    ///
    /// While the database is away, requests fail as [`Error::Unavailable`]. After an
    /// [`Error::Unknown`] the job may be on disk: with an idempotency key, a repeat is safe.
    #[cfg(feature = "postgres")]
    pub async fn postgres(address: &str) -> Result<Self, ConsignError> {
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let options = store::PostgresOptions::default();
        let store = store::Postgres::open(&address.parse()?, clock, random, options).await?;
        Ok(Self::with_store(Arc::new(store))?)
    }

    /// Consign over any store.
    pub fn with_store(store: Arc<dyn Store>) -> io::Result<Self> {
        Ok(Self::with_local(Local::start(store, None)?))
    }

    /// The same store, for one tenant: it reads, submits and runs only that tenant's jobs. The
    /// tenant of a remote server follows from the key.
    pub fn for_tenant(&self, tenant: &str) -> Result<Self, Error> {
        let detail = "is decided by the key of a remote server: connect with another key";
        let local = self.local("tenant", detail)?;
        let tenant = Tenant::parse(tenant).map_err(Refusal::from)?;
        Ok(Self::with_local(Local { tenant, runs_all_tenants: false, ..local.clone() }))
    }

    /// The node of a store in this process: all verbs, for any scope. None for a remote server.
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.backend.local().map(|local| &local.node)
    }

    /// The backend, if it is in this process; else the error for a remote server.
    pub(crate) fn local(&self, field: &'static str, detail: &'static str) -> Result<&Local, Error> {
        let remote = || Refusal::from(FieldProblem::new(field, detail)).into();
        self.backend.local().ok_or_else(remote)
    }

    fn with_local(local: Local) -> Self {
        Consign { backend: Arc::new(local) }
    }
}

/// A file of this name would be a surprise.
fn check_is_file(path: &Path) -> Result<(), ConsignError> {
    let begins = |scheme: &str| path.to_str().is_some_and(|path| path.starts_with(scheme));
    if begins("postgres://") || begins("postgresql://") {
        return Err(ConsignError::NoFile(
            "a database is opened with Consign::postgres(address).await (feature `postgres`)",
        ));
    }
    if begins("http://") || begins("https://") {
        return Err(ConsignError::NoFile("a server is used with Consign::connect(address, key)"));
    }
    Ok(())
}

/// How often a waiting caller reads the job itself: other nodes of a shared store do not wake it.
const READ_EVERY: Duration = Duration::from_secs(5);

#[async_trait]
impl ConsignBackend for Local {
    async fn submit(&self, request: JobRequest) -> Result<SubmittedJob, Error> {
        let draft = request.into_draft().map_err(Refusal::from)?;
        Ok(SubmittedJob::from(&self.node.submit(&self.tenant, draft).await?))
    }

    async fn submit_all(&self, requests: Vec<JobRequest>) -> Result<Vec<SubmittedJob>, Error> {
        let drafts = requests.into_iter().map(JobRequest::into_draft);
        let drafts = drafts.collect::<Result<_, _>>().map_err(Refusal::from)?;
        let submitted = self.node.submit_all(&self.tenant, drafts).await?;
        Ok(submitted.iter().map(SubmittedJob::from).collect())
    }

    async fn status(&self, id: JobId) -> Result<JobStatus, Error> {
        Ok(JobStatus::from(&self.node.job(&self.scope(), id).await?))
    }

    async fn job(&self, id: JobId) -> Result<FullJob, Error> {
        let job = self.node.job(&self.scope(), id).await?;
        let payload = self.node.payload(&self.scope(), id).await?;
        Ok(FullJob::new(&job, Some(&payload)))
    }

    async fn wait(&self, id: JobId, longest: Duration) -> Result<JobStatus, Error> {
        let end = Instant::now() + longest;
        let mut watch = self.node.watch(id); // before the first read
        loop {
            let status = self.status(id).await?;
            let now = Instant::now();
            if status.completed_at.is_some() || now >= end {
                return Ok(status);
            }
            let next_read = end.min(now + READ_EVERY);
            if let Ok(Changed::Closed) = timeout_at(next_read, watch.changed()).await {
                return self.status(id).await;
            }
        }
    }

    async fn history(&self, id: JobId) -> Result<Vec<Transition>, Error> {
        let entries = self.node.history(&self.scope(), id, 0).await?;
        Ok(entries.iter().map(Transition::from).collect())
    }

    async fn explain(&self, id: JobId) -> Result<Explanation, Error> {
        let explanation = self.node.explain(&self.scope(), id).await?;
        Ok(Explanation::new(explanation.status, &explanation.reasons))
    }

    async fn cancel(&self, id: JobId) -> Result<JobStatus, Error> {
        Ok(JobStatus::from(&self.node.cancel(&self.scope(), id, None).await?))
    }

    async fn redrive(&self, id: JobId) -> Result<JobStatus, Error> {
        let job = self.node.redrive(&self.scope(), id, RedriveOptions::default(), None).await?;
        Ok(JobStatus::from(&job))
    }

    async fn discard(&self, id: JobId) -> Result<JobStatus, Error> {
        Ok(JobStatus::from(&self.node.discard(&self.scope(), id, None).await?))
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        let sums = self.node.queue_sums(&self.scope(), &|_| true).await?;
        // As at a server, whose credential is for this tenant.
        let types = sums.types.into_iter().map(QueueSummary::for_one_tenant);
        Ok(types.map(|summary| queue_status(&summary)).collect())
    }

    fn runner(&self) -> Runner {
        let runner = Runner::new(&self.node);
        if self.runs_all_tenants { runner } else { runner.tenant(self.tenant.as_str()) }
    }

    async fn close(&self) {
        let node = self.node.clone();
        // Closing blocks for as long as the last commit takes, so it gets a thread of its own.
        drop(tokio::task::spawn_blocking(move || node.close()).await);
    }

    fn local(&self) -> Option<&Local> {
        Some(self)
    }
}

impl Local {
    fn start(store: Arc<dyn Store>, folder: Option<PathBuf>) -> io::Result<Self> {
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let node = Arc::new(Node::start(store.clone(), clock, random, Settings::default())?);
        let tenant = Tenant::default_tenant();
        Ok(Local { node, store, folder, tenant, runs_all_tenants: true })
    }

    fn scope(&self) -> Scope {
        Scope::One(self.tenant.clone())
    }
}

fn queue_status(summary: &platform::QueueSummary) -> QueueStatus {
    QueueStatus {
        job_type: summary.job_type.to_string(),
        queued: summary.queued,
        due: summary.due,
        oldest_age_seconds: summary.oldest_age.map(|age| age.as_secs()),
        running: summary.running,
        poisoned: summary.poisoned,
        paused: summary.paused,
        pauses: summary.pauses.iter().take(PAUSES_MAX).map(QueuePause::from).collect(),
        live_workers: summary.live_workers,
        known: summary.is_known,
    }
}
