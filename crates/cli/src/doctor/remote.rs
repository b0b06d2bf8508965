//! What the server reports to the key that the command sends.

use super::{
    DoctorReport, keys,
    queues::{self, ServerState},
};
use crate::{
    args::DoctorArgs,
    remote::{connect, names_server, root},
    settings::Settings,
};
use anyhow::Result;
use client::{Address, Client, ClientError, PoisonQuery};
use engine::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use tokio::runtime::Builder;
use wire::{NodeState, NodeStatus, QueueStatus};

pub(super) fn examine(
    report: &mut DoctorReport,
    args: &DoctorArgs,
    settings: Option<&Settings>,
    now: Timestamp,
) -> Result<()> {
    // A user who names a store and no server asks about the store. A backup has no server, and a
    // server at the usual address may serve another store.
    let connection = &args.remote.connection;
    if connection.store.is_some() && !names_server(connection) {
        let what = "server: not looked at, since --store names a store; --url names a server";
        report.unknown("server", what);
        return Ok(());
    }
    match connect(connection) {
        Ok(client) => {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(examine_server(report, &client, settings, now));
        }
        Err(error) => {
            report.wrong("server", format!("server: {error:#}"));
        }
    }
    Ok(())
}

async fn examine_server(
    report: &mut DoctorReport,
    client: &Client,
    settings: Option<&Settings>,
    now: Timestamp,
) {
    let readiness = client.ready().await;
    if let Err(error) = &readiness {
        report_not_ready(report, client.address(), error, settings);
        if error.problem().is_none() {
            let what = "key, queues, workers, types: not looked at without a server";
            report.unknown("server", what);
            return;
        }
    }
    match client.nodes().await {
        Ok(nodes) => report_nodes(report, client.address(), readiness.is_ok(), &nodes.items),
        Err(error) => return report_refused_key(report, client.address(), &error),
    }
    match read_server_state(client, settings).await {
        Ok(server_state) => queues::examine(report, &server_state, now),
        Err(error) => {
            report.wrong("server", format!("server: {error}"));
        }
    }
    match client.keys().await {
        Ok(page) => keys::examine(report, &page.items, now),
        Err(error) if error.code() == Some("FORBIDDEN") => {
            report.unknown("keys", "keys: not looked at: this key is no admin's");
        }
        Err(error) => {
            report.wrong("keys", format!("keys: {error}"));
        }
    }
}

/// No server answers, or it answers that it cannot serve.
fn report_not_ready(
    report: &mut DoctorReport,
    address: &str,
    error: &ClientError,
    settings: Option<&Settings>,
) {
    if let Some(problem) = error.problem() {
        let what = format!("server {address}: up, but not ready: {}", problem.detail);
        report.wrong("server", what).say(
            "its log says more under this time; room on the disk and the store are looked at above",
        );
        return;
    }
    let what = if let ClientError::Unreachable { source, .. } | ClientError::Broken { source, .. } =
        error
    {
        format!("server: {error} ({})", root(source))
    } else {
        format!("server: {error}")
    };
    let finding = report.wrong("server", what);
    let is_local = Address::parse(address).is_ok_and(|address| address.is_this_machine());
    if is_local {
        finding.run("start it", "consign serve");
    } else {
        finding.say("is it running, and can this machine reach it?");
    }
    let listen = settings.map(|settings| {
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", settings.listen)
    });
    match listen {
        Some(listen) if is_local && listen != address => {
            let run = format!("consign doctor --url {listen}");
            finding.run("the settings here say that it listens elsewhere", run)
        }
        Some(_) | None => finding.say("--url, CONSIGN_URL or a profile names another server"),
    };
}

/// The versions of the nodes, and the nodes whose heartbeats stopped.
fn report_nodes(report: &mut DoctorReport, address: &str, is_ready: bool, nodes: &[NodeStatus]) {
    let (lost, live): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| node.state == NodeState::Lost);
    let versions: BTreeSet<&str> = live.iter().map(|node| &*node.version).collect();
    let own_version = env!("CARGO_PKG_VERSION");
    // The finding before this one says why a server is not ready.
    let ready = if is_ready { "ready, " } else { "" };
    for version in versions {
        let what = format!("server {address}: {ready}version {version}; the key is good");
        if version == own_version {
            report.well("server", what);
        } else {
            report.note("server", format!("{what}; this command is version {own_version}"));
        }
    }
    for node in lost {
        let host = node.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        let what = format!("node {}{host} fell silent and was not stopped", node.node_id);
        report.note("server", what).run("who serves", "consign nodes");
    }
}

/// The server answers and refuses the key.
fn report_refused_key(report: &mut DoctorReport, address: &str, error: &ClientError) {
    match error.problem().map(|problem| problem.status) {
        Some(401) => report
            .wrong("key", format!("key: {address} does not know it: {error}"))
            .run("note one that it knows", format!("consign profile add NAME --url {address} --key -"))
            .say("or give it with CONSIGN_KEY or --key @FILE; the first one is in admin.key beside the store")
            .run("where that is lost, stop the server, move admin.key away, then", "consign keys bootstrap"),
        Some(403) => report
            .note("key", "key: good, but it may not read jobs; nothing more could be looked at")
            .run("one that may", "consign keys create NAME --scope jobs:read"),
        Some(_) | None => report.wrong("server", format!("server {address}: {error}")),
    };
}

/// At most so many queues are asked for the reasons of their poisoned jobs.
const REASONS_MAX: usize = 20;

async fn read_server_state(
    client: &Client,
    settings: Option<&Settings>,
) -> Result<ServerState, ClientError> {
    let queues = client.queues(None).await?.items;
    let mut reasons = BTreeMap::new();
    let poisoned = queues.iter().filter(|queue| queue.poisoned > 0);
    for QueueStatus { job_type, .. } in poisoned.take(REASONS_MAX) {
        let query = PoisonQuery {
            job_type: Some(job_type.clone()),
            top: Some(1),
            ..PoisonQuery::default()
        };
        reasons.insert(job_type.clone(), client.poison(&query).await?.counts);
    }
    let strict_types = settings.is_some_and(|settings| settings.strict_types);
    let (workers, types) = (client.workers(None).await?.items, client.types().await?.items);
    Ok(ServerState { queues, workers, types, reasons, strict_types })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Rfc3339;

    fn report_of(readiness: Result<(), ClientError>) -> String {
        let at = Rfc3339(Timestamp::from_unix_ms(0));
        let node = NodeStatus {
            host: None,
            pid: None,
            address: None,
            node_id: "n-1".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_at: at,
            last_seen_at: at,
            state: NodeState::Live,
            leader: true,
        };
        let mut report = DoctorReport::default();
        if let Err(error) = &readiness {
            report_not_ready(&mut report, "http://here", error, None);
        }
        report_nodes(&mut report, "http://here", readiness.is_ok(), &[node]);
        let lines: Vec<String> = report.0.into_iter().map(|finding| finding.what).collect();
        lines.join("\n")
    }

    #[test]
    fn a_server_is_ready_or_not_ready_and_never_both() {
        let problem = serde_json::json!({
            "type": "/errors/STORE_FULL", "title": "Store full", "status": 503,
            "detail": "the store has no room left", "errorCode": "STORE_FULL", "correlationId": "c",
        });
        let problem = serde_json::from_value(problem).unwrap();
        let refused = ClientError::Refused { problem: Box::new(problem), retry_after: None };
        let report = report_of(Err(refused));
        assert!(report.contains("not ready: the store has no room left"), "{report}");
        assert!(!report.contains(": ready"), "{report}");
        assert!(report_of(Ok(())).contains(": ready, version"));
    }
}
