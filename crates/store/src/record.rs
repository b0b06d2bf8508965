//! Records: small, versioned values that people or configuration set, few enough that every node
//! caches them all.
//!
//! All kinds share one table, one request ([`crate::Request::PutRecord`]), one listing
//! ([`crate::Store::records`]) and one change number ([`crate::Store::settings_version`]). A new
//! kind is a line of [`RecordKind`], a codec ([`RecordBody`]) and a platform verb.

use crate::{
    codec::{
        body::{from_plain, to_plain},
        seal::Kind,
    },
    queue::Queue,
};
use engine::{
    ApiKey, FieldProblem, FilePolicy, JobType, KeyId, KeyUse, Pause, Policy, Refusal, Scope,
    SigningKey, WebhookKey,
};
use std::{collections::BTreeMap, sync::Arc};

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// How jobs of a type are treated; the key is the type.
    Policy,
    /// Workers may not claim from a queue; the key is the type.
    Pause,
    /// A credential; the key is its id.
    ApiKey,
    /// A key that signs status addresses; the key is its id.
    SigningKey,
    /// What `consign.toml` says of a type; the key is the type.
    FilePolicy,
    /// The key that signs pushed jobs; there is one, for all tenants.
    WebhookKey,
    /// When a credential was last used; the key is its id.
    KeyUse,
}

impl RecordKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        RecordKind::Policy,
        RecordKind::Pause,
        RecordKind::ApiKey,
        RecordKind::SigningKey,
        RecordKind::FilePolicy,
        RecordKind::WebhookKey,
        RecordKind::KeyUse,
    ];

    /// The name in the table; it never changes.
    pub fn as_str(self) -> &'static str {
        match self {
            RecordKind::Policy => "policy",
            RecordKind::Pause => "pause",
            RecordKind::ApiKey => "api_key",
            RecordKind::SigningKey => "signing_key",
            RecordKind::FilePolicy => "file_policy",
            RecordKind::WebhookKey => "webhook_key",
            RecordKind::KeyUse => "key_use",
        }
    }

    /// The kind in the seal of these rows.
    pub(crate) fn seal(self) -> Kind {
        match self {
            RecordKind::Policy => Kind::Policy,
            RecordKind::Pause => Kind::Pause,
            RecordKind::ApiKey => Kind::ApiKey,
            RecordKind::SigningKey => Kind::SigningKey,
            RecordKind::FilePolicy => Kind::FilePolicy,
            RecordKind::WebhookKey => Kind::WebhookKey,
            RecordKind::KeyUse => Kind::KeyUse,
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        RecordKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether the decisions of a batch depend on records of this kind. A store of several nodes
    /// must have these in memory for every batch.
    pub(crate) fn decides_batches(self) -> bool {
        match self {
            RecordKind::Policy | RecordKind::Pause => true,
            RecordKind::ApiKey
            | RecordKind::SigningKey
            | RecordKind::FilePolicy
            | RecordKind::WebhookKey
            | RecordKind::KeyUse => false,
        }
    }

    /// Whether nodes keep records of this kind in memory: a change is counted in
    /// [`crate::Store::settings_version`], and every node reads them again.
    pub(crate) fn is_cached_by_nodes(self) -> bool {
        match self {
            RecordKind::Policy
            | RecordKind::Pause
            | RecordKind::ApiKey
            | RecordKind::SigningKey => true,
            RecordKind::FilePolicy | RecordKind::WebhookKey | RecordKind::KeyUse => false,
        }
    }
}

/// The name of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordName {
    /// The kind of the record.
    pub kind: RecordKind,
    /// The owner: one tenant, or the whole installation.
    pub scope: Scope,
    /// Its key within kind and scope.
    pub key: Arc<str>,
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name of the record.
    pub name: RecordName,
    /// 1 for a new record, and one more with every change.
    pub version: u64,
    /// The value, as its codec wrote it.
    pub body: Arc<[u8]>,
}

