//! Binds the addresses that the server listens at.

use crate::settings::{Listen, Settings, UNPROTECTED, is_open};
use anyhow::{Context, Result, bail};
use server::Listeners;
use std::net::{SocketAddr, TcpListener};

pub(crate) fn listen(settings: &Settings) -> Result<Listeners> {
    let bind = |listen: &Listen| {
        let addresses = addresses_of(listen, settings)?;
        let bound = TcpListener::bind(&addresses[..]).and_then(|listener| {
            rustix::net::listen(&listener, BACKLOG)?;
            Ok(listener)
        });
        bound.with_context(|| format!("the server cannot listen at {listen}"))
    };
    let main = bind(&settings.listen)?;
    let health = settings.health_listen.as_ref().map(bind).transpose()?;
    Ok(Listeners { main, health, local: None })
}

/// The backlog: connections that the system queues until the server accepts them; the system may
/// queue fewer. With the usual 128, a thousand clients that connect at once wait for seconds,
/// because the system drops those for which there is no space.
const BACKLOG: i32 = 4_096;

/// Errors of the addresses that cannot be bound.
pub(crate) fn check(settings: &Settings) -> Vec<anyhow::Error> {
    let all = [Some(&settings.listen), settings.health_listen.as_ref()];
    all.into_iter().flatten().filter_map(|listen| addresses_of(listen, settings).err()).collect()
}

/// The addresses to bind. A name can resolve to anything. So the check is of the resolved
/// addresses, and the same addresses are bound.
fn addresses_of(listen: &Listen, settings: &Settings) -> Result<Vec<SocketAddr>> {
    let addresses =
        listen.addresses().with_context(|| format!("{listen} is the name of no address"))?;
    if addresses.is_empty() {
        bail!("{listen} is the name of no address");
    }
    let is_protected = settings.tls.is_some() || settings.behind_proxy;
    match addresses.iter().find(|address| is_open(address.ip())) {
        Some(open) if !is_protected => bail!("{listen} is {open}: {UNPROTECTED}"),
        Some(_) | None => Ok(addresses),
    }
}
