//! Authorization: the rights of a credential, and which jobs it reaches.
//!
//! The HTTP API authenticates the caller. The engine decides what the caller may do, so that all
//! callers of the engine decide alike.

use crate::{
    credential::ApiKey,
    field::{Checked, FieldProblem, check_text},
    job::Envelope,
    text::{JobType, KeyName, Scope, SubjectId},
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};

named_enum! {
    /// One permission of a credential. The contract calls it a scope.
    pub enum Right {
        JobsEnqueue = "jobs:enqueue",
        JobsRead = "jobs:read",
        JobsPayload = "jobs:payload",
        JobsManage = "jobs:manage",
        Work = "work",
        EventsWrite = "events:write",
        TablesRead = "tables:read",
        TablesWrite = "tables:write",
        MetricsRead = "metrics:read",
        KeysSubjects = "keys:subjects",
        Admin = "admin",
    }
}

impl Right {
    /// The right of that name.
    pub fn parse(text: &str) -> Checked<Self> {
        Right::from_name(text).ok_or_else(|| {
            let names = Right::ALL.map(Right::as_str).join(", ");
            FieldProblem::new("scopes", format!("must be of {names}"))
        })
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u16);

impl Rights {
    /// Whether `right` is among them. An admin has every right, because it could grant itself any.
    pub fn include(self, right: Right) -> bool {
        self.has(right) || self.has(Right::Admin)
    }

    /// The rights of the set, in the contract's order.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.has(*right))
    }

    fn has(self, right: Right) -> bool {
        self.0 & (1 << right as u16) != 0
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Rights(rights.into_iter().fold(0, |set, right| set | 1 << right as u16))
    }
}

/// A text in which `*` stands for any text, also the empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// Checks `text`, which `field` holds.
    pub fn parse(field: &'static str, text: &str) -> Checked<Self> {
        const CHARS_MAX: usize = 256;
        check_text(field, text, CHARS_MAX)?;
        Ok(Pattern(text.into()))
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `text` matches. Takes time in proportion to the length of both at most.
    pub fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return &*self.0 == text };
        let Some(mut left) = text.strip_prefix(first) else { return false };
        let mut parts = rest.split('*');
        let last = parts.next_back().unwrap_or_default();
        // The earliest match of a part leaves the most text for the parts after it.
        for part in parts {
            let Some(at) = left.find(part) else { return false };
            left = &left[at + part.len()..];
        }
        left.ends_with(last)
    }

    /// Whether it is no limit at all.
    fn matches_everything(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether everything that matches `narrower` matches this as well.
    fn covers(&self, narrower: &Pattern) -> bool {
        // A `*` of `narrower` is matched by a `*` of this pattern or by nothing: no plain part
        // contains one.
        self.matches(&narrower.0)
    }
}

/// What was granted: the tenants, the rights, and the jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The tenants.
    pub scope: Scope,
    /// The rights.
    pub rights: Rights,
    /// Only jobs of these types; an empty list means all.
    pub types: Vec<Pattern>,
    /// Only jobs with these subjects; an empty list means all jobs, also those without a subject.
    pub subjects: Vec<Pattern>,
}

/// Why a caller may not act. It reveals no more than the caller's own credential does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each is spelled out by its sentence")]
pub enum Denied {
    #[error("the credential lacks the scope {0}")]
    Right(Right),
    #[error("the credential is limited to other job types")]
    JobType,
    /// Also where the job has no subject.
    #[error("the credential is limited to other subjects")]
    Subject,
    #[error("the credential is limited to subjects, and a queue is about all of them")]
    Queue,
    #[error("this concerns all tenants: a credential for * is needed")]
    Tenants,
    #[error("{0}: would reach further than the credential that grants it")]
    Wider(&'static str),
    #[error("the credential makes only keys that are limited to subjects")]
    NoSubjects,
    #[error("the credential manages only keys that it made")]
    OtherMaker,
}

impl Grant {
    /// Whether the grant has this right.
    pub fn may(&self, right: Right) -> Result<(), Denied> {
        if self.rights.include(right) { Ok(()) } else { Err(Denied::Right(right)) }
    }