impl Record {
    /// The value; `None` where the body is not of this type.
    pub fn read<T: RecordBody>(&self) -> Option<T> {
        (T::RECORD == self.name.kind).then(|| T::decode(&self.body)).flatten()
    }
}

/// A request to write or remove a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// The name of the record.
    pub name: RecordName,
    /// The version that the record must have; 0 where it must not exist, `None` where any will do.
    /// A record that was removed and made again begins at 1 again.
    pub expected: Option<u64>,
    /// The new body; `None` removes the record.
    pub body: Option<Arc<[u8]>>,
}

impl RecordChange {
    /// Stores `value` under `key`, replacing any record there.
    pub fn put<T: RecordBody>(scope: Scope, key: impl Into<Arc<str>>, value: &T) -> Self {
        let name = RecordName { kind: T::RECORD, scope, key: key.into() };
        RecordChange { name, expected: None, body: Some(value.encode().into()) }
    }

    /// Removes the record.
    pub fn remove(name: RecordName) -> Self {
        RecordChange { name, expected: None, body: None }
    }

    /// The job type, where this changes a policy or a pause.
    pub fn job_type(&self) -> Option<JobType> {
        let is_of_type = self.name.kind.decides_batches();
        is_of_type.then(|| JobType::parse(&self.name.key).ok()).flatten()
    }

    /// The same change, on condition that the record has this version; 0 means that there is none.
    #[must_use]
    pub fn expecting(self, version: u64) -> Self {
        RecordChange { expected: Some(version), ..self }
    }
}

