//! The certificate of an acceptor of ours that speaks TLS: made for the run, vouched for by nobody.
//!
//! X.509 version 3 (RFC 5280) with an Ed25519 key (RFC 8410), signed by itself: every field has a fixed length. What is measured
//! is how records travel, so one kind of certificate is enough.

use rustls::SignatureScheme;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use sidestep_sys::Problem;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tags of DER (X.690).
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTF8: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;

/// AlgorithmIdentifier of Ed25519 (RFC 8410 section 3): id 1.3.101.112, no parameters.
const ED25519: &[u8] = &[SEQUENCE, 5, 0x06, 3, 0x2b, 0x65, 0x70];
/// The attribute type commonName: 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 0x04, 0x03];
/// A private key of Ed25519 in PKCS #8, before its 32 bytes (RFC 8410 section 7).
const KEY_PREFIX: &[u8] = &[SEQUENCE, 46, INTEGER, 1, 0, SEQUENCE, 5, 0x06, 3, 0x2b, 0x65, 0x70, 0x04, 34, 0x04, 32];

/// The files of a certificate and its key, PEM.
pub(super) struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// Makes a certificate in a folder of this user's own.
pub(super) fn make(folder: &Path) -> Result<Files, Problem> {
    let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot make a certificate for the run", why);
    let (certificate, key) = signed_by_itself().map_err(|error| failed(&error))?;
    let files = Files { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") };
    for (file, text) in [(&files.certificate, pem("CERTIFICATE", &certificate)), (&files.key, pem("PRIVATE KEY", &key))]
    {
        let open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        open.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failed(&error))?;
    }
    Ok(files)
}

impl Files {
    /// Has an exchange present it.
    pub(super) fn present(&self, exchange: &mut Command) {
        exchange.arg("--tls-cert").arg(&self.certificate).arg("--tls-key").arg(&self.key);
    }
}

/// Returns a certificate and its private key, DER.
fn signed_by_itself() -> Result<(Vec<u8>, Vec<u8>), rustls::Error> {
    let mut secret = [0; 32];
    ring::default_provider().secure_random.fill(&mut secret)?;
    let private = [KEY_PREFIX, &secret].concat();
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(private.clone()))?;
    let unknown = || rustls::Error::General("the key is not one of Ed25519".into());
    let public = key.public_key().ok_or_else(unknown)?;
    let name = der(SEQUENCE, &[&der(SET, &[&der(SEQUENCE, &[COMMON_NAME, &der(UTF8, &[b"sidestep bench"])])])]);
    // Without an end (RFC 5280 section 4.1.2.5).
    let valid = der(SEQUENCE, &[&der(UTC_TIME, &[b"000101000000Z"]), &der(GENERALIZED_TIME, &[b"99991231235959Z"])]);
    let (version, serial) = (der(VERSION, &[&der(INTEGER, &[&[2]])]), der(INTEGER, &[&[1]]));
    let body = der(SEQUENCE, &[&version, &serial, ED25519, &name, &valid, &name, public.as_ref()]);
    let signer = key.choose_scheme(&[SignatureScheme::ED25519]).ok_or_else(unknown)?;
    let signature = signer.sign(&body)?;
    Ok((der(SEQUENCE, &[&body, ED25519, &der(BIT_STRING, &[&[0], &signature])]), private))
}

/// Returns a value of DER, of at most 65,535 bytes.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut all = match content.len() {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    all.extend(content);
    all
}

/// Returns a file of PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes are a line of 64 digits.
    for line in der.chunks(48) {
        for bytes in line.chunks(3) {
            let word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
            for digit in 0..4 {
                let at = (word >> (18 - 6 * digit) & 63) as usize;
                text.push(if digit <= bytes.len() { char::from(DIGITS[at]) } else { '=' });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::ServerConfig;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use std::sync::Arc;

    #[test]
    fn a_certificate_is_one_for_who_reads_it_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = make(folder.path()).unwrap();
        let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        builder.with_single_cert(vec![certificate], key).expect("certificate and key belong together");
        assert!(make(folder.path()).is_err(), "no file of others is written over");
    }
}
