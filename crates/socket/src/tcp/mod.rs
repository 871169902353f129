//! TCP: streams and listeners of an engine, past the kernel where that is possible.
//!
//! [`Engine::tcp`] lends the calls. A connection past the kernel belongs to the stack ([`sidestep_stack::tcp`]).
//!
//! * Active open: the local port is one of those that control has reserved for the engine, so no steering entry has to be asked for. Where
//!   the program names a port, in a VLAN, and on a host that forwards, a kernel twin, bound and never connected, holds the port,
//!   and a steering entry brings the packets here from before the first SYN until TIME-WAIT is over.
//! * Passive open: a listener's twin listens in the kernel as well. Connections that come by another interface are accepted like
//!   the others, and [`Tcp::path`] tells them apart.
//! * Where traffic cannot go past the kernel, the same handles work over the kernel's sockets.
//!
//! # Steering
//!
//! A steered segment is answered here or by nobody. So a port is not steered while it could not be answered: while the kernel has
//! connections of it ([`crate::Reason::KernelConnections`]), or, for a listener, while the tables leave routes undecided
//! ([`crate::Reason::RouteUnknown`]). An open connection keeps its last route when the tables no longer decide it; one without a
//! route is answered to the Ethernet address that its frame came from, and so is one whose route leads out of another interface.
//! When the device begins to bring a connection's packets by a queue of others (`ethtool -X`), the connection ends at once with
//! [`crate::Reason::QueueElsewhere`] and its peer is reset: nothing of it could be received.
//!
//! # Polling
//!
//! [`Engine::poll`] receives and drives the timers: a program that does not poll does not retransmit. An ACK rides on the answer
//! if the program polls, answers, and polls again. Two calls wait: [`Tcp::listen`] for control's answer ([`Tcp::begin_listening`]
//! does not), and [`Tcp::close_listener`] where connections that it has accepted are open, because each gets a steering entry of its own.
//!
//! # The end
//!
//! A dropped engine closes what is open. It stays until the peers have acknowledged all data, for at most
//! [`crate::EngineOptions::linger`]; nobody else would retransmit. Streams that are left then are reset, counted and reported
//! ([`Engine::finish`]). A process that is killed, or ends by exit(3) or abort(3), cannot do so: the kernel gets its packets from
//! then on, and answers the next one of each peer with a reset. A peer that only waits learns it by its keep-alive, as from a
//! host that has lost its power.
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
mod events;
mod hand_over;
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
pub use hand_over::HandOver;
pub use lost::Lost;
pub use passive_open::holding::Answering;
pub use profile::profile;
pub use setup::hosts_congestion;
pub use sidestep_stack::tcp::{Config, Congestion, Counter, Options, Readiness, Shutdown};
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
