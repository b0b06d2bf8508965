//! Reads flags, environment and file into checked settings.

mod environment;
mod file;
mod key;
mod listen;
mod mistake;
mod pick;
mod raw;
mod shares;
mod show;
mod types;
mod value;
mod warn;

#[cfg(test)]
mod tests;

pub(crate) use environment::Environment;
pub(crate) use file::SourceFile;
pub(crate) use listen::{Listen, UNPROTECTED, is_open};
pub(crate) use mistake::Mistakes;
pub(crate) use shares::Shares;
pub(crate) use types::DeclaredType;

use crate::args::{SettingsArgs, StoreAddress};
use engine::{HandlerSource, HandlerSources, Tenant, TenantLimits};
use key::SettingKey;
use mistake::SettingPlace;
use outbound::{AddressList, Allow};
use pick::{Chosen, Picker};
use raw::{RawSettings, SourceValue};
use server::{ForwardedHeader, JwksSource, JwtSettings, Limits, ProxySettings, Rate};
use std::{num::NonZeroU32, path::PathBuf, ptr, sync::Arc, time::Duration};

/// All settings of an installation, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: Listen,
    pub(crate) store: StoreAddress,
    /// How long a start waits for a database that cannot be reached.
    pub(crate) wait_for_store: Duration,
    pub(crate) behind_proxy: bool,
    pub(crate) payload_bytes_max: usize,
    /// Whether the server refuses jobs of types that were not declared.
    pub(crate) strict_types: bool,
    /// The limits of one tenant, beside its jobs.
    pub(crate) tenant_limits: TenantLimits,
    pub(crate) log: LogSettings,
    pub(crate) tls: Option<TlsFiles>,
    /// A separate listener for health and metrics.
    pub(crate) health_listen: Option<Listen>,
    pub(crate) server: server::Settings,
    /// The share of one client in the server's limits.
    pub(crate) shares: Shares,
    /// Hosts that jobs may be pushed to although they are not public.
    pub(crate) allow: Arc<Allow>,
    pub(crate) types: Vec<DeclaredType>,
    /// Every value with its source.
    chosen: Vec<Chosen>,
}

/// Format and level of the log.
#[derive(Clone, Debug)]
pub(crate) struct LogSettings {
    /// `auto`, `json` or `text`.
    pub(crate) format: String,
    /// `error` to `trace`.
    pub(crate) level: String,
}

/// The files for TLS, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// A settings file to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigPath {
    pub(crate) path: PathBuf,
    /// Whether a flag or variable names it: then it has to exist.
    pub(crate) named: bool,
}

impl ConfigPath {
    /// The path, by flag, by variable, or the default.
    pub(crate) fn of(args: &SettingsArgs, env: &Environment) -> Self {
        match args.config.clone().or_else(|| env.config()) {
            Some(path) => ConfigPath { path, named: true },
            None => ConfigPath { path: "consign.toml".into(), named: false },
        }
    }
}

impl Settings {
    /// Flags over environment over file over defaults. Reports all errors at once, from all
    /// sources.
    pub(crate) fn resolve(
        args: &SettingsArgs,
        env: &Environment,
        file: Option<&SourceFile>,
    ) -> Result<Settings, Mistakes> {
        let file::FileContents { given, types, mut mistakes } =
            file.map(file::read).unwrap_or_default();
        let mut said = typed(args);
        said.extend(env.read(&mut mistakes));
        said.extend(given);
        let types =
            types.iter().filter_map(|said| types::read(said, file?.open, &mut mistakes)).collect();
        let mut picker = Picker::new(said, mistakes);
        let settings = Self::pick(&mut picker, types);
        let Picker { mut mistakes, mut chosen, .. } = picker;
        mistakes.sort_by(|a, b| a.place.cmp(&b.place));
        chosen.sort_by_key(|chosen| key::ALL.iter().position(|key| ptr::eq(*key, chosen.key)));
        match settings {
            Some(settings) if mistakes.is_empty() => Ok(Settings { chosen, ..settings }),
            Some(_) | None => Err(Mistakes(mistakes)),
        }
    }

