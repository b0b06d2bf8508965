//! `$filter`: OData's language of conditions, in the dialect of Azure tables.
//!
//! [`parse`] turns the text into a tree of comparisons between a name and a value, and knows
//! nothing about the filtered items; [`job_filter`] gives the tree its meaning for jobs. A filter
//! is untrusted, so its length, its nesting and the number of its comparisons are bounded, and it
//! is read once from left to right.

mod error;
mod jobs;
mod literal;
mod parse;
mod scan;
mod tree;

pub use error::FilterError;
pub use jobs::{JOB_FIELDS, job_filter, some_jobs};
pub use parse::parse;
pub use tree::{Condition, Literal, Spanned};

/// A filter has at most this many bytes.
pub const FILTER_BYTES_MAX: usize = 8 * 1024;
/// Parentheses and `not` nest at most this deep. It also bounds the stack that a filter can use.
pub const FILTER_DEPTH_MAX: usize = 32;
/// A filter has at most this many comparisons. Azure promises 15.
pub const FILTER_COMPARISONS_MAX: usize = 100;
