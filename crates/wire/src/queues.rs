//! Queues: how many jobs wait, and which workers could take them.

use crate::time::Rfc3339;
use engine::{FieldProblem, Findings, Pause, PauseReason, Refusal, Scope};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The queue of one job type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Queue)]
pub struct QueueStatus {
    /// The job type.
    pub job_type: String,
    /// Jobs that wait, due or not.
    pub queued: u64,
    /// Jobs that wait and could start now.
    pub due: u64,
    /// How long the oldest due job has waited; none where no job is due.
    pub oldest_age_seconds: Option<u64>,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Poisoned jobs, which wait for an operator.
    pub poisoned: u64,
    /// Whether it is paused; for several tenants, whether all their queues are.
    pub paused: bool,
    /// The pauses that stop it, at most 20; for several tenants, those of each.
    pub pauses: Vec<QueuePause>,
    /// Live workers that claim this type.
    pub live_workers: u64,
    /// Whether a job of the type has come, a live worker claims it, or it is declared. A pause of a
    /// type that is not known is probably a typing error.
    pub known: bool,
}

/// A pause: whose queue is stopped, who stopped it, why, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pause)]
pub struct QueuePause {
    /// The tenant, or `*` for all.
    pub tenant: String,
    /// The principal that paused it, as the audit log names it.
    pub by: Option<String>,
    /// The name of its key.
    pub by_name: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    pub at: Rfc3339,
}

/// A queue shows at most so many pauses.
pub const PAUSES_MAX: usize = 20;

impl From<&Pause> for QueuePause {
    fn from(pause: &Pause) -> Self {
        let note = &pause.note;
        QueuePause {
            tenant: pause.scope.as_str().into(),
            by: note.by.as_deref().map(Into::into),
            by_name: note.by_name.as_ref().map(ToString::to_string),
            reason: note.reason.as_ref().map(ToString::to_string),
            at: pause.at.into(),
        }
    }
}

/// Pauses the queue of a tenant, and says why.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct PauseRequest {
    pub tenant: Option<String>,
    pub reason: Option<String>,
}

/// Resumes the queue of a tenant.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct ResumeRequest {
    pub tenant: Option<String>,
}

impl PauseRequest {
    /// Checks every field and names all that are wrong. `caller` is the scope of the credential.
    pub fn check(&self, caller: &Scope) -> Result<(Scope, Option<PauseReason>), Refusal> {
        let mut findings = Findings::default();
        let scope = findings.keep(named_scope(caller, self.tenant.as_deref()));
        let reason = findings.keep_optional(self.reason.as_deref().map(PauseReason::parse));
        match scope {
            Some(scope) if findings.is_empty() => Ok((scope, reason)),
            Some(_) | None => Err(findings.refusal()),
        }
    }
}

/// The tenants of a request: the caller's own, or the one that a caller for `*` names.
pub fn named_scope(caller: &Scope, tenant: Option<&str>) -> Result<Scope, FieldProblem> {
    let Some(tenant) = tenant else { return Ok(caller.clone()) };
    let named = Scope::parse(tenant)?;
    if *caller == Scope::All || *caller == named {
        return Ok(named);
    }
    let detail =
        "must be the credential's own tenant, or left out: another needs a credential for *";
    Err(FieldProblem::new("tenant", detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Tenant;

    #[test]
    fn only_a_caller_for_all_tenants_may_name_another() {
        let acme = || Scope::One(Tenant::parse("acme").unwrap());
        assert_eq!(named_scope(&Scope::All, None), Ok(Scope::All));
        assert_eq!(named_scope(&Scope::All, Some("*")), Ok(Scope::All));
        assert_eq!(named_scope(&Scope::All, Some("acme")), Ok(acme()));
        assert_eq!(named_scope(&acme(), None), Ok(acme()));
        assert_eq!(named_scope(&acme(), Some("acme")), Ok(acme()));
        for (caller, tenant) in [(acme(), "*"), (acme(), "birch"), (Scope::All, "No Name")] {
            let problem = named_scope(&caller, Some(tenant)).unwrap_err();
            assert_eq!(problem.field, "tenant", "{tenant}");
        }
    }

    #[test]
    fn a_reason_is_bounded_text() {
        let check = |reason: &str| {
            let request = PauseRequest { reason: Some(reason.into()), ..PauseRequest::default() };
            request.check(&Scope::All).is_ok()
        };
        assert!(check(&"ä".repeat(256)));
        for wrong in ["", "a\0b", &"a".repeat(257)] {
            assert!(!check(wrong), "{wrong:?}");
        }
    }
}
