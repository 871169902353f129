//! A stream, with TLS upon it or without.

use rustls::Connection;
use rustls::pki_types::CertificateDer;
use sidestep_socket::Path;
use sidestep_socket::stream::{Io, Stream, is_retry};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;

/// Cleartext bytes encrypted at a time: one TLS record.
const RECORD_BYTES: usize = 16 << 10;

/// A connected stream as a session sees it.
pub(super) struct Channel {
    stream: Stream,
    tls: Option<Box<Connection>>,
}

impl Channel {
    pub(super) fn plain(stream: Stream) -> Self {
        Self { stream, tls: None }
    }

    pub(super) fn encrypted(stream: Stream, connection: Connection) -> Self {
        Self { stream, tls: Some(Box::new(connection)) }
    }

    /// Returns whether a TLS handshake is still going on.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Reads cleartext bytes; 0 when the peer has finished.
    #[inline]
    pub(super) fn read(&mut self, io: &mut Io, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(io, buffer),
            Some(tls) => receive_tls(tls, &mut self.stream, io, &mut |tls| tls.reader().read(buffer)),
        }
    }

    /// Shows cleartext bytes to `deliver`, where they stand. Returns how many it took, 0 when the peer has
    /// finished.
    #[inline]
    pub(super) fn receive_with(&mut self, io: &mut Io, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.receive_with(io, deliver),
            Some(tls) => receive_tls(tls, &mut self.stream, io, &mut |tls| show_plain(tls, deliver)),
        }
    }

    /// Hands over cleartext bytes. With TLS none are taken while older ones wait to be written: what a slow peer leaves
    /// unread stays with the session, which knows its limit.
    #[inline]
    pub(super) fn write(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.write(io, bytes) };
        if !flush_tls(tls, &mut self.stream, io)? || tls.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = tls.writer().write(&bytes[..bytes.len().min(RECORD_BYTES)])?;
        flush_tls(tls, &mut self.stream, io)?;
        Ok(taken)
    }

    /// Writes what TLS has to send; returns whether nothing is left.
    pub(super) fn flush(&mut self, io: &mut Io) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => flush_tls(tls, &mut self.stream, io),
        }
    }

    /// Ends the stream; with TLS by its alert, as far as there is room.
    pub(super) fn close(&mut self, io: &mut Io) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = flush_tls(tls, &mut self.stream, io);
        }
        // Not an error of ours if the peer was first.
        let _ = self.stream.close(io);
    }

    /// The certificate that the other end has shown, whose chain was checked.
    pub(super) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Returns the path of a stream that is to go past the kernel.
    pub(super) fn path(&self, io: &mut Io) -> Option<Path> {
        self.stream.path(io)
    }

    /// Returns what becomes readable when there is something to read.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.descriptor()
    }

    /// Returns whether the descriptor becomes writable when the peer has read.
    pub(super) fn signals_room(&self) -> bool {
        self.stream.signals_room()
    }

    /// Returns whether bytes wait to be written.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

/// The stream as rustls wants it.
struct Adapter<'a>(&'a mut Stream, &'a mut Io);

impl Read for Adapter<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(self.1, buffer)
    }
}

impl Write for Adapter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(self.1, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes cleartext bytes by `take`: those decrypted before, or those of the next records.
fn receive_tls(
    tls: &mut Connection,
    stream: &mut Stream,
    io: &mut Io,
    take: &mut dyn FnMut(&mut Connection) -> io::Result<usize>,
) -> io::Result<usize> {
    match take(tls) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        // The peer left without its alert: for FIX, which has a Logout of its own, an end like any other.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
        other => return other,
    }
    tls.read_tls(&mut Adapter(stream, io))?;
    if let Err(error) = tls.process_new_packets() {
        // The alert gives the peer the reason; it may not arrive.
        let _ = flush_tls(tls, stream, io);
        return Err(io::Error::new(ErrorKind::InvalidData, error));
    }
    if tls.wants_write() {
        flush_tls(tls, stream, io)?;
    }
    match take(tls) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
        other => other,
    }
}

/// Shows the cleartext bytes of one record.
fn show_plain(tls: &mut Connection, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
    let mut reader = tls.reader();
    let plain = reader.fill_buf()?;
    let count = if plain.is_empty() { 0 } else { deliver(plain) };
    reader.consume(count);
    Ok(count)
}

fn flush_tls(tls: &mut Connection, stream: &mut Stream, io: &mut Io) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut Adapter(stream, io)) {
            Ok(_) => {}
            Err(error) if is_retry(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
