//! TCP past the kernel.

use super::{Device, Load, READY_MAX, engine_with, note};
use crate::link::StreamLink;
use crate::path::Path as Route;
use sidestep_socket::stream::{Endpoint, Io, Listener, Options, Stream, Waiting, connect};
use sidestep_socket::{Engine, Path};
use sidestep_stack::tcp::Config;
use sidestep_sys::Problem;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Connects by `engine`, and waits until the connection is made, past the kernel.
pub(crate) fn connect_past_kernel(engine: Engine, remote: SocketAddr) -> Result<StreamLink, Problem> {
    connect_by(Box::new(Io::over(engine)), remote)
}

/// Connects by the engine of `io`.
pub(crate) fn connect_by(mut io: Box<Io>, remote: SocketAddr) -> Result<StreamLink, Problem> {
    let options = Options { timeout: READY_MAX, ..options() };
    let stream = connect(&mut io, &at(remote), &options)?;
    match stream.path(&mut io) {
        Some(Path::Kernel(reason)) => Err(Problem::failed(format!("cannot connect to {remote}"), reason)
            .next("see sidestep ps, and the counters of its stack")),
        _ => Ok(StreamLink { io, stream, sleep: None }),
    }
}

impl StreamLink {
    /// Has calls wait as the path says.
    pub(crate) fn waiting(self, path: &Route) -> Self {
        Self { sleep: path.sleep(), ..self }
    }

    /// Ends the stream, and gives the engine back for another one.
    pub(crate) fn close(mut self) -> Result<Box<Io>, Problem> {
        self.stream.close(&mut self.io).map_err(|error| Problem::failed("cannot end a connection", error))?;
        Ok(self.io)
    }

    /// Returns what a reader of the results must know.
    pub(crate) fn note(&self) -> String {
        self.io.engine().map_or_else(String::new, note)
    }
}

/// A listening engine.
pub(crate) struct StackListener {
    io: Box<Io>,
    listener: Listener,
}

impl StackListener {
    /// Opens an engine on a device, and listens at a port of the kernel's choice.
    pub(crate) fn open(device: &Device, local: IpAddr, load: Load, settings: Config) -> Result<Self, Problem> {
        let mut io = Box::new(Io::over(engine_with(device, load, settings)?));
        let listener = Listener::bind(&mut io, &at(SocketAddr::new(local, 0)), &options())?;
        Ok(Self { io, listener })
    }

    /// Returns what a reader of the results must know.
    pub(crate) fn note(&self) -> String {
        self.io.engine().map_or_else(String::new, note)
    }

    /// Returns its port.
    pub(crate) fn port(&self) -> u16 {
        self.listener.endpoint().port().unwrap_or_default()
    }

    /// Waits for the connection of the only host that may have one.
    pub(crate) fn accept(mut self, wait: Duration, remote: IpAddr) -> Result<StreamLink, Problem> {
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline {
            if let Some(stream) = self.poll(remote)? {
                return Ok(StreamLink { io: self.io, stream, sleep: None });
            }
        }
        Err(Problem::failed("no peer connected for the slice", "the time is over"))
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
        work: impl FnOnce(&mut StreamLink) -> Result<T, Problem>,
    ) -> Result<(Self, T), Problem> {
        let Self { io, listener } = self;
        let mut link = StreamLink { io, stream, sleep: None };
        let done = work(&mut link)?;
        Ok((Self { io: link.close()?, listener }, done))
    }
}

/// The measuring loops look at the clock themselves: no call waits.
fn options() -> Options {
    Options { waiting: Waiting::Spin, ..Options::default() }
}

/// The endpoint past the kernel; its interface is the engine's, which is open.
fn at(address: SocketAddr) -> Endpoint {
    Endpoint::Xdp { interface: String::new(), host: address.ip().to_string(), port: address.port() }
}
