//! Compares the memory store, which is the model, with our other stores: the same requests must get
//! the same answers.

use crate::{
    Answer, Clock, Execute, ManualClock, Memory, Notification, Options, Postgres, PostgresOptions,
    Query, RandomSource, RecordChange, Reply, Request, Sqlite, Store,
    conformance::audit::recorded,
    control_clock,
    postgres::tests::{RUNTIME, fresh_address},
    test_settings::{seed_base, setting},
    wipe,
};
use engine::{
    ClaimId, ClaimRequest, Command, EndingDraft, Entropy, Filter, JobDraft, JobId, JobType,
    JsonText, LeaseToken, NewJob, Outcome, PAYLOAD_BYTES_MAX, Policy, PolicyDraft, ReleaseReason,
    Scope, Status, StepName, SubmitContext, Tenant, WorkerId,
};
use pollster::block_on;
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use std::{io::Write, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;

/// A random source that always returns one number, so that both stores get the same entropy however
/// often each asks for it.
struct ConstantRandom;

impl RandomSource for ConstantRandom {
    fn entropy(&self) -> Entropy {
        Entropy(u128::MAX / 3)
    }
}

/// One operation. A number selects one of the jobs or leases that exist when it runs.
#[derive(Clone, Debug)]
enum Op {
    Submit { jobs: Vec<Draft> },
    Claim { worker: u8, claim: u8, types: u8, max: usize, tenant: Option<u8> },
    Settle { lease: usize, ending: u8 },
    Heartbeat { lease: usize },
    Release { lease: usize, reason: u8, delay: u8 },
    Step { lease: usize, name: u8, finish: bool },
    Operator { job: usize, command: u8 },
    Pause { job_type: u8, tenant: Option<u8>, resume: bool },
    SetPolicy { job_type: u8, policy: u8 },
    MixedBatch { jobs: Vec<Draft>, worker: u8, claim: u8 },
    List { parts: Vec<Part> },
    Sweep,
    Prune { limit: usize },
    NumberEvents { limit: usize },
    PassTime { ms: u64 },
    SetClock { ms: i64 },
    Restart { ms: u64 },
}

/// A part of a list that is executed whole or not at all.
#[derive(Clone, Debug)]
enum Part {
    Submit(Draft),
    Operate { job: usize, command: u8 },
    Settle { lease: usize, ending: u8 },
    Step { lease: usize, finish: bool },
    Policy { job_type: u8, policy: u8, expected: Option<u8> },
}

#[derive(Clone, Debug)]
struct Draft {
    job_type: u8,
    tenant: u8,
    key: Option<u8>,
    payload: u8,
    priority: u8,
    delay: Option<u8>,
    expires: Option<u8>,
    parent: bool,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..60)
}

