//! Who may pass: what a caller shows, and whether it is believed.
//!
//! Nothing here knows HTTP. A text comes in, a principal or a refusal goes out; what a principal may do is the
//! engine's business.

pub(crate) mod jwt;
pub(crate) mod rate;
pub(crate) mod signed;
