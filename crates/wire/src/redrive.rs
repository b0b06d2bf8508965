//! Redrive: an ended job gets another life.

use engine::{Command, Refusal, check_max_attempts};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the new life differs; an empty body changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct RedriveRequest {
    pub reset_steps: Option<bool>,
    pub max_attempts: Option<i64>,
}

impl RedriveRequest {
    /// The command, after a check of its field.
    pub fn check(&self) -> Result<Command, Refusal> {
        let max_attempts = self.max_attempts.map(check_max_attempts).transpose()?;
        Ok(Command::Redrive { max_attempts, reset_steps: self.reset_steps.unwrap_or(false) })
    }
}