    /// Whether the grant reaches jobs of this type.
    pub fn may_type(&self, job_type: &JobType) -> Result<(), Denied> {
        let fits = |pattern: &Pattern| pattern.matches(job_type.as_str());
        if self.types.is_empty() || self.types.iter().any(fits) {
            return Ok(());
        }
        Err(Denied::JobType)
    }

    /// Whether the grant reaches jobs with this subject.
    pub fn may_subject(&self, subject: Option<&SubjectId>) -> Result<(), Denied> {
        let fits = |pattern: &Pattern| subject.is_some_and(|s| pattern.matches(s.as_str()));
        if self.subjects.is_empty() || self.subjects.iter().any(fits) {
            return Ok(());
        }
        Err(Denied::Subject)
    }

    /// Whether the grant reaches this job. The tenant was checked before: the job of another tenant
    /// is not found.
    pub fn may_touch(&self, envelope: &Envelope) -> Result<(), Denied> {
        self.may_type(&envelope.job_type)?;
        self.may_subject(envelope.subject.as_ref())
    }

    /// Whether a worker may claim these types. Claims cannot choose subjects, so the grant must
    /// reach all.
    pub fn may_claim(&self, job_types: &[JobType]) -> Result<(), Denied> {
        job_types.iter().try_for_each(|job_type| self.may_whole_type(job_type))
    }

    /// Whether the grant reaches all jobs of this type, whatever their subjects: an action on a
    /// queue affects all of them.
    pub fn may_whole_type(&self, job_type: &JobType) -> Result<(), Denied> {
        self.may_type(job_type)?;
        if self.subjects.is_empty() { Ok(()) } else { Err(Denied::Queue) }
    }

    /// Whether the grant reaches everything of its tenants. An action that names jobs without their
    /// types and subjects needs that.
    pub fn may_everything(&self) -> Result<(), Denied> {
        if !self.types.is_empty() {
            return Err(Denied::JobType);
        }
        if self.subjects.is_empty() { Ok(()) } else { Err(Denied::Subject) }
    }

    /// Whether the grant may name the handler of a type: a program of this machine, or an address
    /// that gets every tenant's jobs of the type. Only a grant without any limit may.
    pub fn may_name_handlers(&self) -> Result<(), Denied> {
        self.may(Right::Admin)?;
        if self.scope != Scope::All {
            return Err(Denied::Tenants);
        }
        self.may_everything()
    }

    /// Whether a caller with this grant may grant `other`: only what the caller itself has. A
    /// caller that is no admin needs [`Right::KeysSubjects`], and grants no key without a limit to
    /// subjects, and none that makes keys: a browser gets such a key, and loses it sooner or later.
    pub fn may_grant(&self, other: &Grant) -> Result<(), Denied> {
        if !self.rights.include(Right::Admin) {
            self.may(Right::KeysSubjects)?;
            let may_hand_on = |right| self.rights.has(right) && right != Right::KeysSubjects;
            if !other.rights.iter().all(may_hand_on) {
                return Err(Denied::Wider("scopes"));
            }
            if other.subjects.is_empty() || other.subjects.iter().any(Pattern::matches_everything) {
                return Err(Denied::NoSubjects);
            }
        }
        self.reaches_as_far_as(other)
    }

