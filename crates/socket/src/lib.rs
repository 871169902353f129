//! L3: UDP sockets, and streams of TCP ([`tcp`]), whose hot traffic goes past the kernel, each with a kernel socket beside it.
//!
//! An [`Engine`] is one queue of one interface, or several ([`Queues`]), with all sockets upon them, owned and polled by one thread. Each socket has a
//! **kernel twin**, a real socket that holds the port under the kernel's own rules, joins the groups, receives what is not
//! hot (fragments, IP options, other interfaces), and takes over whenever the fast path cannot be had. Every socket says
//! which path it is on, and why ([`Path`], [`Reason`]).
//!
//! Datagrams are lent, not copied: [`Engine::receive`] gives a token, [`Engine::payload`] its bytes,
//! [`Engine::release`] takes it back. Receiving makes no system call; sending makes none either with a sending thread
//! ([`Kick`]). The order between datagrams of both paths is not kept.
//!
//! ```no_run
//! use sidestep_socket::{Engine, EngineOptions, UdpOptions};
//!
//! let mut engine = Engine::open(&EngineOptions::on("eth1"))?;
//! let socket = engine.bind("0.0.0.0:7000".parse().unwrap(), &UdpOptions::default())?;
//! println!("{}", engine.path(socket)?);
//! loop {
//!     if let Some(datagram) = engine.receive(socket)? {
//!         println!("{} bytes from {}", engine.payload(&datagram).len(), datagram.source());
//!         engine.reply(socket, datagram)?;
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod control_agent;
mod engine;
mod error;
mod fallback;
mod heartbeat_writer;
mod options;
mod reason;
mod route_cache;
pub mod stream;
pub mod tcp;
mod udp;

pub use engine::Engine;
pub use error::{Error, SendError};
pub use options::{Checksums, EngineOptions, MulticastOut, UdpOptions};
pub use reason::{Path, Reason};
pub use sidestep_control_api::message::{Missing, Mode, Queues};
pub use sidestep_frame::xdp::Kick;
pub use sidestep_sys::error_queue::Undelivered;
pub use udp::datagram::Datagram;
pub use udp::send::Reserved;
pub use udp::socket::{Handle, Statistics};
