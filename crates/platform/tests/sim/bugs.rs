//! Seeded bugs, each of which the auditor must find. A test that cannot fail proves nothing: these
//! show that the simulation can.

use crate::{
    backend::StoreKind,
    mistakes::Mistake,
    run::{run_seed, shrink},
    steps,
};
use std::io::{self, Write};

/// Runs simulations with this mistake until the auditor finds it.
#[track_caller]
fn must_find(mistake: Mistake) {
    const SEEDS_MAX: u64 = 300;
    let store_kind = StoreKind::Mistaken(mistake);
    let failure = (0..SEEDS_MAX)
        .find_map(|seed| run_seed(store_kind, seed, &steps(store_kind), &mut None).err());
    let failure = failure.map(|failure| (failure.seed + 1, shrink(failure)));
    let Some((seeds, failure)) = failure else {
        panic!("{mistake:?} was not found in {SEEDS_MAX} seeds");
    };
    let (violation, steps) = (&failure.violation, failure.steps.len());
    // Written past the test runner's capture: how soon each is found is worth seeing in every run.
    let written = writeln!(
        io::stderr(),
        "{mistake:?}: seeds until found: {seeds}, steps needed: {steps}; {} is broken: {}",
        violation.invariant,
        violation.what
    );
    written.expect("it prints");
    if let Err(failure) = run_seed(StoreKind::Memory, failure.seed, &failure.steps, &mut None) {
        panic!("this simulation fails even without {mistake:?}:\n{}", failure.report());
    }
}

macro_rules! found {
    ($($name:ident: $mistake:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            must_find(Mistake::$mistake);
        })+
    };
}

found! {
    a_completion_without_fence_is_found: CompleteWithoutFence,
    a_sweep_without_state_guard_is_found: SweepWithoutGuard,
    an_ack_before_the_commit_is_found: AckBeforeCommit,
    an_outcome_outside_the_transaction_is_found: OutcomeOutsideTransaction,
    a_key_checked_before_the_transaction_is_found: CheckThenInsertKey,
    attempts_counted_on_failure_only_are_found: AttemptsCountedOnFailure,
    a_worker_s_clock_is_found: WorkersClock,
    a_commit_error_taken_for_no_is_found: CommitErrorTakenForNo,
    a_tenant_of_an_item_s_own_is_found: ItemTenantTrusted,
    a_settle_that_is_not_remembered_is_found: SettleNotRemembered,
    a_forgotten_cancel_is_found: CancelForgotten,
    unbounded_releases_are_found: ReleasesUnbounded,
    a_claim_that_is_not_remembered_is_found: ClaimNotRemembered,
    queues_that_are_not_taken_in_turn_are_found: QueuesNotTakenInTurn,
    a_start_before_its_time_is_found: DueTimeIgnored,
    a_heartbeat_that_shortens_is_found: HeartbeatShortens,
    a_redrive_that_keeps_attempts_is_found: RedriveKeepsAttempts,
    losses_that_are_not_counted_are_found: LossesNotCounted,
    a_step_without_fence_is_found: StepWithoutFence,
    who_comes_last_and_is_served_first_is_found: LastComeFirstServed,
}
