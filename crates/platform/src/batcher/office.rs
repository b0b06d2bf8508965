//! Where callers and writers meet.

use super::{
    Limits, UNPOISONED, Waiting,
    batch::Unit,
    call::Call,
    crowd::{Crowd, Got, Want},
    lane::{Lane, Load},
};
use crate::watch::Watchers;
use ::store::{
    Claimed, Execute, News, Promise, Request, StoreError,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};
use engine::{Command, JobType, ReleaseReason, Scope};
use std::{sync::Arc, time::Duration};

/// A batch of fewer calls is not worth waiting for.
const GATHER_CALLS_MIN: usize = 8;
/// Nor is anybody waited for longer than this: a part of what a commit takes.
const GATHER_MAX: Duration = Duration::from_micros(200);
/// While another writer has more in hand than there is to take, it is let finish: no longer than a slow commit takes.
const BESIDE_MAX: Duration = Duration::from_millis(5);

pub(super) struct Office {
    pub(super) store: Arc<dyn Execute>,
    limits: Limits,
    room: Mutex<Room>,
    /// Only writers wait for it.
    rung: Condvar,
    pub(super) watchers: Arc<Watchers>,
    /// Whether there are other nodes that want to know what this one does.
    company: AtomicBool,
}

/// What waits. Nobody is woken with this in hand: that may run code of others.
pub(super) struct Room {
    /// What workers report. It goes first into every batch: a report that comes late costs a lease, and
    /// then the job runs twice. It cannot starve the rest for long, because there is nothing to
    /// report where nothing was claimed.
    reports: Lane,
    ordinary: Lane,
    pub(super) crowd: Crowd,
    /// The last number given.
    number: u64,
    closing: bool,
    /// How many have not gone yet.
    writers: usize,
    /// How many of them wait for something to do. Where none does, nobody need be woken: that is a call of
    /// the system, and there would be one for each request.
    idle: usize,
    /// How many calls a writer waits for before it begins its batch; 0 while none does.
    gathering: usize,
    /// How many calls writers have in hand.
    in_hand: usize,
    /// How many writers let others finish first.
    holding: usize,
}

impl Office {
    pub(super) fn new(store: Arc<dyn Execute>, limits: Limits) -> Self {
        let room = Room {
            reports: Lane::new(limits.waiting_bytes_max),
            ordinary: Lane::new(limits.waiting_bytes_max),
            crowd: Crowd::default(),
            number: 0,
            closing: false,
            writers: limits.writers.max(1),
            idle: 0,
            gathering: 0,
            in_hand: 0,
            holding: 0,
        };
        Office {
            company: AtomicBool::new(false),
            store,
            limits,
            room: Mutex::new(room),
            rung: Condvar::new(),
            watchers: Arc::default(),
        }
    }

    /// A writer's life: one batch after another.
    pub(super) fn write(&self) {
        let _alarm = Alarm(self);
        while let Some(batch) = self.next() {
            let calls = calls_of(&batch);
            self.carry_out(batch);
            self.put_down(calls);
        }
    }

    /// Calls were carried out. Lets those come back who were answered: callers who hand over one job after
    /// another would otherwise split into two crowds, each of which waits for the commit of the other, and half
    /// as many would share one. A caller who is alone never waits for this.
    fn put_down(&self, calls: usize) {
        let mut room = self.room();
        room.in_hand -= calls;
        // Shuttle has no time that goes by.
        if calls < GATHER_CALLS_MIN || cfg!(feature = "shuttle") {
            return self.ring(room);
        }
        room.gathering = calls;
        let away = |room: &mut Room| room.calls() < calls && !room.closing;
        let waited = self.rung.wait_timeout_while(room, GATHER_MAX, away);
        waited.expect(UNPOISONED).0.gathering = 0;
    }

