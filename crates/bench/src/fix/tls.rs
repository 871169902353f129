//! TLS over a stream. The client takes any certificate: it tells nobody anything, and what is measured is how the
//! acceptor's records travel. The handshake's signatures are verified all the same.

use crate::link::{Link, StreamLink};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use sidestep_socket::stream::is_retry;
use sidestep_sys::Problem;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a handshake, which an acceptor that has ended does not answer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// A stream whose bytes travel in records of TLS.
pub(super) struct TlsLink {
    inner: StreamLink,
    tls: ClientConnection,
}

impl TlsLink {
    /// Speaks TLS over `inner`, with an acceptor that is at `address`. The handshake happens with the first message.
    pub(super) fn new(inner: StreamLink, address: IpAddr) -> Result<Self, Problem> {
        let failed = |error: Error| Problem::failed("cannot speak TLS", error);
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let verifier = Arc::new(AnyCertificate(provider));
        let config =
            builder.map_err(failed)?.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        let name = ServerName::IpAddress(address.into());
        let tls = ClientConnection::new(Arc::new(config), name).map_err(failed)?;
        Ok(Self { inner, tls })
    }

    /// Completes the handshake.
    #[cold]
    fn shake_hands(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + HANDSHAKE_MAX;
        while self.tls.is_handshaking() {
            if Instant::now() > deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            self.write_records()?;
            match self.read_records() {
                Ok(()) => {}
                Err(error) if is_retry(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends the records that are ready.
    fn write_records(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Bytes(&mut self.inner)) {
                Ok(_) => {}
                Err(error) if is_retry(&error) => std::hint::spin_loop(),
                Err(error) => return Err(error),
            }
        }
        self.inner.flush()
    }

    /// Takes in records; a message may be in them.
    fn read_records(&mut self) -> io::Result<()> {
        if self.tls.read_tls(&mut Bytes(&mut self.inner))? == 0 {
            return Ok(());
        }
        let done = self.tls.process_new_packets().map_err(io::Error::other);
        // An answer of the handshake, or the alert that says what was wrong.
        self.write_records()?;
        done.map(|_| ())
    }
}

impl Link for TlsLink {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.tls.is_handshaking() {
            self.shake_hands()?;
        }
        let taken = self.tls.writer().write(bytes)?;
        self.write_records()?;
        Ok(taken)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.tls.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The end of the stream, with or without TLS's own farewell.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            done => return done,
        }
        self.read_records()?;
        match self.tls.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            done => done,
        }
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        self.write_records()?;
        self.inner.shutdown()
    }
}

/// A stream as rustls wants it.
struct Bytes<'a>(&'a mut StreamLink);

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer)
    }
}

impl Write for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Takes any certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
