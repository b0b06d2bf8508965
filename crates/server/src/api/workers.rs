//! Workers, and the nodes of the installation.

use super::page::PageQuery;
use crate::{context::RequestContext, error::Reply, extract::QueryParams};
use axum::Json;
use engine::Scope;
use store::{NodeStatus, WorkerSeen};
use wire::{NodeShape, NodeState, Page, Rfc3339, WorkerShape, WorkerState};

pub(crate) async fn workers(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<WorkerShape>>> {
    let query = PageQuery::of(&params)?;
    let mut seen = context.node().workers(context.scope()).await?;
    let grant = context.grant();
    // Workers that serve only types beyond the caller's limits are hidden.
    seen.retain(|seen| {
        grant.types.is_empty() || seen.job_types.iter().any(|of| grant.may_type(of).is_ok())
    });
    Ok(Json(query.cut(seen, key, shown)))
}

/// Two tenants may both have a `worker-1`.
fn key(seen: &WorkerSeen) -> Vec<u8> {
    let tenant = match &seen.scope {
        Scope::One(tenant) => tenant.as_str(),
        Scope::All => "*",
    };
    format!("{}\0{tenant}", seen.worker).into_bytes()
}

/// All nodes of the store, as this node last read them.
pub(crate) async fn nodes(context: RequestContext) -> Json<Page<NodeShape>> {
    let items = context.node().nodes().into_iter().map(node).collect();
    Json(Page { items, next_cursor: None })
}

fn node(NodeStatus { info, seen_at, live, leads }: NodeStatus) -> NodeShape {
    NodeShape {
        node_id: info.id,
        version: info.version,
        started_at: Rfc3339(info.started_at),
        last_seen_at: Rfc3339(seen_at),
        state: NodeState::of(live, info.draining),
        leader: leads,
    }
}

fn shown(seen: &WorkerSeen) -> WorkerShape {
    WorkerShape {
        worker_id: seen.worker.to_string(),
        host: seen.host.as_ref().map(ToString::to_string),
        job_types: seen.job_types.iter().map(ToString::to_string).collect(),
        running: seen.running,
        last_seen_at: Rfc3339(seen.seen_at),
        state: WorkerState::of(seen.live),
    }
}
