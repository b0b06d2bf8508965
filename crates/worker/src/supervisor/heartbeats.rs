//! Heartbeats: they extend leases, send progress, and bring the signals to stop.

use super::state::RunnerState;
use crate::{
    attempt::Attempt,
    backend::{BackendError, LogOnce},
};
use engine::{Heartbeat, ITEMS_MAX};
use futures_util::future::join_all;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// How often the supervisor checks whether a heartbeat is due, while there are leases.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// Sends heartbeats, and passes their answers on to handlers. A worker without leases sends none:
/// it has a claim open, and the node that holds the claim counts it as a sign of life.
pub(super) async fn send(runner: Arc<RunnerState>) {
    let mut log = LogOnce::default();
    loop {
        wait_for_work(&runner).await;
        match send_due(&runner, Instant::now()).await {
            Ok(()) => drop(log.recovered()),
            Err(error) => log.failed("heartbeats are not answered", &error),
        }
        runner.notify_expired();
    }
}

async fn wait_for_work(runner: &RunnerState) {
    let claimed = runner.claimed.notified();
    if !runner.has_leases() {
        tokio::select! {
            () = runner.context.progress_made.notified() => {}
            () = claimed => {}
        }
    }
    sleep(CHECK_EVERY).await;
}

/// Sends the heartbeats that are due, of all types at once, so that they share a commit. Leases are
/// still checked meanwhile: a handler learns that its lease has run out even if the store does not
/// answer.
async fn send_due(runner: &RunnerState, now: Instant) -> Result<(), BackendError> {
    let due = (0..runner.pollers.len()).filter_map(|poller| {
        let due = runner.due_heartbeats(poller, now);
        (!due.is_empty()).then(|| send_for(runner, poller, due))
    });
    let mut answers = pin!(join_all(due));
    loop {
        tokio::select! {
            answers = &mut answers => return answers.into_iter().collect(),
            () = sleep(CHECK_EVERY) => runner.notify_expired(),
        }
    }
}

/// The heartbeats of one poller.
async fn send_for(
    runner: &RunnerState,
    poller: usize,
    due: Vec<(Arc<Attempt>, Heartbeat)>,
) -> Result<(), BackendError> {
    let worker = &runner.pollers[poller].worker;
    for page in due.chunks(ITEMS_MAX) {
        let heartbeats = page.iter().map(|(_, heartbeat)| heartbeat.clone()).collect();
        // The store extends the lease at some time after this, maybe long before its answer
        // arrives.
        let sent_at = Instant::now();
        let answer = runner.backend.heartbeat(worker, heartbeats).await;
        let leases = answer.inspect_err(|_| page.iter().for_each(restore_progress))?;
        for ((attempt, _), lease) in page.iter().zip(leases) {
            runner.heartbeat_answered(attempt.job.token, lease, sent_at);
        }
    }
    Ok(())
}

/// Puts unsent progress back for the next heartbeat, unless there is newer progress.
fn restore_progress((attempt, heartbeat): &(Arc<Attempt>, Heartbeat)) {
    let mut signals = attempt.signals();
    signals.progress = signals.progress.take().or_else(|| heartbeat.progress.clone());
}