/// A value that is stored as a record, with its codec.
pub trait RecordBody: Sized {
    /// Its kind.
    const RECORD: RecordKind;
    /// Its bytes.
    fn encode(&self) -> Vec<u8>;
    /// The value of these bytes; `None` where [`RecordBody::encode`] cannot have made them.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

macro_rules! record_body {
    ($($body:ty: $kind:ident),+) => {$(
        impl RecordBody for $body {
            const RECORD: RecordKind = RecordKind::$kind;

            fn encode(&self) -> Vec<u8> {
                to_plain(self)
            }

            fn decode(bytes: &[u8]) -> Option<Self> {
                from_plain(bytes)
            }
        }
    )+};
}
record_body!(
    Policy: Policy,
    Pause: Pause,
    ApiKey: ApiKey,
    SigningKey: SigningKey,
    FilePolicy: FilePolicy,
    WebhookKey: WebhookKey,
    KeyUse: KeyUse
);

/// A job type whose queues are stopped, and for which scope. Each has at most one pause.
pub(crate) type PauseKey = (JobType, Scope);

fn pause_key(pause: &Pause) -> PauseKey {
    (pause.job_type.clone(), pause.scope.clone())
}

pub(crate) fn pause_name((job_type, scope): &PauseKey) -> RecordName {
    let key = job_type.as_str().into();
    RecordName { kind: RecordKind::Pause, scope: scope.clone(), key }
}

/// The key of the one record of [`RecordKind::WebhookKey`].
pub const WEBHOOK_KEY: &str = "webhook";

/// Ids are 64 random bits; the fixed width makes text order equal to numeric order.
pub(crate) fn key_of_id(id: KeyId) -> Arc<str> {
    format!("{:016x}", id.0).into()
}

/// Checks that a credential is stored under its own name.
fn check_name(record: &Record, scope: &Scope, id: KeyId) -> Result<(), Unreadable> {
    let is_own = record.name.scope == *scope && record.name.key == key_of_id(id);
    is_own.then_some(()).ok_or(Unreadable)
}

/// The type that a record of one type is about: such records hold for all tenants.
fn job_type_of(record: &Record) -> Result<JobType, Unreadable> {
    let job_type = JobType::parse(&record.name.key).map_err(|_| Unreadable)?;
    if record.name.scope == Scope::All { Ok(job_type) } else { Err(Unreadable) }
}

/// The refusal of a record whose name differs from the name in its body.
pub(crate) fn unreadable() -> Refusal {
    FieldProblem::new("key", "does not name what the record says").into()
}

/// Cached records, with policies and pauses decoded, as batches look them up.
#[derive(Clone, Default)]
pub(crate) struct Records {
    rows: BTreeMap<RecordName, Record>,
    policies: BTreeMap<JobType, Policy>,
    pauses: BTreeMap<PauseKey, Pause>,
    default_policy: Policy,
}

/// A record whose body its codec cannot read, or that is stored under a name that is not its own.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl Records {
    pub(crate) fn put(&mut self, record: Record) -> Result<(), Unreadable> {
        match record.name.kind {
            RecordKind::Policy => {
                let job_type = job_type_of(&record)?;
                self.policies.insert(job_type, record.read().ok_or(Unreadable)?);
            }
            RecordKind::Pause => {
                let pause: Pause = record.read().ok_or(Unreadable)?;
                let key = pause_key(&pause);
                if pause_name(&key) != record.name {
                    return Err(Unreadable);
                }
                self.pauses.insert(key, pause);
            }
            RecordKind::ApiKey => {
                let key: ApiKey = record.read().ok_or(Unreadable)?;
                check_name(&record, &key.grant.scope, key.id)?;
            }
            RecordKind::SigningKey => {
                let key: SigningKey = record.read().ok_or(Unreadable)?;
                check_name(&record, &Scope::All, key.id)?;
            }
            RecordKind::FilePolicy => {
                job_type_of(&record)?;
                let _: FilePolicy = record.read().ok_or(Unreadable)?;
            }
            RecordKind::WebhookKey => {
                let _: WebhookKey = record.read().ok_or(Unreadable)?;
                let is_own = (&record.name.scope, &*record.name.key) == (&Scope::All, WEBHOOK_KEY);
                is_own.then_some(()).ok_or(Unreadable)?;
            }
            RecordKind::KeyUse => {
                let _: KeyUse = record.read().ok_or(Unreadable)?;
                let id = KeyId::parse(&record.name.key).map_err(|_| Unreadable)?;
                check_name(&record, &Scope::All, id)?;
            }
        }
        self.rows.insert(record.name.clone(), record);
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &RecordName) {
        self.rows.remove(name);
        match name.kind {
            RecordKind::Policy => {
                self.policies.retain(|job_type, _| job_type.as_str() != &*name.key)
            }
            RecordKind::Pause => self.pauses.retain(|key, _| pause_name(key) != *name),
            RecordKind::ApiKey
            | RecordKind::SigningKey
            | RecordKind::FilePolicy
            | RecordKind::WebhookKey
            | RecordKind::KeyUse => {}
        }
    }

    /// Adds records of kinds on which no batch decision depends.
    pub(crate) fn extend(&mut self, others: Records) {
        self.rows.extend(others.rows);
    }

    /// Applies a change if the record has the expected version. Returns the record to store; `None`
    /// where it is removed.
    pub(crate) fn change(&mut self, change: &RecordChange) -> Result<Option<Record>, Refusal> {
        let version = self.version(&change.name);
        if change.expected.is_some_and(|expected| expected != version) {
            return Err(Refusal::VersionChanged { version });
        }
        let Some(body) = &change.body else {
            self.remove(&change.name);
            return Ok(None);
        };
        let record = Record { name: change.name.clone(), version: version + 1, body: body.clone() };
        self.put(record.clone()).map_err(|_| unreadable())?;
        Ok(Some(record))
    }

    /// The version of a record; 0 where there is none.
    pub(crate) fn version(&self, name: &RecordName) -> u64 {
        self.rows.get(name).map_or(0, |record| record.version)
    }

