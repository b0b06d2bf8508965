//! The server's settings.

use crate::AllowedOrigins;
use engine::HandlerSources;
use outbound::AddressList;
use std::{num::NonZeroU32, path::PathBuf, time::Duration};

/// The server's settings. The code that reads them from a file checks them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Limits on requests and connections.
    pub limits: Limits,
    /// The rate limit of each principal, if there is one.
    pub rate: Option<Rate>,
    /// How long a signed URL opens the status of its job.
    pub signed_url_lifetime: Duration,
    /// The issuer whose tokens are accepted besides our own keys.
    pub jwt: Option<JwtSettings>,
    /// The trusted proxies, and the header in which they name their clients.
    pub proxy: ProxySettings,
    /// The pages that may call the API from a browser.
    pub cors_origins: AllowedOrigins,
    /// The URL by which clients reach this server, without a slash at its end.
    pub public_url: Option<String>,
    /// Who may name ready-made handlers.
    pub handlers: HandlerSources,
}

/// The trusted proxies, and the header in which they name their clients.
#[derive(Clone, Debug, Default)]
pub struct ProxySettings {
    /// The addresses of proxies that are trusted to name the client.
    pub trusted: AddressList,
    /// The header that they write.
    pub header: ForwardedHeader,
}

/// The header in which a proxy names its client. Only one is read: a proxy passes the other one on
/// as its client wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Limits on requests and connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections that are open at the same time.
    pub connections_max: usize,
    /// Connections of one address among them.
    pub connections_per_address: AddressShare,
    /// How long a new connection may stay silent, before a TLS handshake and after it.
    pub first_byte_timeout: Duration,
    /// Bytes of a request's line and headers.
    pub header_bytes_max: usize,
    /// How long a client may take to send its headers, also after the last answer.
    pub header_timeout: Duration,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Bytes of a body that holds many items: a batch, a page of reports.
    pub page_bytes_max: usize,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// Bytes of clients' large bodies that are in memory at the same time.
    pub bodies_bytes_max: usize,
    /// Bytes of workers' large reports that are in memory at the same time.
    pub reports_bytes_max: usize,
    /// The share of one principal in `bodies_bytes_max`, and in `reports_bytes_max`.
    pub principal_share_percent: u32,
    /// Status streams, waits and waiting claims that are open at the same time.
    pub waiting_max: usize,
    /// The same for one principal.
    pub waiting_per_principal_max: usize,
    /// The same for one job.
    pub waiting_per_job_max: usize,
    /// How long a client may take to read an answer.
    pub write_timeout: Duration,
}

/// The number of connections that one address may have. Trusted proxies have no such limit: they
/// stand for their clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressShare {
    /// No limit per address.
    Unlimited,
    /// This many for remote addresses; no limit for this machine itself.
    Remote(usize),
    /// This many for every address.
    All(usize),
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            connections_per_address: AddressShare::Remote(2_500),
            first_byte_timeout: Duration::from_secs(5),
            header_bytes_max: 16 * 1024,
            header_timeout: Duration::from_secs(30),
            body_bytes_max: 2 * 1024 * 1024,
            page_bytes_max: 16 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            bodies_bytes_max: 128 * 1024 * 1024,
            reports_bytes_max: 128 * 1024 * 1024,
            principal_share_percent: 50,
            waiting_max: 8_000,
            waiting_per_principal_max: 6_000,
            waiting_per_job_max: 500,
            write_timeout: Duration::from_secs(30),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits::default(),
            rate: None,
            signed_url_lifetime: Duration::from_secs(24 * 3_600),
            jwt: None,
            proxy: ProxySettings::default(),
            cors_origins: AllowedOrigins::None,
            public_url: None,
            handlers: HandlerSources::default(),
        }
    }
}

/// The rate limit of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second, on average.
    pub per_second: NonZeroU32,
    /// Requests at once, after a pause.
    pub burst: NonZeroU32,
}

/// The issuer whose tokens are accepted, and what their claims mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// The required `iss`.
    pub issuer: String,
    /// The required entry in `aud`.
    pub audience: String,
    /// The algorithms that the issuer signs with, such as `RS256`; never those with a shared
    /// secret.
    pub algorithms: Vec<String>,
    /// Where the issuer's public keys are.
    pub jwks: JwksSource,
    /// The claim that names the tenant.
    pub tenant_claim: String,
    /// The tenant of tokens without that claim. If unset, such tokens are refused.
    pub tenant: Option<String>,
    /// Whether `*` in `tenant_claim` or `tenant` means all tenants; otherwise `*` is refused.
    pub allow_all_tenants: bool,
    /// The claim that lists scopes: a text with spaces, or a list.
    pub scopes_claim: String,
    /// The claim that lists the subjects that the token is limited to.
    pub subjects_claim: String,
    /// The claim that lists the job types that the token is limited to.
    pub types_claim: String,
}

impl JwtSettings {
    /// An issuer that signs with RS256 and uses our default claim names.
    pub fn new(issuer: String, audience: String, jwks: JwksSource) -> Self {
        JwtSettings {
            issuer,
            audience,
            algorithms: vec!["RS256".into()],
            jwks,
            tenant_claim: "tenant".into(),
            tenant: None,
            allow_all_tenants: false,
            scopes_claim: "scope".into(),
            subjects_claim: "subjects".into(),
            types_claim: "types".into(),
        }
    }
}

/// Where an issuer's public keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// In a file.
    File(PathBuf),
    /// At a URL: `https`, unless it is on this machine.
    Url(String),
}
