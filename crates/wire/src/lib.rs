//! THE WIRE FORMAT of Consign.
//!
//! All that clients and servers exchange, defined once: the JSON shapes of the contract, problem
//! details, CloudEvents, and the catalogue of codes. Shapes are tolerant readers: they ignore
//! unknown fields, unless the server reads a body that sets something (`setting.rs`). This crate
//! has no rule about jobs: a request becomes an engine draft or command, and the engine says what
//! is wrong with it.
#![forbid(unsafe_code)]

mod audit;
mod body;
mod bulk;
mod cancel;
mod catalogue;
mod children;
mod claim;
mod event;
mod explain;
mod extended;
mod fields;
pub mod filter;
mod heartbeat;
mod history;
mod job;
mod json;
mod keys;
mod lease_reference;
mod leave;
mod list;
pub mod nearest;
mod nodes;
mod page;
mod page_item;
mod poison;
mod policy;
mod problem;
mod queues;
mod redrive;
mod release;
mod secret;
mod setting;
mod settle;
mod status;
mod steps;
mod submit;
mod time;
mod workers;

pub use engine::{format_span, format_time, parse_span};

pub use audit::AuditLogEntry;
pub use body::{Unreadable, read};
pub use bulk::{BulkAnswer, BulkRequest, BulkSelection};
pub use cancel::{CancelAnswer, CancelRequest, Descendants, WithDescendants};
pub use catalogue::{CATALOGUE, CodeEntry, codes, entry};
pub use children::{ChildStatus, ChildrenRequest};
pub use claim::{CheckedClaim, ClaimAnswer, ClaimRequest, ClaimedJob, JobLease, WithLease};
pub use event::{CloudEvent, EventData, EventDurations};
pub use explain::{ExplainReason, Explanation, REASON_CODES};
pub use extended::Extended;
pub use fields::{
    FIELD_DOCS, FieldDoc, FieldRule, LEFT_OUT, LOWER_NAME, NO_NUL, SPAN, UUID, field_doc,
};
pub use filter::{FilterError, job_filter};
pub use heartbeat::{
    CheckedHeartbeat, HeartbeatAnswer, HeartbeatItem, HeartbeatRequest, HeartbeatResult,
    LeaseStateName, ProgressRequest,
};
pub use history::Transition;
pub use job::{FullJob, JobDetails};
pub use json::Json;
pub use keys::{KeyCreated, KeyGrant, KeyInfo, KeyKind, KeyRequest};
pub use leave::{LeaveAnswer, LeaveRequest};
pub use nodes::{NodeState, NodeStatus};
pub use page::Page;
pub use page_item::{Misread, PageItem};
pub use poison::PoisonAnswer;
pub use policy::{
    BackoffPolicy, Factor, PolicyRequest, ReadyMadeHandler, TypePolicy, TypeWithPolicy,
};
pub use problem::{FieldError, Problem};
pub use queues::{PAUSES_MAX, PauseRequest, QueuePause, QueueStatus, ResumeRequest, named_scope};
pub use redrive::RedriveRequest;
pub use release::{CHILDREN_ENDED, ReleaseItem, ReleaseRequest};
pub use secret::Secret;
pub use setting::{SettingBody, read_setting};
pub use settle::{SettleAnswer, SettleItem, SettleRequest, SettledItem};
pub use status::{JobProgress, JobStatus};
pub use steps::{StepRequest, StepStateName, StepStatus};
pub use submit::{
    BatchAnswer, BatchItem, BatchRequest, PayloadVersion, SubmitRequest, SubmittedJob, status_url,
};
pub use time::{Rfc3339, parse_time};
pub use workers::{WorkerState, WorkerStatus};
