//! Each sentence of the contract's state table, as a test.

use crate::{grid::released_times, situation::*};
use engine::*;
use std::time::Duration;

#[track_caller]
fn check(job: &Job, command: Command, expected: Result<Status, &str>) {
    let policy = Policy::default();
    let decision = decide(job, &command, &facts(&policy, now()));
    check_decision(job, &decision, expected);
}

#[track_caller]
fn check_claim(job: &Job, expected: Result<Status, &str>) {
    let policy = Policy::default();
    check_decision(job, &engine::claim(job, &by_w1(), &facts(&policy, now())), expected);
}

#[track_caller]
fn check_decision(job: &Job, decision: &Decision, expected: Result<Status, &str>) {
    let seen = match decision {
        Err(refusal) => Err(refusal.code()),
        Ok(_) => Ok(status_of(decision).unwrap_or(job.status())),
    };
    assert_eq!(seen, expected);
}

#[test]
fn a_claim_starts_an_attempt_under_a_new_lease() {
    let job = running();
    let lease = job.lease().unwrap();
    assert_eq!((job.life.attempt, job.fence, lease.token.fence), (1, 1, 1));
    assert_eq!(lease.expires_at.since(at(-10)), Duration::from_secs(30));
    assert_eq!(lease.deadline.since(at(-10)), Duration::from_secs(900));
    assert_eq!(job.life.started_at, Some(at(-10)));
}

#[test]
fn a_scheduled_job_is_not_started_early() {
    let later = queued_from(JobDraft { run_at: Some(NOW + 1), ..draft() });
    check_claim(&later, Err("NOT_DUE"));
    let just_now = queued_from(JobDraft { run_at: Some(NOW), ..draft() });
    check_claim(&just_now, Ok(Status::Running));
}

#[test]
fn an_expired_job_is_not_started_and_is_cancelled() {
    let late = queued_from(JobDraft { expires_at: Some(NOW), ..draft() });
    check_claim(&late, Err("NOT_DUE"));
    let done = change(&late, &Command::Expire);
    assert_eq!(done.job.status(), Status::Cancelled);
    assert_eq!(done.job.life.last_failure.unwrap().code.as_str(), "JOB_EXPIRED");
}

#[test]
fn expiry_keeps_the_last_error_in_the_message() {
    let job = queued_from(JobDraft { expires_at: Some(NOW), ..draft() });
    let job = claimed(&job, at(-50));
    let job = after(&job, &settle(&job, failed()), at(-40));
    let done = change(&job, &Command::Expire).job;
    assert_eq!(done.life.message.as_deref(), Some("last error SMTP_DOWN"));
    let long = JobDraft { expires_at: Some(NOW), ..draft() };
    let job = claimed(&queued_from(long), at(-50));
    let ending = EndingDraft { error_message: Some("x".repeat(1024)), ..failed() };
    let job = after(&job, &settle(&job, ending), at(-40));
    let message = change(&job, &Command::Expire).job.life.message.unwrap();
    assert!(message.len() <= MESSAGE_BYTES_MAX && message.ends_with('…'));
}

#[test]
fn a_success_stands_even_when_a_cancel_was_requested() {
    let job = after(&running(), &Command::Cancel, at(-9));
    check(&job, settle(&job, completed()), Ok(Status::Completed));
}

#[test]
fn a_success_clears_the_error_and_keeps_the_result() {
    let job = running_on(2);
    assert!(job.life.last_failure.is_some());
    let ending = EndingDraft { result: Some("{\"n\":1}".into()), ..completed() };
    let done = change(&job, &settle(&job, ending)).job;
    assert_eq!(done.life.last_failure, None);
    assert_eq!(done.life.result.unwrap().as_str(), "{\"n\":1}");
    assert_eq!(done.version, job.version + 1);
}

