//! The traits of a store, its requests and its answers.

use crate::cursor::Cursor;
use crate::node::{ClusterView, NodeInfo, NodeStatus, Notification, UnconfirmedNode};
use crate::queue::{QueueDepth, WorkerSeen};
use crate::record::{Record, RecordBody, RecordChange, RecordKind, key_of_id};
use async_trait::async_trait;
use engine::{
    ApiKey, AuditEntry, AuditNote, ClaimRequest, Command, ErrorCode, Event, ExplainFacts, Filter,
    HistoryEntry, Job, JobId, JobType, JsonText, NewJob, Pause, PauseNote, Policy, Refusal, Scope,
    SigningKey, Submitted, Timestamp, WorkerId,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    time::Duration,
};

/// What the methods of a store return.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Executes batches. A wrapper (batcher, fault injection, test double) implements only this.
pub trait Execute: Send + Sync {
    /// Executes `batch` in one transaction: loads the jobs that it touches, lets the engine decide
    /// each request by the store's own clock, and saves the decisions. Replies are in request
    /// order. Then the store sends `notification` to the other nodes. It is a hint: the store may
    /// send it even when the batch changed nothing.
    ///
    /// Blocks, and runs on the caller's thread: a writer thread has nothing else to do, and passing
    /// the batch to another thread costs two wake-ups per commit.
    ///
    /// The kinds of requests run in a fixed order: settings (records, pauses), submits, commands
    /// about existing jobs (two on one job see each other's effect), claims, worker heartbeats. So
    /// one commit stores and starts a job that is submitted to an idle system. The store may read
    /// its clock more than once on the way; no job goes back in time.
    ///
    /// A claim promises no number of jobs. It ends when its payloads are large enough, and it
    /// passes over a job that another node has locked. So an empty answer means "try again", not
    /// "the queue is empty".
    fn execute(&self, batch: Vec<Request>, notification: Notification) -> Result<Vec<Reply>>;

    /// Queues `notification` for the other nodes and returns at once. The store sends it soon,
    /// together with others.
    fn notify_peers(&self, _: Notification) {}
}

/// Keeps jobs between one decision and the next.
///
/// All writing goes through [`Execute::execute`]; a new rule should not need a new method. Reads
/// see every write that was answered before they began. A job never seems to vanish while it moves.
/// Only [`Store::list`] and the depths of [`Store::queues`] may lag a moment behind.
#[async_trait]
pub trait Store: Execute {
    /// One job and its status.
    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>>;

    /// The payload of a job, as it was submitted.
    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>>;

    /// The history of a job after row `after`, in order; empty for a job that does not exist.
    async fn history(&self, scope: &Scope, id: JobId, after: u64) -> Result<Vec<HistoryEntry>>;

    /// The events of one job for transitions later than row `after` of its history, in order,
    /// numbered or not, at most [`PAGE_MAX`] at a time. Events older than [`EVENTS_KEPT`] are left
    /// out. Empty for a job that does not exist.
    async fn events_of_job(&self, scope: &Scope, id: JobId, after: u64) -> Result<Vec<Event>>;

    /// One page of jobs, newest first by creation time; jobs of one moment have a stable order. A
    /// page reads a bounded number of jobs, so it may be short or empty and still have a next page.
    async fn list(&self, query: &Query) -> Result<Page>;

    /// Depth and age of every queue in scope.
    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>>;

    /// How many jobs in scope wait in the poison queue, by type and code: of one type, or of all.
    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts>;

    /// Every worker in scope that the store has seen lately.
    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>>;

    /// The records of one kind whose keys begin with `prefix`, of one scope or of all, ordered by
    /// scope and key.
    async fn records(
        &self,
        kind: RecordKind,
        scope: Option<&Scope>,
        prefix: &str,
    ) -> Result<Vec<Record>>;

    /// The policies that were set; every other type has the default.
    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>> {
        let records = self.records(RecordKind::Policy, None, "").await?;
        let read = |record: &Record| Some((JobType::parse(&record.name.key).ok()?, record.read()?));
        records.iter().map(read).collect::<Option<_>>().ok_or_else(unreadable)
    }

    /// The pauses in force, by type, that of all tenants first, and then by tenant.
    async fn pauses(&self) -> Result<Vec<Pause>> {
        let mut pauses = read_records(&self.records(RecordKind::Pause, None, "").await?)?;
        pauses.sort_by_cached_key(|pause: &Pause| {
            (pause.job_type.clone(), pause.scope != Scope::All, pause.scope.clone())
        });
        Ok(pauses)
    }

    /// The API keys of one tenant, those valid for all tenants ([`Scope::All`]), or, without a
    /// scope, all keys; oldest first, revoked and expired ones included.
    async fn keys(&self, scope: Option<&Scope>) -> Result<Vec<ApiKey>> {
        let records = self.records(RecordKind::ApiKey, scope, "").await?;
        let mut keys: Vec<ApiKey> = read_records(&records)?;
        keys.sort_by_key(|key| (key.created_at, key.id));
        Ok(keys)
    }

