//! The answers that callers got: all that the audit may hold against the process.

use engine::{JobId, LeaseToken, Status};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard},
};

/// A ledger that many callers write.
#[derive(Default)]
pub(crate) struct SharedClientLog(Mutex<ClientLog>);

#[derive(Clone, Default)]
pub(crate) struct ClientLog {
    /// The job that each name was acknowledged as.
    pub(crate) acknowledged: BTreeMap<u64, JobId>,
    /// Names with an unknown outcome: they may have become jobs.
    pub(crate) unknown: BTreeSet<u64>,
    /// Names whose answer said that nothing was done.
    pub(crate) refused: BTreeSet<u64>,
    /// Every lease that a worker received.
    pub(crate) leases: BTreeMap<LeaseToken, KnownLease>,
    /// The status of a job after a report.
    pub(crate) settled: BTreeMap<LeaseToken, Status>,
    /// Leases whose worker learned that they are lost.
    pub(crate) lost: BTreeSet<LeaseToken>,
    /// Broken promises that callers saw on the way.
    pub(crate) broken: Vec<String>,
    /// Calls that had to be repeated.
    pub(crate) repeats: u64,
}

/// A lease as its worker knows it.
#[derive(Clone)]
pub(crate) struct KnownLease {
    pub(crate) job: JobId,
    pub(crate) worker: String,
    /// Until when no other worker gets the job, by the store's clock.
    pub(crate) until_ms: i64,
}

impl SharedClientLog {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, ClientLog> {
        self.0.lock().expect("no thread panics while it holds the log")
    }

    pub(crate) fn acknowledged(&self, name: u64, id: JobId) {
        let mut ledger = self.ledger();
        let first = *ledger.acknowledged.entry(name).or_insert(id);
        if first != id {
            ledger.broken.push(format!("I11: job {name} was {first} and is {id}"));
        }
    }

    pub(crate) fn leased(&self, token: LeaseToken, given: KnownLease) {
        let mut ledger = self.ledger();
        let first = ledger.leases.entry(token).or_insert_with(|| given.clone());
        first.until_ms = first.until_ms.max(given.until_ms);
        if (first.job, &first.worker) != (given.job, &given.worker) {
            let text = format!("I6: {token:?} of {} was given to another, too", given.job);
            ledger.broken.push(text);
        }
    }

    /// A heartbeat was answered with a later end.
    pub(crate) fn extended(&self, token: LeaseToken, until_ms: i64) {
        let mut ledger = self.ledger();
        let given = ledger.leases.get_mut(&token).expect("only who has a lease beats");
        given.until_ms = given.until_ms.max(until_ms);
    }

    /// A report was answered: with a status, or with the code of a refusal.
    pub(crate) fn settled(&self, token: LeaseToken, verdict: &str) {
        let mut ledger = self.ledger();
        match verdict.strip_prefix('!') {
            None => {
                let status = Status::from_name(verdict).expect("a status");
                let first = *ledger.settled.entry(token).or_insert(status);
                if first != status {
                    let text = format!("I7: {token:?} was answered {first}, then {status}");
                    ledger.broken.push(text);
                }
            }
            Some("LEASE_LOST") => {
                ledger.lost.insert(token);
            }
            Some(code) => ledger.broken.push(format!("I7: {token:?} was refused as {code}")),
        }
    }

    pub(crate) fn broken(&self, what: String) {
        self.ledger().broken.push(what);
    }

    pub(crate) fn repeated(&self, times: u64) {
        self.ledger().repeats += times;
    }
}
