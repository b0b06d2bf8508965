//! The limit of open files of this process, and what it leaves for connections.
//!
//! Every connection is an open file. A server that accepts connections until none is left can
//! neither read its store nor start a handler, so a part of the limit is reserved.

use crate::settings::Shares;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{LOCAL_CONNECTIONS_MAX, Limits};
use tracing::warn;

/// Reserved for the store, handlers, logs and the health listener.
const RESERVE_MIN: u64 = 96;
const RESERVE_MAX: u64 = 1_024;
/// However small the limit is, some connections are accepted: otherwise no client could ask
/// anything.
const CONNECTIONS_MIN: usize = 8;

/// Raises the limit as far as the system allows, and keeps the connections of `limits` below it.
pub(crate) fn allow_many(limits: &mut Limits, shares: &Shares) {
    let before = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    if let Err(error) = raised {
        warn!(%error, "the limit on open files could not be raised");
    }
    let Some(clamp) = Clamp::of(limits, getrlimit(Resource::Nofile).current) else { return };
    warn!(
        connections = clamp.connections_max,
        configured = limits.connections_max,
        open_files = clamp.open_files_max,
        "connections are limited by the process's limit of open files: raise that limit (LimitNOFILE= in \
         systemd, ulimit -n) or lower limits.connections"
    );
    clamp.apply(limits, shares);
}

/// A lower limit of connections than the settings say, because the process may not open more files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clamp {
    pub(crate) open_files_max: u64,
    pub(crate) connections_max: usize,
}

impl Clamp {
    /// The clamp of a server that would start with the limits of this process.
    pub(crate) fn of_this_process(limits: &Limits) -> Option<Self> {
        Clamp::of(limits, getrlimit(Resource::Nofile).maximum)
    }

    /// `None` where all connections fit below the limit, or where there is no limit.
    fn of(limits: &Limits, open_files_max: Option<u64>) -> Option<Self> {
        let open_files_max = open_files_max?;
        let reserve = (open_files_max / 4).clamp(RESERVE_MIN, RESERVE_MAX);
        let fit = usize::try_from(open_files_max.saturating_sub(reserve)).unwrap_or(usize::MAX);
        // Connections of the Unix socket come on top of those over TCP. Of a small limit, the
        // socket, which only this user can open, has no more than half: clients over TCP need
        // connections, too.
        let local = LOCAL_CONNECTIONS_MAX.min(fit / 2);
        let connections_max = (fit - local).max(CONNECTIONS_MIN);
        (connections_max < limits.connections_max)
            .then_some(Clamp { open_files_max, connections_max })
    }

    /// Connections that wait for a job do not yield, so some are left for others.
    pub(crate) fn apply(self, limits: &mut Limits, shares: &Shares) {
        limits.connections_max = self.connections_max;
        limits.waiting_max = limits.waiting_max.min(self.connections_max * 4 / 5);
        shares.apply(limits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        args::SettingsArgs,
        settings::{Environment, Settings, SourceFile},
    };
    use server::AddressShare;
    use std::{io::ErrorKind, path::Path};

    fn settings(limits: &str) -> Settings {
        let text = format!("[limits]\n{limits}");
        let open = |_: &Path| Err(ErrorKind::NotFound.into());
        let file = SourceFile { name: "consign.toml".into(), text, open };
        Settings::resolve(&SettingsArgs::default(), &Environment::default(), Some(&file)).unwrap()
    }

    #[track_caller]
    fn check(open_files_max: Option<u64>, expected: Option<usize>) {
        let Settings { server, shares, .. } = settings("");
        let mut limits = server.limits;
        let clamp = Clamp::of(&limits, open_files_max);
        assert_eq!(clamp.map(|clamp| clamp.connections_max), expected, "{open_files_max:?}");
        if let Some(clamp) = clamp {
            clamp.apply(&mut limits, &shares);
            assert!(limits.waiting_max < limits.connections_max, "{limits:?}");
        }
    }

    #[test]
    fn connections_stay_below_the_limit_with_a_reserve() {
        check(None, None);
        check(Some(1_048_576), None);
        check(Some(11_280), None);
        check(Some(11_279), Some(9_999));
        check(Some(1_024), Some(512));
        check(Some(512), Some(192));
        check(Some(256), Some(80));
        check(Some(64), Some(8));
        check(Some(0), Some(8));
    }

    #[test]
    fn shares_stay_below_totals_that_were_lowered_unless_they_are_named() {
        let clamped = |settings: Settings| {
            let mut limits = settings.server.limits;
            Clamp::of(&limits, Some(1_024)).unwrap().apply(&mut limits, &settings.shares);
            (
                limits.connections_per_address,
                limits.waiting_per_principal_max,
                limits.waiting_per_job_max,
            )
        };
        // 512 connections, of which 409 may wait.
        assert_eq!(clamped(settings("")), (AddressShare::Remote(128), 306, 25));
        let named = settings(
            "connections_per_address = 700\nwaiting_per_principal = 500\nwaiting_per_job = 400",
        );
        assert_eq!(clamped(named), (AddressShare::All(700), 500, 400));
    }
}
