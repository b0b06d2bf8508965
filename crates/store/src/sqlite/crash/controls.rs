//! Mistakes that the crash points must find: a test that finds nothing proves nothing otherwise.

use super::{
    check::Verdict,
    points::{How, holds},
    say,
    story::{Plan, Story, Teller},
};
use crash_disk::Disk;
use engine::{SeededBug, plant};

const PLAN: Plan = Plan { seed: 3, past: 0, quiet: 0, steps: 60, hasty: false };

#[test]
fn commits_that_are_not_synced_are_found() {
    must_be_found("commits that are not synced", &planted(SeededBug::NormalSync));
}

#[test]
fn an_answer_before_the_commit_is_found() {
    must_be_found("an answer before the commit", &planted(SeededBug::AckBeforeCommit));
}

#[test]
fn a_disk_that_lies_about_its_syncs_is_found() {
    let disk = Disk::new();
    disk.ignore_syncs(true);
    must_be_found("a disk that lies", &lived(disk));
}

/// Without a mistake, the same points find nothing.
#[test]
fn without_a_mistake_nothing_is_found() {
    assert_eq!(first_found(&lived(Disk::new()), 200), None);
}

fn planted(bug: SeededBug) -> Story {
    plant(Some(bug));
    let story = lived(Disk::new());
    plant(None);
    story
}

fn lived(disk: Disk) -> Story {
    let mut teller = Teller::new(PLAN, disk);
    teller.open().expect("the disk works");
    teller.live(PLAN.steps).expect("the disk works");
    teller.end()
}

fn must_be_found(what: &str, story: &Story) {
    let found = first_found(story, POINTS_MAX);
    let (points, wrong) = found.expect("the mistake is found");
    let first_line: String = wrong.lines().next().unwrap_or_default().chars().take(120).collect();
    say(&format!("{what}: found at crash point {points} ({first_line})"));
}

const POINTS_MAX: usize = 200;

/// How many points it took to find something wrong, and what that was.
fn first_found(story: &Story, points_max: usize) -> Option<(usize, String)> {
    let points = super::points::random_points(story, PLAN.seed).take(points_max);
    let verdicts = points.map(|(at, how): (usize, How)| -> Verdict { holds(story, at, how) });
    verdicts.zip(1..).find_map(|(verdict, points)| Some((points, verdict.err()?)))
}
