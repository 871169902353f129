//! Memory that two processes of one host share: a byte stream or datagrams over two rings, one for each direction.
//!
//! Whoever connects makes the two rings ([`sidestep_ring`]) in sealed memory and hands them over through a Unix socket,
//! which stays open for the life of the connection: the kernel closes it whatever way a process ends, and that is how the other
//! end learns of it. From then on a message is a store here and a load there. Nothing calls the kernel while messages
//! come and go; an end that only waits, or only sends, looks at the socket at most once a millisecond.
//!
//! Like connect(2), connecting does not wait to be accepted. A listener that refuses says why, and the next read or
//! write of the connector gives that as its error.
//!
//! # Ends
//!
//! | what happens at the other end | read here, when everything published is read | write here |
//! |---|---|---|
//! | [`shutdown`](crate::stream::Stream::shutdown) | 0 | goes on |
//! | the stream is dropped | 0 | `BrokenPipe` |
//! | the process ends without dropping it (SIGKILL, abort, exit) | `ConnectionReset` | `BrokenPipe` |
//! | the listener refuses | `ConnectionRefused`, with its reason | the same |
//! | it scribbles over the rings | `InvalidData` | `InvalidData` |
//!
//! A side learns of an end within milliseconds while it reads. One that spins and never reads learns it with one of
//! the next sixteen writes, or when the ring is full.
//!
//! # Waiting
//!
//! [`Waiting::Spin`](crate::stream::Waiting::Spin) returns at once. [`Waiting::Block`](crate::stream::Waiting::Block) and
//! [`Waiting::Epoll`](crate::stream::Waiting::Epoll) sleep on the socket (in recv(2) and in poll(2)), into which the other end
//! writes one byte when, and only when, somebody sleeps there: one sleep for a message as for a death, and none that has to be
//! cut short to look around. They differ in writes: `Block` sleeps until there is room, `Epoll` says `WouldBlock`. A program with
//! an epoll set of its own takes `Epoll` with a timeout of zero and watches
//! [`Stream::descriptor`](crate::stream::Stream::descriptor): it is readable, level-triggered, whenever there is something to
//! read. `BusyPoll` is refused, as there is no device to poll, and so is io_uring.

mod accept_thread;
mod acceptor;
mod handshake;
mod hello;
mod listener;
mod rings;
mod settings;
mod stream;
mod watch;

use accept_thread::AcceptThread;
pub(crate) use acceptor::Acceptor;
pub use acceptor::Refusals;
pub(crate) use handshake::dial;
pub(super) use listener::ShmListener;
pub(crate) use rings::Rings;
pub(crate) use settings::Kind;
pub use settings::{RING_BYTES_MAX, RING_BYTES_MIN, Settings, Users};
pub use stream::ShmStream;
