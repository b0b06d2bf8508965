//! Heartbeats: leases are kept, progress is told, and handlers hear that they should stop.

use crate::{
    attempt::Attempt,
    port::{AskError, Beat, Complaints},
    shop::{Held, Shop},
};
use engine::ITEMS_MAX;
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

/// How often it is asked whether a heartbeat is due, while there are leases.
const PULSE_EVERY: Duration = Duration::from_millis(250);
/// A sign of life while there is no lease; a worker that is silent for 90 s is taken to be lost.
const SEEN_EVERY: Duration = Duration::from_secs(20);
/// However long leases are: whoever cancels a job waits no longer than this for it to be heard.
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);

/// The heartbeat of one lease.
type Own = (Arc<Attempt>, Beat);

/// Sends heartbeats, and tells handlers what comes back.
pub(crate) async fn pulse(shop: Arc<Shop>) {
    let mut seen_at = Instant::now();
    let mut complaints = Complaints::default();
    loop {
        wait_for_pulse(&shop, seen_at).await;
        let now = Instant::now();
        let seen = now >= seen_at + SEEN_EVERY;
        if seen {
            seen_at = now;
        }
        // All desks at once: their heartbeats share a commit.
        let mut desks = JoinSet::new();
        for desk in 0..shop.desks.len() {
            let beats = due(&shop, desk, now);
            if seen || !beats.is_empty() {
                desks.spawn(beat_desk(shop.clone(), desk, beats));
            }
        }
        let told = answers(&shop, desks).await;
        note(told, &mut complaints);
        lapse(&shop);
    }
}

/// Waits for what the desks are told. Meanwhile time goes by: a store that does not answer keeps no handler from
/// hearing that its lease has run out.
async fn answers(shop: &Shop, mut desks: JoinSet<Result<(), AskError>>) -> Result<(), AskError> {
    let mut told = Ok(());
    loop {
        tokio::select! {
            answer = desks.join_next() => match answer {
                Some(answer) => told = told.and(answer.expect("a heartbeat does not panic")),
                None => return told,
            },
            () = sleep(PULSE_EVERY) => lapse(shop),
        }
    }
}

fn lapse(shop: &Shop) {
    if shop.port.leases_lapse_unheard() {
        shop.lapse(Instant::now());
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

/// Says what went wrong.
fn note(told: Result<(), AskError>, complaints: &mut Complaints) {
    match &told {
        Ok(()) => drop(complaints.are_over()),
        Err(error) => complaints.say("heartbeats are not taken", error),
    }
}

/// The heartbeats of a desk that are due: leases that are used up by a third, and what handlers have said.
fn due(shop: &Shop, desk: usize, now: Instant) -> Vec<Own> {
    let late = |held: &&Held| {
        let every = (held.attempt.job.lease / 3).min(HEARTBEAT_MAX);
        held.desk == desk
            && (now >= held.beaten_at + every || held.attempt.said().progress.is_some())
    };
    let beat = |held: &Held| {
        let attempt = held.attempt.clone();
        let progress = attempt.said().progress.take();
        let beat = Beat { id: attempt.job.id, token: attempt.job.token, progress };
        (attempt, beat)
    };
    shop.held().values().filter(late).map(beat).collect()
}

async fn beat_desk(shop: Arc<Shop>, desk: usize, beats: Vec<Own>) -> Result<(), AskError> {
    if beats.is_empty() {
        let worker = &shop.desks[desk].worker;
        return shop.port.heartbeat(worker, Vec::new()).await.map(drop);
    }
    for page in beats.chunks(ITEMS_MAX) {
        beat_page(&shop, desk, page).await?;
    }
    Ok(())
}

/// Sends one page.
async fn beat_page(shop: &Shop, desk: usize, page: &[Own]) -> Result<(), AskError> {
    let beats = page.iter().map(|(_, beat)| beat.clone()).collect();
    // The lease is longer from when the store heard of it, which is never before this and may be long before its
    // answer is here.
    let sent_at = Instant::now();
    let told = shop.port.heartbeat(&shop.desks[desk].worker, beats).await;
    let signs = told.inspect_err(|_| page.iter().for_each(say_again))?;
    for ((attempt, _), sign) in page.iter().zip(signs) {
        shop.pulse(attempt.job.token, sign, sent_at);
    }
    Ok(())
}

/// What a heartbeat could not tell is told by the next one, unless there is something newer.
fn say_again((attempt, beat): &Own) {
    let mut said = attempt.said();
    said.progress = said.progress.take().or_else(|| beat.progress.clone());
}
