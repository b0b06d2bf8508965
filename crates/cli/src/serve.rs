//! Runs the server, and shuts it down in order.

use crate::{
    args::ServeArgs,
    banner::banner,
    config_command, listen,
    log::{self, LogFormat},
    open_files, open_store,
    ready_made::{HandlerEnvironment, ReadyMadeHandlers, signing::TypeSigners},
    settings::{DeclaredType, Settings},
    signals::Signals,
    tls::Certificates,
};
use anyhow::{Context, Result};
use engine::{CorrelationId, JobId, Scope};
use platform::{Actor, Node, SystemClock, SystemRandom, new_node_id};
use server::{
    Listeners, Server,
    data_folder::{admin_key::AdminKeys, local_socket},
};
use std::{process::ExitCode, sync::Arc, time::Duration};
use store::{Clock, RandomSource};
use tokio::{runtime::Builder, task::spawn_blocking, time::timeout};
use tracing::{error, info, warn};

/// How long requests under way may take after a signal. A service manager usually waits half a
/// minute before it kills.
const GRACE: Duration = Duration::from_secs(25);
/// How long handlers may take to give their jobs back after a second signal.
const RELEASE_MAX: Duration = Duration::from_secs(5);
const RUNTIME_SHUTDOWN_MAX: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode> {
    let mut settings = config_command::load(&args.settings)?;
    let log_format = LogFormat::of(&settings.log, &args.terminal);
    let node_id = new_node_id(&SystemClock::new(), &SystemRandom);
    let log = log::start(&settings.log, log_format, Some(&node_id))?;
    open_files::allow_many(&mut settings.server.limits, &settings.shares);
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(settings, log_format, node_id));
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_MAX);
    let code = match (served, log_format) {
        (Ok(()), _) => Ok(ExitCode::SUCCESS),
        (Err(error), LogFormat::Text { .. }) => Err(error),
        (Err(error), LogFormat::Json) => {
            error!(error = format!("{error:#}"), "the server could not be started");
            Ok(ExitCode::FAILURE)
        }
    };
    log.finish();
    code
}

async fn serve(settings: Settings, log_format: LogFormat, node_id: String) -> Result<()> {
    // A signal during the start takes effect after the start.
    let mut signals = Signals::new()?;
    if let Some(danger) = settings.dangers() {
        warn!("{danger}");
    }
    let certificates = settings.tls.as_ref().map(Certificates::load).transpose()?;
    let tls = certificates.as_ref().map(Certificates::config);
    let secure = tls.is_some();
    let listeners = listen::listen(&settings)?;
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let (address, wait_for_store) = (&settings.store, settings.wait_for_store);
    let limits = settings.tenant_limits;
    let folder = address.folder();
    let (store, startup_lock) = tokio::select! {
        opened = open_store::open(address, wait_for_store, limits, clock.clone(), random.clone()) => opened?,
        () = signals.any() => {
            info!("asked to end while waiting for the store");
            return Ok(());
        }
    };
    let keys = AdminKeys { store: &store, folder, clock: &*clock, random: &*random };
    let admin_key = keys.ensure().await?;
    let Settings { payload_bytes_max, strict_types, .. } = settings;
    let node = platform::Settings { payload_bytes_max, strict_types, node_id: Some(node_id) };
    let node = Arc::new(Node::start(store, clock.clone(), random.clone(), node)?);
    declare_types(&node, &settings.types, &*clock, &*random).await?;
    let signers = TypeSigners::ensure(&node, folder, &*random).await?;
    let environment = HandlerEnvironment::new(&settings, signers, clock.clone());
    let name = format!("serve-{:08x}", random.entropy().0 >> 96);
    let server = settings.server.clone();
    // Before TCP is served: a command that saw the server ready finds the socket.
    let (local, _local_socket) =
        local_socket::listen(folder, listeners.main.local_addr()?.port())?.unzip();
    let listeners = Listeners { local, ..listeners };
    let server = Server::start(node.clone(), clock, random, server, listeners, tls).await?;
    let _certificate_reload = certificates.map(Certificates::reload_on_change);
    if let Some(startup_lock) = startup_lock {
        startup_lock.release().await; // keys, types and signing secrets exist
    }
    let mut handlers = ReadyMadeHandlers::start(&node, environment, name).await?;
    let address = server.address();
    match log_format {
        LogFormat::Json => {
            let (store, folder) = (settings.store.shown(), folder.display());
            let admin_key = admin_key.map(|path| path.display().to_string());
            info!(%address, tls = secure, store, %folder, admin_key, "listening");
        }
        LogFormat::Text { .. } => {
            eprint!("{}", banner(address, secure, &settings.store, admin_key.as_deref()));
        }
    }
    signals.any().await;
    info!("asked to end: no new connections, requests under way are answered, handlers finish");
    tokio::select! {
        ((), ()) = async { tokio::join!(server.drain(GRACE), handlers.stop(GRACE)) } => {}
        () = signals.any() => {
            warn!("asked to end again: requests and handlers under way are cut off");
            // Before the node closes: a job whose handler is cut off here is given back, and does
            // not wait for its lease to expire.
            if timeout(RELEASE_MAX, handlers.stop(Duration::ZERO)).await.is_err() {
                warn!("some handlers did not end: their jobs run again when their leases expire");
            }
        }
    }
    // Blocks for as long as the last commit takes.
    spawn_blocking(move || node.close()).await?;
    info!("ended");
    Ok(())
}

/// Writes the job types of the file to the store, and says what they replaced.
async fn declare_types(
    node: &Node,
    types: &[DeclaredType],
    clock: &dyn Clock,
    random: &dyn RandomSource,
) -> Result<()> {
    let correlation = JobId::new(clock.read().wall, random.entropy()).to_string();
    let correlation = CorrelationId::parse(&correlation)?;
    let actor = Actor { who: "config".into(), name: None, scope: Scope::All, correlation };
    let named = types.iter().map(|declared| (declared.job_type.clone(), declared.policy.clone()));
    let named = node.declare_types(&named.collect(), &actor).await;
    let declared = named.context("the types of consign.toml cannot be declared")?;
    for job_type in &declared.changed {
        info!(%job_type, "type declared");
    }
    for job_type in &declared.overridden {
        warn!(
            %job_type,
            "consign.toml replaced the policy that the API had set; the audit log shows both"
        );
    }
    for job_type in &declared.released {
        info!(%job_type, "consign.toml names this type no more: it keeps its policy");
    }
    Ok(())
}