    /// All keys that sign status addresses, oldest first, revoked ones included.
    async fn signing_keys(&self) -> Result<Vec<SigningKey>> {
        let records = self.records(RecordKind::SigningKey, None, "").await?;
        let mut keys: Vec<SigningKey> = read_records(&records)?;
        keys.sort_by_key(|key| (key.created_at, key.id));
        Ok(keys)
    }

    /// A page of the audit log, newest first: entries with a number below `before`, at most `limit`
    /// and never more than [`PAGE_MAX`]. A tenant sees only the entries of its own scope.
    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>>;

    /// A job and the facts that explain its state, read at one moment.
    async fn explain_facts(&self, scope: &Scope, id: JobId) -> Result<Option<(Job, ExplainFacts)>>;

    /// At most `limit` jobs past one of their deadlines, and parents whose last child has ended, each
    /// with the command that is due. Another
    /// node may be moving the same job: the command's own decision is the one that counts.
    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>>;

    /// When the next waiting job after `after` may start. The maintenance thread sleeps until then
    /// before it wakes claims.
    async fn next_due(&self, after: Timestamp) -> Result<Upcoming>;

    /// Numbers at most `limit` new events and returns how many it numbered.
    ///
    /// Numbers have no gaps and never change. Those of one job are in the order of its history. An
    /// event whose request was answered before another request began has the smaller number.
    async fn number_events(&self, limit: usize) -> Result<usize>;

    /// Numbered events after `after`, in order, at most [`PAGE_MAX`] at a time.
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>>;

    /// Deletes at most `limit` rows that no query returns any more (expired keys, old events,
    /// workers long gone), and returns how many. Jobs are deleted by a command
    /// ([`Store::overdue`]).
    async fn prune_leftovers(&self, limit: usize) -> Result<usize>;

    /// How many batches the store can execute side by side.
    fn writers(&self) -> usize {
        1
    }

    /// Whether other processes may write to the store.
    fn is_shared(&self) -> bool {
        false
    }

    /// Records a heartbeat of a node, and returns which other nodes there are and whether this one
    /// leads. At most one node leads at a time, by the store's clock. A node that was silent for
    /// [`crate::LEADERSHIP_FOR`] no longer leads, and its leader's work ([`Store::number_events`],
    /// [`Store::prune_leftovers`]) then does nothing. A draining node gives up the leadership. A
    /// handle that never sent a heartbeat is a tool, not a node, and may do that work.
    ///
    /// A store of one process has one node, which leads.
    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<ClusterView> {
        let seen_at = self.next_due(Timestamp::MAX).await?.now;
        let status = NodeStatus { info: node.clone(), seen_at, live: true, leads: true };
        Ok(ClusterView { leads: true, nodes: vec![status] })
    }

    /// The number of changes so far to the settings that nodes cache: credentials, policies,
    /// pauses. The transaction that changes a setting increments it. A store of one process always
    /// returns 0: no other node can change its settings.
    async fn settings_version(&self) -> Result<u64> {
        Ok(0)
    }

    /// Records that a node acts by all settings up to `version`. This also counts as a heartbeat.
    /// It never lowers a version that the node confirmed before.
    async fn confirm_settings(&self, _node: &NodeInfo, _version: u64) -> Result<()> {
        Ok(())
    }

    /// The nodes that have not confirmed `version`: live ones, and those that the store saw lately.
    async fn unconfirmed_nodes(&self, _version: u64) -> Result<Vec<UnconfirmedNode>> {
        Ok(Vec::new())
    }

    /// The status version of each of these jobs; jobs that do not exist are left out. The peer
    /// watcher asks it for many watched jobs at once.
    async fn versions(&self, ids: &[JobId]) -> Result<BTreeMap<JobId, u64>> {
        let mut versions = BTreeMap::new();
        for id in ids {
            versions.extend(self.job(&Scope::All, *id).await?.map(|job| (*id, job.version)));
        }
        Ok(versions)
    }

    /// The notifications of other nodes since the last call. Waits until there is one; where there
    /// is only one node, for ever. One caller at a time.
    async fn notification(&self) -> Notification {
        std::future::pending().await
    }
}

fn read_records<T: RecordBody>(records: &[Record]) -> Result<Vec<T>> {
    records.iter().map(Record::read).collect::<Option<_>>().ok_or_else(unreadable)
}

fn unreadable() -> StoreError {
    StoreError::Damaged(Some("the body of a record cannot be read as its kind".into()))
}

