//! Warnings about valid settings.

use super::{Settings, types::DeclaredType};
use crate::{args::StoreAddress, open_files::Clamp};
use engine::{HandlerSource, ReadyMade};

impl Settings {
    /// One sentence for each setting that may not be intended.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_types = self
            .types
            .iter()
            .flat_map(|declared| of_type(declared).into_iter().chain(self.of_handler(declared)));
        let mut all: Vec<String> = of_types.collect();
        if let StoreAddress::Postgres(address) = &self.store {
            all.extend(address.weaknesses().into_iter().map(|what| format!("store: {what}")));
        }
        if self.tls.is_some() && self.behind_proxy {
            all.push("both [tls] and behind_proxy are set: TLS is done here, and the proxy has to speak it".into());
        }
        let mut limits = self.server.limits.clone();
        if let Some(clamp) = Clamp::of_this_process(&limits) {
            clamp.apply(&mut limits, &self.shares);
            all.push(format!(
                "limits.connections is {}, but this process may open {} files: a server that is started like \
                 it takes {} connections; raise the limit of open files (LimitNOFILE= in systemd, ulimit -n)",
                self.server.limits.connections_max, clamp.open_files_max, clamp.connections_max
            ));
        }
        all.extend(self.shares.warnings(&limits));
        if self.strict_types && self.types.is_empty() {
            let which = "only types that were set with PUT /api/types are taken";
            all.push(format!("strict_types is on, and no [types] are in the file: {which}"));
        }
        all.extend(self.dangers());
        all
    }

    /// Settings that give key holders power over this machine. The server logs them at every start,
    /// too.
    pub(crate) fn dangers(&self) -> Option<String> {
        let open = self.server.handlers.exec == HandlerSource::All;
        let what =
            "an admin key of * without limits can run any program as this user, by PUT /api/types";
        open.then(|| format!("handlers.exec is \"all\": {what}"))
    }

    /// Why the jobs of a type would wait for ever.
    fn of_handler(&self, declared: &DeclaredType) -> Option<String> {
        let handler = declared.policy.handler.as_ref()?;
        let why = match (self.server.handlers.of(handler), handler) {
            (HandlerSource::Off, _) => format!("`[handlers] {}` is \"off\"", handler.kind()),
            (HandlerSource::All | HandlerSource::File, ReadyMade::Http(url)) => {
                outbound::check_target(url.as_str(), &self.allow).err()?.to_string()
            }
            (HandlerSource::All | HandlerSource::File, ReadyMade::Exec(_)) => return None,
        };
        let of = format!("{}: type {}", declared.place, declared.job_type);
        Some(format!("{of}: its handler is not run: {why}"))
    }
}

fn of_type(declared: &DeclaredType) -> Vec<String> {
    let DeclaredType { policy, place, job_type, said, .. } = declared;
    let span = wire::format_span;
    let (kept, window) = (span(policy.retention), span(policy.key_window));
    let mut all = Vec::new();
    let mut warn = |what: String| all.push(format!("{place}: type {job_type}: {what}"));
    if policy.timeout <= policy.lease {
        let (timeout, lease) = (span(policy.timeout), span(policy.lease));
        warn(format!(
            "timeout {timeout} is not longer than the lease of {lease}: the lease, not the timeout, \
             decides when a lost worker is noticed"
        ));
    }
    if policy.backoff.max < policy.backoff.base {
        let (base, max) = (span(policy.backoff.base), span(policy.backoff.max));
        warn(format!("backoff.max {max} is shorter than backoff.base {base}: waits are {max}"));
    }
    if policy.schema.is_none() {
        warn("no schema is said: payloads are taken whatever they hold".into());
    }
    if !said.iter().any(|(key, _)| *key == "retention") {
        warn(format!("no retention is said: ended jobs are kept for {kept}"));
    }
    if policy.retention < policy.key_window {
        warn(format!(
            "retention {kept} is shorter than key_window {window}: jobs with a key are kept for {window}"
        ));
    }
    all
}
