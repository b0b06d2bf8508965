//! Mistakes that the crash points must find: without them, a test that finds nothing proves
//! nothing.

use super::{
    check::Verdict,
    points::{StopKind, holds},
    say,
    story::{Plan, Story, StoryRunner},
};
use crate::Sqlite;
use crash_disk::Disk;

const PLAN: Plan =
    Plan { seed: 3, past_steps: 0, empty_commits: 0, steps: 60, overlaps_checkpoints: false };

#[test]
fn commits_that_are_not_synced_are_found() {
    let unsynced: fn(&Sqlite) = |store| {
        let writer = store.writer.lock().expect("no thread writes yet");
        writer.db.execute_batch("pragma synchronous = normal").expect("the disk works");
    };
    must_be_found("commits that are not synced", &run_story(Disk::new(), unsynced));
}

#[test]
fn an_answer_before_the_commit_is_found() {
    let mut story = run_story(Disk::new(), as_opened);
    // Records every answer as sent before any operation of its call.
    story.calls.iter_mut().for_each(|call| call.done = call.begun);
    must_be_found("an answer before the commit", &story);
}

#[test]
fn a_disk_that_lies_about_its_syncs_is_found() {
    let disk = Disk::new();
    disk.ignore_syncs(true);
    must_be_found("a disk that lies", &run_story(disk, as_opened));
}

/// Without a mistake, the same points find nothing.
#[test]
fn a_correct_store_passes_all_crash_points() {
    assert_eq!(first_found(&run_story(Disk::new(), as_opened), 200), None);
}

/// Leaves an opened store as it is.
fn as_opened(_: &Sqlite) {}

/// The story of a disk and a store. `opened` changes the store each time it is opened.
fn run_story(disk: Disk, opened: fn(&Sqlite)) -> Story {
    let mut runner = StoryRunner::new(PLAN, disk);
    runner.opened = opened;
    runner.open().expect("the disk works");
    runner.run_steps(PLAN.steps).expect("the disk works");
    runner.end()
}

fn must_be_found(what: &str, story: &Story) {
    let found = first_found(story, POINTS_MAX);
    let (points, wrong) = found.expect("the mistake is found");
    let first_line: String = wrong.lines().next().unwrap_or_default().chars().take(120).collect();
    say(&format!("{what}: found at crash point {points} ({first_line})"));
}

const POINTS_MAX: usize = 200;

/// How many points it took to find a mistake, and what was found.
fn first_found(story: &Story, points_max: usize) -> Option<(usize, String)> {
    let points = super::points::random_points(story, PLAN.seed).take(points_max);
    let verdicts =
        points.map(|(at, stop): (usize, StopKind)| -> Verdict { holds(story, at, stop) });
    verdicts.zip(1..).find_map(|(verdict, points)| Some((points, verdict.err()?)))
}
