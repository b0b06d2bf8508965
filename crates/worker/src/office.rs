//! The thread on which everything happens but handlers: claims, heartbeats, timeouts, reports.
//!
//! It has a runtime of its own, so that no handler can keep a heartbeat from being sent.

use crate::{
    desk, pulse, report,
    shop::{Finished, Shop},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, info};

/// How often it is seen to that no thread is stuck, while handlers run.
const RELIEVE_EVERY: Duration = Duration::from_millis(5);
/// How often it is looked whose time is over: every so many looks at the threads.
const CUT_EVERY: u32 = 4;

/// What is asked of the office: to stop, and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) grace: Duration,
}

/// How a runner stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Jobs whose handlers did not end in time and which were given back.
    pub released: usize,
    /// Reports that the store did not take in time. Their leases run out, and the jobs run again.
    pub unreported: usize,
}

/// Runs the office until it is asked to stop.
pub(crate) async fn run(
    shop: Arc<Shop>,
    finished: mpsc::UnboundedReceiver<Finished>,
    mut stop: watch::Receiver<Option<Stop>>,
) -> Stopped {
    let claims = (0..shop.desks.len()).map(|desk| tokio::spawn(desk::claim(shop.clone(), desk)));
    let claims: Vec<_> = claims.collect();
    tokio::spawn(watch(shop.clone()));
    let beating = tokio::spawn(pulse::pulse(shop.clone()));
    tokio::spawn(report::report(shop.clone(), finished));
    // Whoever cannot ask any more is gone.
    drop(stop.wait_for(Option::is_some).await);
    let stopped = drain(&shop, &claims, &stop).await;
    beating.abort(); // a heartbeat after the farewell would be a sign of life
    leave(&shop).await;
    stopped
}

/// Signs the workers off, so that others need not wait until they are missed. That is a courtesy: a
/// server that cannot be reached keeps nobody here.
async fn leave(shop: &Arc<Shop>) {
    // All at once: one after another, many job types on a slow line would not be done in time.
    let mut farewells = JoinSet::new();
    for number in 0..shop.desks.len() {
        let shop = shop.clone();
        farewells.spawn(async move {
            let worker = &shop.desks[number].worker;
            if let Err(error) = shop.port.leave(worker).await {
                let error: &dyn std::error::Error = &error;
                debug!(error, %worker, "a worker could not sign off");
            }
        });
    }
    drop(timeout(FLUSH_MIN, farewells.join_all()).await);
}

/// Takes no more jobs, lets handlers end, gives back what did not, and reports everything.
async fn drain(
    shop: &Shop,
    claims: &[JoinHandle<()>],
    stop: &watch::Receiver<Option<Stop>>,
) -> Stopped {
    let begun = Instant::now();
    shop.closing.cancel();
    info!(running = shop.running(), "no more jobs are taken");
    // A claim may be on its way to the store, and what it brings must be given back.
    let claimed = || claims.iter().all(JoinHandle::is_finished);
    until(|| claimed() && shop.running() == 0, || begun + cut_after(grace(stop))).await;
    let released = shop.give_back();
    let settled = || claimed() && shop.running() + shop.unsettled() == 0;
    until(settled, || begun + grace(stop).max(FLUSH_MIN)).await;
    let unreported = shop.unsettled();
    info!(released, unreported, "stopped");
    Stopped { released, unreported }
}

/// How long it may take, as of now: whoever loses patience asks again.
fn grace(stop: &watch::Receiver<Option<Stop>>) -> Duration {
    stop.borrow().map_or(Duration::ZERO, |stop| stop.grace.min(GRACE_MAX))
}

/// The last part of the grace time is for reports.
fn cut_after(grace: Duration) -> Duration {
    grace - (grace / 5).min(FLUSH_MAX)
}

/// Nobody waits longer than a year, and no clock can count much further.
const GRACE_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Reports are given a chance even by those who have no time at all.
const FLUSH_MIN: Duration = Duration::from_millis(500);
const FLUSH_MAX: Duration = Duration::from_secs(2);

async fn until(done: impl Fn() -> bool, end: impl Fn() -> Instant) {
    const LOOKS_APART: Duration = Duration::from_millis(5);
    while !done() && Instant::now() < end() {
        sleep_until(end().min(Instant::now() + LOOKS_APART)).await;
    }
}

/// Sees to handlers that take too long, and to threads that are stuck in one.
async fn watch(shop: Arc<Shop>) {
    loop {
        let begun = shop.to_watch.notified();
        if !shop.cut() {
            begun.await;
        }
        for _ in 0..CUT_EVERY {
            shop.crew.relieve();
            sleep(RELIEVE_EVERY).await;
        }
    }
}
