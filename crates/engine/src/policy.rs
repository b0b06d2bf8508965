//! How jobs of one type are treated: attempts, leases, backoff, retention.

use crate::{
    entropy::Entropy,
    field::{Checked, FieldProblem, Findings, check_range},
    json::JsonText,
    ready_made::{ReadyMade, ReadyMadeDraft},
};
use std::time::Duration;

/// The policy of one job type. Only [`PolicyDraft::check`] and the defaults make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Attempts of a job that does not ask for its own number.
    pub max_attempts: u32,
    /// How long a claim holds without a heartbeat, where the worker does not say.
    pub lease: Duration,
    /// How long one attempt may take in all.
    pub timeout: Duration,
    /// How long to wait between attempts.
    pub backoff: Backoff,
    /// How many workers in a row may be lost before the job is taken for the cause.
    pub lost_workers_max: u32,
    /// How long a key stays taken after its job has ended.
    pub key_window: Duration,
    /// How long an ended job is kept.
    pub retention: Duration,
    /// How many jobs of one tenant may wait, if that is limited.
    pub max_queued: Option<u64>,
    /// Slots of a ready-made handler, if that is limited.
    pub concurrency: Option<u32>,
    /// The JSON Schema that payloads must match, if any. The engine only knows that it is JSON.
    pub schema: Option<JsonText>,
    /// What runs the jobs where no worker of their own does.
    pub handler: Option<ReadyMade>,
}

/// The policy that `consign.toml` sets for a type, as the last node that started applied it. It is
/// kept beside the policy in force, so that a change by the API is noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePolicy(pub Policy);

named_enum! {
    /// Who sets the policy of a type.
    pub enum PolicyOwner {
        File = "file",
        Api = "api",
    }
}

/// Where the policy of a type comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// No policy was set: the type has the default.
    Default,
    /// The API set it.
    Api,
    /// `consign.toml` set it.
    File,
    /// `consign.toml` set it, and the API changed it since. The next start of a node sets again
    /// what the file says.
    FileThenApi,
}

impl PolicySource {
    /// The source of `policy`, for a type that the file names with `in_file`.
    pub fn of(policy: Option<&Policy>, in_file: Option<&FilePolicy>) -> Self {
        match (policy, in_file) {
            (None, _) => PolicySource::Default,
            (Some(_), None) => PolicySource::Api,
            (Some(policy), Some(FilePolicy(file))) if policy == file => PolicySource::File,
            (Some(_), Some(_)) => PolicySource::FileThenApi,
        }
    }

    /// Who owns the policy; `None` where none was set.
    pub fn owner(self) -> Option<PolicyOwner> {
        match self {
            PolicySource::Default => None,
            PolicySource::Api => Some(PolicyOwner::Api),
            PolicySource::File | PolicySource::FileThenApi => Some(PolicyOwner::File),
        }
    }
}

/// The wait between attempts: `base × factor^(attempt − 1)`, at most `max`.
///
/// The workspace has only this backoff: for jobs, as the policy of their type says, and for our own
/// retries ([`Backoff::doubling`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The ceiling after the first attempt.
    pub base: Duration,
    /// Growth per attempt in hundredths. Integers give the same waits on every machine.
    pub factor_hundredths: u32,
    /// The upper bound of every wait.
    pub max: Duration,
    /// How random bits spread the retries of jobs that failed together.
    pub jitter: Jitter,
}

named_enum! {
    /// How random bits shorten a wait: to anything in the upper half of the ceiling, to anything
    /// between nothing and the ceiling, or not at all.
    pub enum Jitter {
        Equal = "equal",
        Full = "full",
        None = "none",
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            max_attempts: 10,
            lease: Duration::from_secs(30),
            timeout: Duration::from_secs(15 * 60),
            backoff: Backoff::default(),
            lost_workers_max: 3,
            key_window: Duration::from_secs(7 * DAY),
            retention: Duration::from_secs(30 * DAY),
            max_queued: None,
            concurrency: None,
            schema: None,
            handler: None,
        }
    }
}

