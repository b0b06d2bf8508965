//! What was typed, what the environment says and what the file says become checked values.
//!
//! [`Settings::resolve`] is a pure function: it reads no variable, no clock, and no file but through what it is
//! handed, so every rule about who is believed can be tried in microseconds.

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
use key::Key;
use mistake::Place;
use outbound::{AddressList, Allow};
use pick::{Chosen, Picker};
use raw::{Given, Raw};
use server::{ForwardedHeader, JwksSource, JwtSettings, Limits, ProxySettings, Rate};
use std::{num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

/// Everything that an installation has chosen, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: Listen,
    pub(crate) store: StoreAddress,
    /// How long a start waits for a database that cannot be reached.
    pub(crate) wait_for_store: Duration,
    pub(crate) behind_proxy: bool,
    pub(crate) payload_bytes_max: usize,
    /// Whether jobs of types that nobody declared are refused.
    pub(crate) strict_types: bool,
    /// What one tenant may have beside its jobs.
    pub(crate) tenant_limits: TenantLimits,
    pub(crate) log: LogSettings,
    pub(crate) tls: Option<TlsFiles>,
    /// The listener of its own for health and metrics.
    pub(crate) health_listen: Option<Listen>,
    pub(crate) door: server::Settings,
    /// What one client may have of the door's limits.
    pub(crate) shares: Shares,
    /// Hosts that jobs may be pushed to although they are not public.
    pub(crate) allow: Arc<Allow>,
    pub(crate) types: Vec<DeclaredType>,
    /// Every value, and who said it.
    chosen: Vec<Chosen>,
}

/// How the log looks, and how much is in it.
#[derive(Clone, Debug)]
pub(crate) struct LogSettings {
    /// `auto`, `json` or `text`.
    pub(crate) format: String,
    /// `error` to `trace`.
    pub(crate) level: String,
}

/// What TLS needs, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// A file of settings that is to be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigPath {
    pub(crate) path: PathBuf,
    /// Whether somebody named it: then it has to be there.
    pub(crate) named: bool,
}

impl ConfigPath {
    /// Which file it is, by what was typed and what the environment says.
    pub(crate) fn of(args: &SettingsArgs, env: &Environment) -> Self {
        match args.config.clone().or_else(|| env.config()) {
            Some(path) => ConfigPath { path, named: true },
            None => ConfigPath { path: "consign.toml".into(), named: false },
        }
    }
}

impl Settings {
    /// Flags over environment over file over defaults; all mistakes at once, wherever they are.
    pub(crate) fn resolve(
        args: &SettingsArgs,
        env: &Environment,
        file: Option<&SourceFile>,
    ) -> Result<Settings, Mistakes> {
        let file::Said { given, types, mut mistakes } = file.map(file::read).unwrap_or_default();
        let mut said = typed(args);
        said.extend(env.read(&mut mistakes));
        said.extend(given);
        let types =
            types.iter().filter_map(|said| types::read(said, file?.open, &mut mistakes)).collect();
        let mut picker = Picker::new(said, mistakes);
        let settings = Self::pick(&mut picker, types);
        let Picker { mut mistakes, chosen, .. } = picker;
        mistakes.sort_by(|a, b| a.place.cmp(&b.place));
        match settings {
            Some(settings) if mistakes.is_empty() => Ok(Settings { chosen, ..settings }),
            Some(_) | None => Err(Mistakes(mistakes)),
        }
    }

    /// Nothing comes of it only where something is wrong.
    fn pick(picker: &mut Picker, types: Vec<DeclaredType>) -> Option<Self> {
        let listen = picker.listen(&key::LISTEN)?;
        let store = picker.store(&key::STORE)?;
        let wait_for_store = picker.span(&key::WAIT_FOR_STORE)?;
        let behind_proxy = picker.switch(&key::BEHIND_PROXY)?;
        let payload_bytes_max = size(picker.bytes(&key::PAYLOAD_MAX_KEY)?);
        let strict_types = picker.switch(&key::STRICT_TYPES)?;
        let log = LogSettings {
            format: picker.text(&key::LOG_FORMAT)?,
            level: picker.text(&key::LOG_LEVEL)?,
        };
        let tls = tls(picker);
        let health_listen = picker.listen(&key::HEALTH_LISTEN);
        let proxy = proxy(picker)?;
        let (limits, shares) = limits(picker, payload_bytes_max, behind_proxy)?;
        let tenant_limits = TenantLimits {
            job_types_max: picker.whole(&key::JOB_TYPES)?,
            api_keys_max: picker.whole(&key::API_KEYS)?,
            workers_max: picker.whole(&key::WORKERS)?,
        };
        let rate = rate(picker);
        let signed_url_lifetime = picker.span(&key::LIFETIME)?;
        let jwt = jwt(picker)?;
        let allow = Arc::new(allow(picker)?);
        let handlers = handlers(picker)?;
        // Half a [tls] is a mistake of its own, and no reason for another.
        let wants_tls = picker.is_said(&key::TLS_CERT) || picker.is_said(&key::TLS_KEY);
        if listen.is_open() && !wants_tls && !behind_proxy {
            picker.refuse(&key::LISTEN, UNPROTECTED);
        }
        // Keys are shown there, too: for /metrics.
        if health_listen.as_ref().is_some_and(Listen::is_open) && !wants_tls && !behind_proxy {
            picker.refuse(&key::HEALTH_LISTEN, UNPROTECTED);
        }
        let door = server::Settings { limits, rate, signed_url_lifetime, jwt, proxy, handlers };
        Some(Settings {
            listen,
            store,
            wait_for_store,
            behind_proxy,
            payload_bytes_max,
            strict_types,
            tenant_limits,
            log,
            tls,
            health_listen,
            door,
            shares,
            allow,
            types,
            chosen: Vec::new(),
        })
    }
}

