//! Reads flags, environment and file into checked settings.

mod environment;
mod error;
mod file;
mod key;
mod listen;
mod raw;
mod resolver;
mod shares;
mod show;
mod types;
mod value;
mod warn;

#[cfg(test)]
mod tests;

pub(crate) use environment::Environment;
pub(crate) use error::SettingErrors;
pub(crate) use file::SourceFile;
pub(crate) use listen::{Listen, UNPROTECTED, is_open};
pub(crate) use shares::Shares;
pub(crate) use types::DeclaredType;

use crate::args::{SettingsArgs, StoreAddress};
use engine::{HandlerSource, HandlerSources, Tenant, TenantLimits};
use error::{SettingError, SettingOrigin};
use key::SettingKey;
use outbound::{AddressList, Allow};
use raw::{RawSetting, SourceValue};
use resolver::{ResolvedSetting, Resolver};
use server::{
    AllowedOrigins, ForwardedHeader, JwksSource, JwtSettings, Limits, ProxySettings, Rate,
};
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
    resolved: Vec<ResolvedSetting>,
}

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
    ) -> Result<Settings, SettingErrors> {
        let file::FileContents { values, types, mut errors } =
            file.map(file::read).unwrap_or_default();
        let mut source_values = flag_values(args);
        source_values.extend(env.read(&mut errors));
        source_values.extend(values);
        let types =
            types.iter().filter_map(|table| types::read(table, file?.open, &mut errors)).collect();
        let mut resolver = Resolver::new(source_values, errors);
        let settings = Self::resolve_all(&mut resolver, types);
        let Resolver { mut errors, mut resolved, .. } = resolver;
        errors.sort_by(|a, b| a.origin.cmp(&b.origin));
        resolved
            .sort_by_key(|resolved| key::ALL.iter().position(|key| ptr::eq(*key, resolved.key)));
        match settings {
            Some(settings) if errors.is_empty() => Ok(Settings { resolved, ..settings }),
            Some(_) | None => Err(SettingErrors(errors)),
        }
    }

    /// `None` only where something is wrong.
    fn resolve_all(resolver: &mut Resolver, types: Vec<DeclaredType>) -> Option<Self> {
        let payload_bytes_max = resolver.size(&key::PAYLOAD_MAX_KEY)?;
        let behind_proxy = resolver.switch(&key::BEHIND_PROXY)?;
        let (limits, shares) = limits(resolver, payload_bytes_max, behind_proxy)?;
        let settings = Settings {
            listen: resolver.listen(&key::LISTEN)?,
            store: resolver.store(&key::STORE)?,
            wait_for_store: resolver.span(&key::WAIT_FOR_STORE)?,
            behind_proxy,
            payload_bytes_max,
            strict_types: resolver.switch(&key::STRICT_TYPES)?,
            tenant_limits: TenantLimits {
                job_types_max: resolver.whole(&key::JOB_TYPES)?,
                api_keys_max: resolver.whole(&key::API_KEYS)?,
                workers_max: resolver.whole(&key::WORKERS)?,
            },
            log: LogSettings {
                format: resolver.text(&key::LOG_FORMAT)?,
                level: resolver.text(&key::LOG_LEVEL)?,
            },
            tls: tls(resolver),
            health_listen: resolver.listen(&key::HEALTH_LISTEN),
            server: server::Settings {
                limits,
                rate: rate(resolver),
                signed_url_lifetime: resolver.span(&key::LIFETIME)?,
                jwt: jwt(resolver)?,
                proxy: proxy(resolver)?,
                cors_origins: cors_origins(resolver)?,
                public_url: resolver.url(&key::PUBLIC_URL),
                handlers: HandlerSources {
                    exec: handler_source(resolver, &key::EXEC)?,
                    http: handler_source(resolver, &key::HTTP)?,
                },
            },
            shares,
            allow: Arc::new(Allow::parse(&resolver.words(&key::ALLOW)?).expect(KIND_CHECKED)),
            types,
            resolved: Vec::new(),
        };
        // Half a [tls] table is an error of its own, and no reason for another.
        let wants_tls = resolver.is_set(&key::TLS_CERT) || resolver.is_set(&key::TLS_KEY);
        // The health listener takes API keys, too: for /metrics.
        let listeners = [
            (&key::LISTEN, Some(&settings.listen)),
            (&key::HEALTH_LISTEN, settings.health_listen.as_ref()),
        ];
        for (key, listen) in listeners {
            if listen.is_some_and(Listen::is_open) && !wants_tls && !behind_proxy {
                resolver.refuse(key, UNPROTECTED);
            }
        }
        Some(settings)
    }
}

