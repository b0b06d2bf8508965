//! The parts of ready-made handlers, and the check which of them are allowed.

use super::{
    registration::{Handler, registration},
    signing::TypeSigners,
};
use crate::settings::{DeclaredType, Settings};
use anyhow::{Result, bail};
use consign::Registration;
use engine::{HandlerSource, HandlerSources, JobType, ReadyMade};
use outbound::{Allow, Exec, Lookup, Now, Push, PushError, system_lookup};
use std::{collections::BTreeMap, ffi::OsString, sync::Arc};
use store::Clock;
use tracing::warn;

/// What handlers need of this machine and its settings.
pub(crate) struct HandlerEnvironment {
    sources: HandlerSources,
    handlers_in_file: BTreeMap<JobType, ReadyMade>,
    environment: Vec<(OsString, OsString)>,
    allow: Arc<Allow>,
    lookup: Lookup,
    signers: TypeSigners,
    now: Now,
}

impl HandlerEnvironment {
    /// The environment of a server.
    pub(crate) fn new(settings: &Settings, signers: TypeSigners, clock: Arc<dyn Clock>) -> Self {
        let handler_in_file = |declared: &DeclaredType| {
            Some((declared.job_type.clone(), declared.policy.handler.clone()?))
        };
        let seconds = move || clock.read().wall.unix_ms().unsigned_abs() / 1_000;
        HandlerEnvironment {
            sources: settings.server.handlers,
            handlers_in_file: settings.types.iter().filter_map(handler_in_file).collect(),
            // The address of a database may contain a password, which programs must not see.
            environment: std::env::vars_os().filter(|(name, _)| name != "CONSIGN_STORE").collect(),
            allow: settings.allow.clone(),
            lookup: system_lookup(),
            signers,
            now: Arc::new(seconds),
        }
    }

    /// The registration for a type, or why there is none.
    pub(super) fn registration(
        &self,
        job_type: &JobType,
        handler: &ReadyMade,
    ) -> Result<Registration> {
        let kind = handler.kind();
        match self.sources.of(handler) {
            HandlerSource::All => {}
            // The comparison is exact: a policy that changed since names another handler.
            HandlerSource::File if self.handlers_in_file.get(job_type) == Some(handler) => {}
            HandlerSource::File => bail!(
                "`[handlers] {kind}` is \"file\", and the file of settings does not name this handler for this type"
            ),
            HandlerSource::Off => bail!("`[handlers] {kind}` is \"off\""),
        }
        let handler = match handler {
            ReadyMade::Exec(command) => {
                let words = command.words().iter().map(|word| word.to_string());
                let exec = Exec::new(words, self.environment.iter().cloned());
                Handler::Exec(exec.with_final_codes(command.final_codes()))
            }
            ReadyMade::Http(url) => {
                let (signer, now) = (self.signers.of_type(job_type), self.now.clone());
                match Push::new(url.as_str(), &self.allow, &self.lookup, signer, now) {
                    Ok(push) => Handler::Push(push),
                    // The same as where a name resolves to a forbidden address: the job says why,
                    // not only the log.
                    Err(PushError::Forbidden(reason)) => {
                        warn!(%job_type, %reason, "the ready-made handler fails all jobs");
                        Handler::Forbidden(reason)
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        Ok(registration(job_type.as_str(), handler))
    }
}
