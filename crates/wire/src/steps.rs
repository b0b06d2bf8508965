//! Steps: a handler begins and finishes a part of its job that completes once.

use crate::{json::Json, lease_reference::lease_reference, secret::Secret};
use engine::{
    Checked, FieldProblem, Findings, JsonText, Refusal, StepAnswer, StepName, StepReport,
    check_step_result,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A handler begins or finishes a step.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct StepRequest {
    #[schema(required)]
    pub job_id: String,
    #[schema(required)]
    pub token: Secret,
    #[schema(required)]
    pub name: String,
    #[schema(required)]
    pub action: String,
    pub result: Option<Json>,
}

/// The state of the step.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepAnswer)]
pub struct StepStatus {
    /// The contract's name for the state.
    pub state: StepStateName,
    /// The result, once the step is done.
    pub result: Option<Json>,
}

/// The contract's names for the states of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the variants are the contract's own words")]
#[schema(as = StepState)]
pub enum StepStateName {
    New,
    Unfinished,
    Done,
}

impl StepRequest {
    /// Checks every field and names all that are wrong.
    pub fn check(&self) -> Result<StepReport, Refusal> {
        let mut findings = Findings::default();
        let reference = lease_reference(&self.job_id, &self.token, &mut findings);
        let name = findings.keep(StepName::parse(&self.name));
        let result = findings.keep(self.checked_result());
        let (Some((id, token)), Some(name), Some(result)) = (reference, name, result) else {
            return Err(findings.refusal());
        };
        Ok(StepReport { id, token, name, result })
    }

    /// The result of a finished step; none where the request begins it.
    fn checked_result(&self) -> Checked<Option<JsonText>> {
        match self.action.as_str() {
            "begin" => Ok(None),
            "finish" => {
                let result = self.result.as_ref().map_or("null", Json::as_str);
                check_step_result(result).map(Some)
            }
            _ => Err(FieldProblem::new("action", "must be begin or finish")),
        }
    }
}

impl From<&StepAnswer> for StepStatus {
    fn from(answer: &StepAnswer) -> Self {
        match answer {
            StepAnswer::New => StepStatus { state: StepStateName::New, result: None },
            StepAnswer::Unfinished => StepStatus { state: StepStateName::Unfinished, result: None },
            StepAnswer::Done(result) => {
                StepStatus { state: StepStateName::Done, result: Some(Json::from(result)) }
            }
        }
    }
}