/// Why a value of a list parses again when it is read a second time.
const KIND_CHECKED: &str = "the value was checked when it was resolved";

fn flag_values(args: &SettingsArgs) -> Vec<SourceValue> {
    let flags: [(&'static SettingKey, &'static str, &Option<String>); 3] = [
        (&key::LISTEN, "--listen", &args.listen),
        (&key::STORE, "--store", &args.store),
        (&key::WAIT_FOR_STORE, "--wait-for-store", &args.wait_for_store),
    ];
    let flag_value = |(key, flag, text): (_, _, &Option<String>)| {
        let raw = RawSetting::Loose(text.clone()?);
        Some(SourceValue { key, raw, origin: SettingOrigin::Flag(flag) })
    };
    flags.into_iter().filter_map(flag_value).collect()
}

fn tls(resolver: &mut Resolver) -> Option<TlsFiles> {
    let (cert, key) = (resolver.path(&key::TLS_CERT), resolver.path(&key::TLS_KEY));
    let no_key = "[tls] has a certificate, but no key: set `key` as well";
    resolver.needs(&key::TLS_CERT, &key::TLS_KEY, no_key);
    let no_cert = "[tls] has a key, but no certificate: set `cert` as well";
    resolver.needs(&key::TLS_KEY, &key::TLS_CERT, no_cert);
    Some(TlsFiles { cert: cert?, key: key? })
}

fn proxy(resolver: &mut Resolver) -> Option<ProxySettings> {
    let trusted = AddressList::parse(&resolver.words(&key::PROXY_TRUSTED)?).expect(KIND_CHECKED);
    let header = match resolver.text(&key::PROXY_HEADER)?.as_str() {
        "forwarded" => ForwardedHeader::Forwarded,
        _ => ForwardedHeader::XForwardedFor,
    };
    Some(ProxySettings { trusted, header })
}

fn cors_origins(resolver: &mut Resolver) -> Option<AllowedOrigins> {
    let origins = resolver.words(&key::CORS_ORIGINS)?;
    let origins: Vec<&str> = origins.iter().map(String::as_str).collect();
    Some(AllowedOrigins::parse(&origins).expect(KIND_CHECKED))
}

/// Without this check, limits that contradict each other would fail at the first large request.
fn limits(
    resolver: &mut Resolver,
    payload_bytes_max: usize,
    behind_proxy: bool,
) -> Option<(Limits, Shares)> {
    let mut limits = Limits {
        connections_max: resolver.size(&key::CONNECTIONS)?,
        first_byte_timeout: resolver.span(&key::FIRST_BYTE_TIMEOUT)?,
        header_bytes_max: resolver.size(&key::HEADER_BYTES)?,
        header_timeout: resolver.span(&key::HEADER_TIMEOUT)?,
        body_bytes_max: resolver.size(&key::BODY_BYTES)?,
        page_bytes_max: resolver.size(&key::PAGE_BYTES)?,
        body_timeout: resolver.span(&key::BODY_TIMEOUT)?,
        bodies_bytes_max: resolver.size(&key::BODIES_BYTES)?,
        reports_bytes_max: resolver.size(&key::REPORTS_BYTES)?,
        principal_share_percent: resolver.whole(&key::PRINCIPAL_SHARE)?.try_into().ok()?,
        waiting_max: resolver.size(&key::WAITING)?,
        write_timeout: resolver.span(&key::WRITE_TIMEOUT)?,
        ..Limits::default()
    };
    let shares = Shares {
        connections_per_address: resolver.size(&key::CONNECTIONS_PER_ADDRESS),
        waiting_per_principal: resolver.size(&key::WAITING_PER_PRINCIPAL),
        waiting_per_job: resolver.size(&key::WAITING_PER_JOB),
        behind_proxy,
    };
    shares.apply(&mut limits);
    let mut check = |is_met: bool, key: &'static SettingKey, rule: &str| {
        if !is_met {
            resolver.refuse(key, format!("{} {rule}", key.path()));
        }
    };
    let body_bytes_min = payload_bytes_max.saturating_add(ENVELOPE_BYTES);
    let rule =
        "must be 16KiB more than payload_max at least, or no request could hold such a payload";
    check(limits.body_bytes_max >= body_bytes_min, &key::BODY_BYTES, rule);
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

