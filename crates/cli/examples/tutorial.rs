//! A worker that sends invoices.
#![allow(clippy::disallowed_methods, reason = "an example may read the environment")]

use consign::{Consign, Context, Fail, on};
use serde::Deserialize;
use std::{fs::OpenOptions, io::Write, path::Path, time::Duration};

#[derive(Deserialize)]
struct Invoice {
    customer: Option<String>,
    #[serde(default)]
    items: Vec<String>,
}

async fn send_invoice(invoice: Invoice, context: Context) -> Result<String, Fail> {
    let Some(customer) = invoice.customer else {
        return Err(Fail::for_good("NO_CUSTOMER", "an invoice needs a customer"));
    };
    let job = context.job_id().to_string();
    let receipt = context.step("charge", |_| async move { charge(&job, &customer) }).await?;
    for (number, item) in invoice.items.iter().enumerate() {
        let percent = 100 * number / invoice.items.len();
        context.progress(percent as u8, format!("printing {item}"));
        context.sleep(Duration::from_secs(2)).await?; // stands for real work
    }
    if !Path::new("mail-server-is-up").exists() {
        return Err(Fail::retry("MAIL_SERVER_DOWN", "the mail server does not answer"));
    }
    Ok(receipt)
}

fn charge(job: &str, customer: &str) -> Result<String, Fail> {
    let mut charges = OpenOptions::new().create(true).append(true).open("charges.txt")?;
    writeln!(charges, "{job} {customer}")?;
    Ok(format!("receipt-{job}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let key = std::env::var("CONSIGN_KEY")?;
    let url = std::env::var("CONSIGN_URL").unwrap_or("http://127.0.0.1:8470".into());
    let consign = Consign::connect(&url, &key)?;
    let runner = consign.runner().with(on("invoice", send_invoice).slots(4)).start().await?;
    runner.until_signal(Duration::from_secs(20)).await?;
    Ok(())
}
