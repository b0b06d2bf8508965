//! One job type of a runner: its handler, its slots, and its claims.

use crate::{
    handler::Run,
    port::{AskError, Complaints},
    shop::Shop,
    time::Patience,
};
use engine::{ClaimId, Host, JobType, Wish, WorkerId};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tracing::info;

pub(crate) struct Desk {
    pub(crate) job_type: JobType,
    /// A worker is one kind per job type, so each desk has a name of its own.
    pub(crate) worker: WorkerId,
    pub(crate) host: Option<Host>,
    pub(crate) run: Run,
    pub(crate) slots: usize,
    pub(crate) lease: Option<Duration>,
    /// Handlers that run.
    running: AtomicUsize,
    /// Handlers that have ended and whose report has not been taken.
    unsettled: AtomicUsize,
    /// Rung when there is more room.
    freed: Notify,
    /// Nothing runs, and the last claim brought nothing.
    idle: AtomicBool,
}

impl Desk {
    pub(crate) fn new(
        job_type: JobType,
        worker: WorkerId,
        host: Option<Host>,
        run: Run,
        slots: usize,
        lease: Option<Duration>,
    ) -> Self {
        Desk {
            job_type,
            worker,
            host,
            run,
            slots,
            lease,
            running: AtomicUsize::new(0),
            unsettled: AtomicUsize::new(0),
            freed: Notify::new(),
            idle: AtomicBool::new(false),
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Acquire)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Acquire)
    }

    /// A claim brought something, or nothing.
    fn note(&self, brought: usize) {
        let idle = brought == 0 && self.running() + self.unsettled() == 0;
        self.idle.store(idle, Ordering::Release);
    }

    pub(crate) fn begun(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    /// A handler has ended. Its slot is free at once: the claim for the next job then shares a commit with
    /// the report on this one.
    pub(crate) fn ended(&self) {
        self.unsettled.fetch_add(1, Ordering::AcqRel);
        self.running.fetch_sub(1, Ordering::AcqRel);
        self.freed.notify_one();
    }

    pub(crate) fn settled(&self) {
        self.unsettled.fetch_sub(1, Ordering::AcqRel);
        self.freed.notify_one();
    }

    /// How many more jobs it takes: there is a slot for each, and reports do not pile up.
    fn room(&self) -> usize {
        let (running, unsettled) = (self.running(), self.unsettled());
        let slots = self.slots.saturating_sub(running);
        slots.min((2 * self.slots).saturating_sub(running + unsettled))
    }

    async fn wait_for_room(&self) -> usize {
        loop {
            let freed = self.freed.notified();
            let room = self.room();
            if room > 0 {
                return room;
            }
            freed.await;
        }
    }

    fn wish(&self, claim: &ClaimId, max: usize) -> Wish {
        Wish {
            worker: self.worker.clone(),
            host: self.host.clone(),
            claim: claim.clone(),
            job_types: vec![self.job_type.clone()],
            max: max.min(engine::CLAIM_MAX),
            lease: self.lease,
        }
    }
}

/// Claims for one desk until the shop closes.
pub(crate) async fn claim(shop: Arc<Shop>, number: usize) {
    let desk = &shop.desks[number];
    let mut patience = Patience::new();
    let mut id = shop.next_claim();
    let (mut complaints, mut unknown) = (Complaints::default(), false);
    loop {
        let room = tokio::select! {
            biased;
            () = shop.closing.cancelled() => break,
            room = desk.wait_for_room() => room,
        };
        match shop.port.stand(desk.wish(&id, room), &shop.closing).await {
            Ok(jobs) => {
                if complaints.are_over() {
                    info!(job_type = %desk.job_type, "jobs can be claimed again");
                }
                patience = Patience::new();
                // Whoever closes while it stands gets nothing, and the store was not asked.
                unknown &= jobs.is_empty() && shop.closing.is_cancelled();
                if !unknown {
                    id = shop.next_claim();
                }
                desk.note(jobs.len());
                shop.take(number, jobs);
                shop.claimed.notify_waiters();
            }
            Err(error) => {
                complaints.say(&format!("no jobs of {} can be claimed", desk.job_type), &error);
                // Nobody may know whether it happened; the same claim again brings the same leases. So it
                // keeps its name until it is answered, also when no more jobs are wanted.
                unknown |= matches!(error, AskError::Unknown { .. });
                tokio::select! {
                    () = shop.closing.cancelled() => break,
                    () = tokio::time::sleep(patience.after(&error)) => {}
                }
            }
        }
    }
    if unknown {
        claim_again(&shop, number, &id).await;
    }
}

/// Claims once more what nobody knows to have been claimed, to give it back.
async fn claim_again(shop: &Arc<Shop>, number: usize, id: &ClaimId) {
    let wish = shop.desks[number].wish(id, 1);
    if let Ok(jobs) = shop.port.claim(wish).await {
        shop.take(number, jobs);
    }
}
