//! The thread on which everything happens but handlers: claims, heartbeats, timeouts, reports.
//!
//! It has a runtime of its own, so that no handler can keep a heartbeat from being sent.

use crate::{
    attempt::{Attempt, Ended},
    desk,
    shop::{Finished, Held, Shop},
    time::Patience,
};
use engine::ITEMS_MAX;
use platform::{Beat, Error, Release, Report, Verdict};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tracing::{debug, info, warn};

/// How often handlers are looked after while some run.
const WATCH_EVERY: Duration = Duration::from_millis(20);
/// How often it is asked whether a heartbeat is due, while there are leases.
const PULSE_EVERY: Duration = Duration::from_millis(250);
/// A sign of life while there is no lease; a worker that is silent for 90 s is taken to be lost.
const SEEN_EVERY: Duration = Duration::from_secs(20);
/// However long leases are: whoever cancels a job waits no longer than this for it to be heard.
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);

/// What is asked of the office: to stop, and by when.
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
    let claims =
        (0..shop.desks.len()).map(|number| tokio::spawn(desk::claim(shop.clone(), number)));
    let claims: Vec<_> = claims.collect();
    tokio::spawn(watch(shop.clone()));
    tokio::spawn(pulse(shop.clone()));
    let reporting = tokio::spawn(report(shop.clone(), finished));
    let asked = stop.wait_for(Option::is_some).await.map(|stop| *stop);
    let grace = asked.ok().flatten().map_or(Duration::ZERO, |stop| stop.grace);
    let stopped = drain(&shop, &claims, grace).await;
    reporting.abort();
    stopped
}

/// Takes no more jobs, lets handlers end, gives back what did not, and reports everything.
async fn drain(shop: &Shop, claims: &[JoinHandle<()>], grace: Duration) -> Stopped {
    let end = Instant::now() + grace.max(FLUSH_MIN);
    let cut = end - (grace / 5).clamp(FLUSH_MIN, FLUSH_MAX);
    shop.closing.cancel();
    info!(running = shop.running(), "no more jobs are taken");
    // A claim may be on its way to the store, and what it brings must be given back.
    let claimed = || claims.iter().all(JoinHandle::is_finished);
    until(cut, || claimed() && shop.running() == 0).await;
    let released = shop.give_back();
    until(end, || claimed() && shop.running() + shop.unsettled() == 0).await;
    let unreported = shop.unsettled();
    info!(released, unreported, "stopped");
    Stopped { released, unreported }
}

/// The last part of the grace time is for reports.
const FLUSH_MIN: Duration = Duration::from_millis(500);
const FLUSH_MAX: Duration = Duration::from_secs(2);

async fn until(end: Instant, done: impl Fn() -> bool) {
    while !done() && Instant::now() < end {
        sleep_until(end.min(Instant::now() + Duration::from_millis(5))).await;
    }
}

/// Sees to handlers that take too long, and to threads that are stuck in one.
async fn watch(shop: Arc<Shop>) {
    loop {
        let begun = shop.to_watch.notified();
        if shop.cut() {
            shop.crew.relieve();
            sleep(WATCH_EVERY).await;
        } else {
            begun.await;
        }
    }
}

/// Sends heartbeats, and tells handlers what comes back.
async fn pulse(shop: Arc<Shop>) {
    let mut seen_at = Instant::now();
    let mut failing = false;
    loop {
        wait_for_pulse(&shop, seen_at).await;
        let now = Instant::now();
        let seen = now >= seen_at + SEEN_EVERY;
        if seen {
            seen_at = now;
        }
        for number in 0..shop.desks.len() {
            let beats = due(&shop, number, now);
            if beats.is_empty() && !seen {
                continue;
            }
            match beat(&shop, number, beats).await {
                Ok(()) => failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        let error: &dyn std::error::Error = &error;
                        warn!(error, "no heartbeat was taken; trying again");
                    }
                    sleep(PULSE_EVERY).await;
                }
            }
        }
    }
}

async fn wait_for_pulse(shop: &Shop, seen_at: Instant) {
    let idle = shop.held().is_empty();
    if idle {
        tokio::select! {
            () = shop.house.spoke.notified() => {}
            () = shop.to_keep.notified() => {}
            () = sleep_until(seen_at + SEEN_EVERY) => {}
        }
    }
    sleep(PULSE_EVERY).await;
}

/// The heartbeats of a desk that are due: leases that are used up by a third, and what handlers have said.
fn due(shop: &Shop, desk: usize, now: Instant) -> Vec<(Arc<Attempt>, Beat)> {
    let late = |held: &&Held| {
        let every = (held.attempt.lease_length() / 3).min(HEARTBEAT_MAX);
        held.desk == desk
            && (now >= held.beaten_at + every || held.attempt.said().progress.is_some())
    };
    let beat = |held: &Held| {
        let progress = held.attempt.said().progress.take();
        (
            held.attempt.clone(),
            Beat { id: held.attempt.job.id(), token: held.attempt.token, progress },
        )
    };
    shop.held().values().filter(late).map(beat).collect()
}

