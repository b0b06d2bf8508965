//! Names: short texts with a rule. A value of such a type has always passed its rule.

use crate::{
    entropy::Entropy,
    field::{Checked, FieldProblem, check_text},
    key::hex,
};
use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc};

/// Declares a name: a text that only its rule can make, cheap to clone.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $field:literal, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` against the rule of this name.
            pub fn parse(text: &str) -> Checked<Self> {
                let rule: fn(&'static str, &str) -> Checked<()> = $rule;
                rule($field, text)?;
                Ok($name(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

name!(
    /// Names a queue, its handler, its policy and its metrics.
    JobType, "jobType", lower_name
);
name!(
    /// The owner of a job. It comes from the credential, never from a body.
    Tenant, "tenant", lower_name
);
name!(
    /// What a job is about. Authorization checks it.
    SubjectId, "subjectId", |field, text| check_text(field, text, 256)
);
name!(
    /// Why an operator paused a queue.
    PauseReason, "reason", |field, text| check_text(field, text, 256)
);
name!(
    /// Ties together everything that one request caused.
    CorrelationId, "correlationId", one_line
);
name!(
    /// The owner's name for an API key.
    KeyName, "name", one_line
);
name!(
    /// The worker that runs a job.
    WorkerId, "workerId", |field, text| check_text(field, text, 128)
);
name!(
    /// The machine a worker says it runs on.
    Host, "host", |field, text| check_text(field, text, 256)
);
name!(
    /// A worker's name for one claim, so that it can repeat the claim when the answer was lost.
    ClaimId, "claimId", |field, text| check_text(field, text, 128)
);
name!(
    /// Names one step of a job.
    StepName, "name", |field, text| check_text(field, text, 128)
);
name!(
    /// A stable code for why something failed, such as `HANDLER_TIMEOUT`.
    ErrorCode, "errorCode", error_code
);
name!(
    /// The URL of a result. People open it from lists and pages, so a worker must not be able to
    /// put a script or a local file there.
    ResultUrl, "resultUrl", |field, text| check_web_address(field, text, "")
);
name!(
    /// The address to which a ready-made handler pushes jobs.
    HandlerUrl, "handler.http", |field, text| {
        check_web_address(field, text, ": requests are signed instead")
    }
);
name!(
    /// The W3C trace context of the submit.
    TraceParent, "traceparent", trace_parent
);

impl ClaimId {
    /// The claim as the stores know it: a digest of the credential's name and of the client's text.
    /// Two credentials that send the same text get a claim each, and neither gets the leases of the
    /// other.
    ///
    /// A digest, because a principal and a claim id together may be longer than a claim id may be.
    pub fn of_principal(&self, who: &str) -> Self {
        let mut hash = Sha256::new();
        // Length first: no principal can end in the beginning of another's claim id.
        hash.update((who.len() as u64).to_be_bytes());
        hash.update(who);
        hash.update(self.as_str());
        ClaimId(hex(&hash.finalize()).into())
    }
}

/// Whether a character is invisible or changes how others are shown. It would make two texts look
/// alike to a person who reads an address, the log or the audit log.
pub fn is_deceptive(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

impl Tenant {
    /// The tenant of an installation that has only one.
    pub fn default_tenant() -> Self {
        Tenant("default".into())
    }
}

impl ErrorCode {
    /// One of the engine's own codes, which are valid.
    pub(crate) fn ours(code: &'static str) -> Self {
        debug_assert!(error_code("errorCode", code).is_ok(), "{code} is no valid code");
        ErrorCode(code.into())
    }
}

impl CorrelationId {
    /// A new UUID, where the client gave no correlation id. Version 4: it reveals no time.
    pub fn fresh(entropy: Entropy) -> Self {
        let uuid = uuid::Builder::from_random_bytes(entropy.0.to_be_bytes()).into_uuid();
        CorrelationId(uuid.to_string().into())
    }
}

impl TraceParent {
    /// The trace id inside, which becomes the correlation id where the client gave none.
    pub fn trace_id(&self) -> CorrelationId {
        CorrelationId(self.0[3..35].into())
    }
}

/// The tenants whose jobs a caller may reach.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The jobs of one tenant.
    One(Tenant),
    /// The jobs of all tenants: for workers and operators across tenants.
    All,
}

impl Scope {
    /// Whether jobs of `tenant` are in scope.
    pub fn covers(&self, tenant: &Tenant) -> bool {
        match self {
            Scope::One(own) => own == tenant,
            Scope::All => true,
        }
    }

    /// Reads a tenant, or `*` for all: no tenant has that name.
    pub fn parse(text: &str) -> Checked<Self> {
        if text == "*" { Ok(Scope::All) } else { Tenant::parse(text).map(Scope::One) }
    }

    /// The tenant, or `*` for all.
    pub fn as_str(&self) -> &str {
        match self {
            Scope::One(tenant) => tenant.as_str(),
            Scope::All => "*",
        }
    }

    /// The scope of a new key where its maker, whose scope this is, names none. All tenants must be
    /// written out: a forgotten field must not grant access to them.
    pub fn of_new_key(&self) -> Self {
        match self {
            Scope::One(own) => Scope::One(own.clone()),
            Scope::All => Scope::One(Tenant::default_tenant()),
        }
    }
}

fn lower_name(field: &'static str, text: &str) -> Checked<()> {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| first(byte) || matches!(byte, b'.' | b'_' | b'-');
    let detail = match text {
        _ if is_name(text, first, inner) => return Ok(()),
        "" => "is missing; it must match ^[a-z0-9][a-z0-9._-]{0,63}$",
        _ => "must match ^[a-z0-9][a-z0-9._-]{0,63}$",
    };
    Err(FieldProblem::new(field, detail))
}

fn error_code(field: &'static str, text: &str) -> Checked<()> {
    let inner = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if is_name(text, |byte| byte.is_ascii_uppercase(), inner) {
        return Ok(());
    }
    Err(FieldProblem::new(field, "must match ^[A-Z][A-Z0-9_]{0,63}$"))
}

/// Whether the text is one byte of `first` and at most 63 of `inner`.
fn is_name(text: &str, first: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let Some((head, rest)) = text.as_bytes().split_first() else { return false };
    first(*head) && rest.len() < 64 && rest.iter().all(|byte| inner(*byte))
}

/// `version-traceid-parentid-flags` in lower-case hex. By the standard, ids of zeros only are
/// invalid, and later versions may have more parts.
fn trace_parent(field: &'static str, text: &str) -> Checked<()> {
    let hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_nonzero = |part: &str| part.bytes().any(|b| b != b'0');
    let parts: Vec<&str> = text.split('-').take(5).collect();
    let is_valid = match parts[..] {
        [version, trace, parent, flags, ref more @ ..] => {
            [version, trace, parent, flags].map(str::len) == [2, 32, 16, 2]
                && [version, trace, parent, flags].into_iter().all(hex)
                && version != "ff"
                && (version != "00" || more.is_empty())
                && is_nonzero(trace)
                && is_nonzero(parent)
        }
        _ => false,
    };
    if is_valid && text.len() <= 256 {
        return Ok(());
    }
    Err(FieldProblem::new(field, "must be a W3C traceparent: 00-<32 hex>-<16 hex>-<2 hex>"))
}

/// An http or https address without a password: addresses appear in lists and logs. `instead` says
/// what replaces a user and a password.
fn check_web_address(field: &'static str, text: &str, instead: &str) -> Checked<()> {
    const BYTES_MAX: usize = 2_048;
    let refuse = |detail: String| Err(FieldProblem::new(field, detail));
    if text.len() > BYTES_MAX {
        return refuse(format!("must have at most {BYTES_MAX} bytes"));
    }
    // Some URL parsers take a backslash for a slash, and would find another host.
    let is_forbidden =
        |letter: char| is_deceptive(letter) || letter.is_whitespace() || letter == '\\';
    if text.chars().any(is_forbidden) {
        return refuse("must have no spaces, backslashes, control or format characters".into());
    }
    let after = |scheme: &str| {
        let (before, rest) = text.split_at_checked(scheme.len())?;
        before.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let Some(rest) = after("https://").or_else(|| after("http://")) else {
        return refuse("must begin with https:// or http://".into());
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return refuse(format!("must not hold a user or a password{instead}"));
    }
    if authority.is_empty() || authority.starts_with(':') {
        return refuse("must name a host".into());
    }
    Ok(())
}

/// Correlation ids travel in headers, so a line break would end the header.
fn one_line(field: &'static str, text: &str) -> Checked<()> {
    check_text(field, text, 128)?;
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')); // the common case
    if !is_plain && text.chars().any(char::is_control) {
        return Err(FieldProblem::new(field, "must not contain control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_types_follow_the_contract() {
        for good in ["a", "0", "ai-analyze", "file.move_2", &"x".repeat(64)] {
            assert!(JobType::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "A", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert_eq!(JobType::parse(bad).unwrap_err().field, "jobType", "{bad:?}");
        }
    }

    #[test]
    fn error_codes_follow_the_contract() {
        for good in ["A", "HANDLER_TIMEOUT", "E2_", &"X".repeat(64)] {
            assert!(ErrorCode::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "_A", "1A", "a", "A-B", &"X".repeat(65)] {
            assert_eq!(ErrorCode::parse(bad).unwrap_err().field, "errorCode", "{bad:?}");
        }
    }

    #[test]
    fn a_claim_belongs_to_its_principal() {
        let claim = ClaimId::parse("0001").unwrap();
        let of = |who| claim.of_principal(who);
        assert_eq!(of("key:1"), of("key:1"));
        assert_ne!(of("key:1"), of("key:2"));
        assert_ne!(of("key:1"), ClaimId::parse("1").unwrap().of_principal("key:1000"));
        let longest = ClaimId::parse(&"x".repeat(128)).unwrap().of_principal(&"y".repeat(1_000));
        assert_eq!(ClaimId::parse(longest.as_str()), Ok(longest), "a store can read it back");
    }

    #[test]
    fn a_new_key_without_a_tenant_never_gets_all_tenants() {
        let own = Scope::One(Tenant::parse("acme").unwrap());
        assert_eq!(own.of_new_key(), own);
        assert_eq!(Scope::All.of_new_key(), Scope::One(Tenant::default_tenant()));
    }

    #[test]
    fn results_are_fetched_from_the_web() {
        for good in
            ["https://x.example/1", "HTTP://10.0.0.7:8080/a?b=c@d#e", "https://bücher.example"]
        {
            assert!(ResultUrl::parse(good).is_ok(), "{good}");
        }
        let long = format!("https://a/{}", "x".repeat(2_048));
        for bad in [
            "",
            "x",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "//a/b",
            "https://",
            " https://a",
            "https://a/\nb",
            "https://user:secret@a/",
            "https://a/\u{202e}gpj.exe",
            "https://a\u{200b}.example/",
            "https://a/\u{2066}b\u{2069}",
            "https://a/\u{ad}b",
            "https://a/\u{feff}",
            "https://a/\u{e0041}",
            &long,
        ] {
            assert_eq!(ResultUrl::parse(bad).unwrap_err().field, "resultUrl", "{bad:?}");
        }
    }

    #[test]
    fn a_traceparent_gives_its_trace_id() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parsed = TraceParent::parse(text).unwrap();
        assert_eq!(parsed.trace_id().as_str(), "0af7651916cd43dd8448eb211c80319c");
        let later = format!("cc-{}-more-to-come", &text[3..]);
        assert!(TraceParent::parse(&later).is_ok(), "versions to come may have more parts");
        let zero_trace = text.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_parent = text.replace("b7ad6b7169203331", &"0".repeat(16));
        let (extra, forbidden) = (format!("{text}-more"), format!("ff{}", &text[2..]));
        for bad in [&zero_trace, &zero_parent, &extra, &forbidden] {
            assert_eq!(TraceParent::parse(bad).unwrap_err().field, "traceparent", "{bad:?}");
        }
        for bad in ["", "00", "00-0-0-0", &text.to_uppercase(), &text.replace("0af", "0ag")] {
            assert_eq!(TraceParent::parse(bad).unwrap_err().field, "traceparent", "{bad:?}");
        }
    }
}