    /// The records of one kind whose keys begin with `prefix`, of one scope or of all, ordered by
    /// scope and key.
    pub(crate) fn list(
        &self,
        kind: RecordKind,
        scope: Option<&Scope>,
        prefix: &str,
    ) -> Vec<Record> {
        let of_kind = self.rows.values().filter(|record| record.name.kind == kind);
        let listed = of_kind.filter(|Record { name, .. }| {
            scope.is_none_or(|scope| name.scope == *scope) && name.key.starts_with(prefix)
        });
        listed.cloned().collect()
    }

    pub(crate) fn policy(&self, job_type: &JobType) -> &Policy {
        self.policies.get(job_type).unwrap_or(&self.default_policy)
    }

    pub(crate) fn policies(&self) -> &BTreeMap<JobType, Policy> {
        &self.policies
    }

    pub(crate) fn pauses(&self) -> &BTreeMap<PauseKey, Pause> {
        &self.pauses
    }

    /// Whether a pause stops claims from `queue`.
    pub(crate) fn is_paused(&self, queue: &Queue) -> bool {
        let by = |scope| self.pauses.contains_key(&(queue.job_type.clone(), scope));
        !self.pauses.is_empty() && (by(Scope::All) || by(Scope::One(queue.tenant.clone())))
    }

    /// The pauses that stop claims from `queue`, that of all tenants first.
    pub(crate) fn pauses_of(&self, queue: &Queue) -> Vec<Pause> {
        let scopes = [Scope::All, Scope::One(queue.tenant.clone())];
        let by = |scope| self.pauses.get(&(queue.job_type.clone(), scope)).cloned();
        scopes.into_iter().filter_map(by).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{PauseNote, Timestamp};

    fn policy(max_attempts: u32) -> Policy {
        Policy { max_attempts, ..Policy::default() }
    }

    #[test]
    fn a_change_that_expects_another_version_changes_nothing() {
        let mut records = Records::default();
        let put = RecordChange::put(Scope::All, "email", &policy(3));
        assert!(records.change(&put.clone().expecting(0)).is_ok());
        let again = records.change(&put.clone().expecting(0));
        assert_eq!(again, Err(Refusal::VersionChanged { version: 1 }));
        let second =
            records.change(&RecordChange::put(Scope::All, "email", &policy(4)).expecting(1));
        assert_eq!(second.unwrap().unwrap().version, 2);
        let email = JobType::parse("email").expect("lawful");
        assert_eq!(records.policy(&email).max_attempts, 4);
        assert_eq!(records.change(&RecordChange::remove(put.name)), Ok(None));
        assert_eq!(records.policy(&email), &Policy::default());
    }

    #[test]
    fn a_record_under_another_s_name_is_refused() {
        let mut records = Records::default();
        let tenant = Scope::One(engine::Tenant::parse("acme").expect("lawful"));
        for put in [
            RecordChange::put(tenant, "email", &policy(3)),
            RecordChange::put(Scope::All, "no type!", &policy(3)),
        ] {
            assert_eq!(records.change(&put), Err(unreadable()));
        }
        let paused = Pause {
            job_type: JobType::parse("email").expect("lawful"),
            scope: Scope::All,
            note: PauseNote::default(),
            at: Timestamp::default(),
        };
        assert!(records.change(&RecordChange::put(Scope::All, "report", &paused)).is_err());
        assert!(records.list(RecordKind::Policy, None, "").is_empty());
    }

    #[test]
    fn a_record_is_read_only_as_its_own_type() {
        let mut records = Records::default();
        let put = RecordChange::put(Scope::All, "email", &policy(3));
        let record = records.change(&put).unwrap().unwrap();
        assert_eq!(record.read::<Policy>(), Some(policy(3)));
        assert_eq!(record.read::<SigningKey>(), None);
    }

    #[test]
    fn names_of_kinds_are_read_back() {
        for kind in RecordKind::ALL {
            assert_eq!(RecordKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(RecordKind::parse("job"), None);
    }
}
