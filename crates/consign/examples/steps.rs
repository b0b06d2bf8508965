//! A job in steps that are done once, however often it is tried:
//! `cargo run -p consign --example steps`
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use consign::{Consign, Context, Fail, Jitter, JobRequest, PolicyDraft, StepState, on};
use std::time::Duration;

/// Charges a card and then sends a receipt. The mail server fails twice; the card is charged once.
async fn checkout(order: u32, context: Context) -> Result<String, Fail> {
    let attempt = context.attempt();
    let receipt: String = context
        .step("charge", |state| async move {
            // Should the process have died in here before, only the bank knows how far it came.
            if state == StepState::Interrupted {
                println!("attempt {attempt}: asking the bank whether order {order} was charged");
            }
            println!("attempt {attempt}: charging for order {order}");
            Ok(format!("receipt-{order}"))
        })
        .await?;
    context
        .step("mail", |state| async move {
            println!("attempt {attempt}: mailing, {state:?}");
            if attempt < 3 {
                return Err(Fail::retry("SMTP_DOWN", "the mail server is away"));
            }
            Ok(())
        })
        .await?;
    Ok(receipt)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let consign = Consign::in_memory()?;
    let policy = PolicyDraft {
        backoff_base_ms: Some(20),
        jitter: Some(Jitter::None),
        ..PolicyDraft::default()
    };
    let runner = consign.runner().with(on("checkout", checkout).policy(policy)).start().await?;
    let job = consign.submit(JobRequest::new("checkout", &7)).await?;
    let job = consign.wait(job.job_id, Duration::from_secs(10)).await?;
    let receipt: Option<String> = consign::result_of(&job)?;
    println!("{} after {} attempts: {receipt:?}", job.status, job.attempt);
    runner.stop(Duration::from_secs(10)).await;
    Ok(())
}
