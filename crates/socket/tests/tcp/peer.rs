//! What the tests do with streams: transfers in both directions at once, every byte compared; and Linux as the peer.

use crate::support::{Control, WATCHDOG, address, engine, wait, wait_at_most};
use sidestep_lab::Host;
use sidestep_socket::Engine;
use sidestep_socket::tcp::{TcpListener, TcpStream};
use sidestep_stack::tcp::{Options, Readiness, Shutdown};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as KernelStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes given to the stream at a time.
const PIECE: usize = 60_000;

/// Bytes after which a stream's contents repeat: a prime, which fits no segment size.
const PERIOD: usize = 65_521;

/// What our end sends, and what the other does.
pub(crate) const OURS: u64 = 3;
pub(crate) const THEIRS: u64 = 7;

/// The contents of a stream, as far as they have been sent or have come. Compared byte by byte, in pieces as they come.
pub(crate) struct Content {
    pattern: Vec<u8>,
    pub(crate) len: usize,
    pub(crate) at: usize,
}

impl Content {
    pub(crate) fn new(seed: u64, len: usize) -> Self {
        let byte = |at: usize| ((at % PERIOD) as u64).wrapping_mul(seed | 1).to_le_bytes()[1];
        Self { pattern: (0..PERIOD + PIECE).map(byte).collect(), len, at: 0 }
    }

    /// What the other end sends to who sends the contents of `seed`.
    pub(crate) fn of_other(seed: u64, len: usize) -> Self {
        Self::new(if seed == OURS { THEIRS } else { OURS }, len)
    }

    /// What is to be sent next, at most [`PIECE`] bytes.
    pub(crate) fn next(&self) -> &[u8] {
        &self.pattern[self.at % PERIOD..][..PIECE.min(self.len - self.at)]
    }

    /// These bytes have come.
    pub(crate) fn came(&mut self, bytes: &[u8]) {
        assert!(
            bytes == &self.pattern[self.at % PERIOD..][..bytes.len()],
            "after {} bytes something else came",
            self.at
        );
        self.at += bytes.len();
    }
}

/// Sends `len` bytes, ends sending, and reads to the end, comparing; gives how many bytes were sent and came.
pub(crate) fn exchange(engine: &mut Engine, stream: TcpStream, seed: u64, len: usize) -> (usize, usize) {
    let (mut sent, mut got) = (Content::new(seed, len), Content::of_other(seed, len));
    let (mut is_shut, mut buffer) = (false, vec![0; PIECE]);
    // At the least what a debug build does on a busy machine.
    let limit = WATCHDOG + Duration::from_secs(len as u64 >> 20);
    wait_at_most(limit, "a transfer", || {
        engine.poll().expect("it is ours");
        if sent.at < len {
            match engine.tcp().send(stream, sent.next()) {
                Ok(count) => sent.at += count,
                Err(error) => assert!(error.is_would_block(), "{error}"),
            }
        } else if !std::mem::replace(&mut is_shut, true) {
            engine.tcp().shutdown(stream, Shutdown::Write).expect("it is open");
        }
        match engine.tcp().read(stream, &mut buffer) {
            Ok(0) if is_shut => return Some(()),
            Ok(count) => got.came(&buffer[..count]),
            Err(error) => assert!(error.is_would_block(), "{error}"),
        }
        None
    });
    (sent.at, got.at)
}

/// Linux's side of the same, on a thread.
pub(crate) fn kernel_exchange(stream: KernelStream, seed: u64, len: usize) -> JoinHandle<(usize, usize)> {
    let mut reader = stream.try_clone().expect("it can");
    let reading = std::thread::spawn(move || {
        let (mut got, mut buffer) = (Content::of_other(seed, len), vec![0; PIECE]);
        loop {
            match reader.read(&mut buffer).expect("the peer does not reset") {
                0 => return got.at,
                count => got.came(&buffer[..count]),
            }
        }
    });
    std::thread::spawn(move || {
        let (mut writer, mut sent) = (stream, Content::new(seed, len));
        while sent.at < sent.len {
            let count = writer.write(sent.next()).expect("the peer reads");
            sent.at += count;
        }
        writer.shutdown(std::net::Shutdown::Write).expect("it is open");
        (sent.at, reading.join().expect("it reads to the end"))
    })
}

