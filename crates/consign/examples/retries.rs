//! The four ways in which an attempt can fail: `cargo run -p consign --example retries`
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use consign::{Consign, Context, Fail, Jitter, JobRequest, JobStatus, PolicyDraft, on};
use std::time::Duration;

/// A job that says how it wants to end.
async fn behave(behaviour: String, context: Context) -> Result<(), Fail> {
    match behaviour.as_str() {
        "flaky" if context.attempt() < 3 => Err(Fail::retry("SMTP_DOWN", "the server is away")),
        "hopeless" => Err(Fail::for_good("NO_SUCH_USER", "nobody has this address")),
        "unreadable" => Err(Fail::poison("BAD_PAYLOAD", "this is not an email")),
        "stubborn" => Err(Fail::retry("SMTP_DOWN", "the server is still away")),
        "careless" if context.attempt() < 2 => panic!("index out of bounds"),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let consign = Consign::in_memory()?;
    // Policies are the type's, not the handler's: they are kept in the store, one truth for all
    // nodes.
    let policy = PolicyDraft {
        max_attempts: Some(3),
        backoff_base_ms: Some(20),
        jitter: Some(Jitter::None),
        ..PolicyDraft::default()
    };
    let runner = consign.runner().with(on("email", behave).policy(policy)).start().await?;

    for behaviour in ["fine", "flaky", "careless", "hopeless", "unreadable", "stubborn"] {
        let job = consign.submit(JobRequest::new("email", &behaviour)).await?;
        let job = consign.wait(job.job_id, Duration::from_secs(10)).await?;
        println!("{behaviour:<11} {:<10} {}", job.status, describe(&job));
        for row in consign.history(&job.job_id).await? {
            let (from, code) = (row.from.as_deref().unwrap_or("-"), row.error_code);
            let code = code.unwrap_or_default();
            println!("    {}. {from} → {} {code}", row.seq, row.to);
        }
    }
    runner.stop(Duration::from_secs(10)).await;
    Ok(())
}

fn describe(job: &JobStatus) -> String {
    let attempts = format!("after {} of {} attempts", job.attempt, job.max_attempts);
    match &job.error_code {
        Some(code) => format!("{attempts}, {code}"),
        None => attempts,
    }
}
