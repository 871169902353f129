//! TLS and mutual TLS: certificates from PEM files, read again when the files change.

use super::by_name::{ByName, CERTIFICATES_MAX};
use super::key_file::warn_if_open;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore, ServerConfig, ServerConnection,
};
use rustls::{SignatureScheme, SupportedProtocolVersion, version};
use sidestep_sys::Problem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The PEM files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key; in the same file if there is no other.
    pub key: Option<PathBuf>,
}

/// Settings of encryption. Paths are PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Our certificate and those that vouch for it. An acceptor needs one; an initiator for mutual TLS.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Further certificates of an acceptor, which shows the first that is valid for the name that a counterparty asks for (SNI);
    /// the one above if none is, or if it asks for none. At most 63.
    pub further_certificates: Vec<CertificateFiles>,
    /// Whom to trust. An initiator needs it; an acceptor that has it asks for the counterparty's certificate.
    pub authorities: Option<PathBuf>,
    /// Certificates no longer valid.
    pub revocations: Option<PathBuf>,
    /// True if an acceptor refuses who has no certificate; else one is only checked if there is one.
    pub require_client_certificate: bool,
    /// The name that the acceptor's certificate must be for, sent as SNI, too; the host connected to if none is given.
    pub server_name: Option<String>,
    /// True if an initiator keeps that name to itself: no SNI.
    pub without_sni: bool,
    /// True if only TLS 1.3 will do.
    pub only_tls13: bool,
    /// True if only TLS 1.2 will do.
    pub only_tls12: bool,
    /// Accepts whatever certificate the acceptor shows: for tests alone.
    pub insecure_skip_verify: bool,
}

impl TlsSettings {
    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        const ALL: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
        match (self.only_tls13, self.only_tls12) {
            (true, _) => &ALL[..1],
            (false, true) => &ALL[1..],
            (false, false) => ALL,
        }
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let further = self.further_certificates.iter().flat_map(|files| [Some(&files.certificate), files.key.as_ref()]);
        let own = [&self.certificate, &self.key, &self.authorities, &self.revocations].map(Option::as_ref);
        own.into_iter().chain(further).flatten()
    }

    /// The time at which each file was last written; none for a file that cannot be read.
    fn stamps(&self) -> Vec<Option<SystemTime>> {
        self.files().map(|path| std::fs::metadata(path).and_then(|facts| facts.modified()).ok()).collect()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Our side of TLS, for every connection of an endpoint.
pub(super) struct Tls {
    settings: TlsSettings,
    config: Side,
    stamps: Vec<Option<SystemTime>>,
}

enum Side {
    Server(Arc<ServerConfig>),
    Client(Arc<ClientConfig>),
}

impl Tls {
    pub(super) fn server(settings: &TlsSettings) -> Result<Self, Problem> {
        let stamps = settings.stamps();
        Ok(Self { config: Side::Server(server_config(settings)?), settings: settings.clone(), stamps })
    }

    pub(super) fn client(settings: &TlsSettings) -> Result<Self, Problem> {
        let stamps = settings.stamps();
        Ok(Self { config: Side::Client(client_config(settings)?), settings: settings.clone(), stamps })
    }

    /// Reads the files again if any has changed; whether it did. Connections that exist keep what they have.
    ///
    /// # Errors
    /// They cannot be used: the old ones stay in use.
    pub(super) fn reload_if_changed(&mut self) -> Result<bool, Problem> {
        let stamps = self.settings.stamps();
        if stamps == self.stamps {
            return Ok(false);
        }
        let config = match self.config {
            Side::Server(_) => Side::Server(server_config(&self.settings)?),
            Side::Client(_) => Side::Client(client_config(&self.settings)?),
        };
        (self.config, self.stamps) = (config, stamps);
        Ok(true)
    }

    /// Begins a connection; `host` is the host that an initiator has connected to.
    pub(super) fn connection(&self, host: Option<&str>) -> Result<Connection, Problem> {
        let what = "cannot begin TLS";
        match &self.config {
            Side::Server(config) => {
                let connection = ServerConnection::new(Arc::clone(config));
                connection.map(Connection::Server).map_err(|error| Problem::failed(what, error))
            }
            Side::Client(config) => {
                let name = self.settings.server_name.as_deref().or(host).unwrap_or("localhost");
                let name = ServerName::try_from(name.to_owned()).map_err(|_| {
                    Problem::usage(what, format!("{name} is no name of a server")).next("set SNIHostName")
                })?;
                let connection = ClientConnection::new(Arc::clone(config), name);
                connection.map(Connection::Client).map_err(|error| Problem::failed(what, error))
            }
        }
    }
}

/// The longest file of certificates, keys or revocations, bytes: lists of revocations have some millions.
const PEM_BYTES_MAX: u64 = 64 << 20;

fn unusable(path: &Path, why: impl std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot use {} for TLS", path.display()), why).next("name a PEM file")
}

fn pem(path: &Path) -> Result<Vec<u8>, Problem> {
    sidestep_sys::file::read(path, PEM_BYTES_MAX).map_err(|error| unusable(path, error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let text = pem(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = read.map_err(|error| unusable(path, error))?;
    if found.is_empty() { Err(unusable(path, "there is no certificate in it")) } else { Ok(found) }
}

/// A certificate with those that vouch for it, and its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(settings: &TlsSettings) -> Result<Option<Identity>, Problem> {
    match (&settings.certificate, &settings.key) {
        (None, None) => Ok(None),
        (Some(certificate), key) => identity_of(certificate, key.as_deref()).map(Some),
        (None, Some(key)) => Err(unusable(key, "there is a key, but no certificate for it")),
    }
}

fn identity_of(certificate: &Path, key: Option<&Path>) -> Result<Identity, Problem> {
    // Some keep both in one file.
    let key = key.unwrap_or(certificate);
    let secret = PrivateKeyDer::from_pem_slice(&pem(key)?).map_err(|error| unusable(key, error))?;
    warn_if_open(key);
    Ok((certificates(certificate)?, secret))
}

/// The certificates of an acceptor, by the name that is asked for (SNI).
fn by_name(settings: &TlsSettings) -> Result<ByName, Problem> {
    let what = "cannot accept TLS";
    let Some(certificate) = &settings.certificate else {
        return Err(Problem::usage(what, "an acceptor needs a certificate")
            .next("set ServerCertificateFile and ServerCertificateKeyFile"));
    };
    if settings.further_certificates.len() >= CERTIFICATES_MAX {
        let why = format!("it has at most {CERTIFICATES_MAX} certificates");
        return Err(Problem::usage(what, why).next("shorten FurtherCertificateFiles"));
    }
    let first = CertificateFiles { certificate: certificate.clone(), key: settings.key.clone() };
    let certified = |files: &CertificateFiles| {
        let (chain, key) = identity_of(&files.certificate, files.key.as_deref())?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| unusable(&files.certificate, error))
    };
    let all = std::iter::once(&first).chain(&settings.further_certificates).map(certified);
    Ok(ByName::new(all.collect::<Result<_, _>>()?))
}

fn authorities(path: &Path) -> Result<Arc<RootCertStore>, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, error))?;
    }
    Ok(Arc::new(roots))
}

