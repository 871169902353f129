//! L3: UDP sockets, TCP streams ([`tcp`]), byte streams ([`stream`]) and datagrams ([`datagram`]) over any transport. Their traffic goes past the kernel
//! where that is possible, and by the kernel where it is not.
//!
//! An [`Engine`] owns one receive queue of an interface, or several ([`Queues`]), and all sockets upon them. One thread polls
//! it. Each socket has a **kernel twin**: a real socket that holds the port under the kernel's own rules, joins the groups,
//! receives what the stack does not take (fragments, IP options, other interfaces), and carries the traffic whenever it cannot
//! go past the kernel. [`Path`] tells which path a socket is on, and [`Reason`] why it is the kernel's.
//!
//! Datagrams are lent, not copied: [`Engine::receive`] returns a token, [`Engine::payload`] its bytes, and
//! [`Engine::release`] takes the token back. Receiving makes no system call; with a sending thread ([`Kick`]) sending makes
//! none, either. Datagrams of both paths are not kept in order.
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
pub mod datagram;
mod engine;
mod error;
mod fallback;
mod heartbeat_writer;
mod options;
mod reason;
pub mod ring_flow;
mod route_cache;
pub mod shared;
pub mod stream;
pub mod tcp;
mod udp;

pub use engine::{Engine, Frames};
pub use error::{Error, SendError};
pub use options::{Checksums, EngineOptions, MulticastOut, UdpOptions};
pub use reason::{Path, Reason};
pub use sidestep_control_api::message::{Missing, Mode, Queues};
pub use sidestep_frame::xdp::Kick;
pub use sidestep_sys::error_queue::Undelivered;
pub use udp::batch::Message;
pub use udp::datagram::Datagram;
pub use udp::send::Reserved;
pub use udp::socket::{Handle, Statistics};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
