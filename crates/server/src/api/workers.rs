//! Workers, and the nodes of the installation.

use super::page::PageQuery;
use crate::{context::RequestContext, error::Reply, extract::QueryParams};
use axum::Json;
use store::{NodeStatus, WorkerSeen};
use wire::{NodeState, Page, Rfc3339, WorkerState, WorkerStatus, named_scope};

pub(crate) async fn workers(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<WorkerStatus>>> {
    let query = PageQuery::with(&params, &["tenant"])?;
    let scope = named_scope(context.scope(), params.get("tenant"))?;
    let mut workers = context.node().workers(&scope).await?;
    let grant = context.grant();
    // Workers that serve only types beyond the caller's limits are hidden.
    workers.retain(|worker| {
        grant.types.is_empty()
            || worker.job_types.iter().any(|job_type| grant.may_type(job_type).is_ok())
    });
    Ok(Json(query.page_of(workers, key, worker_status)))
}

/// Two tenants may both have a `worker-1`.
fn key(worker: &WorkerSeen) -> Vec<u8> {
    format!("{}\0{}", worker.worker, worker.scope.as_str()).into_bytes()
}

/// All nodes of the store, as this node last read them. Machines and addresses concern operators
/// only, so a caller of one tenant does not see them.
pub(crate) async fn nodes(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<wire::NodeStatus>>> {
    let query = PageQuery::of(&params)?;
    let shows_machines = context.caller.sees_tenants();
    let status = |node: &NodeStatus| node_status(node, shows_machines);
    Ok(Json(query.page_of(context.node().nodes(), node_key, status)))
}

/// The oldest node first.
fn node_key(node: &NodeStatus) -> Vec<u8> {
    let started_at = node.info.started_at.unix_ms().unsigned_abs();
    [&started_at.to_be_bytes()[..], node.info.id.as_bytes()].concat()
}

fn node_status(node: &NodeStatus, shows_machines: bool) -> wire::NodeStatus {
    let NodeStatus { info, seen_at, live, leads } = node;
    wire::NodeStatus {
        node_id: info.id.clone(),
        host: shows_machines.then(|| info.host.clone()),
        pid: shows_machines.then_some(info.pid),
        address: info.address.clone().filter(|_| shows_machines),
        version: info.version.clone(),
        started_at: Rfc3339(info.started_at),
        last_seen_at: Rfc3339(*seen_at),
        state: NodeState::of(*live, info.draining),
        leader: *leads,
    }
}

fn worker_status(worker: &WorkerSeen) -> WorkerStatus {
    WorkerStatus {
        worker_id: worker.worker.to_string(),
        host: worker.host.as_ref().map(ToString::to_string),
        job_types: worker.job_types.iter().map(ToString::to_string).collect(),
        running: worker.running,
        last_seen_at: Rfc3339(worker.seen_at),
        state: WorkerState::of(worker.live),
    }
}
