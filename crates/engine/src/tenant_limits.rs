//! How much one tenant may have the store keep beside its jobs.
//!
//! A queue, a pause, a credential and a worker each cost memory on every node, and time in every
//! listing. Without a bound, one credential of one tenant could add so many that other tenants
//! become slow.

use crate::{
    credential::{ApiKey, KeyId},
    refusal::Refusal,
    text::Scope,
    time::Timestamp,
    worker::WORKER_SILENCE_MAX,
};
use std::collections::BTreeSet;

/// The limits of one tenant. A store checks them where it would write one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    /// Job types without a policy of which the tenant has had jobs, and job types that it has
    /// paused.
    pub job_types_max: u64,
    /// API keys, valid or not.
    pub api_keys_max: u64,
    /// Workers that were seen lately.
    pub workers_max: u64,
}

impl Default for TenantLimits {
    fn default() -> Self {
        TenantLimits { job_types_max: 1_000, api_keys_max: 1_000, workers_max: 10_000 }
    }
}

/// The kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the fields of TenantLimits")]
pub enum TenantLimit {
    JobTypes,
    ApiKeys,
    Workers,
}

impl TenantLimit {
    /// The setting that raises the limit.
    pub fn setting(self) -> &'static str {
        match self {
            TenantLimit::JobTypes => "limits.job_types",
            TenantLimit::ApiKeys => "limits.api_keys",
            TenantLimit::Workers => "limits.workers",
        }
    }

    pub(crate) fn noun(self) -> &'static str {
        match self {
            TenantLimit::JobTypes => "undeclared or paused job types",
            TenantLimit::ApiKeys => "API keys",
            TenantLimit::Workers => "live workers",
        }
    }
}

impl TenantLimits {
    /// Whether a tenant with `count` entries may have one more.
    pub fn check(&self, limit: TenantLimit, count: u64) -> Result<(), Refusal> {
        let max = match limit {
            TenantLimit::JobTypes => self.job_types_max,
            TenantLimit::ApiKeys => self.api_keys_max,
            TenantLimit::Workers => self.workers_max,
        };
        if count < max { Ok(()) } else { Err(Refusal::TenantLimit { limit, max }) }
    }

    /// Whether there may be another key of `scope`, and which key the store removes for it: the one
    /// that ended first among those that made none of the kept keys. The audit log still mentions
    /// it. So a tenant that makes and revokes keys is not locked out, and each kept key can be
    /// traced to its maker.
    ///
    /// `keys` has all keys that a key of `scope` may have made: those of the same tenant, or all
    /// there are.
    pub fn room_for_key<'a>(
        &self,
        keys: impl Iterator<Item = &'a ApiKey> + Clone,
        scope: &Scope,
        now: Timestamp,
    ) -> Result<Option<KeyId>, Refusal> {
        let own = keys.clone().filter(|key| key.grant.scope == *scope);
        let Err(refusal) = self.check(TenantLimit::ApiKeys, own.clone().count() as u64) else {
            return Ok(None);
        };
        let makers: BTreeSet<&str> = keys.map(|key| &*key.created_by).collect();
        let ended = |key: &ApiKey| {
            let ends = [key.revoked_at, key.expires_at].into_iter().flatten().min()?;
            (ends <= now).then_some((ends, key.id))
        };
        let is_leaf = |key: &&ApiKey| !makers.contains(key.id.principal().as_str());
        own.filter(is_leaf).filter_map(ended).min().map(|(_, id)| Some(id)).ok_or(refusal)
    }

    /// Whether a tenant with `workers`, each with the time it was last seen, may have another, and
    /// which worker the store removes for it: the lost one that was silent for longest.
    pub fn room_for_worker<N>(
        &self,
        workers: impl Iterator<Item = (N, Timestamp)> + Clone,
        now: Timestamp,
    ) -> Result<Option<N>, Refusal> {
        let Err(refusal) = self.check(TenantLimit::Workers, workers.clone().count() as u64) else {
            return Ok(None);
        };
        let longest_silent = workers.min_by_key(|(_, seen_at)| *seen_at);
        let lost = longest_silent.filter(|(_, seen_at)| *seen_at + WORKER_SILENCE_MAX <= now);
        lost.map(|(name, _)| Some(name)).ok_or(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_fits_is_taken_and_the_next_is_refused() {
        let limits = TenantLimits { job_types_max: 1, api_keys_max: 2, workers_max: 3 };
        for (limit, max) in
            [(TenantLimit::JobTypes, 1), (TenantLimit::ApiKeys, 2), (TenantLimit::Workers, 3)]
        {
            assert_eq!(limits.check(limit, max - 1), Ok(()));
            let refusal = limits.check(limit, max).unwrap_err();
            assert_eq!(refusal, Refusal::TenantLimit { limit, max });
            assert!(refusal.to_string().contains(limit.setting()), "{refusal}");
        }
    }
}