fn revocations(settings: &TlsSettings) -> Result<Vec<CertificateRevocationListDer<'static>>, Problem> {
    let Some(path) = &settings.revocations else { return Ok(Vec::new()) };
    let read: Result<_, _> = CertificateRevocationListDer::pem_slice_iter(&pem(path)?).collect();
    read.map_err(|error| unusable(path, error))
}

fn server_config(settings: &TlsSettings) -> Result<Arc<ServerConfig>, Problem> {
    let what = "cannot accept TLS";
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(settings.versions()).map_err(|error| Problem::failed(what, error))?;
    let builder = match &settings.authorities {
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities(path)?, provider());
            let verifier = verifier.with_crls(revocations(settings)?);
            let verifier =
                if settings.require_client_certificate { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| unusable(path, error))?)
        }
        None if settings.require_client_certificate => {
            return Err(Problem::usage(
                what,
                "counterparties must have a certificate, but no authority is trusted to sign it",
            )
            .next("set CertificationAuthoritiesFile"));
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(builder.with_cert_resolver(Arc::new(by_name(settings)?))))
}

fn client_config(settings: &TlsSettings) -> Result<Arc<ClientConfig>, Problem> {
    let what = "cannot connect by TLS";
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(settings.versions()).map_err(|error| Problem::failed(what, error))?;
    let builder = match &settings.authorities {
        _ if settings.insecure_skip_verify => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider())))
        }
        Some(path) => {
            let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(authorities(path)?, provider());
            let verifier = verifier.with_crls(revocations(settings)?).build();
            builder.with_webpki_verifier(verifier.map_err(|error| unusable(path, error))?)
        }
        None => {
            return Err(Problem::usage(what, "no authority is trusted to sign the acceptor's certificate")
                .next("set CertificationAuthoritiesFile"));
        }
    };
    let mut config = match identity(settings)? {
        Some((chain, key)) => {
            builder.with_client_auth_cert(chain, key).map_err(|error| Problem::failed(what, error))?
        }
        None => builder.with_no_client_auth(),
    };
    config.enable_sni = !settings.without_sni;
    Ok(Arc::new(config))
}

/// Accepts any certificate; for `SocketInsecureSkipVerify=Y` only.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
