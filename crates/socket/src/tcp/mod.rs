//! TCP: streams and listeners of an engine, past the kernel where that can be.
//!
//! [`Engine::tcp`] lends the calls. A connection past the kernel is the stack's ([`sidestep_stack::tcp`]). One from here takes its
//! local port from those that control has reserved for the engine and sends here whole; where a port is named, in a VLAN, and on
//! a host that forwards, a kernel twin, bound and never connected, keeps the port, and a rule of steering brings its packets
//! here from before the first SYN until its TIME-WAIT is over. A listener's twin listens in the kernel as well: connections that come by another interface are
//! accepted like the others, and say so ([`Tcp::path`]). Where the fast path cannot be had, the same handles work over the
//! kernel's sockets.
//!
//! A segment that is steered is answered here or by nobody. So nothing is steered that could not be answered: a port of which
//! the kernel has connections ([`crate::Reason::KernelConnections`]), one that listens while the tables leave routes open
//! ([`crate::Reason::RouteUnknown`]). What is open when that comes to pass keeps its way; a connection that has none yet is
//! answered along the frame that it came in, as is one whose way back leads out of another interface. Where the device comes to
//! bring its packets by a queue that is not the engine's (`ethtool -X`), a connection ends at once
//! ([`crate::Reason::QueueElsewhere`]), and its peer is reset: nothing of it could be received.
//!
//! Nothing waits but [`Tcp::listen`], for control's answer ([`Tcp::begin_listening`] does not), and [`Tcp::close_listener`], where
//! connections that it has accepted are open: each gets a rule of its own.
//! [`Engine::poll`] receives and drives the timers: a program that does not poll does not retransmit. ACKs that ride on the
//! answer do so if the program polls, answers, and polls again.
//!
//! An engine that is dropped closes what is open, and stays for at most [`crate::EngineOptions::linger`] until the peers have
//! acknowledged what was handed over: nobody else would send it again. What is left then is reset, counted and said
//! ([`Engine::finish`]). A process that is killed, or ends without dropping the engine (exit(3), abort(3)), cannot do so: the
//! kernel, which gets its packets from then on, answers the next one of each peer with a reset. A peer that only waits learns
//! it by its keep-alive, as from a host that has lost its power.
//!
//! ```no_run
//! use sidestep_socket::{Engine, EngineOptions};
//!
//! let mut engine = Engine::open(&EngineOptions::on("eth1"))?;
//! let options = engine.tcp().defaults();
//! let stream = engine.tcp().connect("192.0.2.7:9000".parse().unwrap(), None, options)?;
//! println!("{}", engine.tcp().path(stream)?);
//! let mut buffer = [0; 4096];
//! loop {
//!     engine.poll()?;
//!     match engine.tcp().read(stream, &mut buffer) {
//!         Ok(0) => break,
//!         Ok(count) => println!("{count} bytes"),
//!         Err(error) if error.is_would_block() => {}
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! engine.tcp().close(stream)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active_open;
mod close;
mod data;
mod error;
pub(crate) mod handles;
pub(crate) mod header_cache;
mod icmp;
mod linger;
pub(crate) mod lost;
pub(crate) mod output;
mod passive_open;
mod profile;
mod readiness;
mod rss_change;
pub(crate) mod setup;
pub(crate) mod streams;
pub(crate) mod table;

pub use error::TcpError;
pub use lost::Lost;
pub use profile::profile;
pub use sidestep_stack::tcp::{Config, Counter, Options, Readiness, Shutdown};
pub use table::{TcpEvent, TcpListener, TcpStream};

use crate::engine::Engine;
use crate::error::Error;
use sidestep_sys::Problem;
use std::net::SocketAddr;

/// The calls on streams and listeners.
#[derive(Debug)]
pub struct Tcp<'e> {
    engine: &'e mut Engine,
}

impl Engine {
    /// The calls on streams and listeners of TCP.
    #[inline]
    pub fn tcp(&mut self) -> Tcp<'_> {
        Tcp { engine: self }
    }
}

impl Tcp<'_> {
    /// The options that the engine's profile gives new streams and listeners.
    pub fn defaults(&self) -> Options {
        match &self.engine.bypass {
            Some(bypass) => bypass.stack.tcp().config().options(),
            None => self.engine.options.tcp.options(),
        }
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        if self.engine.guard.is_same_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Receives like [`Engine::poll`], and shows payload that is in order, where it stands in the frame, to `deliver` when
    /// nothing older of that stream waits to be read. It gives how many bytes it has taken; the rest is read by
    /// [`Tcp::read`]. Streams by the kernel are only read.
    pub fn poll_with(&mut self, mut deliver: impl FnMut(TcpStream, &[u8]) -> usize) -> Result<usize, Error> {
        self.engine.poll_with(&mut deliver)
    }
}

fn failed(verb: &str, address: SocketAddr, why: &dyn std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot {verb} TCP {address}"), why)
}
