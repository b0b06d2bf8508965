//! Keys: made, listed, ended.

use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::Reply,
    sent::{Segment, Sent},
};
use axum::{Json, extract::State, http::StatusCode};
use engine::{FieldProblem, KeyId, Refusal, Scope};
use wire::{KeyCreated, KeyKind, KeyRequest, KeyShape, Moment, Page};

pub(crate) async fn create(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Sent(request): Sent<KeyRequest>,
) -> Reply<(StatusCode, Json<KeyCreated>)> {
    let draft = request.check(caller.scope())?;
    caller.grant().may_grant(&draft.grant)?;
    if draft.expires_at.is_some_and(|at| at <= door.now()) {
        return Err(FieldProblem::new("expiresAt", "must be a time to come").into());
    }
    let (key, secret) = door.node.create_key(&caller.0, correlation.id, draft).await?;
    door.keys().read(&door.node).await?;
    Ok((StatusCode::CREATED, Json(KeyCreated::new(&key, &secret))))
}

pub(crate) async fn all(State(door): State<Door>, caller: Caller) -> Reply<Json<Page<KeyShape>>> {
    let keys = door.node.keys(caller.scope()).await?;
    let within = keys.iter().filter(|key| caller.grant().may_grant(&key.grant).is_ok());
    let mut items: Vec<KeyShape> = within.map(KeyShape::from).collect();
    // What signs addresses is the house's, and no tenant's.
    if *caller.scope() == Scope::All && caller.grant().may_everything().is_ok() {
        items.extend(door.node.signing_keys().await?.iter().map(|key| KeyShape {
            id: key.id.to_string(),
            kind: KeyKind::Signing,
            name: None,
            tenant: None,
            scopes: Vec::new(),
            types: Vec::new(),
            subjects: Vec::new(),
            created_at: Moment(key.created_at),
            created_by: None,
            expires_at: None,
            revoked_at: key.revoked_at.map(Moment),
        }));
    }
    Ok(Json(Page { items, next_cursor: None }))
}

pub(crate) async fn revoke(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Segment(id): Segment,
) -> Reply<StatusCode> {
    let id = KeyId::parse(&id).map_err(|_| Refusal::KeyNotFound)?;
    let is_signing = *caller.scope() == Scope::All
        && door.node.signing_keys().await?.iter().any(|key| key.id == id);
    if is_signing {
        caller.grant().may_everything()?;
        door.node.revoke_signing_key(&caller.0, correlation.id, id).await?;
        door.read_seals().await?;
    } else {
        // Whoever could not have made a key cannot end it.
        let keys = door.node.keys(caller.scope()).await?;
        if let Some(key) = keys.iter().find(|key| key.id == id) {
            caller.grant().may_grant(&key.grant)?;
        }
        door.node.revoke_key(&caller.0, correlation.id, caller.scope(), id).await?;
        door.keys().read(&door.node).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
