//! What is allowed, and worth a second look.

use super::{Settings, types::DeclaredType};
use crate::ready_made::ExecFrom;
use engine::ReadyMade;

impl Settings {
    /// One sentence for each thing that may not be meant like that.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_types = self
            .types
            .iter()
            .flat_map(|declared| of_type(declared).into_iter().chain(self.of_handler(declared)));
        let mut all: Vec<String> = of_types.collect();
        if self.tls.is_some() && self.behind_proxy {
            all.push("both [tls] and behind_proxy are set: TLS is done here, and the proxy has to speak it".into());
        }
        if self.strict_types && self.types.is_empty() {
            let which = "only types that were set with PUT /api/types are taken";
            all.push(format!("strict_types is on, and no [types] are in the file: {which}"));
        }
        all
    }

    /// Why the jobs of a type would wait for ever.
    fn of_handler(&self, declared: &DeclaredType) -> Option<String> {
        let why = match declared.policy.handler.as_ref()? {
            ReadyMade::Http(url) => {
                outbound::check_target(url.as_str(), &self.allow).err()?.to_string()
            }
            ReadyMade::Exec(_) if self.exec == ExecFrom::Nobody => {
                "`[handlers] exec` is \"off\"".into()
            }
            ReadyMade::Exec(_) => return None,
        };
        let of = format!("{}: type {}", declared.place, declared.job_type);
        Some(format!("{of}: its handler is not run: {why}"))
    }
}

fn of_type(declared: &DeclaredType) -> Vec<String> {
    let policy = &declared.policy;
    let said = |key: &str| declared.said.iter().any(|(said, _)| *said == key);
    let warning = |what: String| format!("{}: type {}: {what}", declared.place, declared.job_type);
    let span = wire::format_span;
    let mut all = Vec::new();
    if policy.timeout <= policy.lease {
        let (timeout, lease) = (span(policy.timeout), span(policy.lease));
        all.push(warning(format!(
            "timeout {timeout} is not longer than the lease of {lease}: the lease, not the timeout, \
             decides when a lost worker is noticed"
        )));
    }
    if policy.backoff.max < policy.backoff.base {
        let (base, max) = (span(policy.backoff.base), span(policy.backoff.max));
        all.push(warning(format!(
            "backoff.max {max} is shorter than backoff.base {base}: waits are {max}"
        )));
    }
    if policy.schema.is_none() {
        all.push(warning("no schema is said: payloads are taken whatever they hold".into()));
    }
    if !said("retention") {
        let kept = span(policy.retention);
        all.push(warning(format!("no retention is said: ended jobs are kept for {kept}")));
    }
    if policy.retention < policy.key_window {
        let (kept, window) = (span(policy.retention), span(policy.key_window));
        all.push(warning(format!(
            "retention {kept} is shorter than key_window {window}: jobs with a key are kept for {window}"
        )));
    }
    all
}