/// A job survives an outage of a quarter of an hour for certain, and one of half an hour at best:
/// its nine waits are between 15 and 31 minutes in all.
impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            base: Duration::from_secs(5),
            factor_hundredths: 200,
            max: Duration::from_secs(600),
            jitter: Jitter::Equal,
        }
    }
}

const DAY: u64 = 86_400;

impl Policy {
    /// How long a job waits after its `attempt`-th attempt failed.
    pub fn delay_after(&self, attempt: u32, entropy: Entropy) -> Duration {
        let ceiling = self.backoff.ceiling(attempt);
        match self.backoff.jitter {
            Jitter::Equal => self.backoff.spread(attempt, entropy),
            Jitter::Full => entropy.up_to(ceiling),
            Jitter::None => ceiling,
        }
    }

    /// How long an ended job with or without a key is kept.
    ///
    /// A job outlives its key: a client that repeats the key is sent to the first job's status,
    /// which has to exist.
    pub fn effective_retention(&self, has_key: bool) -> Duration {
        if has_key { self.retention.max(self.key_window) } else { self.retention }
    }
}

impl Backoff {
    /// Waits that double from `base` to `max`.
    pub const fn doubling(base: Duration, max: Duration) -> Self {
        Backoff { base, factor_hundredths: 200, max, jitter: Jitter::None }
    }

    /// A wait in the upper half of the ceiling: callers that failed together do not retry together,
    /// and none retries at once.
    pub fn spread(&self, attempt: u32, entropy: Entropy) -> Duration {
        let half = self.ceiling(attempt) / 2;
        half + entropy.up_to(half)
    }

    /// The longest wait after the `attempt`-th attempt.
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let max = self.max.as_millis();
        let mut ceiling = self.base.as_millis();
        // Ends early: a factor above 1 reaches any valid maximum long before the hundredth attempt.
        for _ in 1..attempt.min(ATTEMPTS_MAX) {
            if ceiling >= max {
                break;
            }
            ceiling = ceiling * u128::from(self.factor_hundredths) / 100;
        }
        Duration::from_millis(u64::try_from(ceiling.min(max)).unwrap_or(u64::MAX))
    }
}

/// The most attempts of any job.
pub const ATTEMPTS_MAX: u32 = 100;

/// Checks a number of attempts, of a job or of a policy.
pub fn check_max_attempts(attempts: i64) -> Checked<u32> {
    check_range("maxAttempts", attempts, 1..=ATTEMPTS_MAX)
}

/// Checks the length of a lease that a worker asked for.
pub fn check_lease(seconds: i64) -> Checked<Duration> {
    let seconds = check_range("leaseSeconds", seconds, 1..=3_600)?;
    Ok(Duration::from_secs(seconds.into()))
}

/// A policy as it was written, unchecked; an absent field takes the default.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each field is the draft of the field of the same name in Policy")]
pub struct PolicyDraft {
    pub max_attempts: Option<i64>,
    pub lease_ms: Option<i64>,
    pub timeout_ms: Option<i64>,
    pub backoff_base_ms: Option<i64>,
    pub backoff_factor_hundredths: Option<i64>,
    pub backoff_max_ms: Option<i64>,
    pub jitter: Option<Jitter>,
    pub lost_workers_max: Option<i64>,
    pub key_window_ms: Option<i64>,
    pub retention_ms: Option<i64>,
    pub max_queued: Option<i64>,
    pub concurrency: Option<i64>,
    pub schema: Option<String>,
    pub handler: Option<ReadyMadeDraft>,
}

