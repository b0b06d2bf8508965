//! What ready-made handlers are made of, and which of them may be made.

use super::{
    duty::{exec_duty, forbidden_duty, push_duty},
    signing,
};
use crate::settings::{DeclaredType, Settings};
use anyhow::Result;
use consign::Duty;
use engine::{ExecCommand, JobType, ReadyMade};
use outbound::{Allow, Exec, Lookup, Now, Push, PushError, Signer, system_lookup};
use std::{collections::BTreeMap, ffi::OsString, path::Path, sync::Arc};
use store::{Clock, Dice};
use tracing::warn;

/// Who may name programs that this machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecFrom {
    /// Whoever may declare types.
    All,
    /// The file of settings alone.
    File,
    Nobody,
}

/// What handlers need of this machine and its settings.
pub(crate) struct Kit {
    exec: ExecFrom,
    /// The programs that the file names.
    named: BTreeMap<JobType, ExecCommand>,
    environment: Vec<(OsString, OsString)>,
    allow: Arc<Allow>,
    lookup: Lookup,
    signer: Signer,
    now: Now,
}

/// Why a handler is not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotMade {
    #[error("`[handlers] exec` is \"off\"")]
    ExecOff,
    #[error(
        "`[handlers] exec` is \"file\", and the file of settings does not name this program for this type"
    )]
    NotInFile,
    #[error(transparent)]
    Push(#[from] PushError),
}

impl Kit {
    /// The kit of a server; its signing secret lies in `folder`.
    pub(crate) fn new(
        settings: &Settings,
        folder: &Path,
        clock: Arc<dyn Clock>,
        dice: &dyn Dice,
    ) -> Result<Self> {
        let named = |declared: &DeclaredType| match &declared.policy.handler {
            Some(ReadyMade::Exec(command)) => Some((declared.job_type.clone(), command.clone())),
            Some(ReadyMade::Http(_)) | None => None,
        };
        let seconds = move || clock.read().wall.unix_ms().unsigned_abs() / 1_000;
        Ok(Kit {
            exec: settings.exec,
            named: settings.types.iter().filter_map(named).collect(),
            // The address of a database may have a password in it, which is no program's business.
            environment: std::env::vars_os().filter(|(name, _)| name != "CONSIGN_STORE").collect(),
            allow: settings.allow.clone(),
            lookup: system_lookup(),
            signer: signing::ensure(folder, dice)?,
            now: Arc::new(seconds),
        })
    }

    pub(super) fn duty(&self, job_type: &JobType, handler: &ReadyMade) -> Result<Duty, NotMade> {
        match handler {
            ReadyMade::Exec(command) => {
                self.check(job_type, command)?;
                let words = command.words().iter().map(|word| word.to_string());
                let exec = Exec::new(words, self.environment.iter().cloned());
                Ok(exec_duty(job_type.as_str(), exec))
            }
            ReadyMade::Http(url) => {
                let (signer, now) = (self.signer.clone(), self.now.clone());
                match Push::new(url.as_str(), &self.allow, &self.lookup, signer, now) {
                    Ok(push) => Ok(push_duty(job_type.as_str(), push)),
                    // As where a name turns out to lead inside: the job says why, not only the log.
                    Err(PushError::Forbidden(why)) => {
                        warn!(%job_type, %why, "the ready-made handler fails all jobs");
                        Ok(forbidden_duty(job_type.as_str(), why))
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Where only the file counts, it counts to the letter: a policy that was changed since names another program.
    fn check(&self, job_type: &JobType, command: &ExecCommand) -> Result<(), NotMade> {
        match self.exec {
            ExecFrom::All => Ok(()),
            ExecFrom::File if self.named.get(job_type) == Some(command) => Ok(()),
            ExecFrom::File => Err(NotMade::NotInFile),
            ExecFrom::Nobody => Err(NotMade::ExecOff),
        }
    }
}
