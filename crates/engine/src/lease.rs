//! The right to run a job for some time.

use crate::{
    field::{Checked, FieldProblem},
    text::{ClaimId, Scope, WorkerId},
    time::Timestamp,
};
use std::{fmt, time::Duration};

/// Proof of one claim. Each claim of a job makes a new token, and only the newest is accepted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseToken {
    /// Raised when a store is restored from a backup, so that no older lease becomes valid again.
    pub epoch: u32,
    /// Counts the claims of the job; it only grows.
    pub fence: u64,
    /// Random bits, so that no token can be guessed.
    pub secret: u128,
}

impl LeaseToken {
    /// Reads the form that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Checked<Self> {
        let detail = match text {
            "" => "is missing; it is the token of the lease that a claim gave you",
            _ => "is not a lease token of ours",
        };
        Self::read(text).ok_or_else(|| FieldProblem::new("token", detail))
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (epoch, fence, secret) = (parts.next()?, parts.next()?, parts.next()?);
        let token = LeaseToken {
            epoch: epoch.parse().ok()?,
            fence: fence.parse().ok()?,
            secret: u128::from_str_radix(secret, 16).ok()?,
        };
        // A token has one spelling: no signs, no leading zeros, no capitals.
        (token.to_string() == text).then_some(token)
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:032x}", self.epoch, self.fence, self.secret)
    }
}

/// Tokens are secrets between the server and one worker: logs show only the claim.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseToken({}-{})", self.epoch, self.fence)
    }
}

/// The worker that runs a job, and until when no other may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The token that the worker shows with every report.
    pub token: LeaseToken,
    /// The tenants whose jobs the holder may take. Scope and name together identify the holder.
    pub scope: Scope,
    /// The worker that holds the lease.
    pub worker: WorkerId,
    /// The claim that made the lease.
    pub claim: ClaimId,
    /// When the job was due before the claim. If the worker never receives the claim, the job
    /// returns to this position in the queue.
    pub due_at: Timestamp,
    /// When this attempt started.
    pub started_at: Timestamp,
    /// When the lease runs out unless the worker sends a heartbeat.
    pub expires_at: Timestamp,
    /// When the attempt reaches its timeout. No heartbeat extends the lease beyond it.
    pub deadline: Timestamp,
    /// How far one heartbeat extends the lease.
    pub length: Duration,
}

impl Lease {
    /// The expiry after a heartbeat at `now`: never earlier than before, never past the deadline.
    pub(crate) fn extended(&self, now: Timestamp) -> Timestamp {
        self.expires_at.max(now + self.length).min(self.deadline)
    }

    /// Whether the lease was made since the store was last restored.
    pub fn holds_in(&self, epoch: u32) -> bool {
        self.token.epoch == epoch
    }

    pub(crate) fn shifted(&self, by: Duration) -> Lease {
        Lease { expires_at: self.expires_at + by, deadline: self.deadline + by, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_spelling() {
        let token = LeaseToken { epoch: 1, fence: 7, secret: 0xabc };
        assert_eq!(LeaseToken::parse(&token.to_string()), Ok(token));
        let hostile = [
            "",
            "-",
            "1-7-",
            "1-7-ABC",
            "1-7-abc",
            "+1-7-0",
            "1-7-0-0",
            "\0",
            "1-99999999999999999999-0",
        ];
        for bad in hostile {
            assert_eq!(LeaseToken::parse(bad).unwrap_err().field, "token", "{bad:?}");
        }
        assert!(!format!("{token:?}").contains("abc"), "the secret stays out of logs");
    }
}
