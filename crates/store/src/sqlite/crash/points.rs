//! The power fails, or the process dies, at thousands of moments of a dozen stories.

use super::{
    check::{Checker, Verdict},
    open, say,
    snapshot::Snapshot,
    story::{Plan, Story},
};
use crate::{
    SeededRandom,
    test_settings::{seed_base, setting, text},
};
use crash_disk::Disk;
use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
};

/// How many crash points every CI run checks.
const POINTS: u64 = 5_000;
const POINTS_PER_STORY: u64 = 400;

#[test]
fn acknowledged_jobs_survive_every_crash() {
    let stories = setting("CONSIGN_CRASH_POINTS").unwrap_or(POINTS).div_ceil(POINTS_PER_STORY);
    let points = AtomicUsize::new(0);
    on_all_cores(stories, |number| {
        let seed = seed_base() + number;
        let story = Story::of(plan(seed));
        for (at, stop) in random_points(&story, seed).take(POINTS_PER_STORY as usize) {
            must_hold(&story, Point { seed, at, stop });
            points.fetch_add(1, Ordering::Relaxed);
        }
    });
    let points = points.into_inner();
    say(&format!("{points} crash points over {stories} stories: nothing lost, nothing torn"));
}

#[test]
fn a_short_story_survives_a_crash_after_every_single_operation() {
    let story = Story::of(SHORT);
    let next = AtomicUsize::new(0);
    let points = AtomicUsize::new(0);
    let stops =
        [StopKind::Killed, StopKind::Strict].into_iter().chain((0..6).map(StopKind::Random));
    let stops: Vec<StopKind> = stops.collect();
    on_all_cores(cores() as u64, |_| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at > story.disk.ops() {
                return;
            }
            for stop in &stops {
                must_hold(&story, Point { seed: SHORT.seed, at, stop: *stop });
                points.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let (points, ops) = (points.into_inner(), story.disk.ops());
    say(&format!("{points} crash points, every one of {ops} operations: nothing lost"));
}

const SHORT: Plan = Plan {
    seed: 1_000_000,
    past_steps: 0,
    empty_commits: 0,
    steps: 14,
    overlaps_checkpoints: false,
};

#[test]
fn a_second_crash_while_the_store_recovers_changes_nothing() {
    let points = AtomicUsize::new(0);
    on_all_cores(SECOND_CRASHES_OF, |number| {
        let seed = seed_base() + number;
        let story = Story::of(plan(seed));
        for (at, stop) in random_points(&story, !seed).take(8) {
            points.fetch_add(crash_again(&story, at, stop), Ordering::Relaxed);
        }
    });
    say(&format!("{} second crash points: nothing lost", points.into_inner()));
}

const SECOND_CRASHES_OF: u64 = 4;

/// Recovers, and crashes after some of the operations of the recovery. What the store has shown
/// after opening, it must show again.
fn crash_again(story: &Story, at: usize, stop: StopKind) -> usize {
    let again = stop.image(&story.disk, at);
    let before = again.ops();
    let store = open(&again).expect("it opens");
    let (opened, shown) = (again.ops(), Snapshot::read(&store).expect("it reads"));
    drop(store);
    let stride = 1 + (again.ops() - before) / 12;
    let seconds = (before..=again.ops()).step_by(stride).chain([opened]);
    let points = seconds.map(|second| {
        let mut checker = Checker::at(story, at);
        if second >= opened {
            checker.lawful.retain(|snapshot| **snapshot == shown);
        }
        let found = checker.check(&again.after_power_loss(second, at as u64));
        if let Err(wrong) = found {
            panic!("after a crash at {at} ({stop}) and one at {second}: {wrong}");
        }
    });
    points.count()
}

#[test]
fn the_same_seed_is_the_same_story() {
    let plan = Plan { overlaps_checkpoints: false, ..plan(1) };
    let [first, second] = [(), ()].map(|()| Story::of(plan));
    let trace = |story: &Story| story.disk.describe(0..story.disk.ops());
    assert_eq!(trace(&first), trace(&second));
}

/// Repeats one point, with the settings that a failing run prints. Without settings it only runs a
/// short check.
#[test]
fn replay() {
    let Some(seed) = setting("CONSIGN_CRASH_STORY") else {
        let story = Story::of(SHORT);
        return must_hold(
            &story,
            Point { seed: SHORT.seed, at: story.disk.ops(), stop: StopKind::Strict },
        );
    };
    let plan = if seed == SHORT.seed { SHORT } else { plan(seed) };
    let at = setting("CONSIGN_CRASH_AT").expect("a number of operations");
    let stop =
        text("CONSIGN_CRASH_SEED").expect("a seed").parse().expect("killed, strict or a seed");
    must_hold(&Story::of(plan), Point { seed, at: at as usize, stop });
}

/// Stories of every age: some begin on an empty disk, others so late that counts are rolled up.
pub(super) fn plan(seed: u64) -> Plan {
    let (past_steps, empty_commits) = [(0, 0), (40, 0), (30, 420), (90, 0)][(seed % 4) as usize];
    Plan { seed, past_steps, empty_commits, steps: 100, overlaps_checkpoints: seed % 8 >= 4 }
}

pub(super) fn random_points(story: &Story, seed: u64) -> impl Iterator<Item = (usize, StopKind)> {
    let (random, ops) = (SeededRandom::new(seed), story.disk.ops());
    std::iter::repeat_with(move || {
        let at = (random.next() % (ops as u64 + 1)) as usize;
        let stop = match random.next() % 8 {
            0 => StopKind::Killed,
            1 => StopKind::Strict,
            _ => StopKind::Random(random.next() % 1_000_000),
        };
        (at, stop)
    })
}

/// How the machine stopped.
#[derive(Clone, Copy, Debug)]
pub(super) enum StopKind {
    /// Only the process died.
    Killed,
    /// Every write that was not synced was lost.
    Strict,
    /// Of the writes that were not synced, some were kept.
    Random(u64),
}

impl StopKind {
    pub(super) fn image(self, disk: &Disk, at: usize) -> Disk {
        match self {
            StopKind::Killed => disk.after_kill(at),
            StopKind::Strict => disk.after_power_loss_strict(at),
            StopKind::Random(seed) => disk.after_power_loss(at, seed),
        }
    }
}

impl fmt::Display for StopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopKind::Killed => f.write_str("killed"),
            StopKind::Strict => f.write_str("strict"),
            StopKind::Random(seed) => write!(f, "{seed}"),
        }
    }
}

