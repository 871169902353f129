//! Byte streams: one type, whatever carries the bytes.
//!
//! A [`Stream`] is TCP or a Unix socket by the kernel, two rings in memory shared with a process of the same host ([`shm`]),
//! or TCP past the kernel. An [`Endpoint`] names which, so that a protocol over streams runs over each of them unchanged. Calls
//! are dispatched statically and do not allocate. [`Connecting`] and [`Listener`] never wait: they are part of a thread's loop.
//!
//! Streams past the kernel are connections of an [`Engine`](crate::Engine), of which a thread has one. It is in the thread's
//! [`Io`], which every call takes; kernel streams and shared memory leave it alone.
//!
//! ```
//! use sidestep_socket::stream::{Connecting, Endpoint, Io, Listener, Options};
//!
//! let (mut io, options) = (Io::default(), Options::default());
//! let mut listener = Listener::bind(&mut io, &Endpoint::parse("127.0.0.1:0")?, &options)?;
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
//! | the kernel | `HOST:PORT`, `unix:PATH` | a buffer of the stream | yes | yes |
//! | shared memory | `shm:PATH` | a buffer of the stream | with [`Waiting::Epoll`] | no |
//! | an engine past the kernel | `xdp:INTERFACE:ADDRESS:PORT` | the frame | no: the engine has one | no |
//!
//! # Links
//!
//! Programs that wait in the call have [`connect`] and [`blocking::Listener`], which give a [`Link`]: a connected conversation
//! that waits as [`Waiting`] says, a UDP socket with a fixed peer ([`udp`]) included.

mod address;
pub mod blocking;
mod connecting;
mod endpoint;
mod io;
pub mod kernel;
mod link;
mod listener;
mod options;
mod script;
pub mod shm;
mod socket_file;
#[expect(clippy::module_inception)]
mod stream;
pub mod udp;
mod unread;
pub mod uring;
mod xdp;

pub use address::Address;
pub use blocking::connect;
pub use connecting::Connecting;
pub use endpoint::Endpoint;
pub use io::Io;
pub use link::{Link, is_retry, send_all};
pub use listener::{Accepted, Listener};
pub use options::{Backend, Options, Waiting};
pub use script::Script;
pub use sidestep_sys::credentials::Credentials;
pub use socket_file::SocketFile;
pub use stream::Stream;
pub(crate) use unread::Unread;
pub use xdp::XdpStream;
