//! The runner: its builder, its start and its stop.

use crate::{
    attempt::RunnerContext,
    backend::{Backend, BackendError},
    handler::{Registration, SLOTS_MAX},
    remote::{self, Remote},
    supervisor::{AttemptReport, HandlerPool, RunnerState, Stop, StopSummary, TypePoller},
    system,
    time::Time,
};
use client::{Client, ClientError};
use engine::{FieldProblem, Host, JobType, Tenant, WorkerId};
use std::{io, sync::Arc, thread, time::Duration};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::{Notify, mpsc, oneshot, watch},
    task::AbortHandle,
};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Runs handlers for jobs of some types.
///
/// The runner sends heartbeats and reports and enforces timeouts; a handler only does the work. See
/// [`on`](crate::on).
#[must_use = "it does nothing until it is started"]
pub struct Runner {
    backend_kind: BackendKind,
    name: String,
    host: Option<String>,
    tenant: Option<String>,
    registrations: Vec<Registration>,
}

enum BackendKind {
    #[cfg(feature = "local")]
    Node(Arc<platform::Node>),
    Server {
        client: Client,
        wait: Duration,
    },
}

/// Why a runner did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is invalid.
    #[error("a setting of the runner is invalid: {0}")]
    Invalid(FieldProblem),
    /// The policy of a type could not be set.
    #[error("the policy of {job_type} was not set")]
    Policy {
        /// Which type.
        job_type: JobType,
        /// Why.
        source: BackendError,
    },
    /// The client for the server could not be set up.
    #[error("the client for the server could not be set up")]
    Client(#[from] ClientError),
    /// The system gave no thread.
    #[error("a thread could not be started")]
    Thread(#[from] io::Error),
}

/// Threads for handlers that are stuck and already cut off, beside those of the slots.
const STUCK_THREADS_MAX: usize = 64;
/// The longest wait that a server allows for one claim.
const WAIT_MAX: Duration = Duration::from_secs(60);

impl Runner {
    /// A runner for jobs of `node`; add handlers with [`with`](Runner::with).
    #[cfg(feature = "local")]
    pub fn new(node: &Arc<platform::Node>) -> Self {
        Runner::with_backend(BackendKind::Node(node.clone()))
    }

    /// A runner for jobs of a remote server. The client's key needs the scope `work`, and
    /// `jobs:enqueue` where handlers have children.
    ///
    /// The runner waits for a server that is away, and reports what handlers did meanwhile when it
    /// is back.
    pub fn remote(client: &Client) -> Self {
        Runner::with_backend(BackendKind::Server { client: client.clone(), wait: remote::WAIT })
    }

    fn with_backend(backend_kind: BackendKind) -> Self {
        // Not the process id: it is 1 in every container, and a process may have two runners.
        let name = format!("runner-{:08x}", system::random().0 >> 96);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Runner { backend_kind, name, host: Some(host), tenant: None, registrations: Vec::new() }
    }

    /// The runner's name in histories and lists; unique by default. Two runners that run at the
    /// same time should not share a name.
    pub fn name(self, name: impl Into<String>) -> Self {
        Runner { name: name.into(), ..self }
    }

    /// The machine it runs on, shown to operators; the system's host name by default.
    pub fn host(self, host: impl Into<String>) -> Self {
        Runner { host: Some(host.into()), ..self }
    }

    /// Takes only jobs of this tenant; by default, of all. A remote server goes by the tenant of
    /// the key.
    pub fn tenant(self, tenant: impl Into<String>) -> Self {
        Runner { tenant: Some(tenant.into()), ..self }
    }

    /// How long one claim waits for jobs at a remote server: at most 60 s, and 30 s by default.
    pub fn wait(mut self, longest: Duration) -> Self {
        match &mut self.backend_kind {
            #[cfg(feature = "local")]
            BackendKind::Node(_) => {}
            BackendKind::Server { wait, .. } => *wait = longest.min(WAIT_MAX),
        }
        self
    }

    /// Adds a job type and its handler.
    pub fn with(mut self, registration: Registration) -> Self {
        self.registrations.push(registration);
        self
    }

    /// Starts to claim and to run jobs.
    ///
    /// Handlers run in the tokio runtime in which this is called, which the caller must drive, as
    /// `#[tokio::main]` does. Outside of any runtime, the runner makes one of its own. When the
    /// runtime ends, the runner gives back the jobs that it has.
    pub async fn start(self) -> Result<RunnerHandle, StartError> {
        let backend = self.backend()?;
        let pollers = self.pollers().map_err(StartError::Invalid)?;
        let own_runtime =
            if Handle::try_current().is_ok() { None } else { Some(runtime_for_handlers()?) };
        let handlers =
            own_runtime.as_ref().map_or_else(Handle::current, |own| own.handle().clone());
        self.set_policies(&backend, &handlers).await?;
        let slots: usize = pollers.iter().map(|poller| poller.slots).sum();
        let pool = HandlerPool::new(handlers.clone(), slots + STUCK_THREADS_MAX);
        let context = Arc::new(RunnerContext {
            backend: Arc::downgrade(&backend),
            time: Time::Real,
            progress_made: Notify::new(),
            stopping: CancellationToken::new(),
        });
        let types: Vec<&str> = pollers.iter().map(|poller| poller.job_type.as_str()).collect();
        info!(name = self.name, types = types.join(", "), slots, "the runner starts");
        // In claim ids, so that no claim of an earlier process is repeated.
        let run_id = format!("{:032x}", system::random().0);
        let (state, reports) = RunnerState::new(backend, context, pollers, pool, run_id);
        Ok(RunnerHandle::start(state, reports, &handlers, own_runtime)?)
    }

    fn backend(&self) -> Result<Arc<dyn Backend>, StartError> {
        let tenant = self.tenant.as_deref().map(Tenant::parse).transpose();
        let tenant = tenant.map_err(StartError::Invalid)?;
        match (&self.backend_kind, tenant) {
            #[cfg(feature = "local")]
            (BackendKind::Node(node), tenant) => {
                let scope = tenant.map_or(engine::Scope::All, engine::Scope::One);
                Ok(Arc::new(crate::local::Local::new(node.clone(), scope)))
            }
            (BackendKind::Server { client, wait }, None) => {
                Ok(Arc::new(Remote::new(client.clone(), *wait)?))
            }
            (BackendKind::Server { .. }, Some(_)) => {
                let detail = "is decided by the key of a remote server; leave it out";
                Err(StartError::Invalid(FieldProblem::new("tenant", detail)))
            }
        }
    }

    fn pollers(&self) -> Result<Vec<TypePoller>, FieldProblem> {
        let mut pollers: Vec<TypePoller> = Vec::with_capacity(self.registrations.len());
        for registration in &self.registrations {
            let poller = self.poller(registration)?;
            if pollers.iter().any(|other| other.job_type == poller.job_type) {
                let detail = format!("{} has two handlers", poller.job_type);
                return Err(FieldProblem::new("jobType", detail));
            }
            pollers.push(poller);
        }
        if pollers.is_empty() {
            let detail = "there is no handler; give the runner one, as in .with(on(\"email\", …))";
            return Err(FieldProblem::new("jobTypes", detail));
        }
        Ok(pollers)
    }

    /// Runs in the runtime of the handlers: a caller outside of any runtime could not wait for a
    /// server.
    async fn set_policies(
        &self,
        backend: &Arc<dyn Backend>,
        runtime: &Handle,
    ) -> Result<(), StartError> {
        for registration in &self.registrations {
            let Some(policy) = registration.policy.clone() else { continue };
            let job_type = JobType::parse(&registration.job_type).map_err(StartError::Invalid)?;
            let (backend, own_type) = (backend.clone(), job_type.clone());
            let setting = runtime.spawn(async move { backend.set_policy(own_type, &policy).await });
            let set = setting.await.map_err(io::Error::other)?;
            set.map_err(|source| StartError::Policy { job_type, source })?;
        }
        Ok(())
    }

    fn poller(&self, registration: &Registration) -> Result<TypePoller, FieldProblem> {
        let job_type = JobType::parse(&registration.job_type)?;
        if !(1..=SLOTS_MAX).contains(&registration.slots) {
            let detail = format!("must be from 1 to {SLOTS_MAX}, but is {}", registration.slots);
            return Err(FieldProblem::new("slots", detail));
        }
        if let Some(lease) = registration.lease {
            engine::check_lease(i64::try_from(lease.as_secs()).unwrap_or(i64::MAX)).map_err(
                |_| FieldProblem::new("lease", format!("must be from 1s to 1h, but is {lease:?}")),
            )?;
        }
        let worker = WorkerId::parse(&format!("{}/{job_type}", self.name)).map_err(|problem| {
            let detail = format!("with /{job_type} appended, {}", problem.detail);
            FieldProblem::new("name", detail)
        })?;
        let host = self.host.as_deref().map(Host::parse).transpose()?;
        let (handler, slots, lease) =
            (registration.handler.clone(), registration.slots, registration.lease);
        Ok(TypePoller { job_type, worker, host, handler, slots, lease, freed: Notify::new() })
    }
}

/// A runner at work. When it is dropped, it gives back the jobs that it has not finished.
#[must_use = "a runner that is dropped stops"]
pub struct RunnerHandle {
    state: Arc<RunnerState>,
    stop: watch::Sender<Stop>,
    /// Ends when the runtime of the handlers ends.
    sentinel: AbortHandle,
    summary: Option<oneshot::Receiver<StopSummary>>,
    thread: Option<thread::JoinHandle<()>>,
    /// The handlers' runtime, where the runner was started outside of any.
    own_runtime: Option<Runtime>,
}

/// How many handlers a runner can run, and how many it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerStats {
    /// Jobs that can run at once.
    pub slots: usize,
    /// Jobs that run now.
    pub running: usize,
    /// Handlers that have ended and whose report was not taken yet.
    pub unreported: usize,
    /// Attempts reported since the runner started.
    pub reported: usize,
    /// Refused reports among them: another worker had the job by then, and its outcome stands.
    pub refused_reports: usize,
    /// Threads that a handler blocks.
    pub stuck_threads: usize,
}

