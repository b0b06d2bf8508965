//! Envelopes and jobs.

use super::Body;
use crate::form::{
    bytes::{In, Out},
    recent::Recent,
    seal::{Damage, Kind, seal, unseal},
};
use engine::{
    ClaimId, ContentDigest, CorrelationId, Ended, Envelope, ErrorCode, Failure, IdempotencyKey,
    Job, JobKey, JobType, JsonText, Lease, LeaseToken, Life, PayloadVersion, Priority, Progress,
    ProgressReport, ResultUrl, Scope, State, SubjectId, Tenant, TraceParent, WorkerId,
};
use std::sync::Arc;

impl Body for Envelope {
    const KIND: Kind = Kind::Envelope;

    fn write(&self, out: &mut Out) {
        out.bytes(&self.id.to_bytes());
        out.text(self.tenant.as_str());
        out.text(self.job_type.as_str());
        out.maybe(self.subject.as_ref(), |out, subject| out.text(subject.as_str()));
        out.text(self.correlation.as_str());
        out.maybe(self.key.as_ref(), |out, key| {
            out.text(key.name.as_str());
            out.bytes(&key.content.0);
        });
        out.maybe(self.payload_version.as_ref(), |out, version| match version {
            PayloadVersion::Number(number) => {
                out.flag(false);
                out.number((*number).into());
            }
            PayloadVersion::Text(text) => {
                out.flag(true);
                out.text(text);
            }
        });
        out.number(self.priority.number().into());
        out.maybe(self.parent, |out, parent| out.bytes(&parent.to_bytes()));
        out.maybe(self.traceparent.as_ref(), |out, trace| out.text(trace.as_str()));
        out.time(self.created_at);
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some(Envelope {
            id: from.id()?,
            tenant: Tenant::parse(from.text()?).ok()?,
            job_type: JobType::parse(from.text()?).ok()?,
            subject: from.maybe(|from| SubjectId::parse(from.text()?).ok())?,
            correlation: CorrelationId::parse(from.text()?).ok()?,
            key: from.maybe(|from| {
                let name = IdempotencyKey::from_stored(from.text()?);
                Some(JobKey { name, content: ContentDigest(from.array()?) })
            })?,
            payload_version: from.maybe(|from| {
                Some(if from.flag()? {
                    PayloadVersion::Text(from.text()?.into())
                } else {
                    PayloadVersion::Number(from.small()?)
                })
            })?,
            priority: Priority::from_number(u8::try_from(from.number()?).ok()?)?,
            parent: from.maybe(In::id)?,
            traceparent: from.maybe(|from| TraceParent::parse(from.text()?).ok())?,
            created_at: from.time()?,
        })
    }
}

/// The sealed bytes of what changes about a job, with its youngest history, on paper that was used
/// before; its envelope is kept elsewhere.
pub(crate) fn job_onto(paper: Vec<u8>, no: i64, job: &Job, recent: &Recent) -> Vec<u8> {
    let mut out = Out::begin_on(paper);
    write_job(job, &mut out);
    recent.write(&mut out);
    seal(Kind::Job, no, out.bytes)
}

/// What changes about a job, put together with what does not.
pub(crate) fn job_from_row(
    no: i64,
    sealed: &[u8],
    envelope: Arc<Envelope>,
) -> Result<(Job, Recent), Damage> {
    let bytes = unseal(Kind::Job, no, sealed)?;
    let read = || {
        let mut from = In::begin(bytes)?;
        let job = read_job(&mut from, envelope)?;
        let recent = Recent::read(&mut from)?;
        from.end((job, recent))
    };
    read().ok_or(Damage { kind: Kind::Job, no })
}

pub(super) fn read_job(from: &mut In<'_>, envelope: Arc<Envelope>) -> Option<Job> {
    Some(Job {
        state: read_state(from)?,
        life: read_life(from)?,
        max_attempts: from.small()?,
        expires_at: from.maybe(In::time)?,
        fence: from.number()?,
        seq: from.number()?,
        version: from.number()?,
        changed_at: from.time()?,
        envelope,
    })
}

pub(super) fn write_job(job: &Job, out: &mut Out) {
    write_state(&job.state, out);
    write_life(&job.life, out);
    out.number(job.max_attempts.into());
    out.maybe(job.expires_at, Out::time);
    out.number(job.fence);
    out.number(job.seq);
    out.number(job.version);
    out.time(job.changed_at);
}