    /// `None` only where something is wrong.
    fn pick(picker: &mut Picker, types: Vec<DeclaredType>) -> Option<Self> {
        let payload_bytes_max = picker.size(&key::PAYLOAD_MAX_KEY)?;
        let behind_proxy = picker.switch(&key::BEHIND_PROXY)?;
        let (limits, shares) = limits(picker, payload_bytes_max, behind_proxy)?;
        let settings = Settings {
            listen: picker.listen(&key::LISTEN)?,
            store: picker.store(&key::STORE)?,
            wait_for_store: picker.span(&key::WAIT_FOR_STORE)?,
            behind_proxy,
            payload_bytes_max,
            strict_types: picker.switch(&key::STRICT_TYPES)?,
            tenant_limits: TenantLimits {
                job_types_max: picker.whole(&key::JOB_TYPES)?,
                api_keys_max: picker.whole(&key::API_KEYS)?,
                workers_max: picker.whole(&key::WORKERS)?,
            },
            log: LogSettings {
                format: picker.text(&key::LOG_FORMAT)?,
                level: picker.text(&key::LOG_LEVEL)?,
            },
            tls: tls(picker),
            health_listen: picker.listen(&key::HEALTH_LISTEN),
            server: server::Settings {
                limits,
                rate: rate(picker),
                signed_url_lifetime: picker.span(&key::LIFETIME)?,
                jwt: jwt(picker)?,
                proxy: proxy(picker)?,
                handlers: HandlerSources {
                    exec: handler_source(picker, &key::EXEC)?,
                    http: handler_source(picker, &key::HTTP)?,
                },
            },
            shares,
            allow: Arc::new(Allow::parse(&picker.words(&key::ALLOW)?).expect(KIND_CHECKED)),
            types,
            chosen: Vec::new(),
        };
        // Half a [tls] table is an error of its own, and no reason for another.
        let wants_tls = picker.is_set(&key::TLS_CERT) || picker.is_set(&key::TLS_KEY);
        // The health listener takes API keys, too: for /metrics.
        let listeners = [
            (&key::LISTEN, Some(&settings.listen)),
            (&key::HEALTH_LISTEN, settings.health_listen.as_ref()),
        ];
        for (key, listen) in listeners {
            if listen.is_some_and(Listen::is_open) && !wants_tls && !behind_proxy {
                picker.refuse(key, UNPROTECTED);
            }
        }
        Some(settings)
    }
}

/// Why a value of a list parses again after it was picked.
const KIND_CHECKED: &str = "the kind of the key takes nothing else";

fn typed(args: &SettingsArgs) -> Vec<SourceValue> {
    let flags: [(&'static SettingKey, &'static str, &Option<String>); 3] = [
        (&key::LISTEN, "--listen", &args.listen),
        (&key::STORE, "--store", &args.store),
        (&key::WAIT_FOR_STORE, "--wait-for-store", &args.wait_for_store),
    ];
    let given = |(key, flag, text): (_, _, &Option<String>)| {
        let raw = RawSettings::Loose(text.clone()?);
        Some(SourceValue { key, raw, place: SettingPlace::Flag(flag) })
    };
    flags.into_iter().filter_map(given).collect()
}

fn tls(picker: &mut Picker) -> Option<TlsFiles> {
    let (cert, key) = (picker.path(&key::TLS_CERT), picker.path(&key::TLS_KEY));
    let no_key = "[tls] has a certificate, but no key: set `key` as well";
    picker.needs(&key::TLS_CERT, &key::TLS_KEY, no_key);
    let no_cert = "[tls] has a key, but no certificate: set `cert` as well";
    picker.needs(&key::TLS_KEY, &key::TLS_CERT, no_cert);
    Some(TlsFiles { cert: cert?, key: key? })
}

fn proxy(picker: &mut Picker) -> Option<ProxySettings> {
    let trusted = AddressList::parse(&picker.words(&key::PROXY_TRUSTED)?).expect(KIND_CHECKED);
    let header = match picker.text(&key::PROXY_HEADER)?.as_str() {
        "forwarded" => ForwardedHeader::Forwarded,
        _ => ForwardedHeader::XForwardedFor,
    };
    Some(ProxySettings { trusted, header })
}

/// Without this check, limits that contradict each other would fail at the first large request.
fn limits(
    picker: &mut Picker,
    payload_bytes_max: usize,
    behind_proxy: bool,
) -> Option<(Limits, Shares)> {
    let mut limits = Limits {
        connections_max: picker.size(&key::CONNECTIONS)?,
        first_byte_timeout: picker.span(&key::FIRST_BYTE_TIMEOUT)?,
        header_bytes_max: picker.size(&key::HEADER_BYTES)?,
        header_timeout: picker.span(&key::HEADER_TIMEOUT)?,
        body_bytes_max: picker.size(&key::BODY_BYTES)?,
        page_bytes_max: picker.size(&key::PAGE_BYTES)?,
        body_timeout: picker.span(&key::BODY_TIMEOUT)?,
        bodies_bytes_max: picker.size(&key::BODIES_BYTES)?,
        reports_bytes_max: picker.size(&key::REPORTS_BYTES)?,
        principal_share_percent: picker.whole(&key::PRINCIPAL_SHARE)?.try_into().ok()?,
        waiting_max: picker.size(&key::WAITING)?,
        write_timeout: picker.span(&key::WRITE_TIMEOUT)?,
        ..Limits::default()
    };
    let shares = Shares {
        connections_per_address: picker.size(&key::CONNECTIONS_PER_ADDRESS),
        waiting_per_principal: picker.size(&key::WAITING_PER_PRINCIPAL),
        waiting_per_job: picker.size(&key::WAITING_PER_JOB),
        behind_proxy,
    };
    shares.apply(&mut limits);
    let mut check = |holds: bool, key: &'static SettingKey, rule: &str| {
        if !holds {
            picker.refuse(key, format!("{} {rule}", key.path()));
        }
    };
    let least = payload_bytes_max.saturating_add(ENVELOPE_BYTES);
    let rule =
        "must be 16KiB more than payload_max at least, or no request could hold such a payload";
    check(limits.body_bytes_max >= least, &key::BODY_BYTES, rule);
    let rule = "must not be less than limits.body_bytes";
    check(limits.page_bytes_max >= limits.body_bytes_max, &key::PAGE_BYTES, rule);
    let rule = "must not be less than limits.page_bytes: it is for all of them";
    check(limits.bodies_bytes_max >= limits.page_bytes_max, &key::BODIES_BYTES, rule);
    check(limits.reports_bytes_max >= limits.page_bytes_max, &key::REPORTS_BYTES, rule);
    let rule = "must not be more than limits.connections: every waiting request has one";
    check(limits.waiting_max <= limits.connections_max, &key::WAITING, rule);
    Some((limits, shares))
}