#[test]
fn a_failure_with_attempts_left_waits_and_tries_again() {
    let job = running();
    let again = change(&job, &settle(&job, failed()));
    // The random bits of these tests are always the highest, so the wait is the ceiling: 2 s.
    assert_eq!(again.job.run_at(), Some(at(2)));
    assert_eq!(again.event, Some(EventKind::Retrying));
    assert_eq!(again.job.life.attempt, 1);
}

#[test]
fn the_handler_knows_better_when_to_try_again() {
    let job = running();
    for (seconds, expected) in [(0, now()), (90, at(90))] {
        let ending = EndingDraft { retry_after_seconds: Some(seconds), ..failed() };
        assert_eq!(change(&job, &settle(&job, ending)).job.run_at(), Some(expected));
    }
}

#[test]
fn a_failure_on_the_last_attempt_poisons_the_job() {
    let job = running_on(3);
    let done = change(&job, &settle(&job, failed())).job;
    assert_eq!(done.status(), Status::Poisoned);
    assert_eq!(done.life.last_failure.unwrap().code.as_str(), "SMTP_DOWN");
}

#[test]
fn a_failure_after_a_cancel_request_cancels() {
    let job = after(&running(), &Command::Cancel, at(-9));
    check(&job, settle(&job, failed()), Ok(Status::Cancelled));
}

#[test]
fn a_stale_token_changes_nothing() {
    let job = running();
    let stale = LeaseToken { fence: 0, ..token(&job) };
    let forged = LeaseToken { secret: 0, ..token(&job) };
    let old_epoch = LeaseToken { epoch: 0, ..token(&job) };
    for token in [stale, forged, old_epoch] {
        let ending = completed().check().unwrap();
        check(&job, Command::Settle { token, ending }, Err("LEASE_LOST"));
    }
}

#[test]
fn a_lease_from_before_a_restore_is_void() {
    let job = running();
    let policy = Policy::default();
    let restored = Facts { epoch: 2, ..facts(&policy, now()) };
    let decision = decide(&job, &settle(&job, completed()), &restored);
    assert_eq!(decision.unwrap_err(), Refusal::LeaseLost);
}

#[test]
fn a_worker_that_overran_its_lease_may_still_settle() {
    let job = claimed(&queued(), at(-100));
    assert!(job.lease().unwrap().expires_at < now());
    check(&job, settle(&job, completed()), Ok(Status::Completed));
}

#[test]
fn a_repeated_settle_is_answered_as_the_first_time() {
    let job = running();
    let command = settle(&job, failed());
    let first = change(&job, &command);
    let record = first.entry.as_ref().unwrap().record_of(&token(&job)).unwrap();
    let policy = Policy::default();
    let facts = Facts { record: Some(&record), ..facts(&policy, at(5)) };
    // In the meantime, the job began its second attempt, and that one ended.
    let second = claimed(&first.job, at(4));
    let done = after(&second, &settle(&second, completed()), at(5));
    for later in [&first.job, &second, &done] {
        let answer = decide(later, &command, &facts).unwrap();
        assert_eq!(answer.effect, Effect::Nothing);
        assert_eq!(answer.answer, Answer::Settled { status: Status::Queued, parent: None });
        let other = decide(later, &settle(&job, completed()), &facts).unwrap_err();
        assert_eq!(other, Refusal::AlreadyEnded { status: Status::Queued });
    }
}

#[test]
fn a_heartbeat_never_shortens_a_lease_and_never_passes_the_deadline() {
    let long = Claim { lease: Some(Duration::from_secs(3_600)), ..by_w1() };
    let job = claimed_as(&queued(), &long, at(-10));
    assert_eq!(job.lease().unwrap().expires_at, at(890), "the type's timeout is 900 s");
    let beat = |job: &Job, when| {
        after(job, &Command::Heartbeat { token: token(job), progress: None }, when)
    };
    assert_eq!(beat(&job, at(0)).lease().unwrap().expires_at, at(890));
    let short = running();
    assert_eq!(beat(&short, at(-10)).lease().unwrap().expires_at, at(20));
    assert_eq!(beat(&short, at(5)).lease().unwrap().expires_at, at(35));
}

