//! What a database says about itself.
use super::finding::Finding;
use crate::args::DoctorArgs;
use engine::Timestamp;
use store::PostgresAddress;

pub(super) fn look(_a: &PostgresAddress, _args: &DoctorArgs, _now: Timestamp) -> Vec<Finding> {
    Vec::new()
}
