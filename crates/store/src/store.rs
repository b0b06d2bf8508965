//! What a store is asked, and what it answers.

use crate::cursor::Cursor;
use crate::node::{ClusterView, NodeInfo, NodeStatus, Notification, UnconfirmedNode};
use crate::queue::{QueueDepth, WorkerSeen};
use crate::record::{Pause, Record, RecordBody, RecordChange, RecordKind, key_of_id};
use async_trait::async_trait;
use engine::{
    ApiKey, AuditEntry, AuditNote, ClaimRequest, Command, ErrorCode, Event, ExplainFacts, Filter,
    HistoryEntry, Job, JobId, JobType, JsonText, NewJob, Policy, Refusal, Scope, SigningKey,
    Submitted, Timestamp, WorkerId,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    time::Duration,
};

/// Carries out batches. This is the whole of what a wrapper (batcher, fault injection, test double)
/// has to implement.
pub trait Execute: Send + Sync {
    /// Carries out `batch` in one transaction: loads the jobs it touches, lets the engine decide
    /// each request by the store's own clock, saves what was decided. Replies are in request order.
    /// Then it tells the other nodes `notification`, which are hints: they may be told as well where the
    /// batch came to nothing.
    ///
    /// It blocks, and runs on the caller's thread: a writer thread has nothing else to do, and a
    /// hand-off to another thread costs two wake-ups per commit.
    ///
    /// Within the batch everything has its turn: settings (records, pauses), submits, commands
    /// about existing jobs (two on one job see each other's effect), claims, signs of life. So a
    /// job submitted to an idle system is stored and started by one commit. The store may read its
    /// clock more than once on the way; no job goes back in time.
    ///
    /// A claim promises no number: it ends when its payloads are large enough, and it passes over a
    /// job that another node holds at this moment, so an empty answer means "try again", not "there
    /// is nothing".
    fn execute(
        &self,
        batch: Vec<Request>,
        notification: Notification,
    ) -> Result<Vec<Reply>, StoreError>;

    /// Lets other nodes know, soon, together with other news, and without waiting for it.
    fn notify_peers(&self, _: Notification) {}
}

/// Where jobs live between one decision and the next.
///
/// All writing goes through [`Execute::execute`]; a new rule should not need a new method. Reads
/// see every write that was answered before they began, and a job never seems to vanish while it
/// moves; only [`Store::list`] and the depths of [`Store::queues`] may lag a moment behind.
#[async_trait]
pub trait Store: Execute {
    /// One job and its status.
    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError>;

    /// What a job was handed over with.
    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError>;

    /// The history of a job after row `after`, in order; empty for a job that is not there.
    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError>;