#[test]
fn a_worker_that_wakes_up_past_the_deadline_is_still_the_silent_one() {
    let silent = claimed(&queued(), at(-1_000));
    let beat = Command::Heartbeat { token: token(&silent), progress: None };
    let policy = Policy::default();
    let decided = decide(&silent, &beat, &facts(&policy, now())).unwrap();
    assert_eq!(decided.effect, Effect::Nothing);
    assert_eq!(
        decided.answer,
        Answer::LeaseState(LeaseState::Extended(at(-970))),
        "and sees that it is over"
    );
}

#[test]
fn progress_moves_the_version_and_writes_no_history() {
    let job = running();
    let progress = ProgressReport::check(40, Some("half")).ok();
    let change = change(&job, &Command::Heartbeat { token: token(&job), progress });
    assert_eq!((change.job.version, change.job.seq), (job.version + 1, job.seq));
    assert_eq!(change.entry, None);
    let silent = Command::Heartbeat { token: token(&job), progress: None };
    assert_eq!(self::change(&job, &silent).job.version, job.version);
}

#[test]
fn silence_is_a_lost_worker_and_three_in_a_row_poison() {
    let patient = queued_from(JobDraft { max_attempts: Some(100), ..draft() });
    let lose = |job: &Job, start| {
        let job = claimed(job, at(start));
        after(&job, &Command::LeaseExpiry, at(start + 30))
    };
    let twice = lose(&lose(&patient, -90), -50);
    assert_eq!((twice.status(), twice.life.losses), (Status::Queued, 2));
    assert_eq!(twice.life.last_failure.as_ref().unwrap().code.as_str(), "LEASE_EXPIRED");
    let thrice = lose(&twice, 0);
    assert_eq!(thrice.status(), Status::Poisoned);
    assert_eq!(thrice.life.last_failure.unwrap().code.as_str(), "WORKER_LOST");

    let alive = claimed(&twice, at(0));
    let alive = after(&alive, &settle(&alive, failed()), at(1));
    assert_eq!(alive.life.losses, 0, "a settled attempt ends the row");
}

#[test]
fn a_worker_that_gives_a_job_back_is_not_lost() {
    let patient = queued_from(JobDraft { max_attempts: Some(100), ..draft() });
    let lost = after(&claimed(&patient, at(-100)), &Command::LeaseExpiry, at(-50));
    assert_eq!(lost.life.losses, 1);
    let held = claimed(&lost, at(-40));
    let given_back = after(&held, &release(&held, ReleaseReason::Released), at(-39));
    assert_eq!(given_back.life.losses, 0);
    let undelivered = after(&held, &release(&held, ReleaseReason::Undelivered), at(-39));
    assert_eq!(undelivered.life.losses, 1, "no worker was there to give it back");
}

#[test]
fn a_new_attempt_begins_without_progress() {
    let job = running();
    let progress = ProgressReport::check(40, None).ok();
    let job = after(&job, &Command::Heartbeat { token: token(&job), progress }, at(-9));
    let again = after(&job, &settle(&job, failed()), at(-8));
    assert!(again.life.progress.is_some(), "what the last attempt said stays until the next");
    assert!(claimed(&again, now()).life.progress.is_none());
}

#[test]
fn history_records_the_worker_of_each_entry() {
    let job = running();
    let who = |change: Change| change.entry.unwrap().worker.map(|worker| worker.to_string());
    let w1 = Some("w1".to_owned());
    assert_eq!(who(change(&job, &settle(&job, failed()))), w1);
    assert_eq!(who(change(&job, &release(&job, ReleaseReason::Snoozed))), w1);
    assert_eq!(who(change(&job, &Command::Cancel)), w1);
    let silent = claimed(&queued(), at(-100));
    assert_eq!(who(change(&silent, &Command::LeaseExpiry)), w1);
    assert_eq!(who(change(&queued(), &Command::Cancel)), None);
}

