//! The process under test: a platform over a store in a file, behind a socket.

use crate::{
    socket::{self, fields},
    text,
};
use engine::{
    ClaimId, ClaimRequest, EndingDraft, JobDraft, JobId, JobType, LeaseState, LeaseToken, Outcome,
    PolicyDraft, ReleaseReason, Scope, Tenant, WorkerId,
};
use platform::{
    Batcher, Error, Heartbeat, Limits, Platform, RedriveOptions, Release, Report, Settings,
    SettleResult, SystemClock, SystemRandom, Writes,
};
use pollster::block_on;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process,
    sync::Arc,
    thread,
    time::Duration,
};
use store::{Memory, Options, Sqlite, Store, StoreError};

/// The file to serve; without it, the test does nothing.
pub(crate) const STORE: &str = "CONSIGN_STORM_STORE";
/// The free bytes that the disk must have, where the default is not used.
pub(crate) const FREE_BYTES: &str = "CONSIGN_STORM_ROOM";
/// The number of pages after which a checkpoint moves the log.
pub(crate) const LOG_PAGES: &str = "CONSIGN_STORM_LOG";
/// Set to answer before the commit.
pub(crate) const ANSWERS_EARLY: &str = "CONSIGN_STORM_LIES";

/// The child process. In the parent's own run it does nothing.
#[test]
fn serve() {
    let Some(path) = text(STORE).map(PathBuf::from) else { return };
    // Also while it is stopped: no child outlives a killed test.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let platform = match open(&path) {
        Ok(platform) => Arc::new(platform),
        Err(error) => fail_start(&error),
    };
    let socket = socket::socket_path(&path);
    drop(fs::remove_file(&socket)); // the socket of the killed process before
    for caller in UnixListener::bind(&socket).unwrap().incoming() {
        let (caller, platform) = (caller.unwrap(), platform.clone());
        // An error means that the caller is gone, and needs no answer.
        thread::spawn(move || drop(serve_caller(&platform, caller)));
    }
}

fn open(path: &Path) -> Result<Platform, store::OpenError> {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let mut options = Options::default();
    if let Some(pages) = crate::setting(LOG_PAGES) {
        options.log_pages = i64::try_from(pages).unwrap();
    }
    if let Some(free_bytes) = crate::setting(FREE_BYTES) {
        options.free_disk_bytes_min = free_bytes;
    }
    let mut store: Arc<dyn Store> =
        Arc::new(Sqlite::open(path, clock.clone(), random.clone(), options)?);
    if text(ANSWERS_EARLY).is_some() {
        // Answers come from memory, and no data ever reaches the file.
        store = Arc::new(Memory::new(clock.clone(), random.clone()));
    }
    let batcher = Batcher::start(store.clone(), Limits::default()).expect("a thread starts");
    let writes = Writes::Batched(Arc::new(batcher));
    Ok(Platform::with_writes(writes, store, clock, random, Settings::default()))
}

fn fail_start(error: &store::OpenError) -> ! {
    writeln!(io::stderr(), "{error}").expect("it prints");
    process::exit(1);
}

