//! A day of a small shop: the jobs it submits, what goes wrong, and what people do about it.

use super::{
    DemoState,
    handlers::{self, Document, Email, ExternalSystems, Newsletter, Payment, Prices},
};
use anyhow::{Result, bail};
use consign::{Consign, Job, JobId, JobRequest, Node, RunnerHandle, Status, on};
use engine::{Scope, Submitted, Tenant};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep};

pub(crate) struct Demo {
    pub(crate) consign: Consign,
    pub(crate) state: DemoState,
    external: Arc<ExternalSystems>,
}

/// The job types of the story, in the order of their appearance.
pub(crate) const TYPES: [&str; 7] =
    ["email", "payment", "document", "image", "import", "newsletter", "label"];

/// The limit of each wait of the story. A longer wait means that something is wrong.
const WAIT_MAX: Duration = Duration::from_secs(20);
const READING_TIME: Duration = Duration::from_millis(1_300);
/// Confirmations come in waves, so that queues can be seen to fill and to empty.
const WAVE: u32 = 12;
const WAVE_INTERVAL: Duration = Duration::from_millis(1_400);

/// Plays the whole story. Returns the job whose history is worth reading in full.
pub(crate) async fn play(demo: &Demo) -> Result<JobId> {
    let mut runner = demo.consign.runner().name("shop");
    for registration in handlers::registrations(&demo.external) {
        runner = runner.with(registration);
    }
    let runner = runner.start().await?;
    let result = tokio::select! {
        result = run_scenes(demo) => result,
        error = waves(demo) => error,
    };
    let (worth_reading, labels) = result?;
    wait_until_idle(demo).await?;
    demo.state.add_caption("All jobs have ended, each with one recorded outcome.");
    runner.stop(WAIT_MAX).await;
    labels.stop(WAIT_MAX).await;
    Ok(worth_reading)
}

async fn run_scenes(demo: &Demo) -> Result<(JobId, RunnerHandle)> {
    demo.narrate("Orders come in. Each confirmation is on disk before submit returns.").await;
    submit_twice(demo).await?;
    retry_after_outage(demo).await?;
    survive_panic(demo).await?;
    let prices = poison_and_redrive(demo).await?;
    cancel_running(demo).await?;
    Ok((prices, explain_waiting(demo).await?))
}

/// Submits waves of confirmations until the caller drops the future.
async fn waves<Never>(demo: &Demo) -> Result<Never> {
    let mut orders = 1..=WAVE;
    loop {
        let jobs = orders.clone().map(|order| confirmation(order).into_draft());
        let jobs = jobs.collect::<Result<_, _>>()?;
        let submitted = demo.node().submit_all(&Tenant::default_tenant(), jobs).await?;
        let no_address = orders.clone().zip(&submitted).filter(|(order, _)| *order == NO_ADDRESS);
        no_address.for_each(|(_, submitted)| demo.state.add_job(submitted));
        orders = orders.end() + 1..=orders.end() + WAVE;
        sleep(WAVE_INTERVAL).await;
    }
}

/// The one order whose customer left no address.
const NO_ADDRESS: u32 = 13;

fn confirmation(order: u32) -> JobRequest {
    let domain = if order == NO_ADDRESS { "" } else { "@example.org" };
    let email = Email { to: format!("customer-{}{domain}", order * order) };
    JobRequest::new("email", &email).subject(format!("order/{order}"))
}

async fn submit_twice(demo: &Demo) -> Result<()> {
    let payment = Payment { cents: 1_990 };
    let request =
        JobRequest::new("payment", &payment).subject("order/7").idempotency_key("pay-order-7");
    demo.submit_job(request.clone()).await?;
    let again = demo.submit_job(request).await?;
    demo.narrate(format!(
        "A payment is sent twice, same idempotency key: one job (duplicate: {}).",
        again.duplicate
    ))
    .await;
    Ok(())
}

async fn retry_after_outage(demo: &Demo) -> Result<()> {
    let invoice = JobRequest::new("document", &Document::Invoice);
    let invoice = demo.submit_job(invoice.subject("invoice/7")).await?.job_id;
    let report = JobRequest::new("document", &Document::Report { year: 2026 });
    demo.submit_job(report.subject("report/2026")).await?;
    demo.wait_until(invoice, |job| job.life.last_failure.is_some()).await?;
    demo.narrate("The tax office is down: the invoice waits and is tried again by itself.").await;
    Ok(())
}

