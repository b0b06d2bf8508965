//! The right to run a job for a while.

use crate::{
    field::{Checked, FieldProblem},
    text::{ClaimId, Scope, WorkerId},
    time::Timestamp,
};
use std::{fmt, time::Duration};

/// Proof of one claim. Each claim of a job makes a new one, and only the newest is believed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseToken {
    /// Raised when a store is restored from a backup, so that no older lease becomes valid again.
    pub epoch: u32,
    /// Counts the claims of the job; it only grows.
    pub fence: u64,
    /// What nobody can guess.
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
        // One token has one spelling: no signs, no leading zeros, no capitals.
        (token.to_string() == text).then_some(token)
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:032x}", self.epoch, self.fence, self.secret)
    }
}

/// Tokens are secrets between us and one worker: logs show only which claim it was.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseToken({}-{})", self.epoch, self.fence)
    }
}

/// Who runs a job, and until when nobody else may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What the worker must show with every report.
    pub token: LeaseToken,
    /// Whose jobs its holder may take: with the name, who it is.
    pub scope: Scope,
    /// Who holds it.
    pub worker: WorkerId,
    /// The claim that made it.
    pub claim: ClaimId,
    /// When the job was due before it was claimed: its place in the line, should nobody learn of the
    /// claim.
    pub due_at: Timestamp,
    /// When this attempt started.
    pub started_at: Timestamp,
    /// When it lapses unless the worker sends a sign of life.
    pub expires_at: Timestamp,
    /// When the attempt has taken too long; no heartbeat reaches beyond it.
    pub deadline: Timestamp,
    /// How far one heartbeat reaches.
    pub length: Duration,
}

impl Lease {
    /// The expiry after a sign of life at `now`: never earlier than before, never past the deadline.
    pub(crate) fn extended(&self, now: Timestamp) -> Timestamp {
        self.expires_at.max(now + self.length).min(self.deadline)
    }

    /// Whether it was made since the store was last restored.
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
