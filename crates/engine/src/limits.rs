//! How much one call may ask for.

/// More items than this are not taken in one call: jobs, leases, reports.
pub const ITEMS_MAX: usize = 1_000;
/// More jobs than this are not given to one claim.
pub const CLAIM_MAX: usize = 1_000;
/// A claim takes no further job once its payloads have this many bytes: a thousand of the largest would
/// not fit into anybody's memory.
pub const CLAIM_BYTES_MAX: usize = 8 * 1024 * 1024;
/// More job types than this are not claimed at once.
pub const CLAIM_TYPES_MAX: usize = 100;
