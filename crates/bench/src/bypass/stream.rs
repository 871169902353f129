//! TCP past the kernel.

use super::{Load, READY_MAX, engine, note};
use sidestep_socket::stream::{Connecting, Endpoint, Io, Link, Listener, Options, Stream};
use sidestep_socket::{Engine, Path};
use sidestep_sys::Problem;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// One end of a connection: a stream, and an engine for it alone.
pub(crate) struct StackStream {
    io: Box<Io>,
    stream: Stream,
}

impl StackStream {
    /// Connects by `engine`, and waits until the connection is made, past the kernel.
    pub(crate) fn connect(engine: Engine, remote: SocketAddr) -> Result<Self, Problem> {
        Self::connect_by(Box::new(Io::over(engine)), remote)
    }

    /// Connects by the engine of `io`.
    pub(crate) fn connect_by(mut io: Box<Io>, remote: SocketAddr) -> Result<Self, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot connect to {remote}"), why);
        let (options, deadline) = (Options::default(), Instant::now() + READY_MAX);
        let mut connecting = Connecting::begin(&mut io, &at(remote), &options)?;
        let stream = loop {
            io.poll().map_err(|error| failed(&error))?;
            connecting = match connecting.poll(&mut io, &options).map_err(|error| failed(&error))? {
                Connecting::Ready(stream) => break stream,
                pending => pending,
            };
            if Instant::now() > deadline {
                connecting.abandon(&mut io);
                return Err(failed(&"nobody answers"));
            }
        };
        match stream.path(&mut io) {
            Some(Path::Kernel(reason)) => Err(failed(&reason).next("see sidestep ps, and the counters of its stack")),
            _ => Ok(Self { io, stream }),
        }
    }

    /// Ends it, and gives the engine back for another one.
    pub(crate) fn close(mut self) -> Result<Box<Io>, Problem> {
        self.stream.close(&mut self.io).map_err(|error| Problem::failed("cannot end a connection", error))?;
        Ok(self.io)
    }

    /// Returns what a reader of the results must know.
    pub(crate) fn note(&self) -> String {
        self.io.engine().map_or_else(String::new, note)
    }
}

impl Link for StackStream {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.stream.write(&mut self.io, bytes);
        if sent.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            // Room comes from ACKs.
            let _ = self.io.poll();
        }
        sent
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(&mut self.io, buffer)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown(&mut self.io)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        let socket = self.io.engine().and_then(Engine::socket);
        socket.expect("an engine that cannot go past the kernel was refused")
    }
}

/// A listening engine.
pub(crate) struct StackListener {
    io: Box<Io>,
    listener: Listener,
}

impl StackListener {
    /// Opens an engine on the interface that has `local`, and listens at a port of the kernel's choice.
    pub(crate) fn open(local: IpAddr, load: Load) -> Result<Self, Problem> {
        let mut io = Box::new(Io::over(engine(local, load)?));
        let listener = Listener::bind(&mut io, &at(SocketAddr::new(local, 0)), &Options::default())?;
        Ok(Self { io, listener })
    }

    /// Returns its port.
    pub(crate) fn port(&self) -> u16 {
        match self.listener.endpoint() {
            Endpoint::Xdp { port, .. } | Endpoint::Tcp { port, .. } => *port,
            Endpoint::Unix(_) | Endpoint::Shm(_) => 0,
        }
    }

    /// Waits for the connection of the only host that may have one.
    pub(crate) fn accept(mut self, wait: Duration, remote: IpAddr) -> Result<StackStream, Problem> {
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline {
            if let Some(stream) = self.poll(remote)? {
                return Ok(StackStream { io: self.io, stream });
            }
        }
        Err(Problem::failed("nobody connected for the slice", "the time is over"))
    }

    /// Returns the next connection of that host, if there is one.
    pub(crate) fn poll(&mut self, remote: IpAddr) -> Result<Option<Stream>, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot accept", why);
        self.io.poll().map_err(|error| failed(&error))?;
        let accepted = self.listener.accept(&mut self.io).map_err(|error| failed(&error))?;
        let Some(mut accepted) = accepted else { return Ok(None) };
        let is_accelerated = accepted.stream.path(&mut self.io).is_some_and(Path::is_accelerated);
        if is_accelerated && accepted.peer.is_some_and(|peer| peer.ip() == remote) {
            return Ok(Some(accepted.stream));
        }
        // A stranger's, or one that came by the kernel.
        accepted.stream.abort(&mut self.io).map_err(|error| failed(&error))?;
        Ok(None)
    }

    /// Lends the engine to a connection of its own, and takes it back when that is over.
    pub(crate) fn with<T>(
        self,
        stream: Stream,
        work: impl FnOnce(&mut dyn Link) -> Result<T, Problem>,
    ) -> Result<(Self, T), Problem> {
        let Self { io, listener } = self;
        let mut link = StackStream { io, stream };
        let done = work(&mut link)?;
        Ok((Self { io: link.close()?, listener }, done))
    }
}

/// The endpoint past the kernel; its interface is the engine's, which is open.
fn at(address: SocketAddr) -> Endpoint {
    Endpoint::Xdp { interface: String::new(), host: address.ip().to_string(), port: address.port() }
}