#[test]
fn a_clock_jump_shifts_only_the_lease() {
    let job = running();
    let by = Duration::from_secs(3_600);
    let change = after_clock_jump(&job, by).unwrap();
    let (before, after) = (job.lease().unwrap(), change.job.lease().unwrap());
    assert_eq!(after.expires_at, before.expires_at + by);
    assert_eq!(after.deadline, before.deadline + by);
    assert_eq!((change.entry, change.event), (None, None));
    assert_eq!((change.job.version, change.job.seq), (job.version, job.seq));
    assert_eq!(after_clock_jump(&queued(), by), None);
}

#[test]
fn no_job_is_overdue_before_its_time() {
    let policy = Policy::default();
    for job in [queued(), running(), ended(completed()), ended(poisoned())] {
        assert_eq!(overdue(&job, &policy, now()), None);
    }
}

#[test]
fn a_lost_worker_uses_up_the_attempt() {
    let mut job = queued_from(JobDraft { max_attempts: Some(2), ..draft() });
    for start in [-90, -40] {
        job = claimed(&job, at(start));
        job = after(&job, &Command::LeaseExpiry, at(start + 30));
    }
    assert_eq!(job.status(), Status::Poisoned);
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "LEASE_EXPIRED");
}

#[test]
fn lease_expiry_and_timeout_are_distinct() {
    let silent = claimed(&queued(), at(-1_000));
    let policy = Policy::default();
    assert_eq!(overdue(&silent, &policy, now()), Some(Command::LeaseExpiry));
    check(&silent, Command::Timeout, Err("NOT_DUE"));
    let mut slow = silent;
    for when in (-980..-100).step_by(20) {
        slow = after(&slow, &Command::Heartbeat { token: token(&slow), progress: None }, at(when));
    }
    assert_eq!(overdue(&slow, &policy, now()), Some(Command::Timeout));
    check(&slow, Command::LeaseExpiry, Err("NOT_DUE"));
    assert_eq!(change(&slow, &Command::Timeout).job.life.losses, 0, "a slow worker is not lost");
}

#[test]
fn a_release_gives_the_attempt_back_twenty_times() {
    let job = released_times(20);
    assert_eq!((job.life.attempt, job.life.releases), (1, 20));
    let counted = change(&job, &release(&job, ReleaseReason::Snoozed)).job;
    assert_eq!((counted.status(), counted.life.attempt), (Status::Queued, 1));
}

#[test]
fn the_release_that_counts_poisons_when_no_attempt_is_left() {
    let mut job = released_times(20);
    for _ in 0..2 {
        job = after(&job, &release(&job, ReleaseReason::Released), at(-9));
        job = claimed(&job, at(-9));
    }
    assert_eq!(job.life.attempt, 3);
    let done = change(&job, &release(&job, ReleaseReason::Released)).job;
    assert_eq!(done.status(), Status::Poisoned);
    assert_eq!(done.life.last_failure.unwrap().code.as_str(), "RELEASE_LIMIT");
}

#[test]
fn undelivered_claims_never_cost_an_attempt() {
    let mut job = running();
    for _ in 0..1_000 {
        job = after(&job, &release(&job, ReleaseReason::Undelivered), at(-9));
        assert_eq!((job.life.attempt, job.life.releases), (0, 0));
        assert_eq!(job.life.started_at, None, "it never started");
        job = claimed(&job, at(-9));
    }
    let back = after(&job, &release(&job, ReleaseReason::Undelivered), now());
    assert_eq!(back.run_at(), Some(at(-2_000)), "it keeps its place in the line");
}

