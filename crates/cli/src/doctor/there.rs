//! What the server says, to the key that is shown to it.

use super::{
    finding::Finding,
    house::{self, House},
    keys,
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
use wire::{NodeShape, NodeState, QueueShape};

pub(super) fn look(
    args: &DoctorArgs,
    settings: Option<&Settings>,
    now: Timestamp,
) -> Result<Vec<Finding>> {
    // Whoever names a store and no server asks about the store: a backup has no server, and whoever listens at the
    // usual address may serve another store.
    let connection = &args.remote.connection;
    if connection.store.is_some() && !names_server(connection) {
        let what = "server: not looked at, since --store names a store; --url names a server";
        return Ok(vec![Finding::unknown("server", what)]);
    }
    let client = match connect(connection) {
        Ok(client) => client,
        Err(error) => return Ok(vec![Finding::wrong("server", format!("server: {error:#}"))]),
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(ask(&client, settings, now)))
}

async fn ask(client: &Client, settings: Option<&Settings>, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = client.ready().await {
        let is_there = error.problem().is_some();
        findings.push(not_ready(client, &error, settings));
        if !is_there {
            let what = "key, queues, workers, types: not looked at without a server";
            findings.push(Finding::unknown("server", what));
            return findings;
        }
    }
    match client.nodes().await {
        Ok(nodes) => findings.extend(served_by(client, &nodes.items)),
        Err(error) => {
            findings.push(no_entry(client, &error));
            return findings;
        }
    }
    match gather(client, settings).await {
        Ok(house) => findings.extend(house::look(&house, now)),
        Err(error) => findings.push(Finding::wrong("server", format!("server: {error}"))),
    }
    findings.extend(asked_keys(client, now).await);
    findings
}

/// It is not there, or says itself that it cannot serve.
fn not_ready(client: &Client, error: &ClientError, settings: Option<&Settings>) -> Finding {
    let address = client.address();
    if let Some(problem) = error.problem() {
        let what = format!("server {address}: up, but not ready: {}", problem.detail);
        return Finding::wrong("server", what).say(
            "its log says more under this time; room on the disk and the store are looked at above",
        );
    }
    let what = match error {
        ClientError::Unreachable { source, .. } => format!("server: {error} ({})", root(source)),
        ClientError::Broken { source, .. } => format!("server: {error} ({})", root(source)),
        ClientError::Setup(_)
        | ClientError::TimedOut { .. }
        | ClientError::Refused { .. }
        | ClientError::Strange { .. } => format!("server: {error}"),
    };
    elsewhere(Finding::wrong("server", what), address, settings)
}

fn elsewhere(finding: Finding, address: &str, settings: Option<&Settings>) -> Finding {
    let listen = settings.map(|settings| {
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", settings.listen)
    });
    let here = Address::parse(address).is_ok_and(|address| address.is_this_machine());
    let finding = match here {
        true => finding.run("start it", "consign serve"),
        false => finding.say("is it running, and can this machine reach it?"),
    };
    match listen {
        Some(listen) if here && listen != address => {
            let run = format!("consign doctor --url {listen}");
            finding.run("the settings here say that it listens elsewhere", run)
        }
        Some(_) | None => finding.say("--url, CONSIGN_URL or a profile names another server"),
    }
}

/// What the nodes behind the door run, and who of them fell silent.
fn served_by(client: &Client, nodes: &[NodeShape]) -> Vec<Finding> {
    let (lost, there): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| node.state == NodeState::Lost);
    let versions: BTreeSet<&str> = there.iter().map(|node| &*node.version).collect();
    let served = versions.into_iter().map(|version| served(client, version));
    let silent = lost.iter().map(|node| {
        Finding::note("server", format!("node {} fell silent and was not stopped", node.node_id))
            .run("who serves", "consign nodes")
    });
    served.chain(silent).collect()
}

fn served(client: &Client, version: &str) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    let what = format!("server {}: ready, version {version}; the key is good", client.address());
    match version == ours {
        true => Finding::well("server", what),
        false => Finding::note("server", format!("{what}; this command is version {ours}")),
    }
}

/// The door is there, and does not let us in.
fn no_entry(client: &Client, error: &ClientError) -> Finding {
    let address = client.address();
    match error.problem().map(|problem| problem.status) {
        Some(401) => Finding::wrong("key", format!("key: {address} does not know it: {error}"))
            .run("note one that it knows", format!("consign profile add NAME --url {address} --key -"))
            .say("or give it with CONSIGN_KEY or --key @FILE; the first one is in admin.key beside the store")
            .run("where that is lost, stop the server, move admin.key away, then", "consign keys bootstrap"),
        Some(403) => Finding::note("key", "key: good, but it may not read jobs; nothing more could be looked at")
            .run("one that may", "consign keys create NAME --scope jobs:read"),
        Some(_) | None => Finding::wrong("server", format!("server {address}: {error}")),
    }
}

/// So many queues are asked for the reasons of their poison.
const REASONS_MAX: usize = 20;

async fn gather(client: &Client, settings: Option<&Settings>) -> Result<House, ClientError> {
    let queues = client.queues().await?.items;
    let mut reasons = BTreeMap::new();
    let poisoned = queues.iter().filter(|queue| queue.poisoned > 0);
    for queue in poisoned.take(REASONS_MAX) {
        reasons.insert(queue.job_type.clone(), counts(client, queue).await?);
    }
    let strict = settings.is_some_and(|settings| settings.strict_types);
    let (workers, types) = (client.workers().await?.items, client.types().await?.items);
    Ok(House { queues, workers, types, reasons, strict })
}

async fn counts(client: &Client, queue: &QueueShape) -> Result<BTreeMap<String, u64>, ClientError> {
    let job_type = Some(queue.job_type.clone());
    let query = PoisonQuery { job_type, top: Some(1), ..PoisonQuery::default() };
    Ok(client.poison(&query).await?.counts)
}

async fn asked_keys(client: &Client, now: Timestamp) -> Vec<Finding> {
    match client.keys().await {
        Ok(page) => keys::look(&page.items, now),
        Err(error) if error.code() == Some("FORBIDDEN") => {
            vec![Finding::unknown("keys", "keys: not looked at: this key is no admin's")]
        }
        Err(error) => vec![Finding::wrong("keys", format!("keys: {error}"))],
    }
}
