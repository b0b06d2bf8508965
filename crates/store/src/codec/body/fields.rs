//! The fields of each stored type, in their order on disk.

use super::settings::{Commit, Deltas, StoreMeta, StoredWorker, from_scope, to_scope};
use crate::{
    codec::bytes::{Codec, Decoder, Encoder, codecs},
    queue::{Counts, Queue},
};
use engine::{
    ApiKey, AuditEntry, AuditHash, Backoff, ClaimId, ContentDigest, CorrelationId, Ended,
    EndingDigest, Envelope, ErrorCode, EventKind, ExecCommand, Failure, Grant, HandlerUrl,
    HistoryEntry, Host, IdempotencyKey, Jitter, JobKey, JobType, JsonText, KeyDigest, KeyId,
    KeyName, Lease, LeaseToken, Life, Pattern, Pause, PauseNote, PauseReason, PayloadVersion,
    Policy, Priority, Progress, ProgressReport, ReadyMade, ResultUrl, Right, Rights, Scope,
    SigningKey, State, Status, Step, StepName, SubjectId, Tenant, TraceParent, WorkerId,
};

/// Texts, with the function that reads each.
macro_rules! texts {
    ($($read:expr => $($type:ty),+;)+) => {
        codecs! { $($($type: |text, out| out.text(text.as_str()), |from| $read(from.text()?);)+)+ }
    };
}

/// Structs by their fields. Each field is named once, so none can be written and not read. A field
/// may have a codec of its own (`as`). Fields behind the semicolon were added later: where none of
/// them is set, none is written, so that the bytes equal those from before the fields existed.
macro_rules! fields {
    ($($name:ident { $($field:tt $(as $codec:ident)?),+ $(; $($later:ident),+)? })+) => {codecs! {$(
        $name: |value, out| {
            $(fields!(@write value.$field, out $(, $codec)?);)+
            $(if $(value.$later.is_some())||+ {
                $(value.$later.write(out);)+
            })?
        }, |from| Some($name {
            $($field: fields!(@read from $(, $codec)?),)+
            $($($later: if from.is_empty() { None } else { Codec::read(from)? },)+)?
        });
    )+}};
    (@write $value:expr, $out:ident) => { $value.write($out) };
    (@write $value:expr, $out:ident, $codec:ident) => { $codec::write(&$value, $out) };
    (@read $from:ident) => { Codec::read($from)? };
    (@read $from:ident, $codec:ident) => { $codec::read($from)? };
}

/// Enums by the numbers of their variants, each with its content. The numbers never change.
macro_rules! variants {
    ($($name:ident { $($number:literal $variant:ident . $field:tt),+ })+) => {codecs! {$(
        $name: |value, out| match value {
            $($name::$variant { $field: inner } => {
                out.number($number);
                inner.write(out);
            })+
        }, |from| Some(match from.number()? {
            $($number => $name::$variant { $field: Codec::read(from)? },)+
            _ => return None,
        });
    )+}};
}

/// Enums that are only a number, with a function that returns it. The numbers never change.
macro_rules! numbers {
    ($($number_of:ident: $name:ident { $($number:literal $variant:ident),+ })+) => {
        $(pub(crate) fn $number_of(value: $name) -> u64 {
            match value {
                $($name::$variant => $number),+
            }
        })+
        codecs! {$($name: |value, out| out.number($number_of(*value)), |from| match from.number()? {
            $($number => Some($name::$variant),)+
            _ => None,
        };)+}
    };
}

numbers! {
    status_number: Status {
        0 Queued, 1 Running, 2 Completed, 3 Failed, 4 Poisoned, 5 Cancelled
    }
    kind_number: EventKind {
        0 Queued, 1 Running, 2 Retrying, 3 Completed, 4 Failed, 5 Poisoned, 6 Cancelled, 7 Redriven
    }
    jitter_number: Jitter { 0 None, 1 Full }
}

