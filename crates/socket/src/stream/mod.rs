//! Byte streams: one type, whatever carries the bytes.
//!
//! A [`Stream`] is TCP or a Unix socket by the kernel, two rings in memory shared with a process of the same host ([`shm`]),
//! or TCP past the kernel. An [`Endpoint`] names which, so that a protocol over streams runs over each of them unchanged. Calls
//! are dispatched statically and do not allocate.
//!
//! A program waits in the calls, or in one place for all its streams:
//!
//! | | connects | accepts | the stream |
//! |---|---|---|---|
//! | waits in the call | [`connect`] | [`Listener::accept_within`] | waits as [`Waiting`] says, with either [`Backend`] |
//! | has an event loop | [`Connecting`] | [`Listener::accept`] | never waits |
//!
//! Streams past the kernel are connections of an [`Engine`](crate::Engine), of which a thread has one. It is in the thread's
//! [`Io`], which every call takes; kernel streams and shared memory read into its buffer.
//!
//! ```
//! use sidestep_socket::stream::{Connecting, Endpoint, Io, Listener, Options, connect};
//! use std::time::Duration;
//!
//! let (mut io, options) = (Io::default(), Options::default());
//! let mut listener = Listener::bind(&mut io, &Endpoint::parse("127.0.0.1:0")?, &options)?;
//!
//! // Waiting in the call.
//! let mut client = connect(&mut io, listener.endpoint(), &options)?;
//! let mut server = listener.accept_within(&mut io, Duration::from_secs(5))?.stream;
//! client.write_all(&mut io, b"35=D")?;
//! let mut buffer = [0; 64];
//! assert_eq!(server.read(&mut io, &mut buffer)?, 4);
//!
//! // In an event loop.
//! let mut connecting = Connecting::begin(&mut io, listener.endpoint(), &options)?;
//! let mut client = loop {
//!     io.poll()?;
//!     match connecting.poll(&mut io, &options)? {
//!         Connecting::Ready(stream) => break stream,
//!         pending => connecting = pending,
//!     }
//! };
//! let mut server = loop {
//!     if let Some(accepted) = listener.accept(&mut io)? {
//!         break accepted.stream;
//!     }
//! };
//! client.write(&mut io, b"35=D")?;
//! let mut received = Vec::new();
//! while received.len() < 4 {
//!     let mut deliver = |bytes: &[u8]| {
//!         received.extend_from_slice(bytes);
//!         bytes.len()
//!     };
//!     match server.receive_with(&mut io, &mut deliver) {
//!         Err(error) if sidestep_socket::stream::is_retry(&error) => {}
//!         count => assert_ne!(count?, 0),
//!     }
//! }
//! assert_eq!(received, b"35=D");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | carried by | endpoint | read where | readable by its descriptor | writable by its descriptor |
//! |---|---|---|---|---|
//! | the kernel ([`KernelStream`]) | `HOST:PORT`, `unix:PATH` | the buffer of [`Io`] | yes | yes |
//! | io_uring ([`UringStream`]) | the same, with [`Backend::Uring`] | the buffer of the receive | no: the ring has read already | no |
//! | shared memory ([`ShmStream`]) | `shm:PATH` | the buffer of [`Io`] | with [`Waiting::Epoll`] | no |
//! | an engine past the kernel ([`XdpStream`]) | `xdp:INTERFACE:ADDRESS:PORT` | the frame | no: the engine has one | no |
//!
//! | [`Waiting`] | kernel | io_uring | shared memory | past the kernel |
//! |---|---|---|---|---|
//! | `Block` | recv(2) and send(2) sleep | a read sleeps in io_uring_enter(2); a write never waits | sleeps on the socket beside the rings; a write waits for room | the call polls the engine; a write waits for room |
//! | `BusyPoll` | SO_BUSY_POLL | as `Block` | refused | refused: the engine polls its device itself |
//! | `Epoll` | epoll_wait(2) sleeps | as `Block` | poll(2) sleeps | the call polls the engine |
//! | `Spin` | returns at once | returns at once | returns at once | one poll of the engine |

mod connecting;
mod endpoint;
mod io;
pub(crate) mod kernel;
mod listener;
mod options;
mod script;
pub mod shm;
mod socket_file;
#[expect(clippy::module_inception)]
mod stream;
mod unread;
pub(crate) mod uring;
mod xdp;

pub use connecting::{Connecting, connect, connect_shm};
pub use endpoint::Endpoint;
pub use io::Io;
pub use kernel::KernelStream;
pub use listener::{Accepted, Listener};
pub use options::{Backend, Options, Waiting};
pub use script::Script;
pub use shm::ShmStream;
pub use sidestep_sys::credentials::Credentials;
pub use socket_file::SocketFile;
pub use stream::Stream;
pub(crate) use unread::{ReadBuffer, Unread};
pub use uring::UringStream;
pub use xdp::XdpStream;

/// Returns whether an error only says "not now".
pub fn is_retry(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

/// Returns whether an error says that no descriptors are left, for the process (EMFILE) or for the host (ENFILE).
pub fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    let errors = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|error| Some(error.raw_os_error()));
    errors.contains(&error.raw_os_error())
}
