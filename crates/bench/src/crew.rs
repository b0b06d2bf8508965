//! Workers that do nothing, as fast as they can.
//!
//! A stand-in for the worker SDK, and the only file that knows how jobs are claimed and settled: when
//! there is a `Runner`, [`Crew::start`] starts one with a handler that calls `work`, [`Crew::until`]
//! waits for its count, and [`Crew::stop`] stops it. Nothing else changes.

use crate::{
    Error,
    error::verb,
    house::{House, JOB_TYPE},
};
use engine::{ClaimId, EndingDraft, JobType, OutcomeWord, Scope, Wish, WorkerId};
use platform::Report;
use std::{sync::Arc, time::Duration};
use store::Claimed;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{error::Elapsed, timeout},
};

/// What a handler does with the payload of a job.
pub(crate) type Work = Arc<dyn Fn(&str) + Send + Sync>;

/// How many claims stand at a time, and how much each wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) hands: usize,
    pub(crate) jobs_each: usize,
}

/// While one claim is run and settled, others stand.
pub(crate) const FULL: Size = Size { hands: 4, jobs_each: engine::CLAIM_MAX };

/// When no job was settled for so long, none will be.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Workers at work. Dropped, they leave what they have.
pub(crate) struct Crew {
    hands: JoinSet<Result<(), Error>>,
    tally: watch::Receiver<Tally>,
    stop: watch::Sender<bool>,
}

#[derive(Default)]
struct Tally {
    settled: usize,
    failed: bool,
}

impl Crew {
    /// Begins to claim, run and settle.
    pub(crate) fn start(house: &House, size: Size, work: Work) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (settled, tally) = watch::channel(Tally::default());
        let (settled, mut hands) = (Arc::new(settled), JoinSet::new());
        for number in 0..size.hands {
            let (house, work, settled) = (house.clone(), work.clone(), settled.clone());
            let hand = Hand { house, number, jobs: size.jobs_each, work, settled };
            hands.spawn(hand.live(stopped.clone()));
        }
        Crew { hands, tally, stop }
    }

    /// Returns when `jobs` were settled since the start, with how many it were then.
    pub(crate) async fn until(&mut self, jobs: usize) -> Result<usize, Error> {
        loop {
            let Tally { settled, failed } = *self.tally.borrow_and_update();
            if settled >= jobs || failed {
                return Ok(settled); // what failed is told by `stop`
            }
            let news = timeout(SILENCE_MAX, self.tally.changed()).await;
            let silent = |_: Elapsed| Error::Stuck(SILENCE_MAX.as_secs(), settled, jobs);
            if news.map_err(silent)?.is_err() {
                return Ok(settled); // nobody is left to count, and `stop` tells why
            }
        }
    }

    /// Finishes what is claimed and returns when the last is settled.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        self.stop.send_replace(true);
        crate::house::joined(self.hands).await.map(drop)
    }
}

/// One claim after another.
struct Hand {
    house: House,
    number: usize,
    jobs: usize,
    work: Work,
    settled: Arc<watch::Sender<Tally>>,
}

impl Hand {
    async fn live(self, mut stop: watch::Receiver<bool>) -> Result<(), Error> {
        let mut claim = 0;
        while !*stop.borrow() {
            claim += 1;
            let standing = self.house.batcher.stand(Scope::All, self.wish(claim));
            let got = tokio::select! {
                got = standing => got.map_err(Error::Claim),
                _ = stop.changed() => break, // the claim is withdrawn, and leaves nothing leased
            };
            let settled = match got {
                Ok(jobs) => self.run(jobs).await,
                Err(error) => Err(error),
            };
            let failed = settled.is_err();
            self.settled.send_modify(|tally| {
                tally.settled += settled.as_ref().copied().unwrap_or(0);
                tally.failed |= failed;
            });
            settled?;
        }
        Ok(())
    }

    async fn run(&self, jobs: Vec<Claimed>) -> Result<usize, Error> {
        jobs.iter().for_each(|claimed| (self.work)(claimed.payload.as_str()));
        let reports: Vec<Report> = jobs.iter().map(report).collect();
        let verdicts = self.house.platform.settle(&Scope::All, reports).await;
        let verdicts = verdicts.map_err(verb("settling jobs"))?;
        match verdicts.iter().find_map(|verdict| verdict.as_ref().err()) {
            Some(refusal) => Err(Error::Unsettled(refusal.to_string())),
            None => Ok(verdicts.len()),
        }
    }

    fn wish(&self, claim: u64) -> Wish {
        // Other crews of this process had the same hands, so the moment is part of the name.
        let name = format!("{}-{claim}-{}", self.number, self.house.now().as_nanos());
        Wish {
            worker: WorkerId::parse(&format!("hand-{}", self.number)).expect(VALID),
            host: None,
            claim: ClaimId::parse(&name).expect(VALID),
            job_types: vec![JobType::parse(JOB_TYPE).expect(VALID)],
            max: self.jobs,
            lease: None,
        }
    }
}

const VALID: &str = "a short name of letters, digits and dashes";

fn report(claimed: &Claimed) -> Report {
    let lease = claimed.job.lease().expect("a job that was claimed has a lease");
    let ending = EndingDraft::new(OutcomeWord::Completed).check();
    let ending = ending.expect("an outcome without any field has no wrong one");
    Report { id: claimed.job.id(), token: lease.token, ending }
}