variants! {
    State {
        0 Queued.run_at, 1 Running.0, 2 Completed.0, 3 Failed.0, 4 Poisoned.0, 5 Cancelled.0,
        6 AwaitingChildren.since
    }
    PayloadVersion { 0 Number.0, 1 Text.0 }
    ReadyMade { 0 Http.0, 1 Exec.0 }
}

fields! {
    Envelope {
        id, tenant, job_type, subject, correlation, key, payload_version, priority, parent,
        traceparent, created_at
    }
    JobKey { name, content }
    Ended { at, discarded_at }
    LeaseToken { epoch, fence, secret }
    Lease {
        token, scope as optional_tenant, worker, claim, due_at, started_at, expires_at, deadline,
        length
    }
    Life {
        redrive_count, due_at, started_at, attempt, releases, losses, cancel_requested,
        last_failure, message, progress, result, result_url
    }
    Failure { code, message }
    Progress { report, at }
    HistoryEntry { seq, at, from, to, attempt, worker, error_code, message, settled }
    Step { name, begun_at, result }
    Policy {
        max_attempts, lease, timeout, backoff, lost_workers_max, key_window, retention, max_queued,
        concurrency;
        schema, handler
    }
    Backoff { base, factor_hundredths, max, jitter }
    ApiKey { id, name, digest, grant, created_at, created_by, expires_at, revoked_at }
    Grant { scope, rights, types, subjects }
    SigningKey { id, secret, created_at, revoked_at }
    AuditEntry { number, at, who, scope, action, target, detail, correlation, hash; name }
    Pause { job_type, scope, note, at }
    PauseNote { by, by_name, reason }
    StoredWorker { host, job_types, seen_at, left }
    Commit { at, last_no, last_event, deltas }
    Deltas { 0 }
    StoreMeta { epoch, last_published_event, last_indexed_job }
    Queue { job_type, tenant }
    Counts {
        submitted, queued, running, completed, failed, poisoned, discarded, cancelled, erased
    }
    AuditHash { 0 }
    ContentDigest { 0 }
    EndingDigest { 0 }
    KeyDigest { 0 }
    KeyId { 0 }
}

texts! {
    |text| Self::parse(text).ok() => ClaimId, CorrelationId, ErrorCode, HandlerUrl, Host, JobType,
        KeyName, PauseReason, ResultUrl, StepName, SubjectId, Tenant, TraceParent, WorkerId;
    // By its name: a number would mean another right as soon as a developer reorders the variants.
    |text| Self::parse(text).ok() => Right;
    |text| Self::parse("types", text).ok() => Pattern;
    |text| Some(Self::from_stored(text)) => IdempotencyKey, JsonText;
}

codecs! {
    Priority: |priority, out| priority.number().write(out),
        |from| Priority::from_number(Codec::read(from)?);
    ProgressReport: |report, out| {
        report.percent.write(out);
        report.note.write(out);
    }, |from| {
        let percent = u8::read(from)?;
        let note: Option<Box<str>> = Codec::read(from)?;
        ProgressReport::check(percent.into(), note.as_deref()).ok()
    };
    ExecCommand: |command, out| out.list(command.words().iter()),
        |from| ExecCommand::parse(&Vec::<Box<str>>::read(from)?).ok();
    Rights: |rights, out| {
        let rights: Vec<Right> = rights.iter().collect();
        rights.write(out);
    }, |from| from.list::<Right, _>();
    Scope: |scope, out| out.text(to_scope(scope)), |from| from_scope(from.text()?);
}

/// The codec of a lease's scope.
mod optional_tenant {
    use super::*;

    pub(super) fn write(scope: &Scope, out: &mut Encoder) {
        match scope {
            Scope::One(tenant) => {
                true.write(out);
                tenant.write(out);
            }
            Scope::All => false.write(out),
        }
    }

    pub(super) fn read(from: &mut Decoder<'_>) -> Option<Scope> {
        Option::read(from).map(|tenant| tenant.map_or(Scope::All, Scope::One))
    }
}
