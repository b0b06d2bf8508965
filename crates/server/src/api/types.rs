//! Job types, and how their jobs are treated.

use super::page::PageQuery;
use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::Reply,
    sent::{Params, Setting, Type},
};
use axum::{Json, extract::State, http::HeaderMap};
use engine::{Denied, JobType, PolicyDraft, ReadyMadeDraft, Right, Scope};
use platform::KnownType;
use wire::{Page, PolicyShape, TypeShape};

pub(crate) async fn all(
    State(door): State<Door>,
    caller: Caller,
    params: Params,
) -> Reply<Json<Page<TypeShape>>> {
    let query = PageQuery::of(&params)?;
    let mut known = door.node.types(caller.scope()).await?;
    known.retain(|known| caller.grant().may_type(&known.job_type).is_ok());
    let key = |known: &KnownType| known.job_type.as_str().as_bytes().to_vec();
    let shape = |known: &KnownType| {
        shown(&caller, TypeShape::new(&known.job_type, &known.policy, known.declared))
    };
    Ok(Json(query.cut(known, key, shape)))
}

/// Addresses inside the house and command lines are for those who could have set them.
fn shown(caller: &Caller, mut shape: TypeShape) -> TypeShape {
    if *caller.scope() != Scope::All || !caller.may(Right::Admin) {
        shape.policy.handler = None;
    }
    shape
}

/// A policy holds for all tenants, so only those may set it who act for all.
pub(crate) async fn set(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Type(job_type): Type,
    Setting(policy): Setting<PolicyShape>,
) -> Reply<(HeaderMap, Json<TypeShape>)> {
    if *caller.scope() != Scope::All {
        return Err(Denied::Tenants.into());
    }
    caller.grant().may_whole_type(&job_type)?;
    let draft = policy.to_draft()?;
    check_handler(&door, &caller, &job_type, &draft).await?;
    let managed = door.by(&caller, &correlation);
    let policy = managed.set_policy(job_type.clone(), &draft).await?;
    Ok((door.in_force().await, Json(TypeShape::new(&job_type, &policy, true))))
}

/// A handler that differs from what the type has needs a grant without limits, and a switch that
/// lets the API name it. One that is not lawful is left to the check that names every field.
async fn check_handler(
    door: &Door,
    caller: &Caller,
    job_type: &JobType,
    draft: &PolicyDraft,
) -> Reply<()> {
    let Some(Ok(after)) = draft.handler.as_ref().map(ReadyMadeDraft::check) else { return Ok(()) };
    let policies = door.node.policies().await?;
    let before = policies.get(job_type).and_then(|policy| policy.handler.as_ref());
    if before == Some(&after) {
        return Ok(());
    }
    caller.grant().may_name_handlers()?;
    Ok(door.settings.handlers.check_change(before, Some(&after))?)
}