async fn survive_panic(demo: &Demo) -> Result<()> {
    let image = JobRequest::new("image", &"teapot.png").subject("teapot.png");
    let image = demo.submit_job(image).await?.job_id;
    demo.wait_until(image, |job| job.life.last_failure.is_some()).await?;
    demo.narrate("A handler panics: the worker lives on, and the job gets another attempt.").await;
    Ok(())
}

async fn poison_and_redrive(demo: &Demo) -> Result<JobId> {
    let lines = ["12.50", "9,90", "3.20"].map(str::to_owned).to_vec();
    let prices = JobRequest::new("import", &Prices { lines }).subject("prices/spring");
    let prices = demo.submit_job(prices).await?.job_id;
    demo.wait_until(prices, |job| job.status() == Status::Poisoned).await?;
    demo.narrate("A price list cannot be read: it waits in the poison queue for a person.").await;
    demo.external.is_fixed.store(true, Ordering::Relaxed);
    demo.state
        .add_caption("The handler is fixed, the operator redrives: the same job, a second life.");
    demo.consign.redrive(prices).await?;
    demo.wait_until(prices, |job| job.status() == Status::Completed).await?;
    sleep(READING_TIME).await;
    Ok(prices)
}

async fn cancel_running(demo: &Demo) -> Result<()> {
    let letter = JobRequest::new("newsletter", &Newsletter { customers: 90_000 });
    let letter = demo.submit_job(letter.subject("winter-sale")).await?.job_id;
    demo.narrate("A newsletter goes out to 90,000 customers, with last year's prices in it!").await;
    demo.consign.cancel(letter).await?;
    let letter = demo.wait_until(letter, |job| job.status().is_ended()).await?;
    demo.narrate(format!(
        "An operator cancels it: the handler hears it and ends as {}.",
        letter.life.message.as_deref().unwrap_or("ended")
    ))
    .await;
    Ok(())
}

async fn explain_waiting(demo: &Demo) -> Result<RunnerHandle> {
    let label = demo.submit_job(JobRequest::new("label", &7).subject("order/7")).await?.job_id;
    let explained = demo.node().explain(&Scope::All, label).await?;
    let reasons =
        explained.reasons.iter().map(|reason| format!("{} ({})", reason.code(), reason.detail()));
    let reasons: Vec<String> = reasons.collect();
    demo.narrate(format!("Why does the label not run? explain: {}.", reasons.join(", "))).await;
    demo.state.add_caption("So a worker for labels is started, and the label is printed.");
    let runner = demo.consign.runner().name("labels").with(on("label", handlers::label));
    let labels = runner.start().await?;
    demo.wait_until(label, |job| job.status() == Status::Completed).await?;
    Ok(labels)
}

async fn wait_until_idle(demo: &Demo) -> Result<()> {
    let end = Instant::now() + WAIT_MAX;
    while Instant::now() < end {
        let queues = demo.node().queues(&Scope::All).await?;
        if queues.iter().all(|queue| queue.counts.queued + queue.counts.running == 0) {
            return Ok(());
        }
        sleep(POLL_INTERVAL).await;
    }
    bail!("some jobs have not ended after {} s", WAIT_MAX.as_secs())
}

const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Demo {
    pub(crate) fn new(consign: Consign) -> Self {
        Demo { consign, state: DemoState::new(), external: Arc::default() }
    }

    /// The demo shows more of a job than its status.
    pub(crate) fn node(&self) -> &Node {
        self.consign.node().expect("its store is in this process")
    }

    pub(crate) async fn submit_job(&self, request: JobRequest) -> Result<Submitted> {
        let draft = request.into_draft()?;
        let submitted = self.node().submit(&Tenant::default_tenant(), draft).await?;
        self.state.add_job(&submitted);
        Ok(submitted)
    }

    /// Shows a caption, and leaves time to read it.
    async fn narrate(&self, text: impl Into<String>) {
        self.state.add_caption(text);
        sleep(READING_TIME).await;
    }

    /// Waits until the job in the store fulfils a condition.
    async fn wait_until(&self, id: JobId, condition: impl Fn(&Job) -> bool) -> Result<Job> {
        let end = Instant::now() + WAIT_MAX;
        loop {
            let job = self.node().job(&Scope::All, id).await?;
            if condition(&job) {
                return Ok(job);
            }
            if Instant::now() >= end {
                bail!("{id} did not move on in {} s: it is {}", WAIT_MAX.as_secs(), job.status());
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}
