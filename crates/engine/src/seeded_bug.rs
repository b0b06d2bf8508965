//! Deliberate mistakes, to prove that the tests would notice them.
//!
//! Behind the feature `seeded-bugs`, which only tests switch on; without it [`planted`] is a
//! constant `false` and the compiler removes every trace. A bug is planted for one thread, so that
//! tests can run side by side.

/// The mistakes that can be planted. Each one has been made by real systems of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeededBug {
    /// A settle is believed whatever its token.
    CompleteWithoutFence,
    /// The sweeper writes over what it finds, ended jobs included.
    SweepWithoutGuard,
    /// The caller is answered although the commit failed.
    AckBeforeCommit,
    /// Outcomes are announced after the transaction, and lost when the process dies between.
    OutcomeOutsideTransaction,
    /// Whether a key is free is asked before the transaction, not in it.
    CheckThenInsertKey,
    /// Attempts are counted when they fail, so that a lost worker costs nothing.
    AttemptsCountedOnFailure,
    /// Time is what the caller's machine believes.
    WorkersClock,
    /// A restored store accepts the leases of before.
    EpochNotRaised,
    /// An unknown outcome is reported as "nothing happened".
    CommitErrorTakenForNo,
    /// An item may say whose job it is: here its subject, where that is a tenant's name.
    ItemTenantTrusted,
    /// The sweeper takes everything that is overdue at once.
    SweepWithoutPaging,
    /// A settled attempt leaves no record, so its repeat is a lost lease.
    SettleNotRemembered,
    /// A failed attempt is retried although a cancel was requested.
    CancelForgotten,
    /// An attempt is given back however often it was before.
    ReleasesUnbounded,
    /// A repeated claim id claims again.
    ClaimNotRemembered,
    /// Claims always begin with the same queue.
    QueuesNotTakenInTurn,
    /// A job may start before its time.
    DueTimeIgnored,
    /// A heartbeat may shorten a lease.
    HeartbeatShortens,
    /// A redrive forgets to start a new life.
    RedriveKeepsAttempts,
    /// Lost workers are never counted.
    LossesNotCounted,
    /// A step is finished whatever the token.
    StepWithoutFence,
    /// Within a priority, who came last is served first.
    LastComeFirstServed,
    /// A commit is not synced before it is answered.
    NormalSync,
}

impl SeededBug {
    /// All of them.
    pub const ALL: [SeededBug; 23] = [
        SeededBug::CompleteWithoutFence,
        SeededBug::SweepWithoutGuard,
        SeededBug::AckBeforeCommit,
        SeededBug::OutcomeOutsideTransaction,
        SeededBug::CheckThenInsertKey,
        SeededBug::AttemptsCountedOnFailure,
        SeededBug::WorkersClock,
        SeededBug::EpochNotRaised,
        SeededBug::CommitErrorTakenForNo,
        SeededBug::ItemTenantTrusted,
        SeededBug::SweepWithoutPaging,
        SeededBug::SettleNotRemembered,
        SeededBug::CancelForgotten,
        SeededBug::ReleasesUnbounded,
        SeededBug::ClaimNotRemembered,
        SeededBug::QueuesNotTakenInTurn,
        SeededBug::DueTimeIgnored,
        SeededBug::HeartbeatShortens,
        SeededBug::RedriveKeepsAttempts,
        SeededBug::LossesNotCounted,
        SeededBug::StepWithoutFence,
        SeededBug::LastComeFirstServed,
        SeededBug::NormalSync,
    ];
}

#[cfg(feature = "seeded-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<SeededBug>> = const { std::cell::Cell::new(None) };
}

/// Whether `bug` is planted in this thread.
#[cfg(feature = "seeded-bugs")]
pub fn planted(bug: SeededBug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether `bug` is planted in this thread: never, in this build.
#[cfg(not(feature = "seeded-bugs"))]
pub const fn planted(_: SeededBug) -> bool {
    false
}

/// Plants `bug` in this thread, or removes what was planted.
#[cfg(feature = "seeded-bugs")]
pub fn plant(bug: Option<SeededBug>) {
    PLANTED.set(bug);
}