/// One request of a batch.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "ids, commands and types need no words")]
pub enum Request {
    /// New jobs, all or none. A single job is a list of one.
    Submit(Vec<NewJob>),
    /// Apply a command to one job.
    Command {
        /// Whose jobs the caller may touch; any other job is not found.
        scope: Scope,
        id: JobId,
        command: Command,
    },
    /// A worker asks for jobs.
    Claim {
        /// The tenants whose jobs it may take.
        scope: Scope,
        /// How many jobs of which types, and for which worker.
        claim_request: ClaimRequest,
    },
    /// A heartbeat of a worker itself, sent beside those of its jobs.
    WorkerAlive {
        /// The tenants whose jobs it works on.
        scope: Scope,
        worker: WorkerId,
    },
    /// A worker signs off and no longer counts as alive, even while it holds leases. Its leases
    /// stay as they are, and its next heartbeat or claim makes it alive again.
    Leave {
        /// The tenants whose jobs it worked on.
        scope: Scope,
        worker: WorkerId,
    },
    /// Stop all claims from a queue. A queue that is paused already keeps its pause as it is.
    Pause {
        /// One tenant's queue, or the queues of all tenants.
        scope: Scope,
        job_type: JobType,
        note: PauseNote,
    },
    /// Allow claims again; [`Scope::All`] lifts every pause of the type.
    Resume {
        /// One tenant's queue, or the queues of all tenants.
        scope: Scope,
        job_type: JobType,
    },
    /// Write or remove a record: a policy, a credential.
    PutRecord(RecordChange),
    /// Append an entry to the audit log.
    Audit(AuditNote),
    /// All of these or none: if one is refused, nothing is done, and its refusal is the reply. Each
    /// request sees the effects of those before it. Claims and worker heartbeats cannot be refused
    /// and are not allowed here.
    All(Vec<Request>),
}

impl Request {
    /// Sets the policy of a type.
    pub fn set_policy(job_type: &JobType, policy: &Policy) -> Self {
        Request::PutRecord(RecordChange::put(Scope::All, job_type.as_str(), policy))
    }

    /// Writes an API key, new or existing.
    pub fn put_key(key: &ApiKey) -> Self {
        Request::PutRecord(RecordChange::put(key.grant.scope.clone(), key_of_id(key.id), key))
    }

    /// Writes a key that signs status addresses, new or existing.
    pub fn put_signing_key(key: &SigningKey) -> Self {
        Request::PutRecord(RecordChange::put(Scope::All, key_of_id(key.id), key))
    }

    /// This request and its entry in the audit log, as one list: a refused request leaves no entry.
    #[must_use]
    pub fn audited(self, note: AuditNote) -> Self {
        Request::All(vec![self, Request::Audit(note)])
    }

    /// The requests inside lists, flattened, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Request> {
        // Every request of a batch passes here, and nearly all are single: those need no heap list.
        let (mut single, mut stack) = (Some(self), Vec::new());
        std::iter::from_fn(move || {
            loop {
                let next = single.take().or_else(|| stack.pop())?;
                let Request::All(parts) = next else { return Some(next) };
                stack.extend(parts.iter().rev());
            }
        })
    }

    /// Whether it has several parts; later ones see what earlier ones staged.
    pub(crate) fn is_list(&self) -> bool {
        match self {
            Request::Submit(jobs) => jobs.len() > 1,
            Request::All(parts) => parts.len() > 1 || parts.iter().any(Request::is_list),
            Request::Command { .. }
            | Request::Claim { .. }
            | Request::WorkerAlive { .. }
            | Request::Leave { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::PutRecord(_)
            | Request::Audit(_) => false,
        }
    }

    /// Whether it changes a setting that nodes cache.
    pub fn changes_settings(&self) -> bool {
        self.parts().any(|part| {
            matches!(part, Request::PutRecord(_) | Request::Pause { .. } | Request::Resume { .. })
        })
    }

    /// Whether it submits jobs.
    pub fn submits_jobs(&self) -> bool {
        self.parts().any(|part| matches!(part, Request::Submit(_)))
    }
}

/// The phase of a batch in which a request runs.
pub(crate) fn phase(request: &Request) -> u8 {
    match request {
        Request::Pause { .. }
        | Request::Resume { .. }
        | Request::PutRecord(_)
        | Request::Audit(_) => 0,
        Request::Submit(_) => 1,
        Request::Command { .. } => 2,
        Request::Claim { .. } => 3,
        Request::WorkerAlive { .. } | Request::Leave { .. } => 4,
        Request::All(parts) => parts.iter().map(phase).max().unwrap_or(0),
    }
}

/// The longest page of a listing, of events or of the audit log.
pub const PAGE_MAX: usize = 1_000;
/// How long numbered events stay readable.
pub const EVENTS_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// How long a worker that is gone is still listed.
pub const WORKERS_KEPT: Duration = Duration::from_secs(86_400);

