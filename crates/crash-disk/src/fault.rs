//! Operations that will fail.

use crate::Code;
use std::ffi::c_int;

/// One operation of a live disk that will fail, once.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Which kind of operation fails.
    pub op: FaultyOp,
    /// Which one fails, counted from now: 1 is the next.
    pub nth: usize,
    /// The result code for SQLite, for example `rusqlite::ffi::SQLITE_IOERR_FSYNC`.
    pub code: c_int,
}

/// The kinds of operations that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyOp {
    /// A read: nothing is read.
    Read,
    /// A write: nothing is written.
    Write,
    /// A truncation: the size stays as it is.
    Truncate,
    /// A sync: data written since the file's last sync stays uncertain for ever, and a later sync
    /// does not help. Linux behaves like this, and a program that only retries the sync loses its
    /// data.
    Sync,
}

/// The faults that have not happened yet.
#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        assert!(fault.nth > 0, "faults are counted from 1");
        self.0.push(fault);
    }

    /// Counts an operation, and lets it fail if a fault is due.
    pub(crate) fn count_op(&mut self, op: FaultyOp) -> Result<(), Code> {
        for fault in self.0.iter_mut().filter(|fault| fault.op == op) {
            fault.nth = fault.nth.saturating_sub(1);
        }
        // Of two faults that are due together, the second waits for the next operation.
        match self.0.iter().position(|fault| fault.op == op && fault.nth == 0) {
            Some(due) => Err(Code(self.0.remove(due).code)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_comes_up_once_at_its_own_kind_of_operation() {
        let mut faults = Faults::default();
        for (op, nth, code) in
            [(FaultyOp::Sync, 2, 7), (FaultyOp::Write, 1, 8), (FaultyOp::Write, 1, 9)]
        {
            faults.add(Fault { op, nth, code });
        }
        let mut count_op = |op| faults.count_op(op).map_or_else(|Code(code)| code, |()| 0);
        assert_eq!([(); 3].map(|()| count_op(FaultyOp::Sync)), [0, 7, 0]);
        assert_eq!([(); 3].map(|()| count_op(FaultyOp::Write)), [8, 9, 0]);
        assert_eq!(count_op(FaultyOp::Read), 0);
    }
}
