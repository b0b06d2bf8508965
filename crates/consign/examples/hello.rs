//! Submit a job, run it, and read its result: `cargo run -p consign --example hello`
#![allow(clippy::print_stdout, reason = "it is here to be looked at")]

use consign::{Consign, Context, Fail, JobRequest, on};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Email {
    to: String,
}

async fn send(email: Email, context: Context) -> Result<String, Fail> {
    context.progress(50, "connecting");
    if !email.to.contains('@') {
        return Err(Fail::for_good("NO_ADDRESS", "an email needs an address"));
    }
    Ok(format!("sent to {} at attempt {}", email.to, context.attempt()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let consign = Consign::open("consign-data/hello.db")?;
    let runner = consign.runner().with(on("email", send).slots(4)).start().await?;

    let email = Email { to: "ada@example.org".into() };
    let job = consign.submit(JobRequest::new("email", &email).subject("order/7")).await?;
    println!("submitted as {}", job.job_id); // it is on disk now

    let job = consign.wait(job.job_id, Duration::from_secs(10)).await?;
    let result: Option<String> = consign::result_of(&job)?;
    println!("{}: {}", job.status, result.unwrap_or_default());
    runner.stop(Duration::from_secs(10)).await;
    Ok(())
}
