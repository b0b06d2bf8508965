//! Job types and their policies: how jobs of one type are treated.

use crate::{
    extended::{Extended, ExtensionFields},
    json::Json,
    list::at_most_or_null,
};
use engine::{
    Backoff, Checked, EXEC_WORDS_MAX, FINAL_CODES_MAX, FieldProblem, Findings, Jitter, JobType,
    Policy, PolicyDraft, PolicySource, ReadyMade, ReadyMadeDraft, Refusal, format_span, parse_span,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// One job type with its policy. A client can write back what it read.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobType)]
pub struct TypeWithPolicy {
    /// The job type.
    pub job_type: String,
    /// Whether the type has a policy of its own; else it has the default.
    pub declared: bool,
    /// Who sets the policy; `null` where the type has the default.
    pub owner: Option<PolicyOwner>,
    /// Whether the API changed a policy that `consign.toml` owns. The next start of a node sets
    /// again what the file says.
    pub changed_by_api: bool,
    /// How its jobs are treated.
    #[serde(flatten)]
    pub policy: TypePolicy,
}

/// Who sets the policy of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PolicyOwner {
    /// The `consign.toml` of the nodes, at each start.
    File,
    /// The API, and `consign types set`.
    Api,
}

/// The policy of a type that was set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyWarning {
    /// What to know about the change: `null` where there is nothing.
    pub warning: Option<String>,
}

/// The policy that holds after a change, and what to know about it.
pub type PolicySet = Extended<TypeWithPolicy, PolicyWarning>;

impl ExtensionFields for PolicyWarning {
    const SCHEMA_NAME: &'static str = "PolicySet";
}

/// The policy of a type; what is absent takes the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
#[schema(as = Policy)]
pub struct TypePolicy {
    pub max_attempts: Option<i64>,
    pub lease: Option<String>,
    pub timeout: Option<String>,
    pub backoff: Option<BackoffPolicy>,
    pub lost_workers_max: Option<i64>,
    pub key_window: Option<String>,
    pub retention: Option<String>,
    pub max_queued: Option<i64>,
    pub concurrency: Option<i64>,
    /// The JSON Schema that payloads must match.
    pub schema: Option<Json>,
    pub handler: Option<ReadyMadeHandler>,
}

/// The body that sets a policy: the policy, and the fields that lists show beside it, which set
/// nothing.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes; a body is read as the policy itself")]
pub struct PolicyRequest {
    /// As lists show it. The type in the path counts, and a different one here is refused.
    job_type: Option<Json>,
    /// As lists show it; ignored.
    declared: Option<Json>,
    /// As lists show it; ignored.
    owner: Option<Json>,
    /// As lists show it; ignored.
    changed_by_api: Option<Json>,
    max_attempts: Option<i64>,
    lease: Option<String>,
    timeout: Option<String>,
    backoff: Option<BackoffPolicy>,
    lost_workers_max: Option<i64>,
    key_window: Option<String>,
    retention: Option<String>,
    max_queued: Option<i64>,
    concurrency: Option<i64>,
    /// The JSON Schema that payloads must match.
    schema: Option<Json>,
    handler: Option<ReadyMadeHandler>,
}

/// A ready-made handler: an address or a program, and not both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[schema(as = Handler)]
pub struct ReadyMadeHandler {
    /// The address that jobs are pushed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// The program that is run for each job, and its arguments.
    #[serde(
        deserialize_with = "at_most_or_null::<_, _, EXEC_WORDS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    pub exec: Option<Vec<String>>,
    /// The exit codes of the program that end a job for good.
    #[serde(
        deserialize_with = "at_most_or_null::<_, _, FINAL_CODES_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    pub final_codes: Option<Vec<i64>>,
}

/// How long to wait between attempts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
#[schema(as = Backoff)]
pub struct BackoffPolicy {
    pub base: Option<String>,
    pub factor: Option<Factor>,
    pub max: Option<String>,
    pub jitter: Option<String>,
}

/// Growth per attempt: `2`, `1.5`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Factor(pub f64);

/// What a caller must know that changes a type of `consign.toml`.
const OVERRIDDEN_LATER: &str = "consign.toml names this type: the next start of a node sets it \
     again as the file says; to keep the change, make it in the file, too";

impl From<engine::PolicyOwner> for PolicyOwner {
    fn from(owner: engine::PolicyOwner) -> Self {
        match owner {
            engine::PolicyOwner::File => PolicyOwner::File,
            engine::PolicyOwner::Api => PolicyOwner::Api,
        }
    }
}

impl TypeWithPolicy {
    /// The policy of `job_type`.
    pub fn new(job_type: &JobType, policy: &Policy, source: PolicySource) -> Self {
        let owner = source.owner().map(PolicyOwner::from);
        TypeWithPolicy {
            job_type: job_type.to_string(),
            declared: owner.is_some(),
            owner,
            changed_by_api: source == PolicySource::FileThenApi,
            policy: TypePolicy::from(policy),
        }
    }

    /// The answer to the caller that set it.
    pub fn into_set(self) -> PolicySet {
        let warning = self.changed_by_api.then(|| OVERRIDDEN_LATER.into());
        PolicySet { base: self, extension: PolicyWarning { warning } }
    }
}

// Not derived: serde buffers the fields of a flattened shape, and then a schema would not keep the
// text that its author wrote.
impl<'de> Deserialize<'de> for TypeWithPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Named {
            job_type: String,
            #[serde(default)]
            declared: bool,
            #[serde(default)]
            owner: Option<PolicyOwner>,
            #[serde(default)]
            changed_by_api: bool,
        }
        let Extended { base, extension: policy } =
            Extended::<Named, TypePolicy>::deserialize(deserializer)?;
        let Named { job_type, declared, owner, changed_by_api } = base;
        Ok(TypeWithPolicy { job_type, declared, owner, changed_by_api, policy })
    }
}

