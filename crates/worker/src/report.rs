//! Reports: how attempts ended, told until the other side has taken it.

use crate::{
    attempt::Ended,
    port::{AskError, Asked, Beat, Complaints, Release, Report, Verdict},
    shop::{Finished, Shop},
    time::Patience,
};
use engine::{ITEMS_MAX, LeaseToken};
use std::sync::Arc;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};
use tracing::{error, warn};

/// Reports how attempts ended, as many at once as there are. Another side that is away is asked again for as
/// long as it takes: the token makes repeats safe.
pub(crate) async fn report(shop: Arc<Shop>, mut finished: mpsc::UnboundedReceiver<Finished>) {
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
        persist(&shop, settles).await;
        persist(&shop, releases).await;
        shop.settled(desks.into_iter());
    }
}

/// Tells how far handlers were that ended before a heartbeat could: a job that is done should not stand at
/// half of it for ever. Nobody depends on it, so it is tried once.
async fn last_words(shop: &Arc<Shop>, page: &mut [Finished]) {
    let mut desks = JoinSet::new();
    for number in 0..shop.desks.len() {
        let own = page.iter_mut().filter(|finished| finished.desk == number);
        let beats = own.filter_map(|finished| {
            let progress = Some(finished.progress.take()?);
            Some(Beat { id: finished.id, token: finished.token, progress })
        });
        let beats: Vec<Beat> = beats.collect();
        if beats.is_empty() {
            continue;
        }
        let shop = shop.clone();
        desks.spawn(async move {
            let worker = &shop.desks[number].worker;
            drop(shop.port.heartbeat(worker, beats).await);
        });
    }
    desks.join_all().await;
}

/// Something that ends a lease.
trait EndsLease: Clone + Sync {
    fn token(&self) -> LeaseToken;

    fn send(shop: &Shop, page: Vec<Self>) -> Asked<'_, Vec<Verdict>>;
}

impl EndsLease for Report {
    fn token(&self) -> LeaseToken {
        self.token
    }

    fn send(shop: &Shop, page: Vec<Self>) -> Asked<'_, Vec<Verdict>> {
        shop.port.settle(page)
    }
}

impl EndsLease for Release {
    fn token(&self) -> LeaseToken {
        self.token
    }

    fn send(shop: &Shop, page: Vec<Self>) -> Asked<'_, Vec<Verdict>> {
        shop.port.release(page)
    }
}

/// Sends reports until they are taken, or refused.
async fn persist<R: EndsLease>(shop: &Shop, reports: Vec<R>) {
    if reports.is_empty() {
        return;
    }
    let (mut patience, mut complaints) = (Patience::new(), Complaints::default());
    loop {
        match R::send(shop, reports.clone()).await {
            Ok(verdicts) => {
                let verdicts = reports.iter().zip(verdicts);
                return verdicts.for_each(|(report, verdict)| told(shop, report.token(), verdict));
            }
            // Asking again would be answered in the same way.
            Err(error @ AskError::Refused { .. }) => {
                return reports.iter().for_each(|report| given_up(shop, report.token(), &error));
            }
            Err(
                error @ (AskError::Unwelcome { .. }
                | AskError::Away { .. }
                | AskError::Unknown { .. }),
            ) => {
                complaints.say(&format!("{} reports are not taken", reports.len()), &error);
                sleep(patience.after(&error)).await;
            }
        }
    }
}

fn given_up(shop: &Shop, token: LeaseToken, cause: &AskError) {
    let cause: &dyn std::error::Error = cause;
    shop.about(token, || error!(error = cause, "the report cannot be taken"));
}

/// A report that was refused: the other worker's outcome stands. Nothing is wrong with the store, but somebody
/// was too slow. Any other failure is that the job is damaged, and stays so.
fn told(shop: &Shop, token: LeaseToken, verdict: Verdict) {
    match verdict {
        Ok(()) => {}
        Err(AskError::Refused { code, .. }) => {
            shop.came_too_late();
            shop.about(token, || warn!(code = &*code, "the report came too late"));
        }
        Err(
            error @ (AskError::Unwelcome { .. } | AskError::Away { .. } | AskError::Unknown { .. }),
        ) => {
            given_up(shop, token, &error);
        }
    }
}