#[test]
fn a_job_that_is_never_started_waits_longer_each_time_and_ends() {
    let (mut job, mut when, mut rounds) = (running(), now(), 0);
    let mut waits = Vec::new();
    while job.status() == Status::Running {
        let back = after(&job, &release(&job, ReleaseReason::NotStarted), when);
        rounds += 1;
        if rounds <= NOT_STARTED_MAX {
            assert_eq!((back.life.attempt, back.life.releases), (0, 0), "round {rounds}");
            assert_eq!(back.life.started_at, None, "no worker started it");
            waits.push(back.run_at().unwrap().since(when).as_secs());
        }
        job = back;
        if let Some(run_at) = job.run_at() {
            when = run_at;
            job = claimed(&job, when);
        }
    }
    assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 64, 64]);
    // Then as for any release: 20 at no cost, and one for each of its three attempts.
    assert_eq!(rounds, NOT_STARTED_MAX + u64::from(RELEASES_MAX) + 3);
    assert_eq!(job.status(), Status::Poisoned);
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "RELEASE_LIMIT");
    assert!(job.seq < 300, "its history is bounded: {}", job.seq);
}

#[test]
fn an_attempt_with_a_heartbeat_was_started() {
    let started = claimed(&queued(), at(-9));
    let report = ProgressReport::check(10, None).unwrap();
    for (progress, when) in [(Some(report), at(-9)), (None, at(-5))] {
        let alive = Command::Heartbeat { token: token(&started), progress };
        let job = after(&started, &alive, when);
        let back = after(&job, &release(&job, ReleaseReason::NotStarted), now());
        assert_eq!((back.life.attempt, back.life.releases), (0, 1));
    }
}

#[test]
fn a_release_after_a_cancel_request_cancels() {
    let job = after(&running(), &Command::Cancel, at(-9));
    check(&job, release(&job, ReleaseReason::Released), Ok(Status::Cancelled));
}

#[test]
fn a_cancel_is_at_once_or_requested_or_too_late() {
    check(&queued(), Command::Cancel, Ok(Status::Cancelled));
    assert!(change(&queued(), &Command::Cancel).job.life.cancel_requested);
    let cancelling = change(&running(), &Command::Cancel);
    assert!(cancelling.job.life.cancel_requested && cancelling.job.status() == Status::Running);
    let lease = decide(
        &cancelling.job,
        &Command::Heartbeat { token: token(&cancelling.job), progress: None },
        &facts(&Policy::default(), now()),
    );
    assert!(matches!(lease.unwrap().answer, Answer::LeaseState(LeaseState::CancelRequested(_))));
    check(&ended(completed()), Command::Cancel, Err("ALREADY_ENDED"));
}

#[test]
fn a_redrive_is_a_new_life() {
    let job = ended(poisoned());
    let command = Command::Redrive { max_attempts: Some(7), reset_steps: true, payload: None };
    let change = change(&job, &command);
    let life = &change.job.life;
    assert_eq!((life.attempt, life.redrive_count, life.started_at), (0, 1, None));
    assert_eq!((change.job.id(), change.job.seq), (job.id(), job.seq + 1));
    assert_eq!((change.job.max_attempts, change.job.expires_at), (7, None));
    assert_eq!((change.event, change.steps), (Some(EventKind::Redriven), StepsChange::Cleared));
    assert!(change.job.fence == job.fence, "the fence goes on: it only grows");
    assert!(change.takes_key, "and its key is its own again, if no other job has it");
}

#[test]
fn a_redrive_may_correct_the_payload_and_the_key_still_means_the_first_one() {
    let job = ended(poisoned());
    let payload = check_payload("{\"to\":\"b\"}", PAYLOAD_BYTES_MAX).unwrap();
    let corrected = Some(payload.clone());
    let command = Command::Redrive { max_attempts: None, reset_steps: false, payload: corrected };
    let corrected = change(&job, &command);
    assert_eq!(corrected.payload, Some(payload));
    assert_eq!(corrected.job.envelope.key, job.envelope.key);
    assert_eq!(change(&job, &Command::redrive()).payload, None);
    let large = check_payload(&" ".repeat(PAYLOAD_BYTES_MAX + 1), PAYLOAD_BYTES_MAX);
    assert_eq!(large.unwrap_err().code(), "PAYLOAD_TOO_LARGE");
    for bad in ["{", "\"\\u0000\"", &"[".repeat(99)] {
        assert_eq!(check_payload(bad, PAYLOAD_BYTES_MAX).unwrap_err().code(), "INVALID_FIELD");
    }
}

