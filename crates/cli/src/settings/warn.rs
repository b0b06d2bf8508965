//! Warnings about valid settings.

use super::{Settings, types::DeclaredType};
use crate::{args::StoreAddress, open_files::Clamp};
use engine::{HandlerSource, ReadyMade};
use server::AllowedOrigins;

impl Settings {
    /// One sentence for each setting that may not be intended.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let type_warnings = self.types.iter().flat_map(|declared| {
            warnings_of_type(declared).into_iter().chain(self.handler_warning(declared))
        });
        let mut all: Vec<String> = type_warnings.collect();
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
            let consequence = "only types that were set with PUT /api/types are accepted";
            all.push(format!("strict_types is on, and no [types] are in the file: {consequence}"));
        }
        if self.server.cors_origins == AllowedOrigins::Every {
            let consequence = "pages of every website may call the API with a key that they know";
            all.push(format!("cors_origins is \"*\": {consequence}; name their origins instead"));
        }
        all.extend(self.dangers());
        all
    }

    /// Settings that give key holders power over this machine. The server logs them at every start,
    /// too.
    pub(crate) fn dangers(&self) -> Option<String> {
        let open = self.server.handlers.exec == HandlerSource::All;
        let consequence =
            "an admin key of * without limits can run any program as this user, by PUT /api/types";
        open.then(|| format!("handlers.exec is \"all\": {consequence}"))
    }

    /// Why the jobs of a type would wait for ever.
    fn handler_warning(&self, declared: &DeclaredType) -> Option<String> {
        let handler = declared.policy.handler.as_ref()?;
        let reason = match (self.server.handlers.of(handler), handler) {
            (HandlerSource::Off, _) => format!("`[handlers] {}` is \"off\"", handler.kind()),
            (HandlerSource::All | HandlerSource::File, ReadyMade::Http(url)) => {
                outbound::check_target(url.as_str(), &self.allow).err()?.to_string()
            }
            (HandlerSource::All | HandlerSource::File, ReadyMade::Exec(_)) => return None,
        };
        let subject = format!("{}: type {}", declared.origin, declared.job_type);
        Some(format!("{subject}: its handler is not run: {reason}"))
    }
}

fn warnings_of_type(declared: &DeclaredType) -> Vec<String> {
    let DeclaredType { policy, origin, job_type, key_origins, .. } = declared;
    let span = wire::format_span;
    let (retention, key_window) = (span(policy.retention), span(policy.key_window));
    let mut all = Vec::new();
    let mut warn = |what: String| all.push(format!("{origin}: type {job_type}: {what}"));
    if policy.timeout <= policy.lease {
        let (timeout, lease) = (span(policy.timeout), span(policy.lease));
        warn(format!(
            "timeout {timeout} is not longer than the lease of {lease}: a lost worker is noticed only \
             when the timeout is over, and counts as HANDLER_TIMEOUT"
        ));
    }
    if policy.backoff.max < policy.backoff.base {
        let (base, max) = (span(policy.backoff.base), span(policy.backoff.max));
        warn(format!("backoff.max {max} is shorter than backoff.base {base}: waits are {max}"));
    }
    if policy.schema.is_none() {
        warn("no schema is set: payloads are not checked".into());
    }
    if !key_origins.iter().any(|(key, _)| *key == "retention") {
        warn(format!("no retention is set: ended jobs are kept for {retention}"));
    }
    if policy.retention < policy.key_window {
        warn(format!(
            "retention {retention} is shorter than key_window {key_window}: jobs with a key are kept for {key_window}"
        ));
    }
    all
}
