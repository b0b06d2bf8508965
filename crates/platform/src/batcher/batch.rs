//! One batch: one transaction, and what its callers are told.

use super::{
    call::{Call, Replies, claimed_in},
    crowd::{Got, Turn},
    offer::Offers,
    office::Office,
};
use crate::{request::read_claimed, watch::Touched};
use ::store::{Answer, Claimed, News, Reply, Request, StoreError};
use engine::JobId;
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    sync::Arc,
};

/// What stays together in one transaction.
pub(super) enum Unit {
    Call(Call),
    Standing(Turn),
}

/// What became of the units of one transaction.
#[derive(Default)]
struct Done {
    calls: Vec<(Call, Replies)>,
    turns: Vec<(Turn, Got)>,
}

impl Office {
    /// Has the store carry out a batch, and answers.
    pub(super) fn carry_out(&self, mut units: Vec<Unit>) {
        let mut requests = Vec::with_capacity(units.iter().map(Unit::len).sum());
        units.iter().for_each(|unit| unit.ask(&mut requests));
        let news = self.news_of(&units);
        let told = !news.is_empty();
        match self.store.execute(requests, news) {
            Ok(replies) => self.answer(Done::well(units, replies), told),
            // Something that one of them touches is broken. Alone it harms nobody else.
            Err(StoreError::Damaged(_)) if units.len() > 1 => {
                let rest = units.split_off(units.len() / 2);
                self.carry_out(units);
                self.carry_out(rest);
            }
            // There is no room for more jobs, but what ends them makes some: nobody is refused a report
            // because somebody else hands over a job.
            Err(StoreError::Full(_)) if is_mixed(&units) => {
                let (begin, finish) = units.into_iter().partition(Unit::begins);
                self.carry_out(finish);
                self.carry_out(begin);
            }
            Err(error) => self.answer(Done::badly(units, error), false),
        }
    }

    /// What others are to know as soon as this is committed. Where claims are in it, only its end tells what is left for others.
    fn news_of(&self, units: &[Unit]) -> News {
        if !self.has_listeners() || units.iter().any(Unit::claims) {
            return News::default();
        }
        let calls = units.iter().filter_map(Unit::call);
        let offers = Offers::of(calls.clone().flat_map(|call| &call.offers));
        let touches = |request: &Request| {
            let bare = request.bare();
            !matches!(bare, None | Some(Request::Seen { .. } | Request::Leave { .. }))
        };
        let touched = calls.flat_map(|call| &call.requests).any(touches);
        News { touched, ..offers.news() }
    }

    fn answer(&self, mut done: Done, told: bool) {
        let (watched, listened) = (self.watchers.are_there(), self.has_listeners() && !told);
        let touched = (watched || listened).then(|| done.touched());
        let mut leases = done.leases();
        // What is left for others, and not what was taken: a job that stays here wakes nobody elsewhere.
        let news = listened.then(|| News {
            touched: touched.as_ref().is_some_and(Touched::is_something),
            ..done.left_over(&leases).news()
        });
        self.let_wait(&mut done, &leases);
        let mut lost: Vec<Claimed> = Vec::new();
        for (call, replies) in done.calls {
            if let Err(Ok(replies)) = call.promise.keep(replies) {
                lost.extend(claimed_in(&replies).cloned());
            }
        }
        for (turn, got) in done.turns {
            if let Err(Ok(jobs)) = turn.promise.keep(got) {
                lost.extend(jobs);
            }
        }
        // Others come after those who wait here.
        news.into_iter().for_each(|news| self.notify_peers(news));
        // A claim and its repetition may meet in one batch and get the same leases: those go back only
        // if nobody heard of them.
        lost.retain(|claimed| {
            let answers = leases.get_mut(&claimed.job.id()).expect("it was counted");
            *answers -= 1;
            *answers == 0
        });
        self.release(&lost);
        if let Some(touched) = touched.filter(|_| watched) {
            self.watchers.tell(&touched);
        }
    }

    /// Sends those back to the crowd who got nothing, and stirs it up about what is left.
    fn let_wait(&self, done: &mut Done, leases: &Leases) {
        let mut room = self.room();
        if room.crowd.is_empty() {
            return;
        }
        let asked: BTreeSet<u64> = done.turns.iter().map(|(turn, _)| turn.number).collect();
        let left = done.left_over(leases);
        room.crowd.stir(|number, want| !asked.contains(&number) && left.may_serve(want));
        let answered = |(turn, got): (Turn, Got)| room.crowd.end(turn, got);
        done.turns = done.turns.drain(..).filter_map(answered).collect();
    }
}

/// How many answers of a transaction give the lease of a job.
type Leases = BTreeMap<JobId, usize>;

impl Done {
    fn well(units: Vec<Unit>, replies: Vec<Reply>) -> Self {
        let requests: usize = units.iter().map(Unit::len).sum();
        assert_eq!(requests, replies.len(), "a store gives one reply for each request");
        let mut replies = replies.into_iter();
        let mut done = Done::default();
        for unit in units {
            match unit {
                Unit::Call(call) => {
                    let own = replies.by_ref().take(call.requests.len()).collect();
                    done.calls.push((call, Ok(own)));
                }
                Unit::Standing(turn) => {
                    let reply = replies.next().expect("it was counted");
                    let answer = reply.expect("a claim is never refused");
                    done.turns.push((turn, Ok(read_claimed(answer))));
                }
            }
        }
        done
    }

