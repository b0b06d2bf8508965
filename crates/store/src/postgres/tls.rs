//! What protects a connection to the database, and whom it believes.

use super::error::PostgresError;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Whom a connection believes to be the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing is encrypted.
    Nobody,
    /// Encrypted, and whoever answers is believed.
    Anybody,
    /// Whom one of the certificates in a file vouches for.
    Issuer {
        path: PathBuf,
        /// Whether it must also have the name that was asked for.
        name: bool,
    },
    /// Whom one of this machine's authorities vouches for.
    System { name: bool },
}

/// Makes connections secret.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn new(trust: &Trust) -> Result<Self, PostgresError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = verifier(trust, &provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| PostgresError::Tls(format!("TLS cannot be used: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Tls(Arc::new(config)))
    }
}

fn verifier(
    trust: &Trust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, PostgresError> {
    let lenient = |voucher| Arc::new(Lenient { voucher, provider: provider.clone() });
    let (roots, name) = match trust {
        Trust::Nobody | Trust::Anybody => return Ok(lenient(None)),
        Trust::Issuer { path, name } => (in_file(path)?, *name),
        Trust::System { name } => (of_machine()?, *name),
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = verifier
        .build()
        .map_err(|error| PostgresError::Tls(format!("sslrootcert cannot be used: {error}")))?;
    Ok(if name { verifier } else { lenient(Some(verifier)) })
}

fn in_file(path: &Path) -> Result<RootCertStore, PostgresError> {
    let wrong = |why: String| PostgresError::Tls(format!("sslrootcert {}: {why}", path.display()));
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate in it".into()));
    }
    Ok(roots)
}

fn of_machine() -> Result<RootCertStore, PostgresError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(PostgresError::Tls(
            "this machine knows no authorities; name one with sslrootcert=FILE".into(),
        ));
    }
    Ok(roots)
}

/// Asks for less than everything: nobody who vouches, as `sslmode=require` does, or no name, as `verify-ca` does.
#[derive(Debug)]
struct Lenient {
    /// Who must vouch for the certificate, whatever name is on it.
    voucher: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(voucher) = &self.voucher else { return Ok(ServerCertVerified::assertion()) };
        match voucher.verify_server_cert(certificate, between, name, stapled, now) {
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
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secret<S>;
    type TlsConnect = Secretly;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Secretly> {
        // A socket of this machine has no name; nobody is asked for one there.
        let host = if host.is_empty() { "localhost" } else { host };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Secretly { config: self.0.clone(), name })
    }
}

/// One connection about to be made secret.
pub(super) struct Secretly {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Secretly
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secret<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secret<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting = TlsConnector::from(self.config).connect(self.name, stream);
        Box::pin(async move { Ok(Secret(Box::new(connecting.await?))) })
    }
}

/// A connection that nobody else can read.
pub(super) struct Secret<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Secret<S> {
    /// None is told: SCRAM works without it, and whoever wants to know whom they speak to has `verify-full`.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secret<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secret<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
