//! What protects a connection to the database, and which servers it trusts.

use super::error::PostgresError;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
        verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use std::{
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;

/// Which server a connection trusts to be the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// No encryption, so no proof.
    Unencrypted,
    /// Encrypted; any server is trusted.
    AnyServer,
    /// A server whose certificate was issued by an authority in this file.
    Issuer {
        path: PathBuf,
        /// Whether the certificate must also have the host name of the address.
        name: bool,
    },
    /// A server whose certificate was issued by one of this machine's authorities.
    System { name: bool },
}

/// What protects a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Protection {
    pub(super) encryption: Encryption,
    pub(super) trust: Trust,
    /// Whether the server may be on another machine.
    pub(super) is_remote: bool,
    /// Whether the address names no mode, so that the default holds.
    pub(super) is_default: bool,
    /// Whether the password may go in clear text to a server whose identity is not verified.
    pub(super) allows_cleartext: bool,
}

/// When a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    Never,
    IfOffered,
    Always,
}

impl Protection {
    /// Whether an encrypted connection proves the server's identity. A certificate of a public
    /// authority proves nothing without the name: any attacker can have one.
    fn proves_identity(&self) -> bool {
        match self.trust {
            Trust::Unencrypted | Trust::AnyServer | Trust::System { name: false } => false,
            Trust::Issuer { .. } | Trust::System { name: true } => true,
        }
    }

    pub(super) fn weaknesses(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.is_remote {
            found.extend(match self.trust {
                Trust::Unencrypted => Some(
                    "sslmode=disable: the connection is not encrypted, and others on the way can read everything; \
                     say sslmode=verify-full",
                ),
                Trust::AnyServer => Some(
                    "sslmode: any server in the database's place is trusted, and may read and change \
                     everything; say sslmode=verify-full, and sslrootcert=FILE where the authority is your own",
                ),
                Trust::Issuer { name: false, .. } | Trust::System { name: false } => Some(
                    "sslmode=verify-ca: a certificate of the same authority is believed whatever name is on it; \
                     say sslmode=verify-full",
                ),
                Trust::Issuer { name: true, .. } | Trust::System { name: true } => None,
            });
        }
        if self.allows_cleartext && !self.proves_identity() {
            found.push(
                "cleartext_password=allow: the password is sent in clear text to any server that asks for it; let the server \
                 use scram-sha-256 and leave this out",
            );
        }
        found.into_iter().map(Into::into).collect()
    }

    /// The error. If the default and not the address demands verification, it has the remedy.
    fn with_remedy(&self, error: &io::Error) -> io::Error {
        let help = if self.is_default && self.is_remote { DEFAULT_REMEDY } else { "" };
        io::Error::new(error.kind(), format!("{error}{help}"))
    }
}

/// The remedy where verification is the default.
const DEFAULT_REMEDY: &str = "; the address names no sslmode, and a server on another machine has to prove who it is \
    then (verify-full): name the authority that vouches for it with sslrootcert=FILE, or, only where the network is \
    yours alone, accept any server with sslmode=require";

/// Encrypts connections.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    protection: Arc<Protection>,
}

impl Tls {
    pub(super) fn new(protection: &Protection) -> Result<Self, PostgresError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = verifier(&protection.trust, &provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| PostgresError::Tls(format!("TLS cannot be used: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Tls { config: Arc::new(config), protection: Arc::new(protection.clone()) })
    }
}

fn verifier(
    trust: &Trust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, PostgresError> {
    let algorithms = provider.signature_verification_algorithms;
    let weak = |authority| Arc::new(WeakVerifier { authority, algorithms });
    let (roots, name) = match trust {
        Trust::Unencrypted | Trust::AnyServer => return Ok(weak(None)),
        Trust::Issuer { path, name } => (roots_in_file(path)?, *name),
        Trust::System { name } => (roots_of_machine()?, *name),
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = verifier
        .build()
        .map_err(|error| PostgresError::Tls(format!("sslrootcert cannot be used: {error}")))?;
    Ok(if name { verifier } else { weak(Some(verifier)) })
}

fn roots_in_file(path: &Path) -> Result<RootCertStore, PostgresError> {
    let invalid =
        |reason: String| PostgresError::Tls(format!("sslrootcert {}: {reason}", path.display()));
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| invalid(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(invalid("there is no certificate in it".into()));
    }
    Ok(roots)
}

fn roots_of_machine() -> Result<RootCertStore, PostgresError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(PostgresError::Tls(
            "this machine knows no authorities; name one with sslrootcert=FILE".into(),
        ));
    }
    Ok(roots)
}

/// Verifies less than everything: no authority, as `sslmode=require`, or no name, as `verify-ca`.
#[derive(Debug)]
struct WeakVerifier {
    /// The authority that must have issued the certificate, whatever name is on it.
    authority: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for WeakVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = DatabaseStream<S>;
    type TlsConnect = TlsNegotiation;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<TlsNegotiation> {
        Ok(TlsNegotiation { tls: self.clone(), host: host.to_owned() })
    }
}

/// A connection before its TLS handshake.
pub(super) struct TlsNegotiation {
    tls: Tls,
    host: String,
}

/// PostgreSQL's request for TLS, and the server's two answers.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const AGREED: u8 = b'S';
const NOT_AGREED: u8 = b'N';

impl TlsNegotiation {
    async fn secure<S>(self, mut stream: S) -> io::Result<DatabaseStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let protection = self.tls.protection;
        let checked_requests = |proved: bool| {
            (!proved && !protection.allows_cleartext).then(AuthenticationRequests::default)
        };
        if !is_encrypted(protection.encryption, &mut stream)
            .await
            .map_err(|error| protection.with_remedy(&error))?
        {
            return Ok(DatabaseStream {
                stream: Either::Left(stream),
                requests: checked_requests(false),
            });
        }
        let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
        let connecting = TlsConnector::from(self.tls.config).connect(name, stream);
        let stream = connecting.await.map_err(|error| protection.with_remedy(&error))?;
        let requests = checked_requests(protection.proves_identity());
        Ok(DatabaseStream { stream: Either::Right(Box::new(stream)), requests })
    }
}

/// Asks the server whether TLS begins with the next byte.
async fn is_encrypted(
    encryption: Encryption,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<bool> {
    if encryption == Encryption::Never {
        return Ok(false);
    }
    stream.write_all(&TLS_REQUEST).await?;
    match (stream.read_u8().await?, encryption) {
        (AGREED, _) => Ok(true),
        (NOT_AGREED, Encryption::IfOffered) => Ok(false),
        (NOT_AGREED, _) => Err(refused("the server does not offer TLS")),
        _ => Err(refused("the server does not know about TLS")),
    }
}

/// An error that a retry does not remove.
fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

impl<S> TlsConnect<S> for TlsNegotiation
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = DatabaseStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<DatabaseStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(self.secure(stream))
    }
}