impl RunnerHandle {
    fn start(
        state: Arc<RunnerState>,
        reports: mpsc::UnboundedReceiver<AttemptReport>,
        handlers: &Handle,
        own_runtime: Option<Runtime>,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stop_receiver) = watch::channel(None);
        let (summary_sender, summary) = oneshot::channel();
        let own_state = state.clone();
        let builder = thread::Builder::new().name("consign-runner".into());
        let thread = builder.spawn(move || {
            let summary = runtime.block_on(own_state.supervise(reports, stop_receiver));
            drop(runtime); // and with it all tasks that still wait
            let _receiver_gone = summary_sender.send(summary);
        })?;
        let stop_on_drop = StopOnDrop(stop.clone());
        let sentinel = handlers.spawn(async move {
            let _dropped_with_runtime = stop_on_drop;
            std::future::pending::<()>().await;
        });
        let (sentinel, summary, thread) = (sentinel.abort_handle(), Some(summary), Some(thread));
        Ok(RunnerHandle { state, stop, sentinel, summary, thread, own_runtime })
    }

    /// The runner's current numbers.
    pub fn stats(&self) -> RunnerStats {
        self.state.stats()
    }

    /// Waits until no handler runs and a claim of each type has brought no job. Only a runner for a
    /// [remote server](Runner::remote) gets empty claims: within the process, a claim waits for
    /// ever.
    pub async fn wait_idle(&self) {
        self.state.wait_idle().await;
    }

    /// Takes no more jobs and waits for handlers to end. Jobs whose handlers have not ended when
    /// most of `grace` is over are given back, which costs them no attempt.
    pub async fn stop(mut self, grace: Duration) -> StopSummary {
        request_stop(&self.stop, grace);
        let Some(summary) = self.summary.take() else { return StopSummary::default() };
        // The supervisor keeps to its time. If it died, it is unknown what was reported.
        let unreported = || self.state.stats().unreported;
        summary.await.unwrap_or_else(|_| StopSummary { released: 0, unreported: unreported() })
    }

    /// Works until the process is asked to end (SIGTERM, or Ctrl-C), and then stops. Needs a tokio
    /// runtime.
    pub async fn until_signal(self, grace: Duration) -> io::Result<StopSummary> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        Ok(self.stop(grace).await)
    }
}

/// Stops the runner when the handlers' runtime ends: without it all their jobs would fail.
struct StopOnDrop(watch::Sender<Stop>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        request_stop(&self.0, Duration::ZERO);
    }
}

fn request_stop(stop: &watch::Sender<Stop>, grace: Duration) {
    stop.send_modify(|stop| {
        *stop = Some(stop.map_or(grace, |earlier| earlier.min(grace)));
    });
}

impl Drop for RunnerHandle {
    fn drop(&mut self) {
        request_stop(&self.stop, Duration::ZERO);
        self.sentinel.abort();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        if let Some(runtime) = self.own_runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn runtime_for_handlers() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).thread_name("consign-io").enable_all().build()
}
