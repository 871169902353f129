//! The one interface of the measuring loops over whatever carries messages: a stream with its `Io`, a datagram socket, bare frames.

use sidestep_socket::datagram::DatagramSocket;
use sidestep_socket::stream::{Endpoint, Io, Options, Stream, Waiting, connect, is_retry};
use sidestep_sys::Problem;
use sidestep_sys::message_batch::MessageBatch;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// A connected transport. On a stream, `receive` gives the bytes that have come (0: the peer has finished); on datagrams, one
/// datagram, cut if it is longer than the buffer.
pub(crate) trait Link: Send {
    /// Hands over `bytes` and returns how many were taken: a stream may take fewer, a datagram is taken whole. They leave at the
    /// latest at the next [`Link::flush`], or at the next [`Link::receive`] where none is a batch; either reports what went wrong with them.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes everything taken by [`Link::send`] leave.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Receives into `buffer`, waiting as the path says; `WouldBlock` when nothing came.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Ends this side's sending, where the transport knows an end.
    fn shutdown(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the kernel socket beneath, if there is one, for options and facts.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Sends all of `bytes`, trying again for as long as the transport is full.
pub(crate) fn send_all(link: &mut dyn Link, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match link.send(bytes) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if is_retry(&error) => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A stream, and what its thread needs for it.
pub(crate) struct StreamLink {
    pub(crate) io: Box<Io>,
    pub(crate) stream: Stream,
    /// The longest sleep of a call past the kernel; none for one that spins.
    pub(crate) sleep: Option<Duration>,
}

impl StreamLink {
    /// Over a stream that the kernel or shared memory carries.
    pub(crate) fn new(stream: Stream) -> Self {
        Self { io: Box::default(), stream, sleep: None }
    }

    /// Connects, by the kernel or through shared memory.
    pub(crate) fn connect(endpoint: &Endpoint, options: &Options) -> Result<Self, Problem> {
        let mut io = Box::default();
        let stream = connect(&mut io, endpoint, options)?;
        Ok(Self { io, stream, sleep: None })
    }

    /// Attempts; past the kernel, sleeps until something has come and attempts again, for as long as calls may sleep.
    #[inline]
    fn attempt<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> io::Result<T>) -> io::Result<T> {
        let tried = attempt(self);
        match (&tried, self.sleep) {
            (Err(error), Some(longest)) if is_retry(error) => self.attempt_asleep(longest, attempt),
            _ => tried,
        }
    }

    fn attempt_asleep<T>(
        &mut self,
        longest: Duration,
        mut attempt: impl FnMut(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        let end = Instant::now() + longest;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if let Some(engine) = self.io.engine_mut() {
                engine.sleep(left).map_err(io::Error::other)?;
            }
            let tried = attempt(self);
            if left.is_zero() || !tried.as_ref().is_err_and(is_retry) {
                return tried;
            }
        }
    }
}

impl Link for StreamLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|link| {
            let sent = link.stream.write(&mut link.io, bytes);
            if sent.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                // Past the kernel room comes from ACKs.
                let _ = link.io.poll();
                return link.stream.write(&mut link.io, bytes);
            }
            sent
        })
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.attempt(|link| link.stream.read(&mut link.io, buffer))
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown(&mut self.io)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.descriptor()
    }
}

/// A socket of datagrams by the kernel, several in a call: sendmmsg(2), recvmmsg(2).
pub(crate) struct BatchLink {
    socket: DatagramSocket,
    waits: bool,
    out: MessageBatch,
    came: MessageBatch,
    /// The next of those that have come.
    next: usize,
}

impl BatchLink {
    /// Over a socket whose reader waits so; `most` datagrams of up to `size` bytes in a call.
    pub(crate) fn new(socket: DatagramSocket, waiting: Waiting, most: u32, size: u32) -> Self {
        let batch = || MessageBatch::new(most as usize, size as usize);
        Self { socket, waits: waiting != Waiting::Spin, out: batch(), came: batch(), next: 0 }
    }
}

impl Link for BatchLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.out.is_full() {
            self.flush()?;
        }
        if self.out.push(bytes) { Ok(bytes.len()) } else { Err(ErrorKind::InvalidInput.into()) }
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        let Self { socket, out, .. } = self;
        socket.descriptor().map_or_else(|| Err(ErrorKind::NotConnected.into()), |socket| out.send(socket))
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.next == self.came.len() {
            let Self { socket, came, .. } = self;
            let socket = socket.descriptor().ok_or(ErrorKind::NotConnected)?;
            self.next = 0;
            came.receive(socket, self.waits)?;
        }
        let bytes = self.came.get(self.next);
        self.next += 1;
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.descriptor()
    }
}

/// A link over a socket that the kernel carries: `batch` datagrams of up to `size` bytes in a call.
pub(crate) fn datagrams(socket: DatagramSocket, waiting: Waiting, batch: u32, size: u32) -> Box<dyn Link> {
    match batch {
        0 | 1 => Box::new(DatagramLink::new(socket)),
        _ => Box::new(BatchLink::new(socket, waiting, batch, size)),
    }
}

/// A socket of datagrams by the kernel, and what its thread needs for it.
pub(crate) struct DatagramLink {
    io: Box<Io>,
    socket: DatagramSocket,
}

impl DatagramLink {
    /// Over a socket that the kernel carries.
    pub(crate) fn new(socket: DatagramSocket) -> Self {
        Self { io: Box::default(), socket }
    }
}

impl Link for DatagramLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(&mut self.io, bytes)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush(&mut self.io)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(&mut self.io, buffer)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.descriptor()
    }
}
