//! The address of a database: a libpq connection URL with a few parameters of our own.

use super::{
    error::PostgresError,
    tls::{Encryption, Protection, Trust},
};
use percent_encoding::percent_decode_str;
use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr, time::Duration};
use tokio_postgres::{
    Config,
    config::{Host, SslMode, SslNegotiation},
};

/// The address of a database, and the name of our schema in it.
///
/// `postgres://user:password@host:port/database`, with the parameters that libpq accepts, `schema`
/// and `connections`. The password is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    pub(super) config: Config,
    pub(super) protection: Protection,
    schema: String,
    /// The number of writing connections, if the address sets it.
    pub(super) connections: Option<usize>,
}

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A server that vanished without closing the connection is noticed after this time.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);
/// More connections from one node than this do not help.
const CONNECTIONS_MAX: usize = 64;
/// The schema of an address that names none.
const SCHEMA: &str = "consign";
/// PostgreSQL's limit on the length of a name.
const SCHEMA_BYTES_MAX: usize = 63;

impl PostgresAddress {
    /// The schema that holds our tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The same database, with another schema.
    pub fn with_schema(&self, schema: &str) -> Result<Self, PostgresError> {
        Ok(PostgresAddress { schema: checked_schema(schema)?, ..self.clone() })
    }

    /// What an attacker on the network path to the database could exploit: one sentence for each
    /// weakness, with the remedy.
    pub fn weaknesses(&self) -> Vec<String> {
        self.protection.weaknesses()
    }

    /// Host and database, for messages.
    pub(super) fn database(&self) -> String {
        let host = match self.config.get_hosts().first() {
            None => "localhost".into(),
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{host}:{port}/{database}")
    }
}

impl FromStr for PostgresAddress {
    type Err = PostgresError;

    fn from_str(text: &str) -> Result<Self, PostgresError> {
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        if !base.starts_with("postgres://") && !base.starts_with("postgresql://") {
            return Err(invalid(
                "must begin with postgres://, as in postgres://consign@localhost/consign",
            ));
        }
        let mut own_parameters = OwnParameters::default();
        let mut driver_parameters = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            driver_parameters.extend(own_parameters.take_own(part)?);
        }
        let plain = if driver_parameters.is_empty() {
            base.into()
        } else {
            format!("{base}?{}", driver_parameters.join("&"))
        };
        let mut config = Config::from_str(&plain).map_err(|error| {
            invalid(&format!("is not the address of a database: {}", cause_of(&error)))
        })?;
        if config.get_user().is_none() {
            return Err(invalid("names no user, as in postgres://consign@localhost/consign"));
        }
        if config.get_hosts().iter().any(has_at_sign) {
            // The rest of the password would become part of the host, and hosts appear in messages.
            return Err(invalid("has an @ in its user or password; write it as %40"));
        }
        if config.get_options().is_some_and(|options| options.ends_with('\\')) {
            // The backslash would swallow what follows: our own options.
            return Err(invalid("has options that end with a backslash"));
        }
        let protection = own_parameters.protection(&config)?;
        take_over_tls(&mut config)?;
        set_timeouts(&mut config);
        let schema = own_parameters.schema.map_or_else(|| Ok(SCHEMA.into()), checked_schema)?;
        Ok(PostgresAddress { config, protection, schema, connections: own_parameters.connections })
    }
}

fn has_at_sign(host: &Host) -> bool {
    matches!(host, Host::Tcp(name) if name.contains('@'))
}

/// The parameters of the address that are not for the driver.
#[derive(Default)]
struct OwnParameters<'a> {
    schema: Option<&'a str>,
    connections: Option<usize>,
    ssl_mode: Option<&'a str>,
    root: Option<PathBuf>,
    /// Whether the password may go in clear text to a server whose identity is not verified.
    cleartext: bool,
}

