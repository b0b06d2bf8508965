//! A store with a million queued jobs, opened by a process that has seen none of them:
//! `cargo xtask bench open`, or by hand
//!
//! ```sh
//! cargo run --release -p consign-platform --example million -- fill store.db 1000000
//! cargo run --release -p consign-platform --example million -- open store.db
//! ```
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use engine::{ClaimId, ClaimRequest, ITEMS_MAX, JobDraft, JobType, Scope, Tenant, WorkerId};
use platform::{Platform, Settings, SystemClock, SystemRandom};
use pollster::block_on;
use std::{error::Error, fs, path::Path, sync::Arc, time::Duration};
use store::{Clock, Options, Sqlite};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["fill", path, jobs] => {
            let took = fill(Path::new(path), jobs.parse()?)?;
            println!("{jobs} jobs submitted in {:.1} s", took.as_secs_f64());
        }
        ["open", path] => println!("{}", open(Path::new(path))?),
        _ => return Err("fill <path> <jobs>, or open <path>".into()),
    }
    Ok(())
}

/// Submits so many jobs, a thousand at a time, and closes the store.
pub(crate) fn fill(path: &Path, jobs: usize) -> Result<Duration, Box<dyn Error>> {
    let clock = SystemClock::new();
    let (platform, tenant) = (platform(path)?, Tenant::default_tenant());
    for first in (0..jobs).step_by(ITEMS_MAX) {
        let draft = |number: usize| JobDraft {
            job_type: "email".into(),
            subject_id: Some(format!("order/{number}")),
            idempotency_key: Some(format!("order-{number}-confirmation")),
            payload: Some(format!(r#"{{"to":"customer-{number}@example.org","order":{number}}}"#)),
            ..JobDraft::default()
        };
        let drafts = (first..(first + ITEMS_MAX).min(jobs)).map(draft).collect();
        block_on(platform.submit_all(&tenant, drafts))?;
    }
    drop(platform);
    Ok(clock.read().monotonic)
}

/// Opens a store, claims a job, and returns the time and memory that it took.
pub(crate) fn open(path: &Path) -> Result<String, Box<dyn Error>> {
    let clock = SystemClock::new();
    let platform = platform(path)?;
    let opened = clock.read().monotonic;
    let claim_request = ClaimRequest {
        worker: WorkerId::parse("worker-1")?,
        host: None,
        claim: ClaimId::parse(&std::process::id().to_string())?,
        job_types: vec![JobType::parse("email")?],
        max: 1,
        lease: None,
    };
    if block_on(platform.claim(&Scope::All, claim_request))?.len() != 1 {
        return Err("there was nothing to claim".into());
    }
    let claimed = clock.read().monotonic;
    let (opened, claimed) = (opened.as_secs_f64(), claimed.as_secs_f64());
    let peak = peak_kib()? / 1024;
    Ok(format!("opened in {opened:.3} s, first job after {claimed:.3} s, peak memory {peak} MiB"))
}

fn platform(path: &Path) -> Result<Platform, Box<dyn Error>> {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let store = Sqlite::open(path, clock.clone(), random.clone(), Options::default())?;
    Ok(Platform::new(Arc::new(store), clock, random, Settings::default()))
}

/// The peak memory of this process, as Linux reports it.
fn peak_kib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("the system does not say how much memory was used")?.parse()?)
}
