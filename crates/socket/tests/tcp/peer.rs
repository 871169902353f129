//! What the tests do with streams: transfers in both directions at once, compared by their hashes; and Linux as the peer.

use crate::support::wait;
use sidestep_socket::Engine;
use sidestep_socket::tcp::{TcpListener, TcpStream};
use sidestep_stack::tcp::{Readiness, Shutdown};
use sidestep_testkit::Host;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as KernelStream};
use std::thread::JoinHandle;

/// Bytes given to the stream at a time.
const PIECE: usize = 60_000;

/// What the byte at a place of a stream is: a period that fits no segment size.
fn byte(seed: u64, at: usize) -> u8 {
    ((at % 65_521) as u64).wrapping_mul(seed | 1).to_le_bytes()[1]
}

/// Bytes of a stream, and their hash.
pub(crate) struct Content {
    seed: u64,
    len: usize,
    at: usize,
    hasher: DefaultHasher,
}

impl Content {
    pub(crate) fn new(seed: u64, len: usize) -> Self {
        Self { seed, len, at: 0, hasher: DefaultHasher::new() }
    }

    fn next(&self) -> Vec<u8> {
        (self.at..self.len.min(self.at + PIECE)).map(|at| byte(self.seed, at)).collect()
    }

    fn took(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.hasher.write_u8(*byte));
        self.at += bytes.len();
    }
}

/// Bytes that came, and their hash.
pub(crate) type Sum = (usize, u64);

/// Sends `len` bytes, ends sending, and reads to the end; gives the sums of what was sent and what came.
pub(crate) fn exchange(engine: &mut Engine, stream: TcpStream, seed: u64, len: usize) -> (Sum, Sum) {
    let (mut sent, mut got) = (Content::new(seed, len), Content::new(0, 0));
    let (mut piece, mut place, mut is_shut, mut buffer) = (sent.next(), 0, false, vec![0; PIECE]);
    wait("a transfer", || {
        engine.poll().expect("it is ours");
        if place < piece.len() {
            match engine.tcp().send(stream, &piece[place..]) {
                Ok(count) => {
                    sent.took(&piece[place..place + count]);
                    place += count;
                }
                Err(error) => assert!(error.is_would_block(), "{error}"),
            }
        } else if sent.at < sent.len {
            (piece, place) = (sent.next(), 0);
        } else if !std::mem::replace(&mut is_shut, true) {
            engine.tcp().shutdown(stream, Shutdown::Write).expect("it is open");
        }
        match engine.tcp().read(stream, &mut buffer) {
            Ok(0) if is_shut => return Some(()),
            Ok(count) => got.took(&buffer[..count]),
            Err(error) => assert!(error.is_would_block(), "{error}"),
        }
        None
    });
    ((sent.at, sent.hasher.finish()), (got.at, got.hasher.finish()))
}

/// Linux's side of the same, on a thread.
pub(crate) fn kernel_exchange(stream: KernelStream, seed: u64, len: usize) -> JoinHandle<(Sum, Sum)> {
    let mut reader = stream.try_clone().expect("it can");
    let reading = std::thread::spawn(move || {
        let (mut got, mut buffer) = (Content::new(0, 0), vec![0; PIECE]);
        loop {
            match reader.read(&mut buffer).expect("the peer does not reset") {
                0 => return (got.at, got.hasher.finish()),
                count => got.took(&buffer[..count]),
            }
        }
    });
    std::thread::spawn(move || {
        let (mut writer, mut sent) = (stream, Content::new(seed, len));
        while sent.at < sent.len {
            let piece = sent.next();
            writer.write_all(&piece).expect("the peer reads");
            sent.took(&piece);
        }
        writer.shutdown(std::net::Shutdown::Write).expect("it is open");
        ((sent.at, sent.hasher.finish()), reading.join().expect("it reads to the end"))
    })
}

/// Connects past the kernel, and waits until that is done.
pub(crate) fn connect(host: &Host, engine: &mut Engine, remote: SocketAddr) -> TcpStream {
    let options = engine.tcp().defaults();
    let stream = host.within(|| engine.tcp().connect(remote, None, options)).expect("it can begin");
    established(engine, stream);
    stream
}

pub(crate) fn established(engine: &mut Engine, stream: TcpStream) {
    wait("a connection", || {
        engine.poll().expect("it is ours");
        let ready = engine.tcp().readiness(stream).expect("it is open");
        assert!(!ready.has(Readiness::ERROR), "{:?}", engine.tcp().take_error(stream));
        ready.has(Readiness::WRITABLE).then_some(())
    });
}

pub(crate) fn listen(host: &Host, engine: &mut Engine, local: SocketAddr) -> TcpListener {
    let options = engine.tcp().defaults();
    host.within(|| engine.tcp().listen(local, 256, options)).expect("the port is free")
}

/// The next connection.
pub(crate) fn accept(engine: &mut Engine, listener: TcpListener) -> TcpStream {
    wait("a connection to accept", || {
        engine.poll().expect("it is ours");
        engine.tcp().accept(listener).expect("it listens")
    })
}

/// Linux listening on a host.
pub(crate) fn kernel_listen(host: &Host, local: SocketAddr) -> std::net::TcpListener {
    host.within(|| Ok(std::net::TcpListener::bind(local).expect("the port is free"))).expect("root can")
}

/// Linux connects on a thread.
pub(crate) fn kernel_connect(host: &Host, remote: SocketAddr) -> JoinHandle<KernelStream> {
    let host = host.clone();
    std::thread::spawn(move || {
        host.within(|| Ok(KernelStream::connect(remote).expect("it is accepted"))).expect("root can")
    })
}

/// Polls until the thread has ended.
pub(crate) fn poll_until<T>(engine: &mut Engine, thread: JoinHandle<T>) -> T {
    wait("the peer", || {
        engine.poll().expect("it is ours");
        thread.is_finished().then_some(())
    });
    thread.join().expect("it does not panic")
}
