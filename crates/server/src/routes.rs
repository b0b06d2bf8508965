//! The one table of routes: what routes exist, and who may use them.
//!
//! The router is made from it, authorization reads it, and tests walk it: a route that is not here
//! does not exist, and a route that is here cannot be open by mistake.

use crate::{
    AppState,
    api::{
        audit, batch, bulk, errors, health, jobs, keys, list, poison, queues, status, stream,
        types, workers,
    },
    auth::authorize,
    middleware::{method_not_allowed, not_found, request_middleware},
    openapi::{self as doc, Doc, ParamLocation},
    work::{children, claim, heartbeat, leave, release, settle, steps},
};
use axum::{
    Router,
    http::Method,
    middleware::from_fn_with_state,
    routing::{MethodRouter, delete, get, post, put},
};
use engine::Right;
use std::{collections::HashMap, sync::LazyLock};

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every client, without a credential.
    Open,
    /// Callers with this right.
    Right(Right),
    /// Callers with this right, and clients with a URL that was signed for this job.
    Signed(Right),
}

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Its method.
    pub method: &'static str,
    /// Its path; `{…}` stands for one segment.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
    handler: fn() -> MethodRouter<AppState>,
    /// Its entry in the API document.
    pub(crate) doc: &'static Doc,
}

const fn row(
    method: &'static str,
    path: &'static str,
    access: Access,
    handler: fn() -> MethodRouter<AppState>,
    doc: &'static Doc,
) -> Route {
    Route { method, path, access, handler, doc }
}

use Access::{Open, Right as Needs, Signed};
use Right::{Admin, JobsEnqueue, JobsManage, JobsRead, MetricsRead, Work};

/// All routes.
#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    row("POST",   "/api/jobs",                      Needs(JobsEnqueue), || post(jobs::submit),                  &doc::ENQUEUE),
    row("GET",    "/api/jobs",                      Needs(JobsRead),    || get(list::list),                     &doc::LIST),
    row("POST",   "/api/jobs/batch",                Needs(JobsEnqueue), || post(batch::batch),                  &doc::ENQUEUE_BATCH),
    row("POST",   "/api/jobs/cancel",               Needs(JobsManage),  || post(bulk::cancel),                  &doc::CANCEL_MANY),
    row("POST",   "/api/jobs/redrive",              Needs(JobsManage),  || post(bulk::redrive),                 &doc::REDRIVE_MANY),
    row("GET",    "/api/jobs/{id}",                 Needs(JobsRead),    || get(jobs::show),                     &doc::SHOW),
    row("DELETE", "/api/jobs/{id}",                 Needs(JobsManage),  || delete(jobs::erase),                 &doc::ERASE),
    row("GET",    "/api/jobs/{id}/status",          Signed(JobsRead),   || get(status::status),                 &doc::STATUS),
    row("DELETE", "/api/jobs/{id}/status",          Needs(JobsManage),  || delete(jobs::cancel_status),         &doc::CANCEL_STATUS),
    row("GET",    "/api/jobs/{id}/events",          Signed(JobsRead),   || get(stream::events),                 &doc::EVENTS),
    row("GET",    "/api/jobs/{id}/history",         Needs(JobsRead),    || get(jobs::history),                  &doc::HISTORY),
    row("GET",    "/api/jobs/{id}/explain",         Needs(JobsRead),    || get(jobs::explain),                  &doc::EXPLAIN),
    row("POST",   "/api/jobs/{id}/cancel",          Needs(JobsManage),  || post(jobs::cancel),                  &doc::CANCEL),
    row("POST",   "/api/jobs/{id}/redrive",         Needs(JobsManage),  || post(jobs::redrive),                 &doc::REDRIVE),
    row("GET",    "/api/queues",                    Needs(JobsRead),    || get(queues::all),                    &doc::LIST_QUEUES),
    row("GET",    "/api/queues/{jobType}",          Needs(JobsRead),    || get(queues::one),                    &doc::SHOW_QUEUE),
    row("POST",   "/api/queues/{jobType}/pause",    Needs(JobsManage),  || post(queues::pause),                 &doc::PAUSE),
    row("POST",   "/api/queues/{jobType}/resume",   Needs(JobsManage),  || post(queues::resume),                &doc::RESUME),
    row("GET",    "/api/poison",                    Needs(JobsRead),    || get(poison::list),                   &doc::LIST_POISON),
    row("POST",   "/api/poison/redrive",            Needs(JobsManage),  || post(poison::redrive),               &doc::REDRIVE_POISON),
    row("POST",   "/api/poison/discard",            Needs(JobsManage),  || post(poison::discard),               &doc::DISCARD_POISON),
    row("GET",    "/api/workers",                   Needs(JobsRead),    || get(workers::workers),               &doc::WORKERS),
    row("GET",    "/api/nodes",                     Needs(JobsRead),    || get(workers::nodes),                 &doc::NODES),
    row("GET",    "/api/types",                     Needs(JobsRead),    || get(types::all),                     &doc::LIST_TYPES),
    row("PUT",    "/api/types/{jobType}",           Needs(Admin),       || put(types::set),                     &doc::SET_TYPE),
    row("POST",   "/api/keys",                      Needs(Admin),       || post(keys::create),                  &doc::CREATE_KEY),
    row("GET",    "/api/keys",                      Needs(Admin),       || get(keys::all),                      &doc::LIST_KEYS),
    row("DELETE", "/api/keys/{id}",                 Needs(Admin),       || delete(keys::revoke),                &doc::REVOKE_KEY),
    row("GET",    "/api/audit",                     Needs(JobsManage),  || get(audit::audit),                   &doc::AUDIT),
    row("POST",   "/api/work/claim",                Needs(Work),        || post(claim::claim),                  &doc::CLAIM),
    row("POST",   "/api/work/heartbeat",            Needs(Work),        || post(heartbeat::heartbeat),          &doc::HEARTBEAT),
    row("POST",   "/api/work/settle",               Needs(Work),        || post(settle::settle),                &doc::SETTLE),
    row("POST",   "/api/work/release",              Needs(Work),        || post(release::release),              &doc::RELEASE),
    row("POST",   "/api/work/steps",                Needs(Work),        || post(steps::steps),                  &doc::STEPS),
    row("POST",   "/api/work/children",             Needs(Work),        || post(children::children),            &doc::CHILDREN),
    row("POST",   "/api/work/leave",                Needs(Work),        || post(leave::leave),                  &doc::LEAVE),
    row("GET",    "/metrics",                       Needs(MetricsRead), || get(health::metrics),                &doc::METRICS),
    row("GET",    "/healthz",                       Open,               || get(health::alive),                  &doc::ALIVE),
    row("GET",    "/readyz",                        Open,               || get(health::ready),                  &doc::READY),
    row("GET",    "/errors",                        Open,               || get(errors::all),                    &doc::LIST_ERRORS),
    row("GET",    "/errors/{code}",                 Open,               || get(errors::one),                    &doc::SHOW_ERROR),
    row("GET",    "/openapi.json",                  Open,               || get(doc::document),                  &doc::DOCUMENT),
    row("GET",    "/docs",                          Open,               || get(doc::docs),                      &doc::PAGE),
];

