//! A day of a small shop: the jobs it submits, what goes wrong, and what people do about it.

use super::{
    board::Board,
    handlers::{self, Document, Email, ExternalSystems, Newsletter, Payment, Prices},
};
use anyhow::{Result, bail};
use consign::{Consign, Job, JobId, JobRequest, RunnerHandle, Status, Submitted, on};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep};

pub(crate) struct Demo {
    pub(crate) consign: Consign,
    pub(crate) board: Board,
    external: Arc<ExternalSystems>,
}

/// The job types of the story, in the order of their appearance.
pub(crate) const TYPES: [&str; 7] =
    ["email", "payment", "document", "image", "import", "newsletter", "label"];

/// The limit of each wait of the story. A longer wait means that something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time to read a sentence.
const READ: Duration = Duration::from_millis(1_300);
/// Confirmations come in waves, so that queues can be seen to fill and to empty.
const WAVE: u32 = 12;
const WAVES_APART: Duration = Duration::from_millis(1_400);

/// Plays the whole story. Returns the job whose history is worth reading in full.
pub(crate) async fn play(demo: &Demo) -> Result<JobId> {
    let mut runner = demo.consign.runner().name("shop");
    for registration in handlers::registrations(&demo.external) {
        runner = runner.with(registration);
    }
    let runner = runner.start().await?;
    let told = tokio::select! {
        told = acts(demo) => told,
        failed = waves(demo) => failed,
    };
    let (worth_reading, labels) = told?;
    until_idle(demo).await?;
    demo.board.say("All jobs have ended, each with one recorded outcome.");
    runner.stop(PATIENCE).await;
    labels.stop(PATIENCE).await;
    Ok(worth_reading)
}

async fn acts(demo: &Demo) -> Result<(JobId, RunnerHandle)> {
    demo.board.say("Orders come in. Each confirmation is on disk before submit returns.");
    sleep(READ).await;
    twice(demo).await?;
    down(demo).await?;
    panic(demo).await?;
    let prices = poison(demo).await?;
    cancel(demo).await?;
    Ok((prices, explain(demo).await?))
}

/// Submits waves of confirmations until the caller drops the future.
async fn waves<Never>(demo: &Demo) -> Result<Never> {
    let mut orders = 1..=WAVE;
    loop {
        let submitted = demo.consign.submit_all(orders.clone().map(confirmation).collect()).await?;
        let no_address = orders.clone().zip(&submitted).filter(|(order, _)| *order == NO_ADDRESS);
        no_address.for_each(|(_, submitted)| demo.board.show(submitted));
        orders = orders.end() + 1..=orders.end() + WAVE;
        sleep(WAVES_APART).await;
    }
}

/// The one order whose customer left no address.
const NO_ADDRESS: u32 = 13;

fn confirmation(order: u32) -> JobRequest {
    let domain = if order == NO_ADDRESS { "" } else { "@example.org" };
    let email = Email { to: format!("customer-{}{domain}", order * order) };
    JobRequest::new("email", &email).subject(format!("order/{order}"))
}

async fn twice(demo: &Demo) -> Result<()> {
    let payment = Payment { cents: 1_990 };
    let request = JobRequest::new("payment", &payment).subject("order/7").key("pay-order-7");
    demo.submit_job(request.clone()).await?;
    let again = demo.submit_job(request).await?;
    demo.board.say(format!(
        "A payment is sent twice, same idempotency key: one job (duplicate: {}).",
        again.duplicate
    ));
    sleep(READ).await;
    Ok(())
}

async fn down(demo: &Demo) -> Result<()> {
    let invoice = JobRequest::new("document", &Document::Invoice);
    let invoice = demo.submit_job(invoice.subject("invoice/7")).await?.job_id;
    let report = JobRequest::new("document", &Document::Report { year: 2026 });
    demo.submit_job(report.subject("report/2026")).await?;
    demo.until(invoice, |job| job.life.last_failure.is_some()).await?;
    demo.board.say("The tax office is down: the invoice waits and is tried again by itself.");
    sleep(READ).await;
    Ok(())
}