fn rate(resolver: &mut Resolver) -> Option<Rate> {
    let (per_second, burst) = (resolver.whole(&key::PER_SECOND), resolver.whole(&key::BURST));
    let no_rate = "[rate] has a burst, but no rate: set `per_second` as well";
    resolver.needs(&key::BURST, &key::PER_SECOND, no_rate);
    let per_second = positive(per_second?);
    Some(Rate { per_second, burst: burst.map_or(per_second, positive) })
}

/// The inner `None`: tokens are off. The outer `None`: something is wrong.
fn jwt(resolver: &mut Resolver) -> Option<Option<JwtSettings>> {
    let is_enabled = key::ALL.iter().any(|key| key.section == "jwt" && resolver.is_set(key));
    for key in [&key::ISSUER, &key::AUDIENCE] {
        if is_enabled && !resolver.is_set(key) {
            resolver.refuse(key, format!("[jwt] needs `{}`", key.name));
        }
    }
    // A missing required value is an error already, so none of the empty texts below comes into
    // use.
    let jwt = JwtSettings {
        issuer: resolver.text(&key::ISSUER).unwrap_or_default(),
        audience: resolver.text(&key::AUDIENCE).unwrap_or_default(),
        algorithms: resolver.words(&key::ALGORITHMS_KEY)?,
        jwks: jwks(resolver, is_enabled),
        tenant_claim: resolver.text(&key::TENANT_CLAIM)?,
        tenant: resolver.text(&key::TENANT),
        scopes_claim: resolver.text(&key::SCOPES_CLAIM)?,
        subjects_claim: resolver.text(&key::SUBJECTS_CLAIM)?,
        types_claim: resolver.text(&key::TYPES_CLAIM)?,
        allow_all_tenants: resolver.switch(&key::ALLOW_ALL_TENANTS)?,
    };
    match jwt.tenant.as_deref() {
        Some("*") if jwt.allow_all_tenants => {}
        Some("*") => {
            let detail = "`*` is every tenant: it needs allow_all_tenants = true";
            resolver.refuse(&key::TENANT, detail);
        }
        Some(tenant) => {
            if let Err(problem) = Tenant::parse(tenant) {
                resolver.refuse(&key::TENANT, format!("`tenant` {}", problem.detail));
            }
        }
        None => {}
    }
    Some(is_enabled.then_some(jwt))
}

fn jwks(resolver: &mut Resolver, is_enabled: bool) -> JwksSource {
    let (file, url) = (resolver.path(&key::JWKS_FILE), resolver.url(&key::JWKS_URL));
    if file.is_some() && url.is_some() {
        resolver.refuse(&key::JWKS_URL, "[jwt] takes jwks_file or jwks_url, not both");
    }
    if is_enabled && !resolver.is_set(&key::JWKS_FILE) && !resolver.is_set(&key::JWKS_URL) {
        let detail = "[jwt] needs `jwks_file` or `jwks_url`: where the issuer's public keys are";
        resolver.refuse(&key::JWKS_FILE, detail);
    }
    url.map_or(JwksSource::File(file.unwrap_or_default()), JwksSource::Url)
}

fn handler_source(resolver: &mut Resolver, key: &'static SettingKey) -> Option<HandlerSource> {
    Some(match resolver.text(key)?.as_str() {
        "all" => HandlerSource::All,
        "file" => HandlerSource::File,
        _ => HandlerSource::Off,
    })
}

/// The key's range excludes 0.
fn positive(number: u64) -> NonZeroU32 {
    u32::try_from(number).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}