impl<'a> OwnParameters<'a> {
    /// Takes one parameter, or gives it back if it is the driver's.
    fn take_own(&mut self, part: &'a str) -> Result<Option<&'a str>, PostgresError> {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name {
            "schema" => self.schema = Some(value),
            "sslmode" => self.ssl_mode = Some(value),
            "sslrootcert" => {
                self.root = Some(percent_decode_str(value).decode_utf8_lossy().into_owned().into());
            }
            "sslnegotiation" if value == "postgres" => {}
            "sslnegotiation" => return Err(invalid("sslnegotiation must be postgres")),
            "cleartext_password" => match value {
                "allow" | "refuse" => self.cleartext = value == "allow",
                _ => return Err(invalid("cleartext_password must be allow or refuse")),
            },
            "connections" => {
                let count =
                    value.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
                let count = count.ok_or_else(|| {
                    invalid(&format!("connections must be a number from 1 to {CONNECTIONS_MAX}"))
                })?;
                self.connections = Some(count);
            }
            _ => return Ok(Some(part)),
        }
        Ok(None)
    }

    /// What protects the connection, and which servers it trusts. As with libpq, `require` checks
    /// the server's certificate if a root certificate is there. Unlike with libpq, a server on
    /// another machine has to prove its identity unless the address says otherwise: the first
    /// message to it may contain the password.
    fn protection(&self, config: &Config) -> Result<Protection, PostgresError> {
        let is_remote = is_remote(config);
        let mode = match self.ssl_mode {
            None if is_remote => "verify-full",
            None => "prefer",
            Some(mode) => mode,
        };
        let encryption = match mode {
            "disable" => Encryption::Never,
            "allow" | "prefer" => Encryption::IfOffered,
            "require" | "verify-ca" | "verify-full" => Encryption::Always,
            _ => {
                return Err(invalid(
                    "sslmode must be disable, prefer, require, verify-ca or verify-full",
                ));
            }
        };
        if self.root_is_system() && mode != "verify-full" {
            // As with libpq: any attacker can get a certificate of a public authority. Where TLS is
            // only preferred, an attacker in the path can answer that the server has no TLS.
            return Err(invalid("sslrootcert=system needs sslmode=verify-full"));
        }
        Ok(Protection {
            trust: self.trust(mode, encryption),
            encryption,
            is_remote,
            is_default: self.ssl_mode.is_none(),
            allows_cleartext: self.cleartext,
        })
    }

    fn root_is_system(&self) -> bool {
        self.root.as_ref().is_some_and(|path| path.as_os_str() == "system")
    }

    fn trust(&self, mode: &str, encryption: Encryption) -> Trust {
        let name = mode == "verify-full";
        match (&self.root, encryption) {
            (_, Encryption::Never) => Trust::Unencrypted,
            (Some(_), _) if self.root_is_system() => Trust::System { name: true },
            (Some(path), Encryption::Always) => Trust::Issuer { path: path.clone(), name },
            (None, Encryption::Always) if mode != "require" => Trust::System { name },
            (_, Encryption::IfOffered | Encryption::Always) => Trust::AnyServer,
        }
    }
}

/// Whether a connection may leave this machine. A host name that is not this machine's counts even
/// if `hostaddr` is this machine.
fn is_remote(config: &Config) -> bool {
    let is_local = |name: &str| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let hosts = config.get_hosts().iter().any(|host| match host {
        Host::Tcp(name) => !is_local(name),
        Host::Unix(_) => false,
    });
    hosts || config.get_hostaddrs().iter().any(|address| !address.is_loopback())
}

/// Leaves encryption to [`Tls`](super::tls::Tls): the driver would answer any server's request for
/// the password in clear text, without asking us. The driver gives us the stream only in the modes
/// that require TLS.
fn take_over_tls(config: &mut Config) -> Result<(), PostgresError> {
    let sockets = config.get_hosts().iter().filter(|host| matches!(host, Host::Unix(_))).count();
    if sockets > 0 && sockets < config.get_hosts().len() {
        return Err(invalid(
            "names sockets of this machine as well as hosts; name one or the other",
        ));
    }
    if sockets > 0 && !config.get_hostaddrs().is_empty() {
        // The driver would connect to the hostaddr instead, over the network and without TLS.
        return Err(invalid(
            "names a socket of this machine as well as a hostaddr; name one or the other",
        ));
    }
    if sockets > 0 {
        // The folder's owner decides who may create a socket there, and nothing leaves the machine.
        config.ssl_mode(SslMode::Disable);
        return Ok(());
    }
    if config.get_hosts().is_empty() {
        // The name that the server's certificate must prove.
        config.get_hostaddrs().to_vec().into_iter().for_each(|address| {
            config.host(address.to_string());
        });
    }
    config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
    Ok(())
}

/// Settings by which the driver notices that a server vanished.
fn set_timeouts(config: &mut Config) {
    config.connect_timeout(CONNECT_MAX);
    config.keepalives_idle(KEEPALIVE_IDLE);
    config.keepalives_interval(KEEPALIVE_INTERVAL);
    config.keepalives_retries(KEEPALIVE_RETRIES);
    config.tcp_user_timeout(UNACKNOWLEDGED_MAX);
    if config.get_application_name().is_none() {
        config.application_name("consign");
    }
}

/// Accepts only a schema name that needs no quotes in any statement.
fn checked_schema(schema: &str) -> Result<String, PostgresError> {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    let is_valid = schema.starts_with(letter)
        && schema.chars().all(|c| letter(c) || c.is_ascii_digit())
        && schema.len() <= SCHEMA_BYTES_MAX
        && !schema.starts_with("pg_");
    if is_valid {
        return Ok(schema.into());
    }
    Err(invalid("schema must be lower-case letters, digits and underscores, as in ?schema=consign"))
}

fn invalid(problem: &str) -> PostgresError {
    PostgresError::Address(problem.into())
}

fn cause_of(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}?schema={}", self.database(), self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> PostgresAddress {
        text.parse().expect("lawful")
    }

    #[test]
    fn an_address_has_a_database_and_a_schema_and_shows_no_password() {
        let named = address("postgres://u:secret@db.example:6432/jobs?schema=mail&connections=8");
        assert_eq!(named.to_string(), "postgres://db.example:6432/jobs?schema=mail");
        assert_eq!(format!("{named:?}"), named.to_string());
        assert_eq!(named.connections, Some(8));
        assert_eq!(address("postgresql://u@h").schema(), "consign");
    }

    #[test]
    fn sslmode_has_the_same_meaning_as_in_libpq() {
        let trust = |query: &str| address(&format!("postgres://u@h/d?{query}")).protection.trust;
        assert_eq!(trust("sslmode=disable"), Trust::Unencrypted);
        assert_eq!(trust("sslmode=prefer"), Trust::AnyServer);
        assert_eq!(trust("sslmode=require"), Trust::AnyServer);
        assert_eq!(trust("sslmode=verify-full"), Trust::System { name: true });
        let issuer = |name| Trust::Issuer { path: "/a b.pem".into(), name };
        assert_eq!(trust("sslmode=verify-full&sslrootcert=%2Fa%20b.pem"), issuer(true));
        assert_eq!(trust("sslmode=verify-ca&sslrootcert=%2Fa%20b.pem"), issuer(false));
        assert_eq!(trust("sslmode=require&sslrootcert=%2Fa%20b.pem"), issuer(false));
    }

    #[test]
    fn remote_servers_are_verified_by_default() {
        let is_verified = |text: &str| {
            let protection = address(text).protection;
            (protection.encryption == Encryption::Always)
                && matches!(
                    protection.trust,
                    Trust::System { name: true } | Trust::Issuer { name: true, .. }
                )
        };
        for remote in [
            "postgres://u@db.example/d",
            "postgres://u@10.0.0.7/d?sslrootcert=%2Fca.pem",
            "postgres://u@localhost,db.example/d",
            "postgres://u@localhost/d?hostaddr=10.0.0.7",
            "postgres://u@db.example/d?hostaddr=127.0.0.1",
        ] {
            assert!(is_verified(remote), "{remote}");
            assert!(address(remote).weaknesses().is_empty(), "{remote}");
        }
        for local in [
            "postgres://u@localhost/d",
            "postgres://u@127.0.0.2/d",
            "postgres://u@[::1]/d",
            "postgres://u@%2Frun%2Fpostgresql/d",
        ] {
            assert!(!is_verified(local), "{local}");
            assert!(address(local).weaknesses().is_empty(), "{local}");
        }
    }

    #[test]
    fn weak_connection_settings_are_reported() {
        for (query, expected) in [
            ("sslmode=disable", "not encrypted"),
            ("sslmode=prefer", "verify-full"),
            ("sslmode=require", "verify-full"),
            ("sslmode=verify-ca", "whatever name"),
            ("sslmode=require&cleartext_password=allow", "clear text"),
        ] {
            let weaknesses = address(&format!("postgres://u@db.example/d?{query}")).weaknesses();
            assert!(
                weaknesses.iter().any(|weakness| weakness.contains(expected)),
                "{query}: {weaknesses:?}"
            );
        }
    }

    #[test]
    fn address_errors_name_the_wrong_part() {
        for (text, expected) in [
            ("mysql://u@h", "postgres://"),
            ("postgres://h/d", "user"),
            ("postgres://u:half@other@h/d", "%40"),
            ("postgres://u@h/d?schema=Upper", "lower-case"),
            ("postgres://u@h/d?schema=pg_mine", "lower-case"),
            ("postgres://u@h/d?sslmode=maybe", "sslmode"),
            ("postgres://u@h/d?sslnegotiation=direct", "sslnegotiation"),
            ("postgres://u@h/d?cleartext_password=yes", "cleartext_password"),
            ("postgres://u@h/d?options=-c%20x%3D1%5C", "backslash"),
            ("postgres://u@%2Ftmp,h/d", "sockets"),
            ("postgres://u@%2Frun%2Fpg/d?hostaddr=10.0.0.7", "hostaddr"),
            ("postgres://u@h/d?sslmode=prefer&sslrootcert=system", "verify-full"),
            ("postgres://u@h/d?sslmode=require&sslrootcert=system", "verify-full"),
            ("postgres://u@localhost/d?sslrootcert=system", "verify-full"),
            ("postgres://u@h/d?connections=0", "connections"),
            ("postgres://u@h/d?colour=blue", "address"),
        ] {
            let error = text.parse::<PostgresAddress>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
