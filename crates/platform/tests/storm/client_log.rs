//! The answers that callers got. The audit compares the store with nothing else.

use engine::{JobId, LeaseToken, Status};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard},
};

/// A client log that many callers write.
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
    /// Broken invariants that callers noticed themselves.
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
    pub(crate) fn lock(&self) -> MutexGuard<'_, ClientLog> {
        self.0.lock().expect("no thread panics while it holds the log")
    }

    pub(crate) fn acknowledged(&self, name: u64, id: JobId) {
        let mut log = self.lock();
        let first = *log.acknowledged.entry(name).or_insert(id);
        if first != id {
            log.broken.push(format!("I11: job {name} was {first} and is {id}"));
        }
    }

    pub(crate) fn leased(&self, token: LeaseToken, lease: KnownLease) {
        let mut log = self.lock();
        let first = log.leases.entry(token).or_insert_with(|| lease.clone());
        first.until_ms = first.until_ms.max(lease.until_ms);
        if (first.job, &first.worker) != (lease.job, &lease.worker) {
            let text = format!("I6: {token:?} of {} was given to another worker, too", lease.job);
            log.broken.push(text);
        }
    }

    /// A heartbeat was answered with a later end.
    pub(crate) fn extended(&self, token: LeaseToken, until_ms: i64) {
        let mut log = self.lock();
        let lease =
            log.leases.get_mut(&token).expect("only the holder of a lease sends heartbeats");
        lease.until_ms = lease.until_ms.max(until_ms);
    }

    /// A report was answered: with a status, or with the code of a refusal.
    pub(crate) fn settled(&self, token: LeaseToken, result: &str) {
        let mut log = self.lock();
        match result.strip_prefix('!') {
            None => {
                let status = Status::from_name(result).expect("a status");
                let first = *log.settled.entry(token).or_insert(status);
                if first != status {
                    let text = format!("I7: {token:?} was answered {first}, then {status}");
                    log.broken.push(text);
                }
            }
            Some("LEASE_LOST") => {
                log.lost.insert(token);
            }
            Some(code) => log.broken.push(format!("I7: {token:?} was refused as {code}")),
        }
    }

    pub(crate) fn broken(&self, what: String) {
        self.lock().broken.push(what);
    }

    pub(crate) fn repeated(&self, times: u64) {
        self.lock().repeats += times;
    }
}