impl Route {
    /// The media types that it answers in.
    pub(crate) fn media_types(&self) -> &'static [&'static str] {
        match self.path {
            "/api/jobs/{id}/events" => &["text/event-stream"],
            "/metrics" => &["text/plain"],
            _ => &["application/json", "application/problem+json"],
        }
    }

    /// Whether it changes something and takes no query parameters.
    pub(crate) fn refuses_query(&self) -> bool {
        let has_query_parameters =
            self.doc.parameters.iter().any(|param| param.location == ParamLocation::Query);
        self.method != "GET" && !has_query_parameters
    }

    /// Whether workers report here.
    pub(crate) fn is_report(&self) -> bool {
        self.path.starts_with("/api/work/") && self.path != "/api/work/claim"
    }
}

/// The route for a request. HEAD is treated as GET.
pub(crate) fn route_of(method: &Method, path: &str) -> Option<&'static Route> {
    static BY_PATH: LazyLock<HashMap<(&str, &str), &'static Route>> =
        LazyLock::new(|| ROUTES.iter().map(|route| ((route.path, route.method), route)).collect());
    let method = if method == Method::HEAD { &Method::GET } else { method };
    BY_PATH.get(&(path, method.as_str())).copied()
}

/// The router over all routes.
pub(crate) fn router(app: AppState) -> Router {
    router_over(ROUTES.iter(), app)
}

/// The router of the listener for health and metrics. Authorization is the same as on the main
/// listener.
pub(crate) fn health_router(app: AppState) -> Router {
    const PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
    router_over(ROUTES.iter().filter(|route| PATHS.contains(&route.path)), app)
}

fn router_over(routes: impl Iterator<Item = &'static Route>, app: AppState) -> Router {
    let mut router = Router::new();
    for route in routes {
        router = router.route(route.path, (route.handler)());
    }
    router
        .method_not_allowed_fallback(method_not_allowed)
        .route_layer(from_fn_with_state(app.clone(), authorize))
        .fallback(not_found)
        .layer(from_fn_with_state(app.clone(), request_middleware))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handbook_lists_every_route_and_no_other() {
        let page = include_str!("../../../docs/http.md");
        let rows: Vec<&str> = page.lines().filter(|line| is_row(line)).collect();
        let expected: Vec<String> = ROUTES.iter().map(line).collect();
        assert_eq!(rows, expected);
    }

    fn is_row(line: &str) -> bool {
        line.starts_with("| `") && line.contains("` | `/")
    }

    fn line(route: &Route) -> String {
        let needs = match route.access {
            Access::Open => "nothing".into(),
            Access::Right(right) => format!("`{right}`"),
            Access::Signed(right) => format!("`{right}`, or a signed address"),
        };
        format!("| `{}` | `{}` | {needs} |", route.method, route.path)
    }

    #[test]
    fn changing_routes_refuse_undocumented_query_parameters() {
        let changing = ROUTES.iter().filter(|route| route.method != "GET");
        let taking = changing.filter(|route| !route.refuses_query());
        let taking: Vec<&str> = taking.map(|route| route.path).collect();
        let expected = [
            "/api/jobs",
            "/api/jobs/batch",
            "/api/jobs/cancel",
            "/api/jobs/redrive",
            "/api/poison/redrive",
            "/api/poison/discard",
            "/api/keys/{id}",
            "/api/work/children",
        ];
        assert_eq!(taking, expected);
    }

    #[test]
    fn only_routes_without_job_data_are_open() {
        let open = ROUTES.iter().filter(|route| route.access == Access::Open);
        let open: Vec<&str> = open.map(|route| route.path).collect();
        assert_eq!(
            open,
            ["/healthz", "/readyz", "/errors", "/errors/{code}", "/openapi.json", "/docs"]
        );
    }
}
