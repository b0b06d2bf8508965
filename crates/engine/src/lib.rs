//! THE RULES of Consign.
//!
//! What a job is, what may happen to it, and when. Everything here is pure: no async, no clock, no
//! I/O, no randomness, no serde. [`submit()`] begins a job, [`claim()`] gives it to a worker, and
//! [`decide()`] does everything else.
#![forbid(unsafe_code)]

#[macro_use]
mod named_enum;

mod attempt;
mod audit;
mod audit_detail;
mod audit_filter;
mod command;
mod count;
mod credential;
mod decide;
mod entropy;
mod explain;
mod field;
mod filter;
mod history;
mod job;
mod job_id;
mod json;
mod key;
mod lease;
mod limits;
mod new_job;
mod outcome;
mod pause;
mod policy;
mod principal;
mod ready_made;
mod refusal;
mod report;
mod span;
mod step;
mod submit;
mod tenant_limits;
mod text;
mod time;
mod worker;

pub use attempt::{
    AttemptRecord, Ending, EndingDigest, EndingDraft, EndingKind, Outcome, RESULT_BYTES_MAX,
};
pub use audit::{AuditEntry, AuditHash, AuditNote};
pub use audit_detail::{
    AUDIT_DETAIL_BYTES_MAX, key_grant, key_revocation, key_rotation, pause_change, policy_change,
    redrive_options, resume_change, signing_key_revocation,
};
pub use audit_filter::AuditFilter;
pub use command::{
    Answer, Claim, ClaimRequest, Command, Decided, Decision, Effect, Facts, LeaseState,
    ReleaseReason, Setback,
};
pub use count::counted;
pub use credential::{
    ApiKey, KeyDigest, KeyDraft, KeyId, KeySecret, KeyUse, ROTATION_GRACE, ROTATION_GRACE_MAX,
    Rotation, SigningKey, WebhookKey, descendants,
};
pub use decide::{
    NOT_STARTED_MAX, RELEASES_MAX, after_clock_jump, claim, decide, is_claimable, kept_since,
    overdue,
};
pub use entropy::Entropy;
pub use explain::{ExplainFacts, Reason, explain};
pub use field::{Checked, FieldProblem, Findings, check_count, check_range};
pub use filter::{Comparison, Field, Filter};
pub use history::HistoryEntry;
pub use job::{
    Change, Ended, Envelope, Job, Life, PayloadVersion, Priority, Progress, ProgressReport, State,
    Status,
};
pub use job_id::JobId;
pub use json::{JSON_DEPTH_MAX, JsonText};
pub use key::{ContentDigest, IdempotencyKey, JobKey, hex, unhex, unhex_all};
pub use lease::{Lease, LeaseToken};
pub use limits::{CLAIM_BYTES_MAX, CLAIM_MAX, CLAIM_TYPES_MAX, ITEMS_MAX};
pub use new_job::{
    JobDraft, NewJob, OnEnded, PAYLOAD_BYTES_HARD_MAX, PAYLOAD_BYTES_MAX, Start, SubmitContext,
    check_payload,
};
pub use outcome::{Event, EventKind, Failure, MESSAGE_BYTES_MAX, failure_codes};
pub use pause::{Pause, PauseNote};
pub use policy::{
    ATTEMPTS_MAX, Backoff, FilePolicy, Jitter, Policy, PolicyDraft, PolicyOwner, PolicySource,
    SCHEMA_BYTES_MAX, check_lease, check_max_attempts,
};
pub use principal::{Denied, Grant, Pattern, Principal, Right, Rights, SUBJECT_KEY_LIFETIME_MAX};
pub use ready_made::{
    EXEC_WORDS_MAX, ExecCommand, FINAL_CODES_DEFAULT, FINAL_CODES_MAX, HandlerSource,
    HandlerSources, ReadyMade, ReadyMadeDraft,
};
pub use refusal::Refusal;
pub use report::{Heartbeat, Release, Report, StepReport};
pub use span::{format_span, parse_span};
pub use step::{
    STEP_RESULT_BYTES_MAX, STEPS_MAX, Step, StepAnswer, StepsChange, check_step_result,
};
pub use submit::{
    Submitted, key_is_free, key_yields, submit, submit_known_id, submit_with_taken_key,
};
pub use tenant_limits::{TenantLimit, TenantLimits};
pub use text::{
    ClaimId, CorrelationId, ErrorCode, HandlerUrl, Host, JobType, KeyName, PauseReason, ResultUrl,
    Scope, StepName, SubjectId, Tenant, TraceParent, WorkerId, is_deceptive,
};
pub use time::{DELAY_SECONDS_MAX, Timestamp, check_delay, format_time};
pub use worker::{LastSign, WORKER_SIGN_EVERY, WORKER_SILENCE_MAX, is_live};