fn typed(args: &SettingsArgs) -> Vec<Given> {
    let flags: [(&'static Key, &'static str, &Option<String>); 3] = [
        (&key::LISTEN, "--listen", &args.listen),
        (&key::STORE, "--store", &args.store),
        (&key::WAIT_FOR_STORE, "--wait-for-store", &args.wait_for_store),
    ];
    let given = |(key, flag, text): (_, _, &Option<String>)| {
        let raw = Raw::Loose(text.clone()?);
        Some(Given { key, raw, place: Place::Flag(flag) })
    };
    flags.into_iter().filter_map(given).collect()
}

fn tls(picker: &mut Picker) -> Option<TlsFiles> {
    let (cert, key) = (picker.path(&key::TLS_CERT), picker.path(&key::TLS_KEY));
    match (cert, key) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (Some(_), None) if !picker.is_said(&key::TLS_KEY) => {
            picker.refuse(&key::TLS_CERT, "[tls] has a certificate, but no key: set `key` as well");
            None
        }
        (None, Some(_)) if !picker.is_said(&key::TLS_CERT) => {
            picker.refuse(&key::TLS_KEY, "[tls] has a key, but no certificate: set `cert` as well");
            None
        }
        _ => None,
    }
}

fn proxy(picker: &mut Picker) -> Option<ProxySettings> {
    let trusted = picker.words(&key::PROXY_TRUSTED)?;
    let trusted = AddressList::parse(&trusted).expect("its key takes nothing else");
    let header = match picker.text(&key::PROXY_HEADER)?.as_str() {
        "forwarded" => ForwardedHeader::Forwarded,
        _ => ForwardedHeader::XForwardedFor,
    };
    Some(ProxySettings { trusted, header })
}

/// What does not fit together would only be found out by the first large request.
fn limits(
    picker: &mut Picker,
    payload_bytes_max: usize,
    behind_proxy: bool,
) -> Option<(Limits, Shares)> {
    let connections_max = size(picker.whole(&key::CONNECTIONS)?);
    let connections_per_address = picker.whole(&key::CONNECTIONS_PER_ADDRESS).map(size);
    let mut limits = Limits {
        connections_max,
        first_byte_timeout: picker.span(&key::FIRST_BYTE_TIMEOUT)?,
        header_bytes_max: size(picker.bytes(&key::HEADER_BYTES)?),
        header_timeout: picker.span(&key::HEADER_TIMEOUT)?,
        body_bytes_max: size(picker.bytes(&key::BODY_BYTES)?),
        page_bytes_max: size(picker.bytes(&key::PAGE_BYTES)?),
        body_timeout: picker.span(&key::BODY_TIMEOUT)?,
        bodies_bytes_max: size(picker.bytes(&key::BODIES_BYTES)?),
        reports_bytes_max: size(picker.bytes(&key::REPORTS_BYTES)?),
        principal_share_percent: picker.whole(&key::PRINCIPAL_SHARE)?.try_into().ok()?,
        waiting_max: size(picker.whole(&key::WAITING)?),
        ..Limits::default()
    };
    let shares = Shares {
        connections_per_address,
        waiting_per_principal: picker.whole(&key::WAITING_PER_PRINCIPAL).map(size),
        waiting_per_job: picker.whole(&key::WAITING_PER_JOB).map(size),
        behind_proxy,
    };
    limits.write_timeout = picker.span(&key::WRITE_TIMEOUT)?;
    shares.apply(&mut limits);
    if limits.body_bytes_max < payload_bytes_max.saturating_add(ENVELOPE_BYTES) {
        let least =
            "must be 16KiB more than payload_max at least, or no request could hold such a payload";
        picker.refuse(&key::BODY_BYTES, format!("limits.body_bytes {least}"));
    }
    if limits.page_bytes_max < limits.body_bytes_max {
        picker
            .refuse(&key::PAGE_BYTES, "limits.page_bytes must not be less than limits.body_bytes");
    }
    if limits.bodies_bytes_max < limits.page_bytes_max {
        let least =
            "limits.bodies_bytes must not be less than limits.page_bytes: it is for all of them";
        picker.refuse(&key::BODIES_BYTES, least);
    }
    if limits.reports_bytes_max < limits.page_bytes_max {
        let least =
            "limits.reports_bytes must not be less than limits.page_bytes: it is for all of them";
        picker.refuse(&key::REPORTS_BYTES, least);
    }
    if limits.waiting_max > limits.connections_max {
        let most = "limits.waiting must not be more than limits.connections: whoever waits has one";
        picker.refuse(&key::WAITING, most);
    }
    Some((limits, shares))
}

