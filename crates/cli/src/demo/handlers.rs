//! The handlers of the demo. Their failures are real, not simulated.

use consign::{Context, Fail, Jitter, PolicyDraft, Registration, on};
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

/// The world outside of Consign: the bank, and the code that people deploy.
#[derive(Default)]
pub(crate) struct ExternalSystems {
    charges: AtomicU32,
    /// Whether the handler of price lists has been fixed.
    pub(crate) is_fixed: AtomicBool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Email {
    pub(crate) to: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Payment {
    pub(crate) cents: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Document {
    Invoice,
    Report { year: u32 },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Prices {
    pub(crate) lines: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Newsletter {
    pub(crate) customers: u32,
}

/// The handlers that run from the beginning; the one for labels comes later.
pub(crate) fn registrations(external: &Arc<ExternalSystems>) -> Vec<Registration> {
    let (bank, code) = (external.clone(), external.clone());
    vec![
        on("email", email).slots(4).policy(retry_after_ms(900)),
        on("payment", move |payment, context| charge(payment, context, bank.clone()))
            .policy(retry_after_ms(900)),
        on("document", document).policy(retry_after_ms(1_200)),
        on("image", image).policy(retry_after_ms(900)),
        on("import", move |prices, context| import(prices, context, code.clone()))
            .policy(retry_after_ms(900)),
        on("newsletter", newsletter).policy(retry_after_ms(900)),
    ]
}

/// Three attempts and short waits without jitter, so that viewers can follow them. The default has
/// ten attempts, waits that outlast an outage, and jitter, so that jobs that failed together do not
/// come back together.
fn retry_after_ms(base: i64) -> PolicyDraft {
    PolicyDraft {
        max_attempts: Some(3),
        backoff_base_ms: Some(base),
        backoff_factor_hundredths: Some(150),
        jitter: Some(Jitter::None),
        ..PolicyDraft::default()
    }
}

async fn email(email: Email, context: Context) -> Result<(), Fail> {
    let letters = email.to.len() as u64;
    context.sleep(Duration::from_millis(120 + letters * 37 % 200)).await?;
    if !email.to.contains('@') {
        return Err(Fail::for_good("NO_ADDRESS", "no retry will find one"));
    }
    Ok(())
}

/// A step is done once, however often the job is tried: a worker's death charges no customer twice.
async fn charge(
    payment: Payment,
    context: Context,
    bank: Arc<ExternalSystems>,
) -> Result<u32, Fail> {
    context.sleep(Duration::from_millis(300)).await?;
    let charged = context.step("charge", |_| async {
        bank.charges.fetch_add(1, Ordering::Relaxed);
        Ok(payment.cents)
    });
    let charged = charged.await?;
    let times = bank.charges.load(Ordering::Relaxed);
    context.message(format!("charged {times}×"));
    Ok(charged)
}

async fn document(document: Document, context: Context) -> Result<(), Fail> {
    match document {
        Document::Invoice => invoice(&context).await,
        Document::Report { year } => report(year, &context).await,
    }
}

async fn invoice(context: &Context) -> Result<(), Fail> {
    context.sleep(Duration::from_millis(250)).await?;
    if context.attempt() < 3 {
        return Err(Fail::retry("TAX_OFFICE_DOWN", "the tax office does not answer"));
    }
    context.message("stamped by the tax office");
    Ok(())
}

async fn report(year: u32, context: &Context) -> Result<(), Fail> {
    for month in 1..=12 {
        context.sleep(Duration::from_millis(500)).await?;
        context.progress(percent(month, 12), format!("month {month} of 12"));
    }
    context.message(format!("{year} in twelve pages"));
    Ok(())
}

async fn image(_file: String, context: Context) -> Result<(), Fail> {
    context.sleep(Duration::from_millis(250)).await?;
    assert!(context.attempt() > 1, "the teapot has no handle");
    context.message("640 × 480");
    Ok(())
}

async fn import(prices: Prices, context: Context, code: Arc<ExternalSystems>) -> Result<u32, Fail> {
    context.sleep(Duration::from_millis(250)).await?;
    let is_fixed = code.is_fixed.load(Ordering::Relaxed);
    let mut cents = 0;
    for (number, line) in (1..).zip(&prices.lines) {
        let price = in_cents(line, is_fixed);
        // The payload is the client's data, so the message says only where the error is.
        cents += price.ok_or_else(|| Fail::poison("PRICE_UNREADABLE", format!("line {number}")))?;
    }
    context.message(format!("{} prices taken over", prices.lines.len()));
    Ok(cents)
}

/// Reads `12.50`, and also `12,50` once the handler is fixed.
fn in_cents(price: &str, accepts_comma: bool) -> Option<u32> {
    let (whole, part) =
        price.split_once(['.', ',']).filter(|_| accepts_comma || !price.contains(','))?;
    Some(whole.parse::<u32>().ok()? * 100 + part.parse::<u32>().ok()?)
}

async fn newsletter(letter: Newsletter, context: Context) -> Result<(), Fail> {
    let mut sent = 0;
    while sent < letter.customers {
        if context.sleep(Duration::from_millis(40)).await.is_err() {
            context.message(format!("stopped at letter {}", thousands(sent)));
            return Err(Fail::cancelled());
        }
        sent += 450;
        context.progress(percent(sent, letter.customers), format!("letter {}", thousands(sent)));
    }
    Ok(())
}

fn percent(part: u32, whole: u32) -> u8 {
    u8::try_from((part * 100 / whole.max(1)).min(100)).unwrap_or(100)
}

fn thousands(number: u32) -> String {
    match (number / 1_000, number % 1_000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

pub(crate) async fn label(_order: u32, context: Context) -> Result<(), Fail> {
    context.sleep(Duration::from_millis(300)).await?;
    context.message("printed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_is_one() {
        assert_eq!(in_cents("12.50", false), Some(1250));
        assert_eq!(in_cents("12,50", false), None);
        assert_eq!(in_cents("12,50", true), Some(1250));
        assert_eq!(in_cents("dear", true), None);
    }

    #[test]
    fn the_last_part_of_a_hundred_is_a_hundred() {
        assert_eq!((percent(0, 12), percent(7, 12), percent(12, 12)), (0, 58, 100));
        assert_eq!((percent(13, 12), percent(0, 0)), (100, 0));
        assert_eq!([thousands(450), thousands(13_050)], ["450", "13,050"]);
    }
}