/// The answer to one request.
pub type Reply = Result<Answer, Refusal>;

/// The outcome of a request that was not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Request::Submit`], in the order of its list.
    Submitted(Vec<Submitted>),
    /// To [`Request::Command`].
    Job(engine::Answer),
    /// To [`Request::Claim`], in the order in which the jobs should be started.
    Claimed(Vec<Claimed>),
    /// To [`Request::All`], part by part.
    All(Vec<Answer>),
    /// To everything else.
    Done,
}

impl Answer {
    /// The answer of the first part, for a request that was sent together with others.
    pub fn first(self) -> Self {
        match self {
            Answer::All(parts) => parts.into_iter().next().map_or(Answer::Done, Answer::first),
            single
            @ (Answer::Submitted(_) | Answer::Job(_) | Answer::Claimed(_) | Answer::Done) => single,
        }
    }
}

/// A job that a worker may run now; its state holds the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The job, running.
    pub job: Job,
    /// The payload that the client submitted.
    pub payload: JsonText,
}

/// A query for a page of jobs.
#[derive(Clone, Debug)]
pub struct Query {
    /// The tenants whose jobs are listed.
    pub scope: Scope,
    /// The condition that listed jobs meet.
    pub filter: Filter,
    /// Only jobs after this cursor: the `next` of the previous page.
    pub before: Option<Cursor>,
    /// The longest page wanted, at most [`PAGE_MAX`].
    pub limit: usize,
}

/// A page of jobs.
#[derive(Clone, Debug)]
pub struct Page {
    /// Newest first.
    pub jobs: Vec<Job>,
    /// The `before` of the next page; `None` after the last.
    pub next: Option<Cursor>,
}

/// How many jobs wait in the poison queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoisonCounts {
    /// By type, and by the code of the last failure.
    pub counts: BTreeMap<JobType, BTreeMap<ErrorCode, u64>>,
    /// Whether these are all. Beyond [`POISON_CODES_MAX`] codes, only those with the most jobs are
    /// counted.
    pub complete: bool,
}

impl PoisonCounts {
    pub(crate) fn add(&mut self, job_type: &JobType, code: &ErrorCode, count: u64) {
        let codes = self.counts.entry(job_type.clone()).or_default();
        *codes.entry(code.clone()).or_default() += count;
    }
}

/// The most codes of the poison queue in one answer: workers invent codes, so their number has no
/// other bound.
pub const POISON_CODES_MAX: usize = 1_000;

/// Which code digests of the poison queue to report, given the number of jobs per queue and digest,
/// and whether these are all. Codes with the most jobs win. For stores that look up the text of
/// each code.
pub(crate) fn reported_codes(groups: &[(i64, i64, u64)]) -> (BTreeSet<i64>, bool) {
    let mut sums: BTreeMap<i64, u64> = BTreeMap::new();
    for (_, error, count) in groups {
        *sums.entry(*error).or_default() += count;
    }
    let mut codes: Vec<(i64, u64)> = sums.into_iter().collect();
    codes.sort_unstable_by_key(|(error, count)| (std::cmp::Reverse(*count), *error));
    let complete = codes.len() <= POISON_CODES_MAX;
    codes.truncate(POISON_CODES_MAX);
    (codes.into_iter().map(|(error, _)| error).collect(), complete)
}

/// A job past one of its deadlines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The id of the job.
    pub id: JobId,
    /// The command that is due. The engine decides again when it runs: much can happen in between.
    pub command: Command,
}

impl Overdue {
    /// A parent that need not wait for its children any more.
    pub(crate) fn children_ended(parent: &Job) -> Option<Self> {
        let (id, command) = (parent.id(), Command::ChildrenEnded);
        parent.awaits_children().then_some(Overdue { id, command })
    }
}

/// The next due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// The store's time of this answer.
    pub now: Timestamp,
    /// The first moment at which a waiting job may start, past or to come; `None` where no job
    /// waits.
    pub due_at: Option<Timestamp>,
}

/// An event with its number in the one order that all readers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedEvent {
    /// 1 for the first, without gaps.
    pub number: u64,
    /// The event.
    pub event: Event,
}

/// A failure of the store itself. Refusals are answers, not errors.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done; a retry may succeed later.
    #[error("the store cannot be reached")]
    Unavailable(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The disk or database is full; nothing was done.
    #[error("the store is full")]
    Full(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The store cannot tell whether it committed. It recognises repeats by key, claim id and
    /// token. A repeated cancel or discard changes nothing; a repeated redrive is refused as not
    /// ended.
    #[error("the outcome of the commit is not known")]
    OutcomeUnknown(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The store read data that this program cannot have written.
    #[error("the store is damaged")]
    Damaged(#[source] Option<Box<dyn Error + Send + Sync>>),
}

/// The error with all its causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
