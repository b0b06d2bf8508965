//! Who works here: workers, and the nodes of the house.

use crate::{Door, auth::Caller, no::Reply};
use axum::{Json, extract::State};
use store::WorkerSeen;
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

/// The embedded store has one node: whoever answers is it.
pub(crate) async fn nodes(State(door): State<Door>, _: Caller) -> Json<Page<NodeShape>> {
    let node = NodeShape {
        node_id: door.node_id.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_at: Moment(door.started_at),
        state: if door.is_closing() { NodeState::Draining } else { NodeState::Live },
    };
    Json(Page { items: vec![node], next_cursor: None })
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