/// So many bytes each way at once, every one compared, until both have ended.
pub(crate) fn carry(engine: &mut Engine, stream: TcpStream, peer: KernelStream, bytes: usize) {
    let theirs = kernel_exchange(peer, THEIRS, bytes);
    let ours = exchange(engine, stream, OURS, bytes);
    let theirs = poll_until(engine, theirs);
    assert_eq!((ours, theirs), ((bytes, bytes), (bytes, bytes)));
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

/// The send buffer takes all that it may have at once, as one whose size is set (SO_SNDBUF) does.
pub(crate) fn whole_send_buffer(engine: &mut Engine, stream: TcpStream) {
    let options = engine.tcp().options(stream).expect("it is open").expect("it is past the kernel");
    let options = Options { send_buffer_initial_bytes: options.send_buffer_bytes, ..options };
    engine.tcp().set_options(stream, options).expect("they are sound");
}

/// What has come, once something has; an error of the connection ends the test by its name.
pub(crate) fn receive(engine: &mut Engine, stream: TcpStream, buffer: &mut [u8]) -> usize {
    wait("data", || {
        engine.poll().expect("it is ours");
        match engine.tcp().read(stream, buffer) {
            Ok(count) => Some(count),
            Err(error) if error.is_would_block() => None,
            Err(error) => panic!("{stream:?}: {error}"),
        }
    })
}

/// Linux reads as many bytes. The engine is polled meanwhile: a frame that the kernel would not take at once, or that is
/// lost, leaves at a later poll.
pub(crate) fn heard(engine: &mut Engine, peer: &mut KernelStream, buffer: &mut [u8]) -> std::io::Result<()> {
    peer.set_read_timeout(Some(WATCHDOG)).expect("it can");
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| peer.read_exact(buffer));
        wait("the peer", || {
            engine.poll().expect("it is ours");
            reading.is_finished().then_some(())
        });
        reading.join().expect("it does not panic")
    })
}

/// Control and an engine of a host, listening.
pub(crate) fn serving(host: &Host) -> (Control, Engine, SocketAddr, TcpListener) {
    let control = Control::start(host);
    let mut engine = engine(host);
    let at = SocketAddr::new(address(host, false), 7000);
    let listener = listen(host, &mut engine, at);
    (control, engine, at, listener)
}

/// Linux connects, and is accepted.
pub(crate) fn join(
    from: &Host,
    engine: &mut Engine,
    listener: TcpListener,
    at: SocketAddr,
) -> (TcpStream, KernelStream) {
    let peer = kernel_connect(from, at);
    let stream = accept(engine, listener);
    (stream, poll_until(engine, peer))
}

/// Linux listening on a host.
pub(crate) fn kernel_listen(host: &Host, local: SocketAddr) -> std::net::TcpListener {
    host.within(|| Ok(std::net::TcpListener::bind(local).expect("the port is free"))).expect("root can")
}

/// Linux accepts on a thread, while the engine is polled: a lost ACK of the handshake is sent again by a poll.
pub(crate) fn kernel_accept(engine: &mut Engine, server: &std::net::TcpListener) -> KernelStream {
    let server = server.try_clone().expect("it can");
    poll_until(engine, std::thread::spawn(move || server.accept().expect("one has connected").0))
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

/// A message there and back.
pub(crate) fn ask(engine: &mut Engine, stream: TcpStream, peer: &mut KernelStream, text: &[u8]) {
    let mut buffer = [0; 64];
    peer.write_all(text).unwrap();
    let count = receive(engine, stream, &mut buffer);
    assert_eq!(engine.tcp().send(stream, &buffer[..count]), Ok(count));
    let mut answer = vec![0; text.len()];
    heard(engine, peer, &mut answer).unwrap();
    assert_eq!(answer, text);
}
