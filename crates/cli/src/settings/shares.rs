//! The share of one client in the limits that all clients have together.

use server::{AddressShare, Limits};

/// The shares that the settings name. A share that they do not name is a fraction of its total.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(super) connections_per_address: Option<usize>,
    pub(super) waiting_per_principal: Option<usize>,
    pub(super) waiting_per_job: Option<usize>,
    pub(super) behind_proxy: bool,
}

impl Shares {
    /// Sets the shares of `limits` from its totals. Code that lowers a total calls it again: a
    /// share as large as its total limits nothing.
    pub(crate) fn apply(&self, limits: &mut Limits) {
        let (connections, waiting) = (limits.connections_max, limits.waiting_max);
        limits.connections_per_address = match self.connections_per_address {
            Some(share) => AddressShare::All(share),
            // All clients come from the address of the proxy, or of a few proxies.
            None if self.behind_proxy => AddressShare::Unlimited,
            None => AddressShare::Remote((connections / 4).max(1)),
        };
        let per_principal = (waiting.saturating_mul(3) / 4).max(1);
        limits.waiting_per_principal_max = self.waiting_per_principal.unwrap_or(per_principal);
        limits.waiting_per_job_max = self.waiting_per_job.unwrap_or((waiting / 16).max(1));
    }

    /// One sentence for each named share that leaves nothing of its total to others.
    pub(super) fn warnings(&self, limits: &Limits) -> Vec<String> {
        let (connections, waiting) = (limits.connections_max, limits.waiting_max);
        let named = [
            ("connections_per_address", self.connections_per_address, "connections", connections),
            ("waiting_per_principal", self.waiting_per_principal, "waiting", waiting),
            ("waiting_per_job", self.waiting_per_job, "waiting", waiting),
        ];
        let warning = |(name, share, of, total): (_, Option<usize>, _, _)| {
            let share = share.filter(|share| *share >= total)?;
            Some(format!(
                "limits.{name} is {share}, and limits.{of} allows {total}: one client can use all of them"
            ))
        };
        named.into_iter().filter_map(warning).collect()
    }
}