fn serve_caller(platform: &Platform, caller: UnixStream) -> io::Result<()> {
    let mut answers = caller.try_clone()?;
    for request in BufReader::new(caller).lines() {
        let answer =
            block_on(answer(platform, &request?)).unwrap_or_else(|error| error_line(&error));
        answers.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// A line for each kind of error.
fn error_line(error: &Error) -> String {
    match error {
        Error::Refused(refusal) => format!("refused {}", refusal.code()),
        Error::OutcomeUnknown { .. } => "unknown".into(),
        Error::Store(StoreError::Full(_)) => "full".into(),
        Error::Store(StoreError::Unavailable(_)) => "unavailable".into(),
        Error::Store(StoreError::Damaged(_)) => "damaged".into(),
        Error::Store(StoreError::OutcomeUnknown(_)) => "unknown".into(),
    }
}

async fn answer(platform: &Platform, request: &str) -> Result<String, Error> {
    let (verb, rest) = request.split_once(' ').unwrap_or((request, ""));
    let result = match verb {
        "policy" => set_policy(platform, rest).await?,
        "submit" => submit(platform, rest).await?,
        "claim" => claim(platform, rest).await?,
        "beat" => beat(platform, rest).await?,
        "settle" => settle(platform, rest).await?,
        "release" => release(platform, rest).await?,
        "redrive" => redrive(platform, rest).await?,
        "sweep" => platform.sweep().await?.jobs.len().to_string(),
        "depth" => depth(platform).await?,
        unknown => panic!("an unknown request: {unknown}"),
    };
    Ok(format!("done {result}"))
}

/// `lease_ms`; attempts follow without a delay, and workers may be lost again and again.
async fn set_policy(platform: &Platform, rest: &str) -> Result<String, Error> {
    let draft = PolicyDraft {
        max_attempts: Some(100),
        lost_workers_max: Some(100),
        lease_ms: Some(rest.parse().unwrap()),
        backoff_base_ms: Some(0),
        ..PolicyDraft::default()
    };
    platform.set_policy(job_type(), &draft, None).await?;
    Ok(String::new())
}

/// `name;key;payload …`; the name becomes the correlation, `-` is no key.
async fn submit(platform: &Platform, rest: &str) -> Result<String, Error> {
    let draft = |item| {
        let [name, key, payload] = fields(item);
        JobDraft {
            job_type: job_type().to_string(),
            correlation_id: Some(name.into()),
            idempotency_key: (key != "-").then(|| key.into()),
            payload: Some(payload.into()),
            ..JobDraft::default()
        }
    };
    let drafts = rest.split(' ').map(draft).collect();
    let all = platform.submit_all(&Tenant::default_tenant(), drafts).await?;
    let one = |job: &engine::Submitted| format!("{};{}", job.job_id, job.duplicate);
    Ok(join(all.iter().map(one)))
}

/// `worker claim max`
async fn claim(platform: &Platform, rest: &str) -> Result<String, Error> {
    let words: Vec<&str> = rest.split(' ').collect();
    let claim_request = ClaimRequest {
        worker: WorkerId::parse(words[0]).unwrap(),
        host: None,
        claim: ClaimId::parse(words[1]).unwrap(),
        job_types: vec![job_type()],
        max: words[2].parse().unwrap(),
        lease: None,
    };
    let claimed = platform.claim(&Scope::All, claim_request).await?;
    Ok(join(claimed.iter().map(|claimed| {
        let (job, payload) = (&claimed.job, claimed.payload.as_str());
        let lease = job.lease().unwrap();
        let (until, name) = (lease.expires_at.unix_ms(), &job.envelope.correlation);
        format!("{};{};{until};{name};{payload}", job.id(), lease.token)
    })))
}

/// `worker id;token …`
async fn beat(platform: &Platform, rest: &str) -> Result<String, Error> {
    let (worker, items) = rest.split_once(' ').unwrap();
    let beats = items.split(' ').map(|item| {
        let [id, token] = fields(item);
        Heartbeat { id: job_id(id), token: lease_token(token), progress: None }
    });
    let worker = WorkerId::parse(worker).unwrap();
    let lease_states = platform.heartbeat(&Scope::All, &worker, beats.collect()).await?;
    let words = lease_states.into_iter().map(|lease_state| {
        Ok(match lease_state? {
            LeaseState::Extended(until) | LeaseState::CancelRequested(until) => {
                until.unix_ms().to_string()
            }
            LeaseState::Lost => "lost".into(),
            LeaseState::Ended => "ended".into(),
        })
    });
    Ok(join(words.collect::<Result<Vec<_>, Error>>()?.into_iter()))
}

/// `id;token;outcome …`
async fn settle(platform: &Platform, rest: &str) -> Result<String, Error> {
    let reports = rest.split(' ').map(|item| {
        let [id, token, outcome] = fields(item);
        let word = match outcome {
            "completed" => Outcome::Completed,
            "poisoned" => Outcome::Poisoned,
            _ => Outcome::Failed,
        };
        let ending = EndingDraft::new(word).check().unwrap();
        Report { id: job_id(id), token: lease_token(token), ending }
    });
    result_items(platform.settle(&Scope::All, reports.collect()).await?)
}

/// `id;token …`
async fn release(platform: &Platform, rest: &str) -> Result<String, Error> {
    let releases = rest.split(' ').map(|item| {
        let [id, token] = fields(item);
        let (reason, delay) = (ReleaseReason::Released, Duration::ZERO);
        Release { id: job_id(id), token: lease_token(token), reason, delay }
    });
    result_items(platform.release(&Scope::All, releases.collect()).await?)
}

async fn redrive(platform: &Platform, rest: &str) -> Result<String, Error> {
    let job = platform.redrive(&Scope::All, job_id(rest), RedriveOptions::default(), None).await?;
    Ok(job.status().to_string())
}

/// How many jobs have not ended.
async fn depth(platform: &Platform) -> Result<String, Error> {
    let queues = platform.queues(&Scope::All).await?;
    let open: u64 = queues.iter().map(|queue| queue.counts.queued + queue.counts.running).sum();
    Ok(open.to_string())
}

/// A damaged job fails the whole line: the other results are left out.
fn result_items(results: Vec<SettleResult>) -> Result<String, Error> {
    let words = results.into_iter().map(|result| match result {
        Ok(status) => Ok(status.to_string()),
        Err(Error::Refused(refusal)) => Ok(format!("!{}", refusal.code())),
        Err(damaged) => Err(damaged),
    });
    Ok(join(words.collect::<Result<Vec<_>, _>>()?.into_iter()))
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(" ")
}

pub(crate) fn job_type() -> JobType {
    JobType::parse("storm").unwrap()
}

fn job_id(text: &str) -> JobId {
    JobId::parse(text).unwrap()
}

fn lease_token(text: &str) -> LeaseToken {
    LeaseToken::parse(text).unwrap()
}
