//! Keys: create, list, rotate, revoke.

use super::{bulk::run_to_completion, page::PageQuery};
use crate::{
    app_state::unconfirmed_headers,
    auth::{Caller, PresentedCredential},
    context::RequestContext,
    error::{ApiError, Reply},
    extract::{NoFields, OptionalSettingsBody, PathSegment, QueryParams, SettingsBody},
};
use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use engine::{ApiKey, FieldProblem, KeyId, Refusal, Right, Scope};
use wire::{KeyCreated, KeyInfo, KeyKind, KeyRequest, Page, Rfc3339, RotateRequest};

/// How many rounds search for descendants of a key. The number of descendants is bounded: each
/// round revokes all keys that could make more.
const GENERATIONS_MAX: usize = 16;

pub(crate) async fn create(
    context: RequestContext,
    credential: PresentedCredential,
    SettingsBody(request): SettingsBody<KeyRequest>,
) -> Reply<(StatusCode, HeaderMap, Json<KeyCreated>)> {
    let RequestContext { app, caller, correlation } = context;
    let mut draft = request.check(caller.scope())?;
    caller.grant().may_grant(&draft.grant)?;
    draft.expires_at = caller.0.end_of_new_key(draft.expires_at, app.now())?;
    if draft.expires_at.is_some_and(|at| at <= app.now()) {
        return Err(FieldProblem::new("expiresAt", "must be a time to come").into());
    }
    let (key, secret) = app.node.create_key(&caller.0, correlation.id.clone(), draft).await?;
    let headers = app.confirmation_headers().await;
    // The caller's own key may have been revoked since this request was admitted, and its
    // descendants listed before this new key was stored. By now this node acts by that revocation,
    // and has not shown the new key.
    if let Err(error) = credential.check_still_valid(&app).await {
        app.node.revoke_key(&caller.0, correlation.id, &key.grant.scope, key.id).await?;
        return Err(error);
    }
    Ok((StatusCode::CREATED, headers, Json(KeyCreated::new(&key, &secret))))
}

