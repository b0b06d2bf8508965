//! Pauses: an operator stops the claims from a queue.

use crate::{
    text::{JobType, KeyName, PauseReason, Scope},
    time::Timestamp,
};
use std::sync::Arc;

/// A stopped queue. Its jobs wait until an operator resumes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The type of the jobs.
    pub job_type: JobType,
    /// One tenant's queue, or the queues of all tenants.
    pub scope: Scope,
    /// Who paused it, and why.
    pub note: PauseNote,
    /// Since when.
    pub at: Timestamp,
}

/// Who paused a queue, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseNote {
    /// The principal, as the audit log names it; none where a program paused the queue of a store
    /// that it embeds.
    pub by: Option<Arc<str>>,
    /// The name of the principal's key.
    pub by_name: Option<KeyName>,
    /// The operator's reason.
    pub reason: Option<PauseReason>,
}

impl Pause {
    /// Whether a reader of `scope` sees it: it stops at least one queue of that scope. `has_queue`
    /// says whether the scope has a queue of its type. Without one, a pause of all tenants would
    /// tell a tenant which types the others have.
    pub fn concerns(&self, scope: &Scope, has_queue: bool) -> bool {
        match (scope, &self.scope) {
            (Scope::All, _) => true,
            (Scope::One(_), Scope::All) => has_queue,
            (Scope::One(reader), Scope::One(paused)) => reader == paused,
        }
    }

    /// The pause for a reader who sees one tenant. Who paused the queues of all tenants is not the
    /// reader's business: the audit log hides that entry as well.
    #[must_use]
    pub fn for_one_tenant(mut self) -> Self {
        if self.scope == Scope::All {
            (self.note.by, self.note.by_name) = (None, None);
        }
        self
    }

    /// A sentence for people, without a time: the HTTP API and the command line format those.
    pub fn sentence(&self) -> String {
        let whose = match &self.scope {
            Scope::All => "every tenant".into(),
            Scope::One(tenant) => format!("tenant {tenant}"),
        };
        let by = self.note.author().map(|by| format!(" by {by}")).unwrap_or_default();
        let reason = self.note.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("the queue of {} is paused for {whose}{by}{reason}", self.job_type)
    }
}

impl PauseNote {
    /// The name of the key, or else the principal.
    pub fn author(&self) -> Option<&str> {
        self.by_name.as_ref().map(KeyName::as_str).or(self.by.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Tenant;

    fn pause(scope: Scope, note: PauseNote) -> Pause {
        let job_type = JobType::parse("email").unwrap();
        Pause { job_type, scope, note, at: Timestamp::from_unix_ms(7) }
    }

    #[test]
    fn a_pause_names_whose_queue_it_is_who_made_it_and_why() {
        let acme = || Scope::One(Tenant::parse("acme").unwrap());
        let bare = pause(acme(), PauseNote::default());
        assert_eq!(bare.sentence(), "the queue of email is paused for tenant acme");
        let note = PauseNote { by: Some("key:1".into()), ..PauseNote::default() };
        let unnamed = pause(Scope::All, note.clone());
        assert_eq!(unnamed.sentence(), "the queue of email is paused for every tenant by key:1");
        let (by_name, reason) =
            (KeyName::parse("ops").ok(), PauseReason::parse("SMTP is down").ok());
        let full = pause(Scope::All, PauseNote { by_name, reason, ..note });
        let sentence = "the queue of email is paused for every tenant by ops: SMTP is down";
        assert_eq!(full.sentence(), sentence);
    }

    #[test]
    fn a_reader_sees_the_pauses_of_its_own_queues() {
        let [acme, birch] = ["acme", "birch"].map(|name| Tenant::parse(name).unwrap());
        let one = |tenant: &Tenant| Scope::One(tenant.clone());
        let of_acme = pause(one(&acme), PauseNote::default());
        let of_all = pause(Scope::All, PauseNote::default());
        assert!(of_acme.concerns(&Scope::All, true) && of_acme.concerns(&one(&acme), true));
        assert!(!of_acme.concerns(&one(&birch), true) && of_all.concerns(&one(&birch), true));
        // A queue can be paused before its first job.
        assert!(of_acme.concerns(&one(&acme), false) && of_all.concerns(&Scope::All, false));
        assert!(!of_all.concerns(&one(&birch), false), "birch never had a job of the type");
    }

    #[test]
    fn a_tenant_does_not_see_who_paused_the_queues_of_all() {
        let note = || PauseNote {
            by: Some("key:1".into()),
            by_name: KeyName::parse("ops").ok(),
            reason: PauseReason::parse("SMTP is down").ok(),
        };
        let of_all = pause(Scope::All, note()).for_one_tenant();
        let sentence = "the queue of email is paused for every tenant: SMTP is down";
        assert_eq!((of_all.note.by.as_deref(), of_all.sentence().as_str()), (None, sentence));
        let own = pause(Scope::One(Tenant::parse("acme").unwrap()), note());
        assert_eq!(own.clone().for_one_tenant(), own);
    }
}