impl PolicyDraft {
    /// Checks every field and names all that are wrong, not only the first.
    pub fn check(&self) -> Result<Policy, Vec<FieldProblem>> {
        let default = Policy::default();
        let mut findings = Findings::default();
        let max_attempts = findings.keep_optional(self.max_attempts.map(check_max_attempts));
        let mut number = |field, value: Option<i64>, max: u32| {
            findings.keep_optional(value.map(|number| check_range(field, number, 1..=max)))
        };
        let lost = number("lostWorkersMax", self.lost_workers_max, ATTEMPTS_MAX);
        let queued = number("maxQueued", self.max_queued, 1_000_000_000);
        let slots = number("concurrency", self.concurrency, 10_000);
        let factor = findings.keep_optional(self.backoff_factor_hundredths.map(check_factor));
        let schema = findings.keep_optional(self.schema.as_deref().map(check_schema));
        let handler = findings.keep_optional(self.handler.as_ref().map(ReadyMadeDraft::check));
        let mut span = |field, ms: Option<i64>, default: Duration, range: [Span; 2]| {
            findings.keep_optional(ms.map(|ms| check_span(field, ms, range))).unwrap_or(default)
        };
        let policy = Policy {
            max_attempts: max_attempts.unwrap_or(default.max_attempts),
            lease: span("lease", self.lease_ms, default.lease, [SECOND, HOUR]),
            timeout: span("timeout", self.timeout_ms, default.timeout, [SECOND, MONTH]),
            backoff: Backoff {
                base: span(
                    "backoff.base",
                    self.backoff_base_ms,
                    default.backoff.base,
                    [NOTHING, HOUR],
                ),
                factor_hundredths: factor.unwrap_or(default.backoff.factor_hundredths),
                max: span(
                    "backoff.max",
                    self.backoff_max_ms,
                    default.backoff.max,
                    [NOTHING, MONTH],
                ),
                jitter: self.jitter.unwrap_or(default.backoff.jitter),
            },
            lost_workers_max: lost.unwrap_or(default.lost_workers_max),
            key_window: span(
                "keyWindow",
                self.key_window_ms,
                default.key_window,
                [NOTHING, DECADE],
            ),
            retention: span("retention", self.retention_ms, default.retention, [NOTHING, DECADE]),
            max_queued: queued.map(u64::from),
            concurrency: slots,
            schema,
            handler,
        };
        if findings.is_empty() { Ok(policy) } else { Err(findings.into_problems()) }
    }
}

/// A larger schema would slow down every submit.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// A schema is an object or a boolean.
fn check_schema(text: &str) -> Checked<JsonText> {
    let schema = JsonText::parse("schema", text, SCHEMA_BYTES_MAX)?;
    let is_schema =
        schema.as_str().starts_with('{') || ["true", "false"].contains(&schema.as_str());
    if !is_schema {
        return Err(FieldProblem::new("schema", "must be a JSON Schema: an object, true or false"));
    }
    Ok(schema)
}

