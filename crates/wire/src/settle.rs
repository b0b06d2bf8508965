//! Settle: a worker reports how its attempts ended.
//!
//! Each report is checked and answered alone: a refused one must not keep the others from being
//! stored.

use crate::{
    json::Json, lease_reference::lease_reference, list::at_most, page_item::PageItem,
    problem::Problem, secret::Secret,
};
use engine::{
    Checked, Ending, EndingDraft, FieldProblem, Findings, ITEMS_MAX, JobId, Outcome, Refusal,
    Report, Status, check_count,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A worker reports how its attempts ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub struct SettleRequest {
    /// One for each attempt.
    #[serde(deserialize_with = "at_most::<_, _, ITEMS_MAX>")]
    #[schema(value_type = Vec<SettleItem>)]
    pub items: Vec<PageItem<SettleItem>>,
}

/// How one attempt ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct SettleItem {
    #[schema(required)]
    pub job_id: String,
    #[schema(required)]
    pub token: Secret,
    #[schema(required)]
    pub outcome: String,
    pub retryable: Option<bool>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub retry_after_seconds: Option<i64>,
    pub message: Option<String>,
    pub result: Option<Json>,
    pub result_url: Option<String>,
}

/// What became of the jobs, in the order of the reports. The answer to a release has the same
/// shape.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SettleAnswer {
    /// One for each.
    pub items: Vec<SettledItem>,
}

/// What became of one job: its status, or why the report was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettledItem {
    /// The job.
    pub job_id: String,
    /// Its status after the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why the report was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

impl SettleRequest {
    /// Checks that there are not too many reports.
    pub fn check_count(&self) -> Result<(), Refusal> {
        Ok(check_count("items", self.items.len(), 0..=ITEMS_MAX)?)
    }
}

impl SettleItem {
    /// Checks one report and names every field that is wrong.
    pub fn check(&self) -> Result<Report, Refusal> {
        let mut findings = Findings::default();
        let reference = lease_reference(&self.job_id, &self.token, &mut findings);
        let ending = self.checked_ending(&mut findings);
        let (Some((id, token)), Some(ending)) = (reference, ending) else {
            return Err(findings.refusal());
        };
        Ok(Report { id, token, ending })
    }

    fn checked_ending(&self, findings: &mut Findings) -> Option<Ending> {
        let outcome = findings.keep(parse_outcome(&self.outcome))?;
        let draft = EndingDraft {
            outcome,
            retryable: self.retryable,
            error_code: self.error_code.clone(),
            error_message: self.error_message.clone(),
            retry_after_seconds: self.retry_after_seconds,
            message: self.message.clone(),
            result: self.result.as_ref().map(|result| result.as_str().to_owned()),
            result_url: self.result_url.clone(),
        };
        findings.keep_all(draft.check())
    }
}

fn parse_outcome(text: &str) -> Checked<Outcome> {
    Outcome::from_name(text).ok_or_else(|| {
        FieldProblem::new("outcome", "must be completed, failed, poisoned or cancelled")
    })
}

impl SettledItem {
    /// The report was taken.
    pub fn settled(job_id: JobId, status: Status) -> Self {
        let status = Some(status.to_string());
        SettledItem { job_id: job_id.to_string(), status, problem: None }
    }

    /// The report was refused; `job_id` is the id in the report.
    pub fn refused(job_id: &str, problem: Problem) -> Self {
        SettledItem { job_id: job_id.into(), status: None, problem: Some(problem) }
    }
}