    /// What is there now, or what comes next; nothing when all is done and the writer may go.
    fn next(&self) -> Option<Vec<Unit>> {
        let mut room = self.room();
        let mut patient = true;
        loop {
            if patient && room.is_little() {
                room.holding += 1;
                let waited = self.rung.wait_timeout(room, BESIDE_MAX).expect(UNPOISONED);
                (room, patient) = (waited.0, !waited.1.timed_out());
                room.holding -= 1;
                continue;
            }
            let batch = room.take(&self.limits);
            if !batch.is_empty() {
                room.in_hand += calls_of(&batch);
                if room.calls() > 0 {
                    self.ring(room); // what did not fit is somebody else's
                }
                return Some(batch);
            }
            if room.closing {
                room.writers -= 1;
                return None;
            }
            room.idle += 1;
            room = self.rung.wait(room).expect(UNPOISONED);
            room.idle -= 1;
            patient = true;
        }
    }

    /// Takes a call in, or refuses it because we close.
    pub(super) fn enter(&self, call: Call) -> Result<u64, StoreError> {
        let mut room = self.room();
        if room.closing {
            return Err(closed());
        }
        let number = room.enter(call);
        self.ring(room);
        Ok(number)
    }

    /// A caller is gone. If its call was held, it goes as well.
    pub(super) fn abandon(&self, number: u64) {
        let mut room = self.room();
        let held = room.reports.abandon(number).or_else(|| room.ordinary.abandon(number));
        drop(room);
        drop(held);
    }

    /// Lets a claim wait.
    pub(super) fn stand(&self, want: Want, promise: Promise<Got>) -> u64 {
        let mut room = self.room();
        let number = room.next_number();
        if room.closing {
            drop(room);
            drop(promise.keep(Err(closed())));
            return number;
        }
        room.crowd.join(number, want, promise);
        self.ring(room);
        number
    }

    /// A claim waits no longer, and nobody cares.
    pub(super) fn leave(&self, number: u64) {
        let left = self.room().crowd.leave(number);
        drop(left);
    }

    /// A claim waits no longer, and somebody wants to know how it ended.
    pub(super) fn withdraw(&self, number: u64) {
        let withdrawn = self.room().crowd.withdraw(number);
        drop(withdrawn.map(|promise| promise.keep(Ok(Vec::new()))));
    }

    pub(super) fn wake(&self, types: Option<&[JobType]>) {
        let wanted = |want: &Want| types.is_none_or(|types| types.iter().any(|t| want.knows(t)));
        let mut room = self.room();
        if room.crowd.is_empty() {
            return;
        }
        room.crowd.stir(|_, want| wanted(want));
        self.ring(room);
    }

    /// Whether another node wants to know what happens here.
    pub(super) fn has_listeners(&self) -> bool {
        self.company.load(Ordering::SeqCst)
    }

    pub(super) fn be_in_company(&self, company: bool) {
        self.company.store(company, Ordering::SeqCst);
    }

    /// Lets other nodes know, where there are any.
    pub(super) fn notify_peers(&self, news: News) {
        if self.has_listeners() && !news.is_empty() {
            self.store.notify_peers(news);
        }
    }

    /// Gives jobs back that were leased to somebody who is gone.
    pub(super) fn release<'a>(&self, jobs: impl IntoIterator<Item = &'a Claimed>) {
        let requests: Vec<Request> = jobs.into_iter().filter_map(undelivered).collect();
        if requests.is_empty() {
            return;
        }
        let (call, _) = Call::new(requests); // nobody waits, but a report is carried out all the same
        let mut room = self.room();
        if room.writers == 0 {
            return; // the lease's own end will do it
        }
        room.enter(call);
        self.ring(room);
    }

    /// Wakes a writer, if one sleeps, or waits for as many as there are now. Those who work look again before
    /// they do.
    fn ring(&self, room: MutexGuard<'_, Room>) {
        let wake = room.wants_a_writer();
        drop(room);
        if wake {
            self.rung.notify_one();
        }
    }

    pub(super) fn waiting(&self) -> Waiting {
        let room = self.room();
        let (reports, ordinary) = (&room.reports, &room.ordinary);
        Waiting {
            requests: reports.requests() + ordinary.requests(),
            bytes: reports.bytes() + ordinary.bytes(),
            held: reports.held() + ordinary.held(),
            standing: room.crowd.len(),
        }
    }

    /// Takes nobody in any more, and sends home who only stands.
    pub(super) fn close(&self) {
        let mut room = self.room();
        room.closing = true;
        let dismissed = room.crowd.dismiss();
        drop(room);
        self.rung.notify_all();
        for promise in dismissed {
            drop(promise.keep(Ok(Vec::new())));
        }
    }

    pub(super) fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().expect(UNPOISONED)
    }
}

