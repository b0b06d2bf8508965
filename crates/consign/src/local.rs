//! Consign over a store of its own: jobs and handlers of this process.

use engine::{HistoryEntry, Job, JobId, Scope, Submitted, Tenant};
use platform::{Changed, Error, Explanation, Node, Settings, SystemClock, SystemRandom};
use std::{fs::DirBuilder, io, os::unix::fs::DirBuilderExt, path::Path, sync::Arc, time::Duration};
use store::{Memory, OpenError, Options, QueueDepth, Sqlite, Store};
use worker::{JobRequest, Runner};

/// Consign over one store, for one tenant. Clones share the store.
#[derive(Clone)]
pub struct Consign {
    node: Arc<Node>,
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
    /// The folder of the file could not be made, or the system gave no thread.
    #[error("the store could not be started")]
    System(#[from] io::Error),
}

impl Consign {
    /// Opens the store in this file, or creates one. Only one process can open it at a time.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ConsignError> {
        let path = path.as_ref();
        if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
            // The store holds payloads, so a new folder is readable by this user alone.
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let store = Sqlite::open(path, clock, random, Options::default())?;
        Ok(Self::with_store(Arc::new(store))?)
    }

    /// A store that forgets everything when it is dropped.
    pub fn in_memory() -> Result<Self, ConsignError> {
        let memory = Memory::new(Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        Ok(Self::with_store(Arc::new(memory))?)
    }

    /// Consign over any store.
    pub fn with_store(store: Arc<dyn Store>) -> io::Result<Self> {
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let node = Node::start(store, clock, random, Settings::default())?;
        let (node, tenant) = (Arc::new(node), Tenant::default_tenant());
        Ok(Consign { node, tenant, runs_all_tenants: true })
    }

    /// The same store, for one tenant: it reads, submits and runs only that tenant's jobs.
    pub fn for_tenant(&self, tenant: &str) -> Result<Self, Error> {
        let tenant = Tenant::parse(tenant)?;
        Ok(Consign { tenant, runs_all_tenants: false, ..self.clone() })
    }

    /// Submits a job: when this returns, the job is on disk, and so is its status.
    pub async fn submit(&self, request: JobRequest) -> Result<Submitted, Error> {
        self.node.submit(&self.tenant, request.into_draft()?).await
    }

    /// Submits all of these jobs, or none.
    pub async fn submit_all(&self, requests: Vec<JobRequest>) -> Result<Vec<Submitted>, Error> {
        let drafts = requests.into_iter().map(JobRequest::into_draft);
        self.node.submit_all(&self.tenant, drafts.collect::<Result<_, _>>()?).await
    }

    /// A job as it is now.
    pub async fn job(&self, id: JobId) -> Result<Job, Error> {
        self.node.job(&self.scope(), id).await
    }

    /// Waits until a job has ended, at most `longest`, and returns it as it is then. It also
    /// returns when [`Self::close`] leaves no node to end the job.
    pub async fn wait(&self, id: JobId, longest: Duration) -> Result<Job, Error> {
        let end = tokio::time::Instant::now() + longest.min(WAIT_MAX);
        let mut watch = self.node.watch(id); // before the first read
        loop {
            let job = self.job(id).await?;
            let now = tokio::time::Instant::now();
            if job.status().is_ended() || now >= end {
                return Ok(job);
            }
            let next_read = end.min(now + READ_EVERY);
            if let Ok(Changed::Closed) = tokio::time::timeout_at(next_read, watch.changed()).await {
                return self.job(id).await;
            }
        }
    }

    /// The history of a job.
    pub async fn history(&self, id: JobId) -> Result<Vec<HistoryEntry>, Error> {
        self.node.history(&self.scope(), id, 0).await
    }

    /// Why a job does not run.
    pub async fn explain(&self, id: JobId) -> Result<Explanation, Error> {
        self.node.explain(&self.scope(), id).await
    }

    /// Cancels a waiting job at once, and asks the handler of a running one to stop.
    pub async fn cancel(&self, id: JobId) -> Result<Job, Error> {
        self.node.cancel(&self.scope(), id, None).await
    }

    /// Gives an ended job another life, with all its attempts.
    pub async fn redrive(&self, id: JobId) -> Result<Job, Error> {
        self.node.redrive(&self.scope(), id, None, false, None).await
    }

    /// Takes a poisoned job out of the poison queue for good; it stays as it ended.
    pub async fn discard(&self, id: JobId) -> Result<Job, Error> {
        self.node.discard(&self.scope(), id, None).await
    }

    /// Depth and age of this tenant's queues.
    pub async fn queues(&self) -> Result<Vec<QueueDepth>, Error> {
        self.node.queues(&self.scope()).await
    }

    /// A runner for jobs of all tenants, or of [one](Self::for_tenant): add handlers, then start
    /// it.
    pub fn runner(&self) -> Runner {
        let runner = Runner::new(&self.node);
        if self.runs_all_tenants { runner } else { runner.tenant(self.tenant.as_str()) }
    }

    /// Accepts no new requests, finishes those that wait, and stops. Stop runners first: jobs that
    /// they cannot report any more run again when their lease is over.
    pub async fn close(self) {
        let node = self.node.clone();
        drop(self);
        // Closing blocks for as long as the last commit takes, so it gets a thread of its own.
        drop(tokio::task::spawn_blocking(move || node.close()).await);
    }

    /// Everything else: all verbs, for any scope.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    fn scope(&self) -> Scope {
        Scope::One(self.tenant.clone())
    }
}

/// A longer wait is pointless, and clocks cannot count much further.
const WAIT_MAX: Duration = Duration::from_secs(365 * 86_400);
/// How often a waiting caller reads the job itself: other nodes of a shared store do not wake it.
const READ_EVERY: Duration = Duration::from_secs(5);