    /// The announcements of one job whose transition is later than row `after` of its history, in order,
    /// numbered or not, at most [`PAGE_MAX`] at a time; those that are no longer kept ([`EVENTS_KEPT`])
    /// are left out. Empty for a job that is not there.
    async fn announced(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, StoreError>;

    /// One page of jobs, newest first: by the moment of their creation; those of one moment in an order
    /// that stays the same. A page looks at a bounded number of jobs, so it may be short, or empty, and
    /// still say where to go on.
    async fn list(&self, query: &Query) -> Result<Page, StoreError>;

    /// Depth and age of every queue in scope.
    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError>;

    /// How many jobs in scope wait in the poison queue, by type and code: of one type, or of all.
    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts, StoreError>;

    /// Every worker in scope that has been seen lately.
    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError>;

    /// The records of one kind whose keys begin with `prefix`: those of one scope, or all. In the
    /// order of their scopes and keys.
    async fn records(
        &self,
        kind: RecordKind,
        scope: Option<&Scope>,
        prefix: &str,
    ) -> Result<Vec<Record>, StoreError>;

    /// The policies that were set; every other type has the default.
    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, StoreError> {
        let records = self.records(RecordKind::Policy, None, "").await?;
        let read = |record: &Record| Some((JobType::parse(&record.name.key).ok()?, record.read()?));
        records.iter().map(read).collect::<Option<_>>().ok_or_else(unreadable)
    }

    /// The pauses that hold, each with its type and whose queue it stops.
    async fn pauses(&self) -> Result<BTreeSet<Pause>, StoreError> {
        let pauses = read_records(&self.records(RecordKind::Pause, None, "").await?)?;
        Ok(pauses.into_iter().collect())
    }

    /// The API keys of one tenant, or those that are good for all tenants ([`Scope::All`]), or,
    /// without a scope, all there are; oldest first, good or not.
    async fn keys(&self, scope: Option<&Scope>) -> Result<Vec<ApiKey>, StoreError> {
        let records = self.records(RecordKind::ApiKey, scope, "").await?;
        let mut keys: Vec<ApiKey> = read_records(&records)?;
        keys.sort_by_key(|key| (key.created_at, key.id));
        Ok(keys)
    }

    /// All keys that sign status addresses, oldest first, revoked ones included.
    async fn signing_keys(&self) -> Result<Vec<SigningKey>, StoreError> {
        let records = self.records(RecordKind::SigningKey, None, "").await?;
        let mut keys: Vec<SigningKey> = read_records(&records)?;
        keys.sort_by_key(|key| (key.created_at, key.id));
        Ok(keys)
    }

    /// A page of the audit log, newest first: entries with a number below `before`, at most `limit` and
    /// never more than [`PAGE_MAX`]. One tenant sees only what was done in its own house.
    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// A job and what stands around it, read at one moment.
    async fn explain_facts(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, ExplainFacts)>, StoreError>;

    /// At most `limit` jobs of which a time has run out, with what is to be done about each. Another
    /// node may be at it already: the command decides.
    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError>;

    /// When, after `after`, the next waiting job may start: what a clock that wakes workers has to know.
    async fn next_due(&self, after: Timestamp) -> Result<Upcoming, StoreError>;

    /// Numbers at most `limit` new announcements and says how many it numbered.
    ///
    /// Numbers have no gaps and never change; those of one job are in the order of its history; what
    /// was answered before something else began comes before it.
    async fn number_events(&self, limit: usize) -> Result<usize, StoreError>;

    /// Numbered announcements after `after`, in order, at most [`PAGE_MAX`] at a time.
    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError>;

    /// Drops at most `limit` rows that nobody can ask for any more (expired keys, old
    /// announcements, workers long gone), and says how many.
    async fn prune(&self, limit: usize) -> Result<usize, StoreError>;

    /// How many batches it can carry out side by side.
    fn writers(&self) -> usize {
        1
    }

    /// Whether other processes may write to it.
    fn is_shared(&self) -> bool {
        false
    }

    /// A node gives a sign of life, and learns who else is there and whether it leads. At most one node
    /// leads at a time, by the store's clock; one that was silent for [`crate::LEADERSHIP_FOR`] does not lead any more, and
    /// what it still tries to do as a leader ([`Store::number_events`], [`Store::prune`]) does nothing. One that is
    /// draining gives the lead up. Whoever never attended is no node but a tool, and may do what it is asked for.
    ///
    /// A store of one process has one node, which leads.
    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<ClusterView, StoreError> {
        let seen_at = self.next_due(Timestamp::MAX).await?.now;
        let seen = NodeStatus { info: node.clone(), seen_at, live: true, leads: true };
        Ok(ClusterView { leads: true, nodes: vec![seen] })
    }

    /// How often something was set that nodes keep in memory: credentials, policies, pauses. The
    /// transaction that sets it counts it. A store of one process counts nothing: no other node can
    /// set anything there.
    async fn settings_version(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// A node confirms that it acts by everything that was set up to `version`. That is a sign of
    /// life as well. A version that the node confirmed before is not taken back.
    async fn confirm_settings(&self, _node: &NodeInfo, _version: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// The nodes that have not confirmed `version`: live ones, and those that were seen lately.
    async fn unconfirmed_nodes(&self, _version: u64) -> Result<Vec<UnconfirmedNode>, StoreError> {
        Ok(Vec::new())
    }

    /// The version that the status of each of these jobs has; those that are not there are left out. For
    /// somebody who watches many jobs that other nodes may change.
    async fn versions(&self, ids: &[JobId]) -> Result<BTreeMap<JobId, u64>, StoreError> {
        let mut versions = BTreeMap::new();
        for id in ids {
            versions.extend(self.job(&Scope::All, *id).await?.map(|job| (*id, job.version)));
        }
        Ok(versions)
    }

    /// What other nodes have let know since the last time. Waits for it; where there is only one node, for
    /// ever. One caller at a time.
    async fn notification(&self) -> Notification {
        std::future::pending().await
    }
}

fn read_records<T: RecordBody>(records: &[Record]) -> Result<Vec<T>, StoreError> {
    records.iter().map(Record::read).collect::<Option<_>>().ok_or_else(unreadable)
}

fn unreadable() -> StoreError {
    StoreError::Damaged(Some("a record says what its kind cannot".into()))
}

/// One line of a batch.
#[derive(Clone, Debug)]
pub enum Request {
    /// New jobs, all or none. A single job is a list of one.
    Submit(Vec<NewJob>),
    /// Something is to happen to one job.
    Job {
        /// Whose jobs the caller may touch; any other is not found.
        scope: Scope,
        /// Which job.
        id: JobId,
        /// What.
        command: Command,
    },
    /// A worker wants work.
    Claim {
        /// Whose jobs it may take.
        scope: Scope,
        /// What it wants.
        claim_request: ClaimRequest,
    },
    /// A worker is alive, beside what its heartbeats say about jobs.
    WorkerAlive {
        /// Whose jobs it works on.
        scope: Scope,
        /// Who.
        worker: WorkerId,
    },
    /// A worker signs off: it is not alive any more, whatever it holds. Its leases stay as they
    /// are, and its next sign of life makes it alive again.
    Leave {
        /// Whose jobs it worked on.
        scope: Scope,
        /// Who.
        worker: WorkerId,
    },
    /// Nobody may claim from a queue for now.
    Pause {
        /// One tenant's queue, or everybody's.
        scope: Scope,
        /// Which type.
        job_type: JobType,
    },
    /// The queue goes on; [`Scope::All`] lifts every pause of the type.
    Resume {
        /// One tenant's queue, or everybody's.
        scope: Scope,
        /// Which type.
        job_type: JobType,
    },
    /// A record is to be written or removed: a policy, a credential.
    PutRecord(RecordChange),
    /// An entry for the audit log.
    Audit(AuditNote),
    /// All of these or none: where one is refused, nothing is done, and its refusal is the reply.
    /// Each sees what those before it do. Claims and signs of life cannot be refused and are no
    /// part of this.
    All(Vec<Request>),
}

impl Request {
    /// The policy of a type is to be this from now on.
    pub fn set_policy(job_type: &JobType, policy: &Policy) -> Self {
        Request::PutRecord(RecordChange::put(Scope::All, job_type.as_str(), policy))
    }

    /// An API key is to be this from now on, whether it is new or known.
    pub fn put_key(key: &ApiKey) -> Self {
        Request::PutRecord(RecordChange::put(key.grant.scope.clone(), key_of_id(key.id), key))
    }

    /// A key that signs status addresses is to be this from now on, whether it is new or known.
    pub fn put_signing_key(key: &SigningKey) -> Self {
        Request::PutRecord(RecordChange::put(Scope::All, key_of_id(key.id), key))
    }

    /// This request and its entry in the audit log: what is refused leaves no entry.
    #[must_use]
    pub fn audited(self, note: AuditNote) -> Self {
        Request::All(vec![self, Request::Audit(note)])
    }

    /// The requests that it consists of, one after another.
    pub fn parts(&self) -> impl Iterator<Item = &Request> {
        // Every request is asked, and nearly all are alone: these need no list.
        let (mut first, mut rest) = (Some(self), Vec::new());
        std::iter::from_fn(move || {
            loop {
                let next = first.take().or_else(|| rest.pop())?;
                let Request::All(parts) = next else { return Some(next) };
                rest.extend(parts.iter().rev());
            }
        })
    }

    /// Whether it has several parts, of which the later ones see what the earlier ones do.
    pub(crate) fn is_list(&self) -> bool {
        match self {
            Request::Submit(jobs) => jobs.len() > 1,
            Request::All(parts) => parts.len() > 1 || parts.iter().any(Request::is_list),
            Request::Job { .. }
            | Request::Claim { .. }
            | Request::WorkerAlive { .. }
            | Request::Leave { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::PutRecord(_)
            | Request::Audit(_) => false,
        }
    }

    /// Whether it sets something that nodes keep in memory.
    pub fn sets(&self) -> bool {
        self.parts().any(|part| {
            matches!(part, Request::PutRecord(_) | Request::Pause { .. } | Request::Resume { .. })
        })
    }

    /// Whether it hands over jobs.
    pub fn begins(&self) -> bool {
        self.parts().any(|part| matches!(part, Request::Submit(_)))
    }
}

/// When a request has its turn within a batch.
pub(crate) fn turn(request: &Request) -> u8 {
    match request {
        Request::Pause { .. }
        | Request::Resume { .. }
        | Request::PutRecord(_)
        | Request::Audit(_) => 0,
        Request::Submit(_) => 1,
        Request::Job { .. } => 2,
        Request::Claim { .. } => 3,
        Request::WorkerAlive { .. } | Request::Leave { .. } => 4,
        Request::All(parts) => parts.iter().map(turn).max().unwrap_or(0),
    }
}

/// A page of a listing, of announcements or of the audit log is no longer than this.
pub const PAGE_MAX: usize = 1_000;
/// Numbered announcements can be read again for this long.
pub const EVENTS_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// A worker that is gone is still shown for this long.
pub const WORKERS_KEPT: Duration = Duration::from_secs(86_400);

/// The answer to one request.
pub type Reply = Result<Answer, Refusal>;

/// What a request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Request::Submit`], in the order of its list.
    Submitted(Vec<Submitted>),
    /// To [`Request::Job`].
    Job(engine::Answer),
    /// To [`Request::Claim`], in the order in which the jobs should be started.
    Claimed(Vec<Claimed>),
    /// To [`Request::All`], part by part.
    All(Vec<Answer>),
    /// To everything else.
    Done,
}

impl Answer {
    /// The answer to a request that was carried out with others: that of the first part.
    pub fn first(self) -> Self {
        match self {
            Answer::All(parts) => parts.into_iter().next().map_or(Answer::Done, Answer::first),
            one @ (Answer::Submitted(_) | Answer::Job(_) | Answer::Claimed(_) | Answer::Done) => {
                one
            }
        }
    }
}

/// A job that a worker may run now; its state holds the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The job, running.
    pub job: Job,
    /// What it was handed over with.
    pub payload: JsonText,
}

/// A question for a page of jobs.
#[derive(Clone, Debug)]
pub struct Query {
    /// Whose jobs.
    pub scope: Scope,
    /// Which of them.
    pub filter: Filter,
    /// Only jobs behind this place: what the page before said.
    pub before: Option<Cursor>,
    /// At most so many, and never more than [`PAGE_MAX`].
    pub limit: usize,
}

/// A page of jobs.
#[derive(Clone, Debug)]
pub struct Page {
    /// Newest first.
    pub jobs: Vec<Job>,
    /// What to ask `before` for the next page; nothing after the last.
    pub next: Option<Cursor>,
}

/// How many jobs wait in the poison queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoisonCounts {
    /// By type, and by the code of the last failure.
    pub counts: BTreeMap<JobType, BTreeMap<ErrorCode, u64>>,
    /// Whether these are all. Of more codes than [`POISON_CODES_MAX`] those with the most jobs are
    /// told.
    pub complete: bool,
}

impl PoisonCounts {
    pub(crate) fn add(&mut self, job_type: &JobType, code: &ErrorCode, count: u64) {
        let codes = self.counts.entry(job_type.clone()).or_default();
        *codes.entry(code.clone()).or_default() += count;
    }
}

/// More codes of the poison queue are not told at once: workers make them up.
pub const POISON_CODES_MAX: usize = 1_000;

/// The codes of the poison queue that are told, where the name of each has to be looked up, given
/// how many jobs of a queue have which digest; and whether these are all. Those with the most jobs
/// are told.
pub(crate) fn told_codes(groups: &[(i64, i64, u64)]) -> (BTreeSet<i64>, bool) {
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

/// A job of which a time has run out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Which.
    pub id: JobId,
    /// What is to be done. The engine decides again when it is: much can happen in between.
    pub command: Command,
}

/// What becomes due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// The store's time when it looked.
    pub now: Timestamp,
    /// The first moment at which a waiting job may start, past or to come; nothing where none waits.
    pub due_at: Option<Timestamp>,
}

/// An announcement with its place in the one order that all readers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedEvent {
    /// 1 for the first, without gaps.
    pub number: u64,
    /// What is announced.
    pub event: Event,
}

/// The world broke. Refusals are not here: they are answers.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was done; the same again may work later.
    #[error("the store cannot be reached")]
    Unavailable(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// There is no room; nothing was done.
    #[error("the store is full")]
    Full(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// Nobody knows whether it was done. Repeats are recognised by key, claim id and token; a cancel or a
    /// discard that comes twice changes nothing; a redrive that was done is refused as not ended.
    #[error("the outcome of the commit is not known")]
    OutcomeUnknown(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// What was read cannot have been written by us.
    #[error("the store is damaged")]
    Damaged(#[source] Option<Box<dyn Error + Send + Sync>>),
}
