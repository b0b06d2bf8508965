//! Job types, and how their jobs are treated.

use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::Reply,
    sent::{Sent, Type},
};
use axum::{Json, extract::State};
use engine::{Denied, Right, Scope};
use wire::{Page, PolicyShape, TypeShape};

pub(crate) async fn all(State(door): State<Door>, caller: Caller) -> Reply<Json<Page<TypeShape>>> {
    let known = door.node.types(caller.scope()).await?;
    let within = known.iter().filter(|known| caller.grant().may_type(&known.job_type).is_ok());
    let items = within
        .map(|known| shown(&caller, TypeShape::new(&known.job_type, &known.policy, known.declared)))
        .collect();
    Ok(Json(Page { items, next_cursor: None }))
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
    Sent(policy): Sent<PolicyShape>,
) -> Reply<Json<TypeShape>> {
    if *caller.scope() != Scope::All {
        return Err(Denied::Tenants.into());
    }
    caller.grant().may_whole_type(&job_type)?;
    let draft = policy.to_draft()?;
    let managed = door.by(&caller, &correlation);
    let policy = managed.set_policy(job_type.clone(), &draft).await?;
    Ok(Json(TypeShape::new(&job_type, &policy, true)))
}
