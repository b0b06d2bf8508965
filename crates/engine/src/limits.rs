//! How much one request may ask for.

/// The most items in one request: jobs, leases, reports.
pub const ITEMS_MAX: usize = 1_000;
/// The most jobs that one claim gets.
pub const CLAIM_MAX: usize = 1_000;
/// A claim takes no further job once its payloads have this many bytes: a thousand of the largest
/// would not fit into the memory of a worker or server.
pub const CLAIM_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The most job types in one claim.
pub const CLAIM_TYPES_MAX: usize = 100;