    fn badly(units: Vec<Unit>, error: StoreError) -> Self {
        let error = shared(error);
        let mut done = Done::default();
        for unit in units {
            match unit {
                Unit::Call(call) => done.calls.push((call, Err(error()))),
                Unit::Standing(turn) => done.turns.push((turn, Err(error()))),
            }
        }
        done
    }

    /// The jobs that something may have happened to.
    fn touched(&self) -> Touched {
        let unknown = |error: &StoreError| matches!(error, StoreError::OutcomeUnknown(_));
        let called = self.calls.iter().map(|(_, replies)| replies.as_ref().err());
        let stood = self.turns.iter().map(|(_, got)| got.as_ref().err());
        if called.chain(stood).flatten().any(unknown) {
            return Touched::Anything;
        }
        let mut ids = Vec::new();
        for (call, replies) in &self.calls {
            let replies = replies.iter().flatten();
            call.requests.iter().zip(replies).for_each(|(r, reply)| touched_by(r, reply, &mut ids));
        }
        let stood = self.turns.iter().filter_map(|(_, got)| got.as_ref().ok());
        ids.extend(stood.flatten().map(|claimed| claimed.job.id()));
        Touched::Jobs(ids)
    }

    fn leases(&self) -> Leases {
        let called = self.calls.iter().filter_map(|(_, replies)| replies.as_ref().ok());
        let stood = self.turns.iter().filter_map(|(_, got)| got.as_ref().ok());
        let claimed = called.flat_map(|replies| claimed_in(replies)).chain(stood.flatten());
        let mut leases = Leases::new();
        claimed.for_each(|claimed| *leases.entry(claimed.job.id()).or_default() += 1);
        leases
    }

    /// What was offered and may still be there.
    fn left_over(&self, leases: &Leases) -> Offers<'_> {
        let happened = |replies: &Replies| match replies {
            Ok(_) | Err(StoreError::OutcomeUnknown(_)) => true,
            Err(StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Damaged(_)) => false,
        };
        let calls = self.calls.iter().filter(|(_, replies)| happened(replies));
        let offers = calls.flat_map(|(call, _)| &call.offers);
        let taken = |job: JobId| leases.contains_key(&job);
        let mut left = Offers::of(offers.filter(|offer| !offer.job().is_some_and(taken)));
        // Claims have their turn last. Where one looked and found nothing, nothing can be started now.
        // One that got something may only have been given what it held before.
        for (turn, got) in &self.turns {
            if matches!(got, Ok(jobs) if jobs.is_empty()) {
                left.jobs.retain(|queue, _| !turn.want.wants(queue));
            }
        }
        left
    }
}

fn touched_by(request: &Request, reply: &Reply, ids: &mut Vec<JobId>) {
    match (request.bare(), reply) {
        (_, Err(_)) => {}
        (Some(Request::Job { id, .. }), Ok(_)) => ids.push(*id),
        (_, Ok(Answer::Claimed(jobs))) => ids.extend(jobs.iter().map(|claimed| claimed.job.id())),
        (_, Ok(Answer::Submitted(jobs))) => ids.extend(jobs.iter().map(|job| job.job_id)),
        (_, Ok(Answer::Job(_) | Answer::Done)) => {}
    }
}

fn is_mixed(units: &[Unit]) -> bool {
    let begin = units.iter().filter(|unit| unit.begins()).count();
    (1..units.len()).contains(&begin)
}

impl Unit {
    fn call(&self) -> Option<&Call> {
        match self {
            Unit::Call(call) => Some(call),
            Unit::Standing(_) => None,
        }
    }

    /// Whether it wants jobs.
    fn claims(&self) -> bool {
        let is_claim = |request: &Request| matches!(request.bare(), Some(Request::Claim { .. }));
        self.call().is_none_or(|call| call.requests.iter().any(is_claim))
    }

    /// Whether it hands over jobs.
    fn begins(&self) -> bool {
        self.call().is_some_and(|call| call.requests.iter().any(Request::begins))
    }

    fn len(&self) -> usize {
        match self {
            Unit::Call(call) => call.requests.len(),
            Unit::Standing(_) => 1,
        }
    }

    /// Adds what the store is asked. A copy: a batch that has to be split is asked again.
    fn ask(&self, requests: &mut Vec<Request>) {
        match self {
            Unit::Call(call) => requests.extend_from_slice(&call.requests),
            Unit::Standing(Turn { want, .. }) => {
                let (scope, wish) = (want.scope.clone(), want.wish.clone());
                requests.push(Request::Claim { scope, wish });
            }
        }
    }
}

/// The same failure, as often as it has to be told.
fn shared(error: StoreError) -> impl Fn() -> StoreError {
    type Cause = Option<Box<dyn Error + Send + Sync>>;
    let (kind, cause): (fn(Cause) -> StoreError, Cause) = match error {
        StoreError::Unavailable(cause) => (StoreError::Unavailable, cause),
        StoreError::Full(cause) => (StoreError::Full, cause),
        StoreError::OutcomeUnknown(cause) => (StoreError::OutcomeUnknown, cause),
        StoreError::Damaged(cause) => (StoreError::Damaged, cause),
    };
    let cause: Option<Arc<dyn Error + Send + Sync>> = cause.map(Arc::from);
    move || kind(cause.clone().map(|cause| Box::new(cause) as Box<_>))
}
