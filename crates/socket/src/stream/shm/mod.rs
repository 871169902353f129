//! Memory that two processes of one host share: a byte stream or datagrams over two rings, one for each direction.
//!
//! Whoever connects makes the two rings ([`sidestep_ring`]) in sealed memory and hands them over through a Unix socket,
//! which stays open for the life of the link: the kernel closes it whatever way a process ends, and that is how the other
//! end learns of it. From then on a message is a store here and a load there. Nothing calls the kernel while messages
//! come and go; a link that only waits, or only sends, looks at the socket at most once a millisecond.
//!
//! Like connect(2), [`connect`] does not wait to be accepted. A listener that refuses says why, and the next receive or
//! send of the connector gives that as its error.
//!
//! # Ends
//!
//! | what happens at the other end | `recv` here, when everything published is read | `send` here |
//! |---|---|---|
//! | [`crate::stream::Link::shutdown`] | 0 | goes on |
//! | the link is dropped | 0 | `BrokenPipe` |
//! | the process ends without dropping it (SIGKILL, abort, exit) | `ConnectionReset` | `BrokenPipe` |
//! | the listener refuses | `ConnectionRefused`, with its reason | the same |
//! | it scribbles over the rings | `InvalidData` | `InvalidData` |
//!
//! A side learns of an end within milliseconds while it receives. One that spins and never receives learns it with one of
//! the next sixteen sends, or when the ring is full.
//!
//! # Waiting
//!
//! [`crate::stream::Waiting::Spin`] returns at once. [`crate::stream::Waiting::Block`] and [`crate::stream::Waiting::Epoll`] sleep on the socket
//! (in recv(2) and in poll(2)), into which the other end writes one byte when, and only when, somebody sleeps there: one sleep for a
//! message as for a death, and none that has to be cut short to look around. They differ in `send`: `Block` sleeps until
//! there is room, `Epoll` says `WouldBlock`. A program with an epoll set of its own takes `Epoll` with a timeout of zero
//! and watches [`crate::stream::Link::socket`]: it is readable, level-triggered, whenever there is something to receive.
//! `BusyPoll` is refused, as there is no device to poll, and so is io_uring.

mod accept_thread;
mod acceptor;
mod handshake;
mod hello;
mod link;
mod settings;
mod watch;

pub(crate) use accept_thread::AcceptThread;
pub(crate) use acceptor::Acceptor;
pub use handshake::connect;
pub(crate) use handshake::{HELLO_MAX, TurnedAway, admit, check, dial, open_socket};
pub use link::ShmLink;
pub use settings::{Kind, RING_BYTES_MAX, RING_BYTES_MIN, Settings, Users};
