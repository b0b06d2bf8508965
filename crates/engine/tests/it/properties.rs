//! What must hold for any sequence of commands.

use crate::situation::*;
use engine::*;
use proptest::prelude::*;
use std::time::Duration;

/// A command whose token may be right, stale or nonsense.
#[derive(Clone, Debug)]
struct Move {
    kind: u8,
    token_age: u64,
    wait_ms: u64,
    entropy: u128,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = (0..16u8, 0..3u64, 0..120_000u64, any::<u128>());
    let one = one.prop_map(|(kind, token_age, wait_ms, entropy)| Move {
        kind,
        token_age,
        wait_ms,
        entropy,
    });
    prop::collection::vec(one, 1..80)
}

/// The decision of a move, and whether the move was a redrive.
fn decided(step: &Move, job: &Job, facts: &Facts<'_>) -> (Decision, bool) {
    if step.kind < 4 {
        return (engine::claim(job, &by_w1(), facts), false);
    }
    let command = command(step, job);
    let redriven = matches!(command, Command::Redrive { .. });
    (decide(job, &command, facts), redriven)
}

fn command(step: &Move, job: &Job) -> Command {
    let mut token = token(job);
    token.fence = token.fence.saturating_sub(step.token_age);
    let ending = |draft: EndingDraft| Command::Settle { token, ending: draft.check().unwrap() };
    match step.kind {
        0..=4 => ending(completed()),
        5 | 6 => ending(failed()),
        7 => ending(failed_for_good()),
        8 => ending(poisoned()),
        9 => Command::Release { token, reason: ReleaseReason::Snoozed, delay: Duration::ZERO },
        10 => Command::Heartbeat { token, progress: None },
        11 => Command::Cancel,
        12 => Command::LeaseExpiry,
        13 => Command::Timeout,
        14 => Command::redrive(),
        _ => Command::Expire,
    }
}

proptest! {
    #[test]
    fn any_sequence_keeps_the_promises(steps in moves()) {
        let policy = Policy::default();
        let mut job = queued();
        let mut now = at(-100);
        let mut endings = 0;
        for step in steps {
            now = now + Duration::from_millis(step.wait_ms);
            let facts = Facts { entropy: Entropy(step.entropy), ..facts(&policy, now) };
            let (decision, redriven) = decided(&step, &job, &facts);
            let Ok(Decided { effect: Effect::Change(change), .. }) = decision else {
                continue;
            };
            let after = &change.job;
            prop_assert!(after.life.attempt <= after.max_attempts, "attempts within their limit");
            prop_assert!(after.fence >= job.fence && after.version >= job.version);
            prop_assert_eq!(after.seq, job.seq + u64::from(change.entry.is_some()));
            if let Some(entry) = &change.entry {
                prop_assert_eq!(entry.seq, after.seq);
                prop_assert_eq!(entry.from, Some(job.status()));
                prop_assert_eq!(entry.to, after.status());
            }
            if job.status().is_ended() && !redriven {
                prop_assert_eq!(job.status(), after.status(), "only a redrive reopens");
            }
            endings = if redriven { 0 } else { endings };
            endings += u32::from(!job.status().is_ended() && after.status().is_ended());
            prop_assert!(endings <= 1, "one outcome per life");
            prop_assert!(!(job.life.cancel_requested && after.run_at().is_some() && !redriven));
            job = change.job;
        }
    }

    #[test]
    fn a_wait_is_never_longer_than_its_ceiling(attempt in 0u32..200, entropy in any::<u128>()) {
        let policy = Policy::default();
        let wait = policy.delay_after(attempt, Entropy(entropy));
        prop_assert!(wait <= policy.backoff.ceiling(attempt) && wait <= policy.backoff.max);
    }
}
