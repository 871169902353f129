//! TCP past the kernel.

use super::{Load, READY_MAX, engine, note};
use sidestep_socket::stream::Link;
use sidestep_socket::tcp::{Readiness, Shutdown, TcpListener, TcpStream};
use sidestep_socket::{Engine, Path, Reason};
use sidestep_sys::Problem;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Connections that wait to be accepted, at most. A slice makes one at a time.
const BACKLOG: usize = 16;

/// One end of a connection: an engine with this stream alone.
pub(crate) struct StackStream {
    engine: Box<Engine>,
    stream: TcpStream,
    /// The engine holds bytes that did not fit the reader's buffer.
    has_more: bool,
}

impl StackStream {
    /// Connects from the interface that has `local`, and waits until the connection is made, past the kernel.
    pub(crate) fn connect(mut engine: Box<Engine>, remote: SocketAddr) -> Result<Self, Problem> {
        let options = engine.tcp().defaults();
        let stream = engine.tcp().connect(remote, None, options)?;
        let mut link = Self { engine, stream, has_more: false };
        link.wait_until_accelerated(remote)?;
        Ok(link)
    }

    fn wait_until_accelerated(&mut self, remote: SocketAddr) -> Result<(), Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot connect to {remote}"), why);
        let deadline = Instant::now() + READY_MAX;
        loop {
            self.engine.poll().map_err(|error| failed(&error))?;
            match self.engine.tcp().path(self.stream).map_err(|error| failed(&error))? {
                Path::Accelerated { .. } | Path::Kernel(Reason::Opening) => {}
                Path::Kernel(reason) => {
                    return Err(failed(&reason).next("see sidestep ps, and the counters of its stack"));
                }
            }
            let ready = self.engine.tcp().readiness(self.stream).map_err(|error| failed(&error))?;
            if ready.has(Readiness::ERROR) {
                let error = self.engine.tcp().take_error(self.stream).ok().flatten();
                return Err(error.map_or_else(|| failed(&"it has failed"), |error| failed(&error)));
            }
            if ready.has(Readiness::WRITABLE) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(failed(&"nobody answers"));
            }
        }
    }

    /// Ends it, and gives the engine back for another one.
    pub(crate) fn close(mut self) -> Result<Box<Engine>, Problem> {
        self.engine.tcp().close(self.stream).map_err(|error| Problem::failed("cannot end a connection", error))?;
        Ok(self.engine)
    }

    /// Returns a note for the report.
    pub(crate) fn note(&self) -> String {
        note(&self.engine)
    }

    /// Bytes received already, and whether the stream has ended.
    #[cold]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.engine.tcp().read(self.stream, buffer).map_err(io::Error::from);
        self.has_more = read.as_ref().is_ok_and(|count| *count == buffer.len());
        read
    }
}

impl Link for StackStream {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.engine.tcp().send(self.stream, bytes).map_err(|error| {
            if error.is_would_block() {
                // Room comes from ACKs.
                let _ = self.engine.poll();
            }
            error.into()
        })
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_more {
            return self.read(buffer);
        }
        let (stream, mut filled, mut has_more) = (self.stream, 0, false);
        let deliver = |from, bytes: &[u8]| {
            if from != stream {
                return 0;
            }
            let count = bytes.len().min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&bytes[..count]);
            filled += count;
            has_more |= count < bytes.len();
            count
        };
        self.engine.tcp().poll_with(deliver).map_err(io::Error::other)?;
        self.has_more = has_more;
        if filled != 0 {
            return Ok(filled);
        }
        // The end, an error, or what came out of order before: each is told of.
        if self.engine.tcp().next_event().is_some() {
            return self.read(buffer);
        }
        Err(ErrorKind::WouldBlock.into())
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.engine.tcp().shutdown(self.stream, Shutdown::Write).map_err(io::Error::from)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.engine.socket().expect("an engine that cannot go past the kernel was refused")
    }
}

/// A listening engine.
pub(crate) struct StackListener {
    engine: Box<Engine>,
    listener: TcpListener,
}

impl StackListener {
    /// Opens an engine on the interface that has `local`, and listens at a port of the kernel's choice.
    pub(crate) fn open(local: IpAddr, load: Load) -> Result<Self, Problem> {
        let mut engine = Box::new(engine(local, load)?);
        let options = engine.tcp().defaults();
        let listener = engine.tcp().listen(SocketAddr::new(local, 0), BACKLOG, options)?;
        Ok(Self { engine, listener })
    }

    /// Its port.
    pub(crate) fn port(&mut self) -> Result<u16, Problem> {
        let local = self.engine.tcp().local(self.listener);
        Ok(local.map_err(|error| Problem::failed("cannot name the port", error))?.port())
    }

    /// The connection of the only host that may have one.
    pub(crate) fn accept(mut self, wait: Duration, remote: IpAddr) -> Result<StackStream, Problem> {
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline {
            if let Some(stream) = self.poll(remote)? {
                return Ok(StackStream { engine: self.engine, stream, has_more: false });
            }
        }
        Err(Problem::failed("nobody connected for the slice", "the time is over"))
    }

    /// The next connection of that host, if there is one.
    pub(crate) fn poll(&mut self, remote: IpAddr) -> Result<Option<TcpStream>, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot accept", why);
        self.engine.poll().map_err(|error| failed(&error))?;
        let accepted = self.engine.tcp().accept(self.listener).map_err(|error| failed(&error))?;
        let Some(stream) = accepted else { return Ok(None) };
        let (_, from) = self.engine.tcp().ends(stream).map_err(|error| failed(&error))?;
        let path = self.engine.tcp().path(stream).map_err(|error| failed(&error))?;
        if path.is_accelerated() && from.ip() == remote {
            return Ok(Some(stream));
        }
        // A stranger's, or one that came by the kernel.
        self.engine.tcp().abort(stream).map_err(|error| failed(&error))?;
        Ok(None)
    }

    /// Lends the engine to a connection of its own, and takes it back when that is over.
    pub(crate) fn with<T>(
        self,
        stream: TcpStream,
        work: impl FnOnce(&mut dyn Link) -> Result<T, Problem>,
    ) -> Result<(Self, T), Problem> {
        let Self { engine, listener } = self;
        let mut link = StackStream { engine, stream, has_more: false };
        let done = work(&mut link)?;
        Ok((Self { engine: link.close()?, listener }, done))
    }
}