    /// Whether the tenants, types and subjects of `other` lie within those of this grant.
    fn reaches_as_far_as(&self, other: &Grant) -> Result<(), Denied> {
        if self.scope != Scope::All && self.scope != other.scope {
            return Err(Denied::Wider("tenant"));
        }
        if !covers(&self.types, &other.types) {
            return Err(Denied::Wider("types"));
        }
        if !covers(&self.subjects, &other.subjects) {
            return Err(Denied::Wider("subjects"));
        }
        Ok(())
    }
}

fn covers(wider: &[Pattern], narrower: &[Pattern]) -> bool {
    let covered = |narrow: &Pattern| wider.iter().any(|wide| wide.covers(narrow));
    wider.is_empty() || (!narrower.is_empty() && narrower.iter().all(covered))
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The name in logs and the audit log: `key:…`, `jwt:…`.
    pub who: Arc<str>,
    /// What its owner called the key; none for a token or a signed address.
    pub name: Option<KeyName>,
    /// What the caller may do.
    pub grant: Grant,
    /// When the credential expires.
    pub expires_at: Option<Timestamp>,
}

/// How long a key lives at most that a holder of [`Right::KeysSubjects`] made.
pub const SUBJECT_KEY_LIFETIME_MAX: Duration = Duration::from_secs(30 * 86_400);

impl Principal {
    /// When a new key of this principal expires, if the caller wants it to expire at `wanted`.
    ///
    /// No key outlives the credential that made it, or expiry would have no effect. A later time is
    /// refused, not shortened, because the owner would count on it. An absent one becomes the
    /// latest that is possible.
    pub fn end_of_new_key(
        &self,
        wanted: Option<Timestamp>,
        now: Timestamp,
    ) -> Checked<Option<Timestamp>> {
        match (self.latest_end(now), wanted) {
            (Some(latest), Some(wanted)) if wanted > latest => {
                let detail = match self.expires_at {
                    Some(own) if own <= latest => {
                        "must not be later than the end of the credential that makes the key"
                    }
                    Some(_) | None => "must be at most 30 days away for a key of keys:subjects",
                };
                Err(FieldProblem::new("expiresAt", detail))
            }
            (latest, wanted) => Ok(wanted.or(latest)),
        }
    }

    /// The latest end of a key that this principal makes; `None` where it may live for ever.
    pub(crate) fn latest_end(&self, now: Timestamp) -> Option<Timestamp> {
        let is_admin = self.grant.rights.include(Right::Admin);
        let bound = (!is_admin).then_some(now + SUBJECT_KEY_LIFETIME_MAX);
        [self.expires_at, bound].into_iter().flatten().min()
    }

    /// Whether this principal may see, rotate and revoke `key`: an admin those that it could have
    /// made, any other caller those that it did make.
    pub fn may_manage(&self, key: &ApiKey) -> Result<(), Denied> {
        if self.grant.rights.include(Right::Admin) {
            return self.grant.may_grant(&key.grant);
        }
        self.grant.may(Right::KeysSubjects)?;
        if key.created_by == self.who { Ok(()) } else { Err(Denied::OtherMaker) }
    }

    /// Whether this principal may rotate `key`. The successor is a new key with the same grant, so
    /// the grant must be within what this principal may give today: its own may have shrunk since
    /// it made the key.
    pub fn may_rotate(&self, key: &ApiKey) -> Result<(), Denied> {
        self.may_manage(key)?;
        self.grant.may_grant(&key.grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Tenant;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::parse("types", text).unwrap()).collect()
    }

