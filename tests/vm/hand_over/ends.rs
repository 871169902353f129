//! Both ends of a connection, driven by one thread: so many bytes each way, each compared.

use crate::bypass::wait;
use sidestep::engine::Engine;
use sidestep::tcp::{Readiness, Shutdown, TcpError, TcpListener, TcpStream};
use sidestep_lab::Host;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown as Half, SocketAddr, TcpStream as KernelStream};

/// Bytes of each direction: more than both ends have room for.
pub(super) const BYTES: usize = 192 << 10;

/// Bytes given to a stream, or taken from it, at a time.
const PIECE: usize = 16 << 10;

/// How far both ends go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) we_send: usize,
    pub(super) we_finish: bool,
    pub(super) we_read: bool,
    pub(super) they_send: usize,
    pub(super) they_finish: bool,
    pub(super) they_read: bool,
}

impl Limits {
    pub(super) const NOTHING: Self =
        Self { we_send: 0, we_finish: false, we_read: false, they_send: 0, they_finish: false, they_read: false };

    pub(super) const ALL: Self =
        Self { we_send: BYTES, we_finish: true, we_read: true, they_send: BYTES, they_finish: true, they_read: true };
}

/// One end's progress. Each direction has contents of its own.
struct End {
    seed: usize,
    sent: usize,
    /// Where its stream ends: a peer that has finished sends no more.
    len: usize,
    is_shut: bool,
    got: usize,
    has_end: bool,
}

impl End {
    fn new(seed: usize) -> Self {
        Self { seed, sent: 0, len: BYTES, is_shut: false, got: 0, has_end: false }
    }

    fn byte(seed: usize, place: usize) -> u8 {
        (place * 31 + place / 251 + seed) as u8
    }

    /// What is to be sent next, below `limit`.
    fn next(&self, limit: usize) -> Vec<u8> {
        let end = limit.min(self.len).min(self.sent + PIECE);
        (self.sent..end).map(|place| Self::byte(self.seed, place)).collect()
    }

    /// These bytes of the other end have come.
    fn came(&mut self, other: usize, bytes: &[u8]) {
        let from = self.got;
        let is_it = |(index, byte): (usize, &u8)| *byte == Self::byte(other, from + index);
        assert!(bytes.iter().enumerate().all(is_it), "something else came after {from} bytes");
        self.got += bytes.len();
        self.has_end = bytes.is_empty();
    }
}

/// A connection: our end, and Linux's.
pub(super) struct Pair {
    pub(super) stream: TcpStream,
    peer: KernelStream,
    listener: Option<TcpListener>,
    ours: End,
    theirs: End,
    buffer: Vec<u8>,
}

impl Pair {
    fn new(stream: TcpStream, peer: KernelStream, listener: Option<TcpListener>) -> Self {
        peer.set_nonblocking(true).unwrap();
        Self { stream, peer, listener, ours: End::new(1), theirs: End::new(2), buffer: vec![0; PIECE] }
    }

    /// We connect to `there` on `b`.
    pub(super) fn connect(engine: &mut Engine, a: &Host, b: &Host, there: IpAddr) -> Self {
        let options = engine.tcp().defaults();
        let server = b.within(|| Ok(std::net::TcpListener::bind((there, 0)).unwrap())).unwrap();
        let to = server.local_addr().unwrap();
        let stream = a.within(|| engine.tcp().connect(to, None, options)).unwrap();
        server.set_nonblocking(true).unwrap();
        let mut peer = None;
        wait("a connection", || {
            engine.poll().unwrap();
            peer = peer.take().or_else(|| server.accept().ok());
            let is_open = engine.tcp().readiness(stream).unwrap().has(Readiness::WRITABLE);
            (is_open && peer.is_some()).then_some(())
        });
        Self::new(stream, peer.expect("it was accepted").0, None)
    }

