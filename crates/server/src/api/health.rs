//! Whether this node is alive, whether it can serve, and its metrics.

use crate::{
    AppState,
    app_state::overloaded,
    context::RequestContext,
    error::{ApiError, Reply},
    metrics::{write_queues, write_tenants},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use engine::{JobType, Scope};
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;
use wire::codes;

/// The node's health, in one word.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `ready`.
    status: &'static str,
}

/// Says only that the process answers.
pub(crate) async fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// How long the store may take to answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the store answers and this node is not draining.
pub(crate) async fn ready(State(app): State<AppState>) -> Reply<Json<Health>> {
    if app.is_closing() {
        return Err(overloaded("this node is about to end"));
    }
    let answered = tokio::time::timeout(STORE_TIMEOUT, app.node.policies()).await;
    answered.map_err(|_| {
        ApiError::with_code(codes::STORE_UNAVAILABLE, "the store does not answer")
    })??;
    Ok(Json(Health { status: "ready" }))
}

pub(crate) async fn metrics(context: RequestContext) -> Reply<Response> {
    let mut page = String::new();
    // The numbers of the whole installation would tell a tenant what the others do.
    if *context.scope() == Scope::All {
        context.app.metrics.write_requests(&mut page, &context.app.authenticator.failures);
    }
    let may_see = |job_type: &JobType| context.grant().may_type(job_type).is_ok();
    let sums = context.node().queue_sums(context.scope(), &may_see).await?;
    write_queues(&mut page, &sums.types);
    if *context.scope() == Scope::All {
        write_tenants(&mut page, &sums.tenants);
    }
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], page).into_response())
}