/// A connection, encrypted or not.
pub(super) struct DatabaseStream<S> {
    stream: Stream<S>,
    /// The authentication requests of a server whose identity is not verified.
    requests: Option<AuthenticationRequests>,
}

type Stream<S> = Either<S, Box<tokio_rustls::client::TlsStream<S>>>;

/// Reads the server's messages until it accepts the client, and fails if it asks for the password
/// in clear text: the driver would send it.
#[derive(Default)]
struct AuthenticationRequests {
    /// The beginning of a message: its kind, its length, and the number of an authentication
    /// request.
    head: [u8; 9],
    filled: usize,
    /// The remaining bytes of a message that does not matter.
    rest: usize,
    is_over: bool,
}

/// Authentication requests, by the first byte of the message and the number in it.
const AUTHENTICATION: u8 = b'R';
const AUTHENTICATION_OK: u32 = 0;
const CLEARTEXT_PASSWORD: u32 = 3;
/// Bytes of a message's kind, of its length, and of a request's number.
const KIND: usize = 1;
const LENGTH: usize = 4;
const NUMBER: usize = 4;

const CLEARTEXT_REFUSED: &str = "the server asks for the password in clear text, and no certificate vouches for it: nothing was \
    sent; let it ask for scram-sha-256 (pg_hba.conf), or prove who it is (sslmode=verify-full)";

impl AuthenticationRequests {
    fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            if self.is_over {
                break;
            }
            self.read_one(*byte)?;
        }
        Ok(())
    }

    fn read_one(&mut self, byte: u8) -> io::Result<()> {
        if self.rest > 0 {
            self.rest -= 1;
            return Ok(());
        }
        self.head[self.filled] = byte;
        self.filled += 1;
        if self.filled < KIND + LENGTH {
            return Ok(());
        }
        // The length counts itself.
        let length = self.number_at(KIND) as usize;
        let is_request = self.head[0] == AUTHENTICATION && length >= LENGTH + NUMBER;
        if is_request && self.filled < self.head.len() {
            return Ok(());
        }
        if is_request {
            match self.number_at(KIND + LENGTH) {
                CLEARTEXT_PASSWORD => return Err(refused(CLEARTEXT_REFUSED)),
                number => self.is_over = number == AUTHENTICATION_OK,
            }
        }
        self.rest = (KIND + length).saturating_sub(self.filled);
        self.filled = 0;
        Ok(())
    }

    fn number_at(&self, at: usize) -> u32 {
        let bytes = &self.head[at..];
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for DatabaseStream<S> {
    /// Not offered: SCRAM works without it, and `verify-full` proves the server's identity.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for DatabaseStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let (Poll::Ready(Ok(())), Some(requests)) = (&read, &mut self.requests) {
            requests.read(&buffer.filled()[before..])?;
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for DatabaseStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an unverified server may send these messages.
    fn may_send(messages: &[&[u8]]) -> bool {
        let all = messages.concat();
        let at_once = AuthenticationRequests::default().read(&all).is_ok();
        let mut bytewise = AuthenticationRequests::default();
        assert_eq!(all.iter().all(|byte| bytewise.read(&[*byte]).is_ok()), at_once);
        at_once
    }

    #[test]
    fn a_clear_text_password_request_is_found_at_any_position() {
        let clear = b"R\0\0\0\x08\0\0\0\x03";
        let scram = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
        let accepted = b"R\0\0\0\x08\0\0\0\0";
        let notice = b"N\0\0\0\x0d\0\0\0\x03R\0\0\0\x08";
        assert!(may_send(&[scram, notice, accepted]));
        assert!(!may_send(&[clear]) && !may_send(&[notice, clear]) && !may_send(&[scram, clear]));
        assert!(may_send(&[accepted, clear]), "these are answers of the database, not requests");
    }
}
