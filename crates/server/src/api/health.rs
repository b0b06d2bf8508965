//! Whether this node lives, whether it can serve, and its numbers.

use super::queues::seen;
use crate::{
    AppState,
    app_state::overloaded,
    context::RequestContext,
    error::{ApiError, Reply},
    metrics::write_queues,
};
use axum::{
    Json,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use engine::Scope;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;
use wire::codes;

/// How things are, in a word.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `ready`.
    status: &'static str,
}

/// The process answers: that is all this says.
pub(crate) async fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// How long the store may take to say something.
const PATIENCE: Duration = Duration::from_secs(5);

/// The store answers, and this node is not about to go.
pub(crate) async fn ready(State(app): State<AppState>) -> Reply<Json<Health>> {
    if app.is_closing() {
        return Err(overloaded("this node is about to end"));
    }
    let asked = tokio::time::timeout(PATIENCE, app.node.policies()).await;
    asked
        .map_err(|_| ApiError::stated(codes::STORE_UNAVAILABLE, "the store does not answer"))??;
    Ok(Json(Health { status: "ready" }))
}

pub(crate) async fn metrics(context: RequestContext) -> Reply<Response> {
    let mut page = String::new();
    // What the whole installation answers tells a tenant what the others do.
    if *context.scope() == Scope::All {
        context.app.metrics.write_requests(&mut page, &context.app.gate.failures);
    }
    write_queues(&mut page, &seen(&context, context.scope()).await?);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], page).into_response())
}