fn write_state(state: &State, out: &mut Out) {
    let mut end = |tag, ended: &Ended| {
        out.number(tag);
        out.time(ended.at);
        out.maybe(ended.discarded_at, Out::time);
    };
    match state {
        State::Completed(ended) => end(2, ended),
        State::Failed(ended) => end(3, ended),
        State::Poisoned(ended) => end(4, ended),
        State::Cancelled(ended) => end(5, ended),
        State::Queued { run_at } => {
            out.number(0);
            out.time(*run_at);
        }
        State::Running(lease) => {
            out.number(1);
            write_lease(lease, out);
        }
    }
}

fn read_state(from: &mut In<'_>) -> Option<State> {
    let tag = from.number()?;
    let ended =
        |from: &mut In<'_>| Some(Ended { at: from.time()?, discarded_at: from.maybe(In::time)? });
    Some(match tag {
        0 => State::Queued { run_at: from.time()? },
        1 => State::Running(read_lease(from)?),
        2 => State::Completed(ended(from)?),
        3 => State::Failed(ended(from)?),
        4 => State::Poisoned(ended(from)?),
        5 => State::Cancelled(ended(from)?),
        _ => return None,
    })
}

fn write_lease(lease: &Lease, out: &mut Out) {
    write_token(&lease.token, out);
    write_scope(&lease.scope, out);
    out.text(lease.worker.as_str());
    out.text(lease.claim.as_str());
    out.time(lease.due_at);
    out.time(lease.started_at);
    out.time(lease.expires_at);
    out.time(lease.deadline);
    out.span(lease.length);
}

fn read_lease(from: &mut In<'_>) -> Option<Lease> {
    Some(Lease {
        token: read_token(from)?,
        scope: read_scope(from)?,
        worker: WorkerId::parse(from.text()?).ok()?,
        claim: ClaimId::parse(from.text()?).ok()?,
        due_at: from.time()?,
        started_at: from.time()?,
        expires_at: from.time()?,
        deadline: from.time()?,
        length: from.span()?,
    })
}

pub(super) fn write_token(token: &LeaseToken, out: &mut Out) {
    out.number(token.epoch.into());
    out.number(token.fence);
    out.bytes(&token.secret.to_be_bytes());
}

pub(super) fn read_token(from: &mut In<'_>) -> Option<LeaseToken> {
    let (epoch, fence) = (from.small()?, from.number()?);
    Some(LeaseToken { epoch, fence, secret: u128::from_be_bytes(from.array()?) })
}

fn write_scope(scope: &Scope, out: &mut Out) {
    let tenant = match scope {
        Scope::One(tenant) => Some(tenant),
        Scope::All => None,
    };
    out.maybe(tenant, |out, tenant| out.text(tenant.as_str()));
}

fn read_scope(from: &mut In<'_>) -> Option<Scope> {
    let tenant = from.maybe(|from| Tenant::parse(from.text()?).ok())?;
    Some(tenant.map_or(Scope::All, Scope::One))
}

fn write_life(life: &Life, out: &mut Out) {
    out.number(life.redrive_count.into());
    out.time(life.due_at);
    out.maybe(life.started_at, Out::time);
    out.number(life.attempt.into());
    out.number(life.releases.into());
    out.number(life.losses.into());
    out.flag(life.cancel_requested);
    out.maybe(life.last_failure.as_ref(), |out, failure| {
        out.text(failure.code.as_str());
        out.maybe(failure.message.as_deref(), Out::text);
    });
    out.maybe(life.message.as_deref(), Out::text);
    out.maybe(life.progress.as_ref(), |out, progress| {
        out.number(progress.report.percent.into());
        out.maybe(progress.report.note.as_deref(), Out::text);
        out.time(progress.at);
    });
    out.maybe(life.result.as_ref(), |out, result| out.text(result.as_str()));
    out.maybe(life.result_url.as_ref(), |out, url| out.text(url.as_str()));
}

fn read_life(from: &mut In<'_>) -> Option<Life> {
    Some(Life {
        redrive_count: from.small()?,
        due_at: from.time()?,
        started_at: from.maybe(In::time)?,
        attempt: from.small()?,
        releases: from.small()?,
        losses: from.small()?,
        cancel_requested: from.flag()?,
        last_failure: from.maybe(|from| {
            let code = ErrorCode::parse(from.text()?).ok()?;
            Some(Failure { code, message: from.maybe(|from| Some(from.text()?.into()))? })
        })?,
        message: from.maybe(|from| Some(from.text()?.into()))?,
        progress: from.maybe(|from| {
            let percent = i64::from(from.small()?);
            let note = from.maybe(In::text)?;
            let report = ProgressReport::check(percent, note).ok()?;
            Some(Progress { report, at: from.time()? })
        })?,
        result: from.maybe(|from| Some(JsonText::from_stored(from.text()?)))?,
        result_url: from.maybe(|from| ResultUrl::parse(from.text()?).ok())?,
    })
}