pub(crate) async fn all(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<KeyInfo>>> {
    let query = PageQuery::of(&params)?;
    let keys = context.node().keys(context.scope()).await?;
    let uses = context.node().key_uses().await?;
    let manageable = keys.iter().filter(|key| context.caller.0.may_manage(key).is_ok());
    let mut items: Vec<KeyInfo> =
        manageable.map(|key| KeyInfo::of(key, uses.get(&key.id))).collect();
    if may_manage_signing_keys(&context.caller) {
        items.extend(context.node().signing_keys().await?.iter().map(|key| KeyInfo {
            id: key.id.to_string(),
            kind: KeyKind::Signing,
            name: None,
            tenant: None,
            scopes: Vec::new(),
            types: Vec::new(),
            subjects: Vec::new(),
            created_at: Rfc3339(key.created_at),
            created_by: None,
            expires_at: None,
            revoked_at: key.revoked_at.map(Rfc3339),
            last_used_at: None,
        }));
    }
    Ok(Json(query.page_of(items, sort_key, KeyInfo::clone)))
}

/// URL-signing keys belong to the installation, and to no tenant.
fn may_manage_signing_keys(caller: &Caller) -> bool {
    *caller.scope() == Scope::All
        && caller.may(Right::Admin)
        && caller.grant().may_everything().is_ok()
}

/// API keys first, the oldest of each kind first.
fn sort_key(key: &KeyInfo) -> Vec<u8> {
    let kind = match key.kind {
        KeyKind::Api => 0,
        KeyKind::Signing => 1,
    };
    let created_at = key.created_at.0.unix_ms().unsigned_abs();
    [&[kind], &created_at.to_be_bytes()[..], key.id.as_bytes()].concat()
}

pub(crate) async fn rotate(
    context: RequestContext,
    credential: PresentedCredential,
    PathSegment(id): PathSegment,
    OptionalSettingsBody(request): OptionalSettingsBody<RotateRequest>,
) -> Reply<(StatusCode, HeaderMap, Json<KeyCreated>)> {
    let RequestContext { app, caller, correlation } = context;
    let grace = request.grace()?;
    let id = KeyId::parse(&id).map_err(|_| Refusal::KeyNotFound)?;
    let may = |key: &ApiKey| Ok::<_, ApiError>(caller.0.may_rotate(key)?);
    let (key, secret) = app.node.rotate_key(&caller.0, &correlation.id, (id, grace), may).await?;
    let headers = app.confirmation_headers().await;
    // As with `create`. A caller that rotates its own key without grace has just ended it itself.
    let is_own = *caller.0.who == *id.principal();
    if !is_own && let Err(error) = credential.check_still_valid(&app).await {
        app.node.revoke_key(&caller.0, correlation.id, &key.grant.scope, key.id).await?;
        return Err(error);
    }
    Ok((StatusCode::CREATED, headers, Json(KeyCreated::new(&key, &secret))))
}

pub(crate) async fn revoke(
    context: RequestContext,
    params: QueryParams,
    PathSegment(id): PathSegment,
    _: OptionalSettingsBody<NoFields>,
) -> Reply<(StatusCode, HeaderMap)> {
    // A misspelt parameter would leave keys valid that were meant to be revoked.
    params.refuse_unknown(&["descendants"])?;
    let descendants = params.flag("descendants")?;
    let id = KeyId::parse(&id).map_err(|_| Refusal::KeyNotFound)?;
    // Runs to its end: a client that hangs up after the first key must not keep its descendants
    // alive.
    let unconfirmed = run_to_completion(revoke_and_confirm(context, id, descendants)).await?;
    Ok((StatusCode::NO_CONTENT, unconfirmed_headers(unconfirmed)))
}

/// Revokes a key, and returns the number of nodes that have not confirmed it.
async fn revoke_and_confirm(context: RequestContext, id: KeyId, descendants: bool) -> Reply<usize> {
    let RequestContext { app, caller, correlation } = &context;
    let is_signing = *caller.scope() == Scope::All
        && app.node.signing_keys().await?.iter().any(|key| key.id == id);
    if is_signing {
        caller.grant().may(Right::Admin)?;
        caller.grant().may_everything()?;
        app.node.revoke_signing_key(&caller.0, correlation.id.clone(), id).await?;
        app.rotate_signing_key().await?;
        return Ok(app.wait_until_confirmed().await);
    }
    let keys = app.node.keys(caller.scope()).await?;
    if let Some(key) = keys.iter().find(|key| key.id == id) {
        caller.0.may_manage(key)?;
    }
    app.node.revoke_key(&caller.0, correlation.id.clone(), caller.scope(), id).await?;
    let unconfirmed = app.wait_until_confirmed().await;
    match descendants {
        true => Ok(unconfirmed.max(revoke_descendants_of(&context, id).await?)),
        false => Ok(unconfirmed),
    }
}

/// Revokes the keys that were made with a key. Every node acts by the revocation of the key itself
/// before its descendants are searched for, and so for each generation: no revoked key makes
/// another one after that.
///
/// Returns the largest number of nodes that have not confirmed a generation. A node whose
/// confirmation timed out counts as lost in later rounds, so the last number would miss it.
async fn revoke_descendants_of(context: &RequestContext, id: KeyId) -> Reply<usize> {
    let RequestContext { app, caller, correlation } = context;
    let may_revoke = |key: &ApiKey| Ok(caller.0.may_manage(key)?);
    let mut unconfirmed = 0;
    for _ in 0..GENERATIONS_MAX {
        if !app
            .node
            .revoke_descendants::<ApiError>(&caller.0, &correlation.id, id, may_revoke)
            .await?
        {
            break;
        }
        unconfirmed = unconfirmed.max(app.wait_until_confirmed().await);
    }
    Ok(unconfirmed)
}
