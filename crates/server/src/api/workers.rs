//! Who works here: workers, and the nodes of the house.

use crate::{Door, auth::Caller, no::Reply};
use axum::{Json, extract::State};
use store::{NodeSeen, WorkerSeen};
use wire::{Moment, NodeShape, NodeState, Page, WorkerShape, WorkerState};

pub(crate) async fn workers(
    State(door): State<Door>,
    caller: Caller,
) -> Reply<Json<Page<WorkerShape>>> {
    let seen = door.node.workers(caller.scope()).await?;
    let grant = caller.grant();
    // Who serves only what is out of the caller's reach is none of its business.
    let within = seen.iter().filter(|seen| {
        grant.types.is_empty() || seen.job_types.iter().any(|of| grant.may_type(of).is_ok())
    });
    let items = within.map(shown).collect();
    Ok(Json(Page { items, next_cursor: None }))
}

/// Everybody who serves the store, as this node last heard.
pub(crate) async fn nodes(State(door): State<Door>, _: Caller) -> Json<Page<NodeShape>> {
    let items = door.node.nodes().into_iter().map(node).collect();
    Json(Page { items, next_cursor: None })
}

fn node(NodeSeen { card, seen_at, live, leads }: NodeSeen) -> NodeShape {
    NodeShape {
        node_id: card.id,
        version: card.version,
        started_at: Moment(card.started_at),
        last_seen_at: Moment(seen_at),
        state: NodeState::of(live, card.draining),
        leader: leads,
    }
}

fn shown(seen: &WorkerSeen) -> WorkerShape {
    WorkerShape {
        worker_id: seen.worker.to_string(),
        host: seen.host.as_ref().map(ToString::to_string),
        job_types: seen.job_types.iter().map(ToString::to_string).collect(),
        running: seen.running,
        last_seen_at: Moment(seen.seen_at),
        state: WorkerState::of(seen.live),
    }
}
