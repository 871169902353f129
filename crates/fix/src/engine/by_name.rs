//! An acceptor's certificate by the name that the counterparty asks for (SNI, RFC 6066, section 3).

use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// Certificates of one acceptor: each is parsed again for each handshake that names one, and that is before the counterparty has
/// shown who it is.
pub(super) const CERTIFICATES_MAX: usize = 64;

/// Chooses the first certificate that is valid for the name asked for, the first of all if none is or no name comes.
#[derive(Debug)]
pub(super) struct ByName {
    certificates: Vec<Arc<CertifiedKey>>,
}

impl ByName {
    /// Of these certificates, of which there is one at least.
    pub(super) fn new(certificates: Vec<CertifiedKey>) -> Self {
        Self { certificates: certificates.into_iter().map(Arc::new).collect() }
    }

    fn valid_for(&self, name: &ServerName<'_>) -> Option<&Arc<CertifiedKey>> {
        self.certificates.iter().find(|certificate| is_valid_for(certificate, name))
    }
}

fn is_valid_for(certificate: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let parsed = certificate.cert.first().and_then(|first| ParsedCertificate::try_from(first).ok());
    parsed.is_some_and(|parsed| verify_server_name(&parsed, name).is_ok())
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        name.and_then(|name| self.valid_for(&name)).or_else(|| self.certificates.first()).cloned()
    }
}