/// A bound of a span of time, with its spelling in policies.
type Span = (&'static str, u64);
const NOTHING: Span = ("0s", 0);
const SECOND: Span = ("1s", 1);
const HOUR: Span = ("1h", 3_600);
const MONTH: Span = ("30d", 30 * DAY);
const DECADE: Span = ("3650d", 3_650 * DAY);

fn check_span(field: &'static str, ms: i64, [min, max]: [Span; 2]) -> Checked<Duration> {
    let span = u64::try_from(ms).ok().map(Duration::from_millis);
    let valid_range = Duration::from_secs(min.1)..=Duration::from_secs(max.1);
    span.filter(|span| valid_range.contains(span)).ok_or_else(|| {
        FieldProblem::new(field, format!("must be from {} to {}, but is {ms}ms", min.0, max.0))
    })
}

fn check_factor(hundredths: i64) -> Checked<u32> {
    check_range("backoff.factor", hundredths, 100..=1_000)
        .map_err(|problem| FieldProblem::new(problem.field, "must be from 1 to 10"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_by_the_factor_up_to_the_maximum() {
        let backoff = Backoff::default();
        let seconds: Vec<u64> = (1..=11).map(|n| backoff.ceiling(n).as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600]);
        assert_eq!(backoff.ceiling(0).as_secs(), 5);
        assert_eq!(backoff.ceiling(u32::MAX).as_secs(), 600);
    }

    #[test]
    fn waits_that_double_are_spread_over_their_upper_half() {
        let backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(1));
        let ms = |attempt, entropy| backoff.spread(attempt, Entropy(entropy)).as_millis();
        assert_eq!([1, 2, 3, 4, 5, 99].map(|n| ms(n, 0)), [50, 100, 200, 400, 500, 500]);
        assert_eq!([1, 2, 5].map(|n| ms(n, u128::MAX)), [100, 200, 1_000]);
        assert_eq!(ms(3, 1 << 127), 300);
    }

    #[test]
    fn jitter_shortens_a_wait_by_up_to_a_half_unless_the_policy_says_otherwise() {
        let mut policy = Policy::default();
        let mut bounds = |jitter| {
            policy.backoff.jitter = jitter;
            [0, u128::MAX].map(|bits| policy.delay_after(2, Entropy(bits)).as_secs())
        };
        assert_eq!(bounds(Backoff::default().jitter), [5, 10]);
        assert_eq!(bounds(Jitter::Equal), [5, 10]);
        assert_eq!(bounds(Jitter::Full), [0, 10]);
        assert_eq!(bounds(Jitter::None), [10, 10]);
    }

    /// An outage of a few minutes must not poison everything that runs into it.
    #[test]
    fn the_default_waits_outlast_an_outage() {
        let policy = Policy::default();
        let minutes = |bits| {
            let waits = (1..policy.max_attempts).map(|n| policy.delay_after(n, Entropy(bits)));
            waits.sum::<Duration>().as_secs() / 60
        };
        assert_eq!((minutes(0), minutes(1 << 127), minutes(u128::MAX)), (15, 22, 30));
    }

    #[test]
    fn an_empty_draft_is_the_contract_s_default() {
        assert_eq!(PolicyDraft::default().check(), Ok(Policy::default()));
    }

    #[test]
    fn every_wrong_field_is_named() {
        let hostile = |value| PolicyDraft {
            max_attempts: Some(value),
            lease_ms: Some(value),
            timeout_ms: Some(value),
            backoff_base_ms: Some(value),
            backoff_factor_hundredths: Some(value),
            backoff_max_ms: Some(value),
            jitter: None,
            lost_workers_max: Some(value),
            key_window_ms: Some(value),
            retention_ms: Some(value),
            max_queued: Some(value),
            concurrency: Some(value),
            schema: Some(value.to_string()),
            handler: Some(ReadyMadeDraft::Http(value.to_string())),
        };
        for value in [i64::MIN, -1, i64::MAX] {
            assert_eq!(hostile(value).check().unwrap_err().len(), 13, "{value}");
        }
    }

    #[test]
    fn the_longest_spans_are_taken_and_no_longer_ones() {
        let day_ms = 86_400_000;
        let draft = |month_ms, decade_ms| PolicyDraft {
            timeout_ms: Some(month_ms),
            backoff_max_ms: Some(month_ms),
            key_window_ms: Some(decade_ms),
            retention_ms: Some(decade_ms),
            ..PolicyDraft::default()
        };
        assert!(draft(30 * day_ms, 3_650 * day_ms).check().is_ok());
        let problems = draft(30 * day_ms + 1, 3_650 * day_ms + 1).check().unwrap_err();
        assert_eq!(problems.len(), 4);
        assert_eq!(problems[0].detail, "must be from 1s to 30d, but is 2592000001ms");
    }

    #[test]
    fn a_schema_is_json_of_a_lawful_size() {
        let checked =
            |text: String| PolicyDraft { schema: Some(text), ..PolicyDraft::default() }.check();
        for good in [" {\"type\": \"object\"} ", "{}", "true", "false"] {
            let kept = checked(good.into()).unwrap().schema.unwrap();
            assert_eq!(kept.as_str(), good.trim());
        }
        let long = format!("{{\"$comment\":\"{}\"}}", "x".repeat(SCHEMA_BYTES_MAX));
        for wrong in ["", "{", "null", "[]", "\"{}\"", "5", &long] {
            assert_eq!(checked(wrong.into()).unwrap_err()[0].field, "schema", "{wrong}");
        }
    }

    #[test]
    fn a_keyed_job_is_kept_at_least_as_long_as_its_key() {
        let policy = Policy { retention: Duration::from_secs(DAY), ..Policy::default() };
        assert_eq!(policy.effective_retention(false), Duration::from_secs(DAY));
        assert_eq!(policy.effective_retention(true), Duration::from_secs(7 * DAY));
    }
}
