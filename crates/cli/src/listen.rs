//! Take the address that the door is to have.

use crate::settings::{Settings, UNPROTECTED, is_open};
use anyhow::{Context, Result, bail};
use std::net::{SocketAddr, TcpListener};

/// Listens, where the settings say.
pub(crate) fn listen(settings: &Settings) -> Result<TcpListener> {
    let addresses = addresses(settings)?;
    let bound = TcpListener::bind(&addresses[..]).and_then(|listener| {
        rustix::net::listen(&listener, WAITING_TO_ENTER)?;
        Ok(listener)
    });
    bound.with_context(|| format!("{} cannot be listened at", settings.listen))
}

/// Connections that the system keeps for us until we take them; it may keep fewer. With the usual 128, a
/// thousand clients that come at once wait for seconds, because the system forgets those it has no room for.
const WAITING_TO_ENTER: i32 = 4_096;

/// The addresses that are meant. A name can mean anything, so it is judged by what it resolves to, and what
/// was judged is what is used.
pub(crate) fn addresses(settings: &Settings) -> Result<Vec<SocketAddr>> {
    let listen = &settings.listen;
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
