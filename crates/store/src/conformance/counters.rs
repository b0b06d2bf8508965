//! Depth, age and counts of queues.

use super::house::{House, email, ending};
use crate::Counts;
use engine::{Command, EndingDraft, JobDraft, OutcomeWord};

pub(crate) fn every_state_is_counted(house: &House) {
    for word in [OutcomeWord::Completed, OutcomeWord::Poisoned, OutcomeWord::Cancelled] {
        house.submit(email());
        house.settle(&house.take(), &ending(word)).unwrap();
    }
    house.submit(email());
    let for_good = EndingDraft { retryable: Some(false), ..ending(OutcomeWord::Failed) };
    house.settle(&house.take(), &for_good).unwrap();
    house.submit(email());
    house.take();
    let erased = house.submit(email());
    house.must(erased, Command::Cancel);
    house.must(erased, Command::Erase);
    house.submit(JobDraft { delay_seconds: Some(60), ..email() });
    let expected = Counts {
        submitted: 7,
        queued: 1,
        running: 1,
        completed: 1,
        failed: 1,
        poisoned: 1,
        discarded: 0,
        cancelled: 1,
        erased: 1,
    };
    assert_eq!(house.depth("email").counts, expected);
}

pub(crate) fn depth_and_age_are_told(house: &House) {
    house.submit(email());
    let first = house.job(house.list(engine::Filter::Everything)[0]).run_at();
    house.pass(5);
    house.submit(JobDraft { priority: Some(9), ..email() });
    house.submit(JobDraft { delay_seconds: Some(60), ..email() });
    let depth = house.depth("email");
    assert_eq!((depth.counts.queued, depth.due), (3, 2));
    assert_eq!(depth.oldest_due_at, first, "the oldest, whatever its priority");
    house.pass(60);
    assert_eq!(house.depth("email").due, 3);
}

pub(crate) fn a_discarded_job_leaves_the_poison_queue(house: &House) {
    let id = house.submit(email());
    house.poison(&house.take());
    assert_eq!(house.depth("email").counts.poisoned, 1);
    house.must(id, Command::Discard);
    let counts = house.depth("email").counts;
    assert_eq!((counts.poisoned, counts.discarded), (0, 1));
    house.redrive(id);
    let counts = house.depth("email").counts;
    assert_eq!((counts.queued, counts.discarded), (1, 0));
}