/// A generous bound for a job's fields beside its payload.
const ENVELOPE_BYTES: usize = 16 * 1024;

fn rate(picker: &mut Picker) -> Option<Rate> {
    let (per_second, burst) = (picker.whole(&key::PER_SECOND), picker.whole(&key::BURST));
    let no_rate = "[rate] has a burst, but no rate: set `per_second` as well";
    picker.needs(&key::BURST, &key::PER_SECOND, no_rate);
    let per_second = positive(per_second?);
    Some(Rate { per_second, burst: burst.map_or(per_second, positive) })
}

/// The inner `None`: tokens are off. The outer `None`: something is wrong.
fn jwt(picker: &mut Picker) -> Option<Option<JwtSettings>> {
    let wanted = key::ALL.iter().any(|key| key.section == "jwt" && picker.is_set(key));
    for key in [&key::ISSUER, &key::AUDIENCE] {
        if wanted && !picker.is_set(key) {
            picker.refuse(key, format!("[jwt] needs `{}`", key.name));
        }
    }
    // A missing required value is an error already, so none of the empty texts below comes into
    // use.
    let jwt = JwtSettings {
        issuer: picker.text(&key::ISSUER).unwrap_or_default(),
        audience: picker.text(&key::AUDIENCE).unwrap_or_default(),
        algorithms: picker.words(&key::ALGORITHMS_KEY)?,
        jwks: jwks(picker, wanted),
        tenant_claim: picker.text(&key::TENANT_CLAIM)?,
        tenant: picker.text(&key::TENANT),
        scopes_claim: picker.text(&key::SCOPES_CLAIM)?,
        subjects_claim: picker.text(&key::SUBJECTS_CLAIM)?,
        types_claim: picker.text(&key::TYPES_CLAIM)?,
        allow_all_tenants: picker.switch(&key::ALLOW_ALL_TENANTS)?,
    };
    match jwt.tenant.as_deref() {
        Some("*") if jwt.allow_all_tenants => {}
        Some("*") => {
            let what = "`*` is every tenant: it needs allow_all_tenants = true";
            picker.refuse(&key::TENANT, what);
        }
        Some(tenant) => {
            if let Err(problem) = Tenant::parse(tenant) {
                picker.refuse(&key::TENANT, format!("`tenant` {}", problem.detail));
            }
        }
        None => {}
    }
    Some(wanted.then_some(jwt))
}

fn jwks(picker: &mut Picker, wanted: bool) -> JwksSource {
    let (file, url) = (picker.path(&key::JWKS_FILE), picker.url(&key::JWKS_URL));
    if file.is_some() && url.is_some() {
        picker.refuse(&key::JWKS_URL, "[jwt] takes jwks_file or jwks_url, not both");
    }
    if wanted && !picker.is_set(&key::JWKS_FILE) && !picker.is_set(&key::JWKS_URL) {
        let what = "[jwt] needs `jwks_file` or `jwks_url`: where the issuer's public keys are";
        picker.refuse(&key::JWKS_FILE, what);
    }
    url.map_or(JwksSource::File(file.unwrap_or_default()), JwksSource::Url)
}

fn handler_source(picker: &mut Picker, key: &'static SettingKey) -> Option<HandlerSource> {
    Some(match picker.text(key)?.as_str() {
        "all" => HandlerSource::All,
        "file" => HandlerSource::File,
        _ => HandlerSource::Off,
    })
}

/// The key's range excludes 0.
fn positive(number: u64) -> NonZeroU32 {
    u32::try_from(number).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}
