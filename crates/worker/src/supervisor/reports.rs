//! Reports: how attempts ended, sent until the backend has taken them.

use super::state::{AttemptReport, RunnerState};
use crate::{
    attempt::AttemptEnd,
    backend::{BackendError, BackendFuture, Backoff, LogOnce, ReportResult},
};
use engine::{Heartbeat, ITEMS_MAX, LeaseToken, Release, Report};
use futures_util::future::join_all;
use std::sync::Arc;
use tokio::{sync::mpsc, time::sleep};
use tracing::{error, warn};

/// Reports how attempts ended, in pages of all that are ready. A backend that is away is asked
/// again for as long as it takes: the token makes repeats safe.
pub(super) async fn send(
    runner: Arc<RunnerState>,
    mut reports: mpsc::UnboundedReceiver<AttemptReport>,
) {
    let mut page = Vec::with_capacity(ITEMS_MAX);
    while reports.recv_many(&mut page, ITEMS_MAX).await > 0 {
        send_last_progress(&runner, &mut page).await;
        let mut settles = Vec::with_capacity(page.len());
        let mut releases = Vec::new();
        let reported: Vec<_> = page.iter().map(|report| (report.poller, report.token)).collect();
        for AttemptReport { id, token, end, .. } in page.drain(..) {
            match end {
                AttemptEnd::Settled(ending) => settles.push(Report { id, token, ending }),
                AttemptEnd::Released { reason, delay } => {
                    releases.push(Release { id, token, reason, delay });
                }
            }
        }
        let backend = &runner.backend;
        let tokens: Vec<_> = settles.iter().map(|settle| settle.token).collect();
        send_until_answered(&runner, &tokens, || backend.settle(settles.clone())).await;
        let tokens: Vec<_> = releases.iter().map(|release| release.token).collect();
        send_until_answered(&runner, &tokens, || backend.release(releases.clone())).await;
        runner.forget_reported(&reported);
    }
}

/// Sends the progress of handlers that ended before a heartbeat could: a job that is done should
/// not show half of it for ever. Nothing depends on it, so it is tried once.
async fn send_last_progress(runner: &RunnerState, page: &mut [AttemptReport]) {
    let mut heartbeats = vec![Vec::new(); runner.pollers.len()];
    for AttemptReport { poller, id, token, progress, .. } in page {
        if let Some(progress) = progress.take() {
            let heartbeat = Heartbeat { id: *id, token: *token, progress: Some(progress) };
            heartbeats[*poller].push(heartbeat);
        }
    }
    let pages = runner.pollers.iter().zip(heartbeats).filter(|(_, page)| !page.is_empty());
    join_all(pages.map(|(poller, page)| runner.backend.heartbeat(&poller.worker, page))).await;
}

/// Sends the reports of these leases until the backend takes or refuses them.
async fn send_until_answered<'a>(
    runner: &RunnerState,
    tokens: &[LeaseToken],
    send: impl Fn() -> BackendFuture<'a, Vec<ReportResult>>,
) {
    if tokens.is_empty() {
        return;
    }
    let (mut backoff, mut log) = (Backoff::default(), LogOnce::default());
    loop {
        match send().await {
            Ok(results) => {
                return tokens
                    .iter()
                    .zip(results)
                    .for_each(|(token, result)| log_result(runner, *token, result));
            }
            // A retry would be refused in the same way.
            Err(error @ BackendError::Refused { .. }) => {
                return tokens.iter().for_each(|token| log_unstorable(runner, *token, &error));
            }
            Err(
                error @ (BackendError::Unauthorized { .. }
                | BackendError::Unavailable { .. }
                | BackendError::Unknown { .. }),
            ) => {
                log.failed(&format!("{} reports are not stored yet", tokens.len()), &error);
                sleep(backoff.after(&error)).await;
            }
        }
    }
}

fn log_unstorable(runner: &RunnerState, token: LeaseToken, cause: &BackendError) {
    let cause: &dyn std::error::Error = cause;
    runner.log_about(token, || {
        error!(error = cause, "the report cannot be stored: the job runs again")
    });
}

/// Logs a report that failed. A refusal means that this worker was too slow, and another worker's
/// outcome stands. Any other failure means that the job is damaged, and stays so.
fn log_result(runner: &RunnerState, token: LeaseToken, result: ReportResult) {
    match result {
        Ok(()) => {}
        Err(BackendError::Refused { code, .. }) => {
            runner.count_refused_report();
            runner.log_about(token, || {
                warn!(code = &*code, "the report was refused: another outcome of the job stands")
            });
        }
        Err(
            error @ (BackendError::Unauthorized { .. }
            | BackendError::Unavailable { .. }
            | BackendError::Unknown { .. }),
        ) => {
            log_unstorable(runner, token, &error);
        }
    }
}