impl TypePolicy {
    /// The draft that the engine checks. Only spans and names are parsed here.
    pub fn to_draft(&self) -> Result<PolicyDraft, Refusal> {
        let mut findings = Findings::default();
        let mut span = |field, text: &Option<String>| {
            findings.keep_optional(text.as_deref().map(|text| parse_span(field, text)))
        };
        let backoff = self.backoff.clone().unwrap_or_default();
        let mut draft = PolicyDraft {
            max_attempts: self.max_attempts,
            lease_ms: span("lease", &self.lease),
            timeout_ms: span("timeout", &self.timeout),
            backoff_base_ms: span("backoff.base", &backoff.base),
            backoff_max_ms: span("backoff.max", &backoff.max),
            lost_workers_max: self.lost_workers_max,
            key_window_ms: span("keyWindow", &self.key_window),
            retention_ms: span("retention", &self.retention),
            max_queued: self.max_queued,
            concurrency: self.concurrency,
            schema: self.schema.as_ref().map(|schema| schema.as_str().to_owned()),
            ..PolicyDraft::default()
        };
        draft.backoff_factor_hundredths =
            findings.keep_optional(backoff.factor.map(Factor::hundredths));
        draft.jitter = findings.keep_optional(backoff.jitter.as_deref().map(parse_jitter));
        draft.handler =
            findings.keep_optional(self.handler.as_ref().map(ReadyMadeHandler::to_draft));
        if findings.is_empty() { Ok(draft) } else { Err(findings.refusal()) }
    }
}

impl ReadyMadeHandler {
    fn to_draft(&self) -> Checked<ReadyMadeDraft> {
        match (&self.http, &self.exec) {
            (Some(_), None) if self.final_codes.is_some() => {
                let detail = "is for exec: an address answers with HTTP status codes";
                Err(FieldProblem::new("handler.finalCodes", detail))
            }
            (Some(url), None) => Ok(ReadyMadeDraft::Http(url.clone())),
            (None, Some(words)) => {
                let (words, final_codes) = (words.clone(), self.final_codes.clone());
                Ok(ReadyMadeDraft::Exec { words, final_codes })
            }
            (Some(_), Some(_)) | (None, None) => {
                let detail =
                    "must have exactly one of http (an address) and exec (a list of words)";
                Err(FieldProblem::new("handler", detail))
            }
        }
    }
}

impl Factor {
    /// Whole hundredths, the engine's unit.
    fn hundredths(self) -> Checked<i64> {
        let hundredths = (self.0 * 100.0).round();
        // Beyond this a float has no hundredths any more, and the engine's maximum is far lower.
        const LARGEST: f64 = 1e9;
        if hundredths.abs() > LARGEST || (self.0 * 100.0 - hundredths).abs() > 1e-6 {
            let detail = "must be a small number with at most two decimals, such as 1.5";
            return Err(FieldProblem::new("backoff.factor", detail));
        }
        Ok(hundredths as i64)
    }
}

/// A whole factor is written as an integer: `2`, not `2.0`.
impl Serialize for Factor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.hundredths() {
            Ok(hundredths) if hundredths % 100 == 0 => serializer.serialize_i64(hundredths / 100),
            Ok(_) | Err(_) => serializer.serialize_f64(self.0),
        }
    }
}

fn parse_jitter(text: &str) -> Checked<Jitter> {
    let wrong = || FieldProblem::new("backoff.jitter", "must be equal, full or none");
    Jitter::from_name(text).ok_or_else(wrong)
}

impl From<&Policy> for TypePolicy {
    fn from(policy: &Policy) -> Self {
        TypePolicy {
            max_attempts: Some(policy.max_attempts.into()),
            lease: Some(format_span(policy.lease)),
            timeout: Some(format_span(policy.timeout)),
            backoff: Some(BackoffPolicy::from(&policy.backoff)),
            lost_workers_max: Some(policy.lost_workers_max.into()),
            key_window: Some(format_span(policy.key_window)),
            retention: Some(format_span(policy.retention)),
            max_queued: policy.max_queued.map(i64::try_from).and_then(Result::ok),
            concurrency: policy.concurrency.map(i64::from),
            schema: policy.schema.as_ref().map(Json::from),
            handler: policy.handler.as_ref().map(ReadyMadeHandler::from),
        }
    }
}

impl From<&ReadyMade> for ReadyMadeHandler {
    fn from(handler: &ReadyMade) -> Self {
        match handler {
            ReadyMade::Http(url) => {
                ReadyMadeHandler { http: Some(url.to_string()), ..ReadyMadeHandler::default() }
            }
            ReadyMade::Exec(command) => ReadyMadeHandler {
                http: None,
                exec: Some(command.words().iter().map(|word| word.to_string()).collect()),
                final_codes: Some(
                    command.final_codes().iter().map(|code| (*code).into()).collect(),
                ),
            },
        }
    }
}

impl From<&Backoff> for BackoffPolicy {
    fn from(backoff: &Backoff) -> Self {
        BackoffPolicy {
            base: Some(format_span(backoff.base)),
            factor: Some(Factor(f64::from(backoff.factor_hundredths) / 100.0)),
            max: Some(format_span(backoff.max)),
            jitter: Some(backoff.jitter.to_string()),
        }
    }
}
