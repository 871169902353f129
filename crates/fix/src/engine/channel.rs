//! A wire, with TLS upon it or without.

use super::wire::{Io, Wire, is_retry};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, Connection, ServerConnection};
use sidestep_socket::Path;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;

/// Plain bytes encrypted at a time: one TLS record.
const RECORD_BYTES: usize = 16 << 10;

/// A connected stream as a session sees it.
pub(super) struct Channel {
    wire: Wire,
    tls: Option<Box<Connection>>,
}

impl Channel {
    pub(super) fn plain(wire: Wire) -> Self {
        Self { wire, tls: None }
    }

    pub(super) fn server(wire: Wire, connection: ServerConnection) -> Self {
        Self { wire, tls: Some(Box::new(Connection::Server(connection))) }
    }

    pub(super) fn client(wire: Wire, connection: ClientConnection) -> Self {
        Self { wire, tls: Some(Box::new(Connection::Client(connection))) }
    }

    /// Whether a TLS handshake is still going on.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Reads plain bytes; 0 when the peer has finished.
    #[inline]
    pub(super) fn read(&mut self, io: &mut Io, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.wire.read(io, buffer),
            Some(tls) => receive_tls(tls, &mut self.wire, io, &mut |tls| tls.reader().read(buffer)),
        }
    }

    /// Shows plain bytes to `deliver`, where they stand; it takes all of them. Returns how many there were, 0 when the peer has
    /// finished.
    #[inline]
    pub(super) fn receive_with(&mut self, io: &mut Io, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        match &mut self.tls {
            None => self.wire.receive_with(io, deliver),
            Some(tls) => receive_tls(tls, &mut self.wire, io, &mut |tls| show_plain(tls, deliver)),
        }
    }

    /// Hands over plain bytes. With TLS none are taken while older ones wait for the wire: what a slow peer leaves
    /// unread stays with the session, which knows its limit.
    #[inline]
    pub(super) fn write(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.wire.write(io, bytes) };
        if !flush_tls(tls, &mut self.wire, io)? || tls.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = tls.writer().write(&bytes[..bytes.len().min(RECORD_BYTES)])?;
        flush_tls(tls, &mut self.wire, io)?;
        Ok(taken)
    }

    /// Moves what TLS has to say; whether nothing is left.
    pub(super) fn flush(&mut self, io: &mut Io) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => flush_tls(tls, &mut self.wire, io),
        }
    }

    /// Ends the stream; with TLS by its alert, as far as the wire takes it.
    pub(super) fn close(&mut self, io: &mut Io) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = flush_tls(tls, &mut self.wire, io);
        }
        self.wire.close(io);
    }

    /// The certificate that the other end has shown, whose chain was checked.
    pub(super) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Which way it goes, if it is to go past the kernel.
    pub(super) fn path(&self, io: &mut Io) -> Option<Path> {
        self.wire.path(io)
    }

    /// What becomes readable when there is something to read.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wire.descriptor()
    }

    /// Whether the descriptor becomes writable when the peer has read.
    pub(super) fn tells_of_room(&self) -> bool {
        self.wire.tells_of_room()
    }

    /// Whether bytes wait for the wire.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

/// The wire as rustls wants it.
struct Adapter<'a>(&'a mut Wire, &'a mut Io);

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

/// Takes plain bytes, those that are there or those of the next records, by `take`.
fn receive_tls(
    tls: &mut Connection,
    wire: &mut Wire,
    io: &mut Io,
    take: &mut dyn FnMut(&mut Connection) -> io::Result<usize>,
) -> io::Result<usize> {
    match take(tls) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        // The peer left without its alert: for FIX, which has a Logout of its own, an end like any other.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
        other => return other,
    }
    tls.read_tls(&mut Adapter(wire, io))?;
    if let Err(error) = tls.process_new_packets() {
        // The alert tells the peer why; whether it arrives is not ours to know.
        let _ = flush_tls(tls, wire, io);
        return Err(io::Error::new(ErrorKind::InvalidData, error));
    }
    if tls.wants_write() {
        flush_tls(tls, wire, io)?;
    }
    match take(tls) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
        other => other,
    }
}

/// Shows the plain bytes of one record.
fn show_plain(tls: &mut Connection, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
    let mut reader = tls.reader();
    let plain = reader.fill_buf()?;
    let count = if plain.is_empty() { 0 } else { deliver(plain) };
    reader.consume(count);
    Ok(count)
}

fn flush_tls(tls: &mut Connection, wire: &mut Wire, io: &mut Io) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut Adapter(wire, io)) {
            Ok(_) => {}
            Err(error) if is_retry(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