async fn panic(demo: &Demo) -> Result<()> {
    let image = JobRequest::new("image", &"teapot.png").subject("teapot.png");
    let image = demo.submit_job(image).await?.job_id;
    demo.until(image, |job| job.life.last_failure.is_some()).await?;
    demo.board.say("A handler panics: the worker lives on, and the job gets another attempt.");
    sleep(READ).await;
    Ok(())
}

async fn poison(demo: &Demo) -> Result<JobId> {
    let lines = ["12.50", "9,90", "3.20"].map(str::to_owned).to_vec();
    let prices = JobRequest::new("import", &Prices { lines }).subject("prices/spring");
    let prices = demo.submit_job(prices).await?.job_id;
    demo.until(prices, |job| job.status() == Status::Poisoned).await?;
    demo.board.say("A price list cannot be read: it waits in the poison queue for a person.");
    sleep(READ).await;
    demo.external.fixed.store(true, Ordering::Relaxed);
    demo.board.say("The handler is fixed, the operator redrives: the same job, a second life.");
    demo.consign.redrive(prices).await?;
    demo.until(prices, |job| job.status() == Status::Completed).await?;
    sleep(READ).await;
    Ok(prices)
}

async fn cancel(demo: &Demo) -> Result<()> {
    let letter = JobRequest::new("newsletter", &Newsletter { customers: 90_000 });
    let letter = demo.submit_job(letter.subject("winter-sale")).await?.job_id;
    demo.board.say("A newsletter goes out to 90,000 customers, with last year's prices in it!");
    sleep(READ).await;
    demo.consign.cancel(letter).await?;
    let letter = demo.until(letter, |job| job.status().is_ended()).await?;
    demo.board.say(format!(
        "An operator cancels it: the handler hears it and ends as {}.",
        letter.life.message.as_deref().unwrap_or("ended")
    ));
    sleep(READ).await;
    Ok(())
}

async fn explain(demo: &Demo) -> Result<RunnerHandle> {
    let label = demo.submit_job(JobRequest::new("label", &7).subject("order/7")).await?.job_id;
    let explained = demo.consign.explain(label).await?;
    let reasons = explained.reasons.iter().map(|why| format!("{} ({})", why.code(), why.detail()));
    let reasons: Vec<String> = reasons.collect();
    demo.board.say(format!("Why does the label not run? explain: {}.", reasons.join(", ")));
    sleep(READ).await;
    demo.board.say("So a worker for labels is started, and the label is printed.");
    let runner = demo.consign.runner().name("labels").with(on("label", handlers::label));
    let labels = runner.start().await?;
    demo.until(label, |job| job.status() == Status::Completed).await?;
    Ok(labels)
}

async fn until_idle(demo: &Demo) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let queues = demo.consign.queues().await?;
        if queues.iter().all(|queue| queue.counts.queued + queue.counts.running == 0) {
            return Ok(());
        }
        sleep(LOOKS_APART).await;
    }
    bail!("some jobs have not ended after {} s", PATIENCE.as_secs())
}

const LOOKS_APART: Duration = Duration::from_millis(20);

impl Demo {
    pub(crate) fn over(consign: Consign) -> Self {
        Demo { consign, board: Board::new(), external: Arc::default() }
    }

    pub(crate) async fn submit_job(&self, request: JobRequest) -> Result<Submitted> {
        let submitted = self.consign.submit(request).await?;
        self.board.show(&submitted);
        Ok(submitted)
    }

    /// Waits until the job in the store fulfils a condition.
    async fn until(&self, id: JobId, happened: impl Fn(&Job) -> bool) -> Result<Job> {
        let end = Instant::now() + PATIENCE;
        loop {
            let job = self.consign.job(id).await?;
            if happened(&job) {
                return Ok(job);
            }
            if Instant::now() >= end {
                bail!("{id} did not move on in {} s: it is {}", PATIENCE.as_secs(), job.status());
            }
            sleep(LOOKS_APART).await;
        }
    }
}
