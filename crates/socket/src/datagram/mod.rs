//! Datagrams to one peer: one type, whatever carries them.
//!
//! A [`DatagramSocket`] is a UDP socket by the kernel's calls or by io_uring, two rings in memory shared with a process of the same
//! host, or a UDP socket of the thread's [`Engine`](crate::Engine), past the kernel. It waits as [`Waiting`] says, as streams do.
//!
//! ```
//! use sidestep_socket::datagram::UdpPort;
//! use sidestep_socket::stream::{Io, Options};
//!
//! let (mut io, options) = (Io::default(), Options::default());
//! let (one, two) = (UdpPort::bind("127.0.0.1:0".parse()?)?, UdpPort::bind("127.0.0.1:0".parse()?)?);
//! let (at_one, at_two) = (one.local()?, two.local()?);
//! let (mut one, mut two) = (one.connect(at_two, &options)?, two.connect(at_one, &options)?);
//! one.send(&mut io, b"tick")?;
//! one.flush(&mut io)?;
//! let mut buffer = [0; 64];
//! let count = two.receive(&mut io, &mut buffer)?;
//! assert_eq!(&buffer[..count], b"tick");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Waiting`]: crate::stream::Waiting

mod listener;
mod port;
mod shm;
mod socket;
mod xdp;

pub use listener::{ShmListener, connect_shm};
pub use port::UdpPort;
pub use shm::ShmDatagrams;
pub use socket::{DatagramSocket, KernelDatagrams, UringDatagrams};
pub use xdp::XdpDatagrams;
