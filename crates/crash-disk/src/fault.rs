//! Operations that are going to fail.

use crate::Code;
use std::ffi::c_int;

/// One operation of a live disk that will fail, once.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What fails.
    pub op: FaultyOp,
    /// Which one fails, counted from now: 1 is the next.
    pub nth: usize,
    /// What SQLite is told, for example `rusqlite::ffi::SQLITE_IOERR_FSYNC`.
    pub code: c_int,
}

/// The operations that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyOp {
    /// Nothing is read.
    Read,
    /// Nothing is written.
    Write,
    /// The size stays as it is.
    Truncate,
    /// What was written to the file since its last sync stays uncertain for ever: a later sync
    /// does not help it. Linux does this, and a program that only asks again loses its data.
    Sync,
}

/// The faults that have not come up yet.
#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        assert!(fault.nth > 0, "faults are counted from 1");
        self.0.push(fault);
    }

    /// Counts an operation, and says no to it if its time has come.
    pub(crate) fn meet(&mut self, op: FaultyOp) -> Result<(), Code> {
        for fault in self.0.iter_mut().filter(|fault| fault.op == op) {
            fault.nth = fault.nth.saturating_sub(1);
        }
        // Of two that are due together, the second has to wait for the next operation.
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
        let mut meet = |op| faults.meet(op).map_or_else(|Code(code)| code, |()| 0);
        assert_eq!([(); 3].map(|()| meet(FaultyOp::Sync)), [0, 7, 0]);
        assert_eq!([(); 3].map(|()| meet(FaultyOp::Write)), [8, 9, 0]);
        assert_eq!(meet(FaultyOp::Read), 0);
    }
}