    fn grant(rights: &[Right]) -> Grant {
        Grant {
            scope: Scope::One(Tenant::default_tenant()),
            rights: rights.iter().copied().collect(),
            types: Vec::new(),
            subjects: Vec::new(),
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, fits) in [
            ("order/7", "order/7", true),
            ("order/7", "order/77", false),
            ("order/*", "order/", true),
            ("order/*", "order/7", true),
            ("order/*", "orders", false),
            ("*", "", true),
            ("*x", "xx", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
        ] {
            let pattern = Pattern::parse("types", pattern).unwrap();
            assert_eq!(pattern.matches(text), fits, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn every_right_has_a_name_and_only_an_admin_has_what_it_was_not_given() {
        for right in Right::ALL {
            assert_eq!(Right::parse(right.as_str()), Ok(right));
            assert_eq!(grant(&[right]).may(right), Ok(()));
            assert_eq!(grant(&[Right::Admin]).may(right), Ok(()));
            assert_eq!(grant(&[]).may(right), Err(Denied::Right(right)));
        }
        assert_eq!(grant(&[Right::JobsRead]).may(Right::Admin), Err(Denied::Right(Right::Admin)));
        assert!(Right::parse("jobs").is_err());
    }

    #[test]
    fn limits_hold_for_types_and_subjects() {
        let limited = Grant {
            types: patterns(&["mail.*"]),
            subjects: patterns(&["order/*", "user/1"]),
            ..grant(&[Right::Work])
        };
        let mail = JobType::parse("mail.send").unwrap();
        assert_eq!(limited.may_type(&mail), Ok(()));
        assert_eq!(limited.may_type(&JobType::parse("mail").unwrap()), Err(Denied::JobType));
        assert_eq!(limited.may_subject(Some(&SubjectId::parse("order/7").unwrap())), Ok(()));
        assert_eq!(limited.may_subject(None), Err(Denied::Subject));
        assert_eq!(limited.may_claim(std::slice::from_ref(&mail)), Err(Denied::Queue));
        assert_eq!(limited.may_whole_type(&mail), Err(Denied::Queue));
        assert_eq!(limited.may_everything(), Err(Denied::JobType));
        assert_eq!(grant(&[Right::Work]).may_everything(), Ok(()));
        assert_eq!(Grant { subjects: Vec::new(), ..limited }.may_claim(&[mail]), Ok(()));
    }

    #[test]
    fn handlers_are_named_by_an_admin_without_limits() {
        let admin = Grant { scope: Scope::All, ..grant(&[Right::Admin]) };
        assert_eq!(admin.may_name_handlers(), Ok(()));
        let manager = Grant { scope: Scope::All, ..grant(&[Right::JobsManage]) };
        assert_eq!(manager.may_name_handlers(), Err(Denied::Right(Right::Admin)));
        assert_eq!(grant(&[Right::Admin]).may_name_handlers(), Err(Denied::Tenants));
        let types = Grant { types: patterns(&["*"]), ..admin.clone() };
        assert_eq!(types.may_name_handlers(), Err(Denied::JobType));
        let subjects = Grant { subjects: patterns(&["*"]), ..admin };
        assert_eq!(subjects.may_name_handlers(), Err(Denied::Subject));
    }

    #[test]
    fn a_grant_cannot_exceed_its_grantor() {
        let admin = grant(&[Right::Admin]);
        let all = Grant { scope: Scope::All, ..admin.clone() };
        assert_eq!(all.may_grant(&admin), Ok(()));
        assert_eq!(admin.may_grant(&all), Err(Denied::Wider("tenant")));
        assert!(grant(&[Right::JobsManage]).may_grant(&admin).is_err());
        let limited = Grant { types: patterns(&["mail.*"]), ..admin.clone() };
        assert_eq!(limited.may_grant(&admin), Err(Denied::Wider("types")));
        let narrower = Grant { types: patterns(&["mail.send", "mail.*.x"]), ..admin.clone() };
        assert_eq!(limited.may_grant(&narrower), Ok(()));
        let wider = Grant { types: patterns(&["mail*"]), ..admin };
        assert_eq!(limited.may_grant(&wider), Err(Denied::Wider("types")));
    }

    #[test]
    fn a_key_ends_no_later_than_its_maker() {
        let at = Timestamp::from_unix_ms;
        let maker = |expires_at| Principal {
            who: "key:1".into(),
            name: None,
            grant: grant(&[Right::Admin]),
            expires_at,
        };
        let ends = |own: Option<i64>, wanted: Option<i64>| {
            maker(own.map(at)).end_of_new_key(wanted.map(at), at(0)).map_err(|wrong| wrong.field)
        };
        assert_eq!(ends(None, None), Ok(None));
        assert_eq!(ends(None, Some(9)), Ok(Some(at(9))));
        assert_eq!(ends(Some(7), None), Ok(Some(at(7))));
        assert_eq!(ends(Some(7), Some(7)), Ok(Some(at(7))));
        assert_eq!(ends(Some(7), Some(6)), Ok(Some(at(6))));
        assert_eq!(ends(Some(7), Some(8)), Err("expiresAt"));
    }

    #[test]
    fn a_maker_of_subject_keys_grants_only_limited_keys_within_its_own_grant() {
        let own = [Right::KeysSubjects, Right::JobsRead, Right::JobsEnqueue];
        let maker = Grant { types: patterns(&["mail.*"]), ..grant(&own) };
        let key = Grant {
            types: patterns(&["mail.send"]),
            subjects: patterns(&["user/7"]),
            ..grant(&[Right::JobsRead])
        };
        let check = |key: Grant, expected| assert_eq!(maker.may_grant(&key), expected, "{key:?}");
        check(key.clone(), Ok(()));
        let wider = |field| Err(Denied::Wider(field));
        check(Grant { subjects: Vec::new(), ..key.clone() }, Err(Denied::NoSubjects));
        for everything in [&["*"][..], &["user/7", "**"]] {
            let key = Grant { subjects: patterns(everything), ..key.clone() };
            check(key, Err(Denied::NoSubjects));
        }
        check(Grant { types: Vec::new(), ..key.clone() }, wider("types"));
        check(Grant { scope: Scope::All, ..key.clone() }, wider("tenant"));
        for right in [Right::JobsManage, Right::KeysSubjects, Right::Admin] {
            check(Grant { rights: [right].into_iter().collect(), ..key.clone() }, wider("scopes"));
        }
        let narrower = Grant { subjects: patterns(&["order/*"]), ..maker.clone() };
        assert_eq!(narrower.may_grant(&key), Err(Denied::Wider("subjects")));
        let reader = grant(&[Right::JobsRead]);
        assert_eq!(reader.may_grant(&key), Err(Denied::Right(Right::KeysSubjects)));
    }

    #[test]
    fn a_subject_key_ends_within_thirty_days() {
        let (now, day) = (Timestamp::from_unix_ms(0), 86_400_000);
        let at = |days: i64| Timestamp::from_unix_ms(days * day);
        let ends = |own: Option<i64>, wanted: Option<i64>| {
            let grant = grant(&[Right::KeysSubjects]);
            let maker =
                Principal { who: "key:1".into(), name: None, grant, expires_at: own.map(at) };
            maker.end_of_new_key(wanted.map(at), now).map_err(|wrong| wrong.detail)
        };
        assert_eq!(ends(None, None), Ok(Some(at(30))));
        assert_eq!(ends(None, Some(29)), Ok(Some(at(29))));
        assert_eq!(ends(Some(7), None), Ok(Some(at(7))));
        assert!(ends(None, Some(31)).unwrap_err().contains("30 days"));
        assert!(ends(Some(7), Some(8)).unwrap_err().contains("end of the credential"));
    }

    #[test]
    fn a_maker_of_subject_keys_manages_its_own_alone() {
        let principal = |who: &str, right| Principal {
            who: who.into(),
            name: None,
            grant: grant(&[right]),
            expires_at: None,
        };
        let key = |created_by| crate::credential::tests::key(7, created_by);
        let maker = principal("key:1", Right::KeysSubjects);
        assert_eq!(maker.may_manage(&key("key:1")), Ok(()));
        assert_eq!(maker.may_manage(&key("key:2")), Err(Denied::OtherMaker));
        let reader = principal("key:1", Right::JobsRead);
        assert_eq!(reader.may_manage(&key("key:1")), Err(Denied::Right(Right::KeysSubjects)));
        let admin = principal("key:1", Right::Admin);
        assert_eq!(admin.may_manage(&key("key:2")), Err(Denied::Wider("tenant")));
    }

    #[test]
    fn a_maker_whose_grant_has_shrunk_does_not_rotate_what_it_made_before() {
        let admin_key = ApiKey {
            grant: grant(&[Right::Admin]),
            ..crate::credential::tests::key(7, "jwt:alice")
        };
        let shrunk = Principal {
            who: "jwt:alice".into(),
            name: None,
            grant: grant(&[Right::KeysSubjects]),
            expires_at: None,
        };
        assert_eq!(shrunk.may_manage(&admin_key), Ok(()), "it may still revoke the key");
        assert_eq!(shrunk.may_rotate(&admin_key), Err(Denied::Wider("scopes")));
    }
}