    /// `b` connects to a listener of ours.
    pub(super) fn accept(engine: &mut Engine, a: &Host, b: &Host, at: SocketAddr) -> Self {
        let options = engine.tcp().defaults();
        let listener = a.within(|| engine.tcp().listen(at, 16, options)).unwrap();
        assert!(engine.tcp().listener_path(listener).unwrap().is_accelerated());
        let there = b.clone();
        let connecting = std::thread::spawn(move || there.within(|| Ok(KernelStream::connect(at).unwrap())).unwrap());
        let stream = wait("a connection", || {
            engine.poll().unwrap();
            engine.tcp().accept(listener).unwrap()
        });
        wait("the peer", || {
            engine.poll().unwrap();
            connecting.is_finished().then_some(())
        });
        Self::new(stream, connecting.join().unwrap(), Some(listener))
    }

    /// Does what can be done now, up to these limits; returns whether both ends have read to the end.
    pub(super) fn go_on(&mut self, engine: &mut Engine, limits: &Limits) -> bool {
        self.we_go_on(engine, limits);
        self.they_go_on(limits);
        self.ours.has_end && self.theirs.has_end
    }

    fn we_go_on(&mut self, engine: &mut Engine, limits: &Limits) {
        let Self { stream, ours, theirs, buffer, .. } = self;
        let next = ours.next(limits.we_send);
        if !next.is_empty() {
            ours.sent += would_block_is_none(engine.tcp().send(*stream, &next)).unwrap_or(0);
        } else if limits.we_finish && !ours.is_shut {
            ours.len = ours.sent;
            ours.is_shut = would_block_is_none(engine.tcp().shutdown(*stream, Shutdown::Write)).is_some();
        }
        if limits.we_read
            && !ours.has_end
            && let Some(count) = would_block_is_none(engine.tcp().read(*stream, buffer))
        {
            ours.came(theirs.seed, &buffer[..count]);
        }
    }

    fn they_go_on(&mut self, limits: &Limits) {
        let Self { peer, ours, theirs, buffer, .. } = self;
        let next = theirs.next(limits.they_send);
        if !next.is_empty() {
            theirs.sent += not_now_is_none(peer.write(&next)).unwrap_or(0);
        } else if limits.they_finish && !theirs.is_shut {
            theirs.len = theirs.sent;
            peer.shutdown(Half::Write).unwrap();
            theirs.is_shut = true;
        }
        if limits.they_read
            && !theirs.has_end
            && let Some(count) = not_now_is_none(peer.read(buffer))
        {
            theirs.came(ours.seed, &buffer[..count]);
        }
    }

    /// Returns whether both ends have done what the limits want, as far as the other one lets them: one with nothing to do is idle.
    pub(super) fn has_reached(&self, limits: &Limits) -> bool {
        self.ours.is_shut == limits.we_finish && self.theirs.is_shut == limits.they_finish
    }

    /// A word there, and back.
    pub(super) fn say(&mut self, engine: &mut Engine, word: &[u8]) {
        let Self { stream, peer, buffer, .. } = self;
        wait("room", || {
            engine.poll().unwrap();
            would_block_is_none(engine.tcp().send(*stream, word))
        });
        let count = wait("a word", || {
            engine.poll().unwrap();
            not_now_is_none(peer.read(buffer))
        });
        peer.write_all(&buffer[..count]).unwrap();
        let count = wait("the word again", || {
            engine.poll().unwrap();
            would_block_is_none(engine.tcp().read(*stream, buffer))
        });
        assert_eq!(&buffer[..count], word);
    }

    /// Closes both ends.
    pub(super) fn end(self, engine: &mut Engine) {
        let both = self.ours.has_end && self.theirs.has_end;
        assert!(!both || (self.ours.got, self.theirs.got) == (self.theirs.len, self.ours.len), "bytes are missing");
        engine.tcp().close(self.stream).unwrap();
        self.listener.into_iter().for_each(|listener| engine.tcp().close_listener(listener).unwrap());
    }
}

fn would_block_is_none<T>(result: Result<T, TcpError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.is_would_block() => None,
        Err(error) => panic!("{error}"),
    }
}

fn not_now_is_none(result: std::io::Result<usize>) -> Option<usize> {
    match result {
        Ok(count) => Some(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}
