//! Heartbeats: leases are kept, progress is told, and handlers hear that they should stop.

use super::state::RunnerState;
use crate::{
    attempt::Attempt,
    backend::{BackendError, LogOnce},
};
use engine::{Beat, ITEMS_MAX};
use futures_util::future::join_all;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};

/// How often the supervisor looks whether a heartbeat is due, while there are leases.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A sign of life while there is no lease; a worker that is silent for 90 s is taken to be lost.
const ALIVE_EVERY: Duration = Duration::from_secs(20);

/// Sends heartbeats, and tells handlers what comes back.
pub(super) async fn send(runner: Arc<RunnerState>) {
    let mut alive_at = Instant::now();
    let mut log = LogOnce::default();
    loop {
        wait_for_work(&runner, alive_at + ALIVE_EVERY).await;
        let now = Instant::now();
        let alive = now >= alive_at + ALIVE_EVERY;
        if alive {
            alive_at = now;
        }
        match send_due(&runner, now, alive).await {
            Ok(()) => drop(log.recovered()),
            Err(error) => log.failed("heartbeats are not taken", &error),
        }
        runner.lapse_unheard();
    }
}

async fn wait_for_work(runner: &RunnerState, alive_at: Instant) {
    let claimed = runner.claimed.notified();
    if !runner.has_leases() {
        tokio::select! {
            () = runner.context.progress_made.notified() => {}
            () = claimed => {}
            () = sleep_until(alive_at) => {}
        }
    }
    sleep(LOOK_EVERY).await;
}

/// Sends what is due, of all types at once: their heartbeats share a commit. Meanwhile time goes
/// by: a store that does not answer keeps no handler from hearing that its lease has run out.
async fn send_due(runner: &RunnerState, now: Instant, alive: bool) -> Result<(), BackendError> {
    let due = (0..runner.pollers.len()).filter_map(|poller| {
        let due = runner.due_heartbeats(poller, now);
        (alive || !due.is_empty()).then(|| send_of(runner, poller, due))
    });
    let mut answers = pin!(join_all(due));
    loop {
        tokio::select! {
            answers = &mut answers => return answers.into_iter().collect(),
            () = sleep(LOOK_EVERY) => runner.lapse_unheard(),
        }
    }
}

/// The heartbeats of one poller. Where it has no lease, the empty page says that the worker lives.
async fn send_of(
    runner: &RunnerState,
    poller: usize,
    due: Vec<(Arc<Attempt>, Beat)>,
) -> Result<(), BackendError> {
    let worker = &runner.pollers[poller].worker;
    if due.is_empty() {
        return runner.backend.heartbeat(worker, Vec::new()).await.map(drop);
    }
    for page in due.chunks(ITEMS_MAX) {
        let heartbeats = page.iter().map(|(_, heartbeat)| heartbeat.clone()).collect();
        // The store extends the lease when it hears of it: after this, maybe long before it answers.
        let sent_at = Instant::now();
        let answer = runner.backend.heartbeat(worker, heartbeats).await;
        let leases = answer.inspect_err(|_| page.iter().for_each(tell_again))?;
        for ((attempt, _), lease) in page.iter().zip(leases) {
            runner.heartbeat_answered(attempt.job.token, lease, sent_at);
        }
    }
    Ok(())
}

/// The next heartbeat tells what this one could not, unless there is newer progress.
fn tell_again((attempt, heartbeat): &(Arc<Attempt>, Beat)) {
    let mut said = attempt.said();
    said.progress = said.progress.take().or_else(|| heartbeat.progress.clone());
}