fn op() -> impl Strategy<Value = Op> {
    let tenant = || prop::option::weighted(0.3, 0..2u8);
    prop_oneof![
        4 => prop::collection::vec(draft(), 1..4).prop_map(|jobs| Op::Submit { jobs }),
        5 => (0..3u8, 0..4u8, 1..4u8, 1..4usize, tenant()).prop_map(
            |(worker, claim, types, max, tenant)| Op::Claim { worker, claim, types, max, tenant }),
        5 => (any::<usize>(), 0..6u8).prop_map(|(lease, ending)| Op::Settle { lease, ending }),
        2 => any::<usize>().prop_map(|lease| Op::Heartbeat { lease }),
        1 => (any::<usize>(), 0..4u8, 0..3u8)
            .prop_map(|(lease, reason, delay)| Op::Release { lease, reason, delay }),
        1 => (any::<usize>(), 0..2u8, any::<bool>())
            .prop_map(|(lease, name, finish)| Op::Step { lease, name, finish }),
        4 => (any::<usize>(), 0..5u8).prop_map(|(job, command)| Op::Operator { job, command }),
        1 => (0..2u8, tenant(), any::<bool>())
            .prop_map(|(job_type, tenant, resume)| Op::Pause { job_type, tenant, resume }),
        1 => (0..2u8, 0..3u8).prop_map(|(job_type, policy)| Op::SetPolicy { job_type, policy }),
        2 => (prop::collection::vec(draft(), 1..3), 0..3u8, 0..4u8)
            .prop_map(|(jobs, worker, claim)| Op::MixedBatch { jobs, worker, claim }),
        4 => prop::collection::vec(part(), 1..6).prop_map(|parts| Op::List { parts }),
        2 => Just(Op::Sweep),
        1 => (0..5usize).prop_map(|limit| Op::Prune { limit }),
        1 => (0..9usize).prop_map(|limit| Op::NumberEvents { limit }),
        4 => prop_oneof![0..2_000u64, 20_000..100_000u64, 600_000..900_000u64]
            .prop_map(|ms| Op::PassTime { ms }),
        1 => (-100_000..100_000i64).prop_map(|ms| Op::SetClock { ms }),
        1 => (0..50_000u64).prop_map(|ms| Op::Restart { ms }),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    let expected = prop::option::weighted(0.3, 0..3u8);
    prop_oneof![
        4 => draft().prop_map(Part::Submit),
        3 => (any::<usize>(), 0..5u8).prop_map(|(job, command)| Part::Operate { job, command }),
        3 => (any::<usize>(), 0..6u8).prop_map(|(lease, ending)| Part::Settle { lease, ending }),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(lease, finish)| Part::Step { lease, finish }),
        1 => (0..2u8, 0..3u8, expected)
            .prop_map(|(job_type, policy, expected)| Part::Policy { job_type, policy, expected }),
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    let key = prop::option::weighted(0.4, 0..3u8);
    let (delay, expires) =
        (prop::option::weighted(0.2, 0..60u8), prop::option::weighted(0.2, 61..99u8));
    (0..2u8, 0..2u8, key, 0..2u8, 0..10u8, delay, expires, any::<bool>()).prop_map(
        |(job_type, tenant, key, payload, priority, delay, expires, parent)| Draft {
            job_type,
            tenant,
            key,
            payload,
            priority,
            delay,
            expires,
            parent,
        },
    )
}

/// Both stores, and the jobs and leases that the test knows of.
struct Pair {
    clock: Arc<ManualClock>,
    memory: Memory,
    other: Option<Arc<dyn Store>>,
    open: Open,
    jobs_made: u128,
    jobs: Vec<JobId>,
    leases: Vec<(JobId, LeaseToken)>,
}

/// Opens the same store each time.
type Open = Box<dyn Fn() -> Arc<dyn Store>>;

impl Pair {
    fn new(clock: Arc<ManualClock>, open: Open) -> Self {
        let memory = Memory::new(clock.clone(), Arc::new(ConstantRandom));
        memory.restart();
        let other = Some(open());
        Pair { clock, memory, other, open, jobs_made: 0, jobs: Vec::new(), leases: Vec::new() }
    }

    fn other(&self) -> &dyn Store {
        self.other.as_deref().expect("open, but while it restarts")
    }

    /// Sends a batch to both stores, and checks that the replies are equal.
    fn execute(&mut self, batch: Vec<Request>) -> Vec<Reply> {
        let by_memory = self.memory.execute(batch.clone(), Notification::default()).unwrap();
        let by_other = self.other().execute(batch.clone(), Notification::default()).unwrap();
        assert_eq!(by_memory, by_other, "{batch:?}");
        by_memory.iter().flatten().for_each(|answer| self.record(answer));
        by_memory
    }

    fn record(&mut self, answer: &Answer) {
        match answer {
            Answer::Submitted(all) => {
                self.jobs.extend(all.iter().filter(|s| !s.duplicate).map(|s| s.job_id));
            }
            Answer::Claimed(all) => self.leases.extend(
                all.iter().map(|c| (c.job.id(), c.job.lease().expect("it was claimed").token)),
            ),
            Answer::All(parts) => parts.iter().for_each(|part| self.record(part)),
            Answer::Job(_) | Answer::Done => {}
        }
    }

    /// A list of any parts: the refusal of one part refuses the whole list.
    fn list(&mut self, parts: &[Part]) {
        let parts = parts.iter().filter_map(|part| self.part(part)).collect();
        self.execute(vec![Request::All(parts)]);
    }

    fn part(&mut self, part: &Part) -> Option<Request> {
        Some(match part {
            Part::Submit(draft) => Request::Submit(vec![self.new_job(draft)]),
            Part::Operate { job, command } => {
                let id = self.any_job(*job)?;
                Request::Command { scope: Scope::All, id, command: command_of(*command) }
            }
            Part::Settle { lease, ending } => {
                let (id, token) = *self.leases.get(lease % self.leases.len().max(1))?;
                let ending = ending_of(*ending).check().expect("lawful");
                Request::Command {
                    scope: Scope::All,
                    id,
                    command: Command::Settle { token, ending },
                }
            }
            Part::Step { lease, finish } => {
                let (id, token) = *self.leases.get(lease % self.leases.len().max(1))?;
                let name = StepName::parse("step-0").expect("lawful");
                let result = engine::check_step_result("1").expect("lawful");
                let command = match finish {
                    true => Command::FinishStep { token, name, result },
                    false => Command::BeginStep { token, name },
                };
                Request::Command { scope: Scope::All, id, command }
            }
            Part::Policy { job_type, policy, expected } => {
                let (job_type, policy) = (type_of(*job_type), policy_of(*policy));
                let change = RecordChange::put(Scope::All, job_type.as_str(), &policy);
                Request::PutRecord(match expected {
                    Some(version) => change.expecting(u64::from(*version)),
                    None => change,
                })
            }
        })
    }

    fn command(&mut self, id: JobId, command: Command) {
        self.execute(vec![Request::Command { scope: Scope::All, id, command }]);
    }

    fn with_lease(&mut self, lease: usize, command: impl FnOnce(LeaseToken) -> Command) {
        if self.leases.is_empty() {
            return;
        }
        let (id, token) = self.leases[lease % self.leases.len()];
        self.command(id, command(token));
    }

    fn new_job(&mut self, draft: &Draft) -> NewJob {
        self.jobs_made += 1;
        let now = self.clock.read().wall.unix_ms();
        let at = |seconds: Option<u8>| seconds.map(|s| i64::from(s) * 1_000 + now);
        let parent = self.jobs.last().filter(|_| draft.parent);
        let text = JobDraft {
            job_type: type_of(draft.job_type).to_string(),
            subject_id: Some(format!("subject-{}", draft.payload)),
            correlation_id: Some(format!("correlation-{}", draft.payload)),
            idempotency_key: draft.key.map(|key| format!("key-{key}")),
            payload: Some(draft.payload.to_string()),
            priority: Some(draft.priority.into()),
            run_at: at(draft.delay),
            expires_at: at(draft.expires),
            parent_id: parent.map(JobId::to_string),
            on_ended: draft.key.filter(|_| draft.priority % 2 == 1).map(|_| "new".into()),
            ..JobDraft::default()
        };
        let context = SubmitContext {
            // Ids that grow with the order of arrival, so that both stores break ties alike.
            id: JobId::new(engine::Timestamp::from_unix_ms(1_000), Entropy(self.jobs_made << 48)),
            tenant: tenant_of(draft.tenant),
            entropy: Entropy(self.jobs_made),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        };
        text.check(context).expect("a lawful draft")
    }

    fn act(&mut self, op: &Op) {
        match op {
            Op::Submit { jobs } => {
                let jobs = jobs.iter().map(|draft| self.new_job(draft)).collect();
                self.execute(vec![Request::Submit(jobs)]);
            }
            Op::MixedBatch { jobs, worker, claim } => {
                let claim = Request::Claim {
                    scope: Scope::All,
                    claim_request: claim_request(*worker, *claim, 3, 2),
                };
                let submits = jobs.iter().map(|draft| Request::Submit(vec![self.new_job(draft)]));
                let batch = std::iter::once(claim).chain(submits).collect();
                self.execute(batch);
            }
            Op::Claim { worker, claim, types, max, tenant } => {
                let claim_request = claim_request(*worker, *claim, *types, *max);
                self.execute(vec![Request::Claim { scope: scope_of(*tenant), claim_request }]);
            }
            Op::Settle { lease, ending } => {
                let ending = ending_of(*ending).check().expect("lawful");
                self.with_lease(*lease, |token| Command::Settle { token, ending });
            }
            Op::Heartbeat { lease } => {
                let progress = None;
                self.with_lease(*lease, |token| Command::Heartbeat { token, progress });
            }
            Op::Release { lease, reason, delay } => {
                use ReleaseReason::{AwaitsChildren, Released, Snoozed, Undelivered};
                let reasons = [Released, Snoozed, Undelivered, AwaitsChildren];
                let reason = reasons[usize::from(*reason)];
                let delay = Duration::from_secs(u64::from(*delay) * 10);
                self.with_lease(*lease, |token| Command::Release { token, reason, delay });
            }
            Op::Step { lease, name, finish } => {
                let name = StepName::parse(&format!("step-{name}")).expect("lawful");
                let result = engine::check_step_result("1").expect("lawful");
                self.with_lease(*lease, |token| match finish {
                    true => Command::FinishStep { token, name, result },
                    false => Command::BeginStep { token, name },
                });
            }
            Op::Operator { job, command } => self.operate(*job, *command),
            Op::Pause { job_type, tenant, resume } => {
                let (scope, job_type) = (scope_of(*tenant), type_of(*job_type));
                self.execute(vec![match resume {
                    true => Request::Resume { scope, job_type },
                    false => Request::Pause { scope, job_type, note: engine::PauseNote::default() },
                }]);
            }
            Op::SetPolicy { job_type, policy } => {
                let (job_type, policy) = (type_of(*job_type), policy_of(*policy));
                self.execute(vec![Request::set_policy(&job_type, &policy)]);
            }
            Op::List { parts } => self.list(parts),
            Op::Sweep => self.sweep(),
            Op::Prune { limit } => {
                let all =
                    [&self.memory as &dyn Store, self.other()].map(|it| prune_all(it, *limit));
                assert_eq!(all[0], all[1]);
            }
            Op::NumberEvents { limit } => {
                let by_memory = block_on(self.memory.number_events(*limit)).unwrap();
                assert_eq!(by_memory, block_on(self.other().number_events(*limit)).unwrap());
            }
            Op::PassTime { ms } => {
                self.clock.pass(Duration::from_millis(*ms));
                self.tick();
            }
            Op::SetClock { ms } => {
                self.clock.set_off(*ms);
                self.tick();
            }
            Op::Restart { ms } => {
                self.tick();
                self.other = None;
                self.clock.pass(Duration::from_millis(*ms));
                self.other = Some((self.open)());
                self.memory.restart();
            }
        }
    }

    /// Makes both stores read the clock. The memory store reads it with most requests, the file
    /// only when it writes. Otherwise small drifts would add up to a jump for one of them only.
    fn tick(&mut self) {
        let worker = WorkerId::parse("watch").expect("lawful");
        self.execute(vec![Request::WorkerAlive { scope: Scope::All, worker }]);
    }

    fn operate(&mut self, job: usize, command: u8) {
        let Some(id) = self.any_job(job) else { return };
        let request = Request::Command { scope: Scope::All, id, command: command_of(command) };
        let target = id.to_string();
        self.execute(vec![recorded(&target, request)]);
    }

    fn any_job(&self, job: usize) -> Option<JobId> {
        self.jobs.get(job % self.jobs.len().max(1)).copied()
    }

    fn sweep(&mut self) {
        let key = |late: &crate::Overdue| late.id;
        let mut by_memory = block_on(self.memory.overdue(100)).unwrap();
        let mut by_other = block_on(self.other().overdue(100)).unwrap();
        by_memory.sort_by_key(key);
        by_other.sort_by_key(key);
        assert_eq!(by_memory, by_other);
        for late in by_memory {
            self.command(late.id, late.command);
        }
    }

    /// Checks that all reads of both stores are equal.
    fn compare(&self) {
        for id in &self.jobs {
            for scope in [Scope::All, scope_of(Some(0))] {
                let jobs = [self.memory.job(&scope, *id), self.other().job(&scope, *id)];
                assert_same(jobs.map(block_on));
                let rows =
                    [self.memory.history(&scope, *id, 1), self.other().history(&scope, *id, 1)];
                assert_same(rows.map(block_on));
                let events = [
                    self.memory.events_of_job(&scope, *id, 1),
                    self.other().events_of_job(&scope, *id, 1),
                ];
                assert_same(events.map(block_on));
                let payloads =
                    [self.memory.payload(&scope, *id), self.other().payload(&scope, *id)];
                assert_same(payloads.map(block_on));
            }
            let around = [
                self.memory.explain_facts(&Scope::All, *id),
                self.other().explain_facts(&Scope::All, *id),
            ];
            assert_same(around.map(block_on));
        }
        assert_same([self.memory.events(0, 1_000), self.other().events(0, 1_000)].map(block_on));
        assert_same(
            [self.memory.queues(&Scope::All), self.other().queues(&Scope::All)].map(block_on),
        );
        assert_same([self.memory.policies(), self.other().policies()].map(block_on));
        let logs = [&self.memory as &dyn Store, self.other()];
        assert_same(logs.map(|store| block_on(store.audit(&Scope::All, None, 1_000))));
        assert_same(
            [self.memory.workers(&Scope::All), self.other().workers(&Scope::All)].map(block_on),
        );
        for filter in filters(&self.jobs) {
            for scope in [Scope::All, scope_of(Some(0))] {
                let pages = [&self.memory as &dyn Store, self.other()];
                let [model, other] = pages.map(|store| listed(store, &scope, &filter));
                assert_eq!(model, other, "{filter:?}");
            }
        }
    }
}

#[track_caller]
fn assert_same<T: PartialEq + std::fmt::Debug>(answers: [Result<T, crate::StoreError>; 2]) {
    let [memory, file] = answers.map(|answer| answer.expect("a read does not fail"));
    assert_eq!(memory, file);
}

/// Prunes to the end, in steps, and returns the sum: each store chooses what it prunes first.
fn prune_all(store: &dyn Store, limit: usize) -> usize {
    let mut all = 0;
    loop {
        let some = block_on(store.prune_leftovers(limit)).unwrap();
        assert!(some <= limit, "{some} are more than {limit}");
        all += some;
        if some < limit.max(1) {
            return all;
        }
    }
}

/// All jobs that match a filter, read in pages of three.
fn listed(store: &dyn Store, scope: &Scope, filter: &Filter) -> Vec<JobId> {
    let mut query = Query { scope: scope.clone(), filter: filter.clone(), before: None, limit: 3 };
    let mut ids = Vec::new();
    loop {
        let page = block_on(store.list(&query)).unwrap();
        ids.extend(page.jobs.iter().map(engine::Job::id));
        query.before = page.next;
        if page.next.is_none() {
            return ids;
        }
    }
}

fn filters(jobs: &[JobId]) -> Vec<Filter> {
    use engine::{Comparison, CorrelationId, ErrorCode, Field, SubjectId, Timestamp};
    let statuses = Status::ALL.map(|status| Filter::eq(Field::Status(status)));
    let email = || Filter::eq(Field::JobType(type_of(0)));
    let at = Timestamp::from_unix_ms(1_800_000_050_000);
    let times = [Comparison::Lt, Comparison::Ge].into_iter().flat_map(|comparison| {
        [Field::CreatedAt(at), Field::CompletedAt(at)]
            .map(|field| Filter::Compare(comparison, field))
    });
    let subject = SubjectId::parse("subject-1").expect("lawful");
    let correlation = CorrelationId::parse("correlation-0").expect("lawful");
    let others = [
        Filter::Everything,
        email(),
        Filter::eq(Field::SubjectId(subject)),
        Filter::eq(Field::CorrelationId(correlation)),
        Filter::eq(Field::ErrorCode(ErrorCode::parse("BROKEN").expect("lawful"))),
        Filter::And(vec![email(), Filter::eq(Field::Status(Status::Queued))]),
        Filter::Or(vec![email(), Filter::Not(Box::new(Filter::eq(Field::Status(Status::Failed))))]),
        Filter::eq(Field::Tenant(tenant_of(1))),
        Filter::And(vec![email(), Filter::eq(Field::Tenant(tenant_of(0)))]),
    ];
    let parents = jobs.first().map(|id| Filter::eq(Field::ParentId(*id)));
    statuses.into_iter().chain(times).chain(others).chain(parents).collect()
}

fn type_of(number: u8) -> JobType {
    JobType::parse(["email", "scan"][usize::from(number)]).expect("lawful")
}

fn tenant_of(number: u8) -> Tenant {
    Tenant::parse(["acme", "birch"][usize::from(number)]).expect("lawful")
}

fn scope_of(tenant: Option<u8>) -> Scope {
    tenant.map_or(Scope::All, |tenant| Scope::One(tenant_of(tenant)))
}

fn claim_request(worker: u8, claim: u8, types: u8, max: usize) -> ClaimRequest {
    let wanted = (0..2).filter(|number| types & (1 << number) != 0);
    ClaimRequest {
        worker: WorkerId::parse(&format!("worker-{worker}")).expect("lawful"),
        host: None,
        claim: ClaimId::parse(&format!("claim-{claim}")).expect("lawful"),
        job_types: wanted.map(type_of).collect(),
        max,
        lease: None,
    }
}

fn ending_of(number: u8) -> EndingDraft {
    let failed =
        EndingDraft { error_code: Some("BROKEN".into()), ..EndingDraft::new(Outcome::Failed) };
    match number {
        0 | 1 => EndingDraft { result: Some("[1]".into()), ..EndingDraft::new(Outcome::Completed) },
        2 => failed,
        3 => EndingDraft { retry_after_seconds: Some(0), ..failed },
        4 => EndingDraft { retryable: Some(false), ..failed },
        _ => EndingDraft::new(Outcome::Poisoned),
    }
}

/// Short times, so that one run sees leases end, keys expire and old jobs go.
fn policy_of(number: u8) -> Policy {
    let draft = PolicyDraft {
        max_attempts: Some(2),
        lease_ms: Some(10_000),
        timeout_ms: Some(60_000),
        key_window_ms: Some(100_000),
        retention_ms: Some(300_000),
        max_queued: (number == 1).then_some(3),
        lost_workers_max: Some(i64::from(number) + 1),
        ..PolicyDraft::default()
    };
    draft.check().expect("a good policy")
}

/// The number of cases in every CI run.
const CASES: u32 = 2_000;
const CASES_POSTGRES: u32 = 500;

#[test]
fn the_file_answers_as_the_model_does() {
    run_cases(CASES, "the file", |clock| {
        let folder = folder();
        Box::new(move || {
            let options = Options { fail_stop: Arc::new(|_| {}), ..Options::default() };
            let path = folder.path().join("consign.db");
            let store = Sqlite::open(path, clock.clone(), Arc::new(ConstantRandom), options);
            Arc::new(store.expect("it can be opened"))
        })
    });
}

#[test]
fn the_database_answers_as_the_model_does() {
    let address = fresh_address();
    run_cases(CASES_POSTGRES, "the database", |clock| {
        let address = address.clone();
        RUNTIME.block_on(control_clock(&address, &clock)).expect("the clock can be replaced");
        RUNTIME.block_on(wipe(&address)).expect("it can be emptied");
        Box::new(move || {
            let options = PostgresOptions { writers: 1, readers: 1, ..PostgresOptions::default() };
            let opened = Postgres::open(&address, clock.clone(), Arc::new(ConstantRandom), options);
            Arc::new(RUNTIME.block_on(opened).expect("it can be opened"))
        })
    });
}

/// Runs random operation sequences on the model and on a store that `begin` makes for each of them.
fn run_cases(cases: u32, store_name: &str, begin: impl Fn(Arc<ManualClock>) -> Open) {
    let many =
        setting("CONSIGN_MODEL_STORIES").map(|all| all * u64::from(cases) / u64::from(CASES));
    let cases = many.map_or(cases, |cases| cases.try_into().expect("not that many"));
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&seed_base().to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let outcome = runner.run(&ops(), |ops| {
        let clock = Arc::new(ManualClock::at(engine::Timestamp::from_unix_ms(1_800_000_000_000)));
        let mut pair = Pair::new(clock.clone(), begin(clock));
        for op in &ops {
            pair.act(op);
        }
        pair.compare();
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}\nagain: CONSIGN_SEED={} cargo test -p consign-store model", seed_base());
    }
    writeln!(
        std::io::stderr(),
        "{cases} random sequences on the model and on {store_name}: no difference"
    )
    .expect("it prints");
}

/// A folder in memory where the system has one: these tests are not about the disk.
fn folder() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let folder = if in_memory.is_dir() { TempDir::new_in(in_memory) } else { TempDir::new() };
    folder.expect("a folder can be made")
}

/// An operator's command.
fn command_of(number: u8) -> Command {
    let payload = || JsonText::parse("payload", "\"corrected\"", 100).expect("a valid value");
    let redrive = move |reset_steps: bool| Command::Redrive {
        max_attempts: None,
        reset_steps,
        payload: reset_steps.then(payload),
    };
    let commands =
        [Command::Cancel, redrive(false), redrive(true), Command::Discard, Command::Erase];
    commands[usize::from(number)].clone()
}
