//! Take the addresses that the server listens at.

use crate::settings::{Listen, Settings, UNPROTECTED, is_open};
use anyhow::{Context, Result, bail};
use server::Listeners;
use std::net::{SocketAddr, TcpListener};

pub(crate) fn listen(settings: &Settings) -> Result<Listeners> {
    let bind = |listen: &Listen| {
        let addresses = addresses_of(listen, settings)?;
        let bound = TcpListener::bind(&addresses[..]).and_then(|listener| {
            rustix::net::listen(&listener, WAITING_TO_ENTER)?;
            Ok(listener)
        });
        bound.with_context(|| format!("{listen} cannot be listened at"))
    };
    let main = bind(&settings.listen)?;
    let health = settings.health_listen.as_ref().map(bind).transpose()?;
    Ok(Listeners { main, health, local: None })
}

/// Connections that the system keeps for us until we take them; it may keep fewer. With the usual 128, a
/// thousand clients that come at once wait for seconds, because the system forgets those it has no room for.
const WAITING_TO_ENTER: i32 = 4_096;

/// Whether all addresses that are to be listened at can be.
pub(crate) fn check(settings: &Settings) -> Vec<anyhow::Error> {
    let all = [Some(&settings.listen), settings.health_listen.as_ref()];
    all.into_iter().flatten().filter_map(|listen| addresses_of(listen, settings).err()).collect()
}

/// The addresses that are meant. A name can mean anything, so it is judged by what it resolves to, and what
/// was judged is what is used.
fn addresses_of(listen: &Listen, settings: &Settings) -> Result<Vec<SocketAddr>> {
    let addresses =
        listen.addresses().with_context(|| format!("{listen} is the name of no address"))?;
    if addresses.is_empty() {
        bail!("{listen} is the name of no address");
    }
    let guarded = settings.tls.is_some() || settings.behind_proxy;
    match addresses.iter().find(|address| is_open(address.ip())) {
        Some(open) if !guarded => bail!("{listen} is {open}: {UNPROTECTED}"),
        Some(_) | None => Ok(addresses),
    }
}