impl FromStr for StopKind {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "killed" => StopKind::Killed,
            "strict" => StopKind::Strict,
            seed => StopKind::Random(seed.parse()?),
        })
    }
}

/// One moment of one story, and how the machine stopped.
pub(super) struct Point {
    pub(super) seed: u64,
    pub(super) at: usize,
    pub(super) stop: StopKind,
}

pub(super) fn holds(story: &Story, at: usize, stop: StopKind) -> Verdict {
    Checker::at(story, at).check(&stop.image(&story.disk, at)).map(drop)
}

fn must_hold(story: &Story, point: Point) {
    if let Err(wrong) = holds(story, point.at, point.stop) {
        panic!("{}", point.report(story, &wrong));
    }
}

impl Point {
    fn report(&self, story: &Story, wrong: &str) -> String {
        let Point { seed, at, stop } = self;
        let ops = story.disk.describe(at.saturating_sub(12)..(at + 4).min(story.disk.ops()));
        let (ops, calls) = (ops.join("\n  "), story.around(*at));
        format!(
            "story {seed}, crashed after {at} operations ({stop}): {wrong}\n{calls}  {ops}\n\
             again: CONSIGN_CRASH_STORY={seed} CONSIGN_CRASH_AT={at} CONSIGN_CRASH_SEED={stop} \
             cargo test -p consign-store crash::points::replay\n\
             (in stories 4 to 7 of every 8, calls overlap checkpoints: the operations come in another order each time)"
        )
    }
}

pub(super) fn on_all_cores(count: u64, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores())
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return;
                        }
                        work(number);
                    }
                })
            })
            .collect();
        for thread in threads {
            // The panic of the thread is the message.
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