async fn beat(shop: &Shop, desk: usize, beats: Vec<(Arc<Attempt>, Beat)>) -> Result<(), Error> {
    let worker = &shop.desks[desk].worker;
    let (scope, platform) = (&shop.house.scope, &shop.house.platform);
    if beats.is_empty() {
        platform.heartbeat(scope, worker, Vec::new()).await?;
    }
    for page in beats.chunks(ITEMS_MAX) {
        let (attempts, beats): (Vec<_>, Vec<_>) = page.iter().cloned().unzip();
        let pulses = platform.heartbeat(scope, worker, beats).await;
        let pulses = pulses.inspect_err(|_| page.iter().for_each(say_again))?;
        attempts.iter().zip(pulses).for_each(|(attempt, pulse)| shop.pulse(attempt.token, pulse));
    }
    Ok(())
}

/// What a heartbeat could not tell is told by the next one, unless there is something newer.
fn say_again((attempt, beat): &(Arc<Attempt>, Beat)) {
    let mut said = attempt.said();
    said.progress = said.progress.take().or_else(|| beat.progress.clone());
}

/// Reports how attempts ended, as many at once as there are. A store that is away is asked again for as
/// long as it takes: the token makes repeats safe.
async fn report(shop: Arc<Shop>, mut finished: mpsc::UnboundedReceiver<Finished>) {
    let mut page = Vec::with_capacity(ITEMS_MAX);
    while finished.recv_many(&mut page, ITEMS_MAX).await > 0 {
        last_words(&shop, &mut page).await;
        let mut settles = Vec::with_capacity(page.len());
        let mut releases = Vec::new();
        let mut desks = Vec::with_capacity(page.len());
        for Finished { desk, id, token, ended, .. } in page.drain(..) {
            desks.push((desk, token));
            match ended {
                Ended::Settled(ending) => settles.push(Report { id, token, ending }),
                Ended::GivenBack { reason, delay } => {
                    releases.push(Release { id, token, reason, delay });
                }
            }
        }
        persist(&settles, |reports| shop.house.platform.settle(&shop.house.scope, reports)).await;
        persist(&releases, |back| shop.house.platform.release(&shop.house.scope, back)).await;
        shop.settled(desks.into_iter());
    }
}

/// Tells how far handlers were that ended before a heartbeat could: a job that is done should not stand at
/// half of it for ever. Nobody depends on it, so it is tried once.
async fn last_words(shop: &Shop, page: &mut [Finished]) {
    for (number, desk) in shop.desks.iter().enumerate() {
        let own = page.iter_mut().filter(|finished| finished.desk == number);
        let beats = own.filter_map(|finished| {
            let progress = Some(finished.progress.take()?);
            Some(Beat { id: finished.id, token: finished.token, progress })
        });
        let beats: Vec<Beat> = beats.collect();
        if !beats.is_empty() {
            let told = shop.house.platform.heartbeat(&shop.house.scope, &desk.worker, beats);
            drop(told.await);
        }
    }
}

/// Something that ends a lease.
trait EndsLease: Clone {
    fn id(&self) -> engine::JobId;
}

impl EndsLease for Report {
    fn id(&self) -> engine::JobId {
        self.id
    }
}

impl EndsLease for Release {
    fn id(&self) -> engine::JobId {
        self.id
    }
}

/// Sends reports until they are taken.
async fn persist<R, A>(reports: &[R], send: impl Fn(Vec<R>) -> A)
where
    R: EndsLease,
    A: Future<Output = Result<Vec<Verdict>, Error>>,
{
    if reports.is_empty() {
        return;
    }
    let mut patience = Patience::new();
    loop {
        match send(reports.to_vec()).await {
            Ok(verdicts) => {
                for (report, verdict) in reports.iter().zip(verdicts) {
                    told(report.id(), &verdict);
                }
                return;
            }
            Err(Error::Refused(refusal)) => {
                warn!(code = refusal.code(), "a page of reports was refused");
                return;
            }
            Err(error @ (Error::Store(_) | Error::OutcomeUnknown { .. })) => {
                not_taken(&error, reports.len());
                sleep(patience.next()).await;
            }
        }
    }
}

fn not_taken(error: &(dyn std::error::Error + 'static), reports: usize) {
    warn!(error, reports, "reports were not taken; trying again");
}

fn told(id: engine::JobId, verdict: &Verdict) {
    match verdict {
        Ok(status) => debug!(job.id = %id, %status, "reported"),
        // The other worker's outcome stands. Nothing is wrong with the store, but somebody was too slow.
        Err(refusal) => warn!(job.id = %id, code = refusal.code(), "the report came too late"),
    }
}

/// Waits for the office to end, a little longer than its grace time.
pub(crate) async fn ended<T>(
    gone: tokio::sync::oneshot::Receiver<T>,
    grace: Duration,
) -> Option<T> {
    let end = Instant::now() + grace + FLUSH_MAX;
    timeout_at(end, gone).await.ok()?.ok()
}
