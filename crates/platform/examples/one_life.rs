//! One job, from its submit to its end: `cargo run -p consign-platform --example one_life`.
//!
//! With the path of a file, the job is stored there; without one, in memory. The rules, the stores
//! and the verbs are the real ones.
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use engine::{
    ClaimId, ClaimRequest, EndingDraft, JobDraft, JobId, JobType, Outcome, Scope, Tenant, WorkerId,
};
use platform::{Platform, Report, Settings, SystemClock, SystemRandom};
use std::{error::Error, path::PathBuf, process::ExitCode, sync::Arc};
use store::{Claimed, Memory, Options, RandomSource, Sqlite, Store};

fn main() -> ExitCode {
    match pollster::block_on(one_life(std::env::args().nth(1).map(Into::into))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes = std::iter::successors(error.source(), |cause| (*cause).source());
            let causes: String = causes.map(|cause| format!(": {cause}")).collect();
            println!("{error}{causes}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) async fn one_life(path: Option<PathBuf>) -> Result<(), Box<dyn Error>> {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let store: Arc<dyn Store> = match path {
        Some(path) => {
            Arc::new(Sqlite::open(path, clock.clone(), random.clone(), Options::default())?)
        }
        None => Arc::new(Memory::new(clock.clone(), random.clone())),
    };
    let order = random.entropy().0;
    let platform = Platform::new(store, clock, random, Settings::default());

    let draft = || JobDraft {
        job_type: "email".into(),
        subject_id: Some("order/7".into()),
        idempotency_key: Some(format!("order-{order}-confirmation")),
        payload: Some(r#"{"to": "ada@example.org"}"#.into()),
        ..JobDraft::default()
    };
    let tenant = Tenant::default_tenant();
    let job = platform.submit(&tenant, draft()).await?;
    println!("submitted:        {} is {}", job.job_id, job.status);
    let again = platform.submit(&tenant, draft()).await?;
    println!("and once more:    {} (duplicate: {})", again.job_id, again.duplicate);
    explain(&platform, job.job_id).await?;

    let first = claim(&platform, "first try").await?;
    let failed = EndingDraft {
        error_code: Some("SMTP_DOWN".into()),
        error_message: Some("the mail server did not answer".into()),
        retry_after_seconds: Some(0),
        ..EndingDraft::new(Outcome::Failed)
    };
    println!("reported failed:  it is {}", settle(&platform, &first, &failed).await?);
    println!(
        "reported again:   it is {}, as the first time",
        settle(&platform, &first, &failed).await?
    );

    let second = claim(&platform, "second try").await?;
    let completed = EndingDraft::new(Outcome::Completed);
    println!("reported done:    it is {}", settle(&platform, &second, &completed).await?);
    explain(&platform, job.job_id).await?;

    println!("\nseq  from       to         attempt  error");
    for row in platform.history(&Scope::All, job.job_id, 0).await? {
        let from = row.from.map_or("-", |status| status.as_str());
        let code = row.error_code.map_or(String::new(), |code| code.to_string());
        println!("{:<4} {:<10} {:<10} {:<8} {code}", row.seq, from, row.to.as_str(), row.attempt);
    }
    Ok(())
}

async fn claim(platform: &Platform, name: &str) -> Result<Claimed, Box<dyn Error>> {
    let claim_request = ClaimRequest {
        worker: WorkerId::parse("worker-1")?,
        host: None,
        claim: ClaimId::parse(name)?,
        job_types: vec![JobType::parse("email")?],
        max: 1,
        lease: None,
    };
    let claimed =
        platform.claim(&Scope::All, claim_request).await?.pop().ok_or("nothing is due")?;
    let (job, lease) = (&claimed.job, claimed.job.lease().ok_or("a claimed job has a lease")?);
    println!(
        "claimed:          attempt {} of {}, {lease:?}",
        job.life.attempt,
        job.max_attempts,
        lease = lease.token
    );
    Ok(claimed)
}

async fn settle(
    platform: &Platform,
    claimed: &Claimed,
    draft: &EndingDraft,
) -> Result<String, Box<dyn Error>> {
    let token = claimed.job.lease().ok_or("a claimed job has a lease")?.token;
    let ending = draft.check().map_err(|problems| format!("{problems:?}"))?;
    let report = Report { id: claimed.job.id(), token, ending };
    let result = platform.settle(&Scope::All, vec![report]).await?.pop().ok_or("one result")?;
    Ok(result?.to_string())
}

async fn explain(platform: &Platform, id: JobId) -> Result<(), Box<dyn Error>> {
    let explained = platform.explain(&Scope::All, id).await?;
    for reason in explained.reasons {
        println!("explained:        {} ({})", reason.code(), reason.detail());
    }
    Ok(())
}