impl Room {
    /// How many wait for a batch.
    fn calls(&self) -> usize {
        self.reports.calls() + self.ordinary.calls()
    }

    /// Whether those are here whom a writer waits for.
    fn is_gathered(&self) -> bool {
        self.gathering > 0 && self.calls() >= self.gathering
    }

    /// Whether one who sleeps had better look.
    fn wants_a_writer(&self) -> bool {
        if self.gathering > 0 {
            return self.is_gathered();
        }
        // One who holds back is enough: when its patience ends, it goes.
        let is_seen_to = self.is_little() && self.holding > 0;
        !is_seen_to && self.idle + self.holding > 0
    }

    /// Whether there is less to do than other writers have in hand, or than another one is waiting for. Each commit has
    /// its price: where 64 callers meet four writers, they go faster together than sixteen by sixteen.
    fn is_little(&self) -> bool {
        let calls = self.calls();
        // Shuttle has no time that goes by.
        let has_time = !self.closing && !cfg!(feature = "shuttle");
        let may_wait = calls > 0 && has_time && !self.crowd.is_restless();
        let beside = self.in_hand >= GATHER_CALLS_MIN && calls < self.in_hand;
        may_wait && (beside || self.gathering > 0)
    }

    fn enter(&mut self, mut call: Call) -> u64 {
        call.number = self.next_number();
        let number = call.number;
        let lane = if call.is_report() { &mut self.reports } else { &mut self.ordinary };
        lane.enter(call);
        number
    }

    fn take(&mut self, limits: &Limits) -> Vec<Unit> {
        let mut load = Load::new(limits);
        let mut calls = self.reports.take(&mut load);
        calls.extend(self.ordinary.take(&mut load));
        let offers = calls.iter().flat_map(|call| &call.offers);
        let turns = self.crowd.pick(offers, limits.batch_jobs_max);
        calls.into_iter().map(Unit::Call).chain(turns.into_iter().map(Unit::Standing)).collect()
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

fn calls_of(batch: &[Unit]) -> usize {
    batch.iter().filter(|unit| matches!(unit, Unit::Call(_))).count()
}

/// A request to take a job back whose worker never heard of it; this costs the job nothing.
fn undelivered(claimed: &Claimed) -> Option<Request> {
    let command = Command::Release {
        token: claimed.job.lease()?.token,
        reason: ReleaseReason::Undelivered,
        delay: Duration::ZERO,
    };
    Some(Request::Job { scope: Scope::All, id: claimed.job.id(), command })
}

fn closed() -> StoreError {
    StoreError::Unavailable(Some("nothing is taken in any more".into()))
}

/// What a writer leaves behind if the store panics.
struct Alarm<'a>(&'a Office);

impl Drop for Alarm<'_> {
    /// A store that panicked is not asked again: whoever waits is told so. Whoever was in its batch
    /// learned it before, when the promises in it broke.
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let mut room = self.0.room();
        room.writers -= 1;
        room.closing = true;
        let calls: Vec<Call> = room.reports.clear().chain(room.ordinary.clear()).collect();
        let dismissed = room.crowd.dismiss();
        drop(room);
        self.0.rung.notify_all();
        calls.into_iter().for_each(|call| drop(call.promise.keep(Err(closed()))));
        dismissed.into_iter().for_each(|promise| drop(promise.keep(Err(closed()))));
        self.0.watchers.close();
    }
}