/// What a job has beside its payload, generously.
const ENVELOPE_BYTES: usize = 16 * 1024;

fn rate(picker: &mut Picker) -> Option<Rate> {
    let (per_second, burst) = (picker.whole(&key::PER_SECOND), picker.whole(&key::BURST));
    match (per_second, burst) {
        (Some(per_second), burst) => {
            let burst = positive(burst.unwrap_or(per_second));
            Some(Rate { per_second: positive(per_second), burst })
        }
        (None, Some(_)) if !picker.is_said(&key::PER_SECOND) => {
            let what = "[rate] has a burst, but no rate: set `per_second` as well";
            picker.refuse(&key::BURST, what);
            None
        }
        (None, Some(_) | None) => None,
    }
}

/// Nothing within where no token is believed; nothing at all only where something is wrong.
fn jwt(picker: &mut Picker) -> Option<Option<JwtSettings>> {
    let wanted = key::ALL.iter().any(|key| key.section == "jwt" && picker.is_said(key));
    let issuer = picker.text(&key::ISSUER);
    let audience = picker.text(&key::AUDIENCE);
    let algorithms = picker.words(&key::ALGORITHMS_KEY)?;
    let file = picker.path(&key::JWKS_FILE);
    let url = picker.url(&key::JWKS_URL);
    let tenant_claim = picker.text(&key::TENANT_CLAIM)?;
    let tenant = picker.text(&key::TENANT);
    let scopes_claim = picker.text(&key::SCOPES_CLAIM)?;
    let subjects_claim = picker.text(&key::SUBJECTS_CLAIM)?;
    let types_claim = picker.text(&key::TYPES_CLAIM)?;
    let allow_all_tenants = picker.switch(&key::ALLOW_ALL_TENANTS)?;
    if !wanted {
        return Some(None);
    }
    for key in [&key::ISSUER, &key::AUDIENCE] {
        if !picker.is_said(key) {
            picker.refuse(key, format!("[jwt] needs `{}`", key.name));
        }
    }
    check_tenant(picker, tenant.as_deref(), allow_all_tenants);
    let jwks = jwks(picker, file, url);
    Some(Some(JwtSettings {
        issuer: issuer?,
        audience: audience?,
        algorithms,
        jwks: jwks?,
        tenant_claim,
        tenant,
        scopes_claim,
        subjects_claim,
        types_claim,
        allow_all_tenants,
    }))
}

fn jwks(picker: &mut Picker, file: Option<PathBuf>, url: Option<String>) -> Option<JwksSource> {
    let said = picker.is_said(&key::JWKS_FILE) || picker.is_said(&key::JWKS_URL);
    match (file, url) {
        (Some(file), None) => Some(JwksSource::File(file)),
        (None, Some(url)) => Some(JwksSource::Url(url)),
        (Some(_), Some(_)) => {
            picker.refuse(&key::JWKS_URL, "[jwt] takes jwks_file or jwks_url, not both");
            None
        }
        (None, None) if !said => {
            let what = "[jwt] needs `jwks_file` or `jwks_url`: where the issuer's public keys are";
            picker.refuse(&key::JWKS_FILE, what);
            None
        }
        (None, None) => None,
    }
}

fn check_tenant(picker: &mut Picker, tenant: Option<&str>, allow_all_tenants: bool) {
    let Some(tenant) = tenant else { return };
    if tenant == "*" && allow_all_tenants {
        return;
    }
    if tenant == "*" {
        let what = "`*` is every tenant: it needs allow_all_tenants = true";
        return picker.refuse(&key::TENANT, what);
    }
    if let Err(problem) = Tenant::parse(tenant) {
        picker.refuse(&key::TENANT, format!("`tenant` {}", problem.detail));
    }
}

fn allow(picker: &mut Picker) -> Option<Allow> {
    let hosts = picker.words(&key::ALLOW)?;
    Some(Allow::parse(&hosts).expect("its key takes nothing else"))
}

fn handlers(picker: &mut Picker) -> Option<HandlerSources> {
    let mut source = |key| {
        Some(match picker.text(key)?.as_str() {
            "all" => HandlerSource::All,
            "file" => HandlerSource::File,
            _ => HandlerSource::Off,
        })
    };
    Some(HandlerSources { exec: source(&key::EXEC)?, http: source(&key::HTTP)? })
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Its key does not take 0.
fn positive(number: u64) -> NonZeroU32 {
    u32::try_from(number).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}
