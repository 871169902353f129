//! Certificates tied to CompIDs. An authority signs for many counterparties; without more each of them
//! could log on by the name of another.

use rustls::client::verify_server_name;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// A certificate that a session takes: one for this name (a subject alternative name, RFC 6125), or the very one with this SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// `desk.example`, `*.example` in the certificate included, or an IP address.
    Name(ServerName<'static>),
    /// 64 hexadecimal digits, with colons or without, as `openssl x509 -fingerprint -sha256` writes them.
    Fingerprint([u8; 32]),
}

impl CertificateName {
    /// Reads either; `None` for what is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.replace(':', "");
        if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let mut bytes = [0; 32];
            for (place, byte) in bytes.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
            }
            return Some(Self::Fingerprint(bytes));
        }
        ServerName::try_from(text.to_owned()).ok().map(Self::Name)
    }

    /// Returns whether a certificate, whose chain has been checked, is one of these.
    pub(super) fn is_of(&self, certificate: &CertificateDer<'_>) -> bool {
        match self {
            Self::Name(name) => {
                ParsedCertificate::try_from(certificate).is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
            }
            Self::Fingerprint(wanted) => sha256(certificate).is_some_and(|found| found == *wanted),
        }
    }
}

fn sha256(bytes: &[u8]) -> Option<[u8; 32]> {
    let suites = default_provider().cipher_suites;
    let mut hashes = suites.iter().filter_map(|suite| suite.tls13()).map(|suite| suite.common.hash_provider);
    let hash = hashes.find(|hash| hash.output_len() == 32)?;
    hash.hash(bytes).as_ref().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_fingerprints_are_told_apart() {
        let printed = "00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:1F";
        let bytes = std::array::from_fn(|place| place as u8);
        assert_eq!(CertificateName::parse(printed), Some(CertificateName::Fingerprint(bytes)));
        assert_eq!(CertificateName::parse(&printed.replace(':', "")), CertificateName::parse(printed));
        assert!(matches!(CertificateName::parse("desk.example"), Some(CertificateName::Name(_))));
        assert_eq!(CertificateName::parse("no name"), None);
        assert_eq!(CertificateName::parse(""), None);
    }

    #[test]
    fn a_certificate_is_known_by_its_names_and_by_its_hash() {
        let made = rcgen::generate_simple_self_signed(vec!["desk.example".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let is_of = |text: &str| CertificateName::parse(text).unwrap().is_of(&certificate);
        assert!(is_of("desk.example") && !is_of("other.example") && !is_of("example"));
        let print = sha256(&certificate).unwrap();
        assert!(CertificateName::Fingerprint(print).is_of(&certificate));
        assert!(!CertificateName::Fingerprint([0; 32]).is_of(&certificate));
        // FIPS 180-4, the empty message.
        assert_eq!(sha256(b"").unwrap()[..4], [0xe3, 0xb0, 0xc4, 0x42]);
    }
}