#[test]
fn a_discarded_job_leaves_the_poison_queue_and_may_be_purged_later() {
    let job = ended(poisoned());
    let policy = Policy::default();
    let in_a_year = at(366 * 86_400);
    assert_eq!(overdue(&job, &policy, in_a_year), None, "a person has to look at it first");
    let discarded = change(&job, &Command::Discard).job;
    assert_eq!(discarded.ended().unwrap().discarded_at, Some(now()));
    assert_eq!(overdue(&discarded, &policy, in_a_year), Some(Command::Purge));
}

#[test]
fn job_times_do_not_go_back_when_the_clock_does() {
    let job = running();
    let policy = Policy::default();
    let early = facts(&policy, at(-500));
    let decision = decide(&job, &settle(&job, completed()), &early).unwrap();
    let Effect::Change(change) = decision.effect else { panic!("it completes") };
    assert_eq!(change.entry.unwrap().at, at(-10), "not before the claim");
}

#[test]
fn a_job_that_waits_for_its_children_spends_nothing_and_is_not_claimed() {
    let (waiting, policy) = (awaiting_children(), Policy::default());
    assert!(waiting.awaits_children() && waiting.status() == Status::Queued);
    let life = &waiting.life;
    assert_eq!((life.attempt, life.releases, life.losses), (0, 0, 0));
    let refused = engine::claim(&waiting, &by_w1(), &facts(&policy, at(99_999))).unwrap_err();
    assert_eq!(refused, Refusal::NotDue);
    let with_child = Facts { has_live_children: true, ..facts(&policy, now()) };
    assert!(decide(&waiting, &Command::ChildrenEnded, &with_child).is_err(), "one is live");
    let resumed = change(&waiting, &Command::ChildrenEnded);
    assert_eq!((resumed.job.run_at(), resumed.event), (Some(now()), None), "due at once");
    assert!(resumed.job.version > waiting.version, "a watcher of the status sees it");
    let again = decide(&resumed.job, &Command::ChildrenEnded, &facts(&policy, now()));
    assert_eq!(again.unwrap_err(), Refusal::NotDue, "once is enough");
    check(&waiting, Command::Cancel, Ok(Status::Cancelled));
}

#[test]
fn a_wait_without_a_live_child_is_a_release_like_any_other() {
    let job = running();
    let released = change(&job, &release(&job, ReleaseReason::AwaitsChildren)).job;
    assert_eq!((released.run_at(), released.life.releases), (Some(now()), 1), "so it is bounded");
    let cancelling = after(&job, &Command::Cancel, at(-1));
    let policy = Policy::default();
    let facts = Facts { has_live_children: true, ..facts(&policy, now()) };
    let command = release(&cancelling, ReleaseReason::AwaitsChildren);
    let Effect::Change(change) = decide(&cancelling, &command, &facts).unwrap().effect else {
        panic!("a release changes the job")
    };
    assert_eq!(change.job.status(), Status::Cancelled);
}

#[test]
fn an_ended_job_names_its_parent_to_whom_it_may_matter() {
    let parent = JobId::new(at(-3_000), Entropy(5));
    let child = queued_from(JobDraft { parent_id: Some(parent.to_string()), ..draft() });
    let running = claimed(&child, at(-10));
    let policy = Policy::default();
    let answer =
        |command: &Command| decide(&running, command, &facts(&policy, now())).unwrap().answer;
    assert_eq!(answer(&settle(&running, completed())).parent_of_ended(), Some(parent));
    assert_eq!(answer(&settle(&running, failed())).parent_of_ended(), None, "it is tried again");
    let cancelled = decide(&child, &Command::Cancel, &facts(&policy, now())).unwrap().answer;
    assert_eq!(cancelled.parent_of_ended(), Some(parent));
}
