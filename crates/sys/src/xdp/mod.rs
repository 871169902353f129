//! AF_XDP sockets, raw (linux/if_xdp.h; Linux 5.11 or later): frames between a device queue and user memory.
//!
//! A privileged process makes the memory ([`Umem::create`]) and the socket ([`Unbound::new`], CAP_NET_RAW), and may
//! hand both descriptors over. An unprivileged one maps them ([`Umem::open`], [`Rings::map`]); then the socket is bound
//! ([`Unbound::bind`]), and its [`XskFacts`] are passed on. The order matters: before Linux 6.4 the rings of a bound
//! socket cannot be mapped. Nothing after that needs a capability: receiving reads memory, sending writes memory and
//! calls [`kick::transmit`]. [`Xsk::open`] does all of it in one process.
//!
//! ```text
//!            FILL (addresses)          TX (descriptors)
//!   process ------------------> kernel <------------------ process
//!           <------------------        ------------------>
//!            RX (descriptors)          COMPLETION (addresses)
//! ```
//!
//! A socket alone receives nothing: an XDP program must redirect frames to it ([`program`], or one of your own).

mod abi;
mod bind;
mod busy;
mod device;
mod errno;
mod facts;
pub mod kick;
mod options;
pub mod program;
mod ring;
mod rings;
mod umem;
mod unbound;
mod xsk;

pub use abi::Descriptor;
pub(crate) use device::receive_queues_max;
pub use device::{Device, device, wait_until_up};
pub use errno::name as errno_name;
pub use facts::{BusyPoll, Downgrade, Geometry, MULTI_BUFFER_BYTES_MAX, Mode, Pages, RingSizes, XskFacts};
pub use options::{Statistics, is_zero_copy, statistics, take_error};
pub use ring::{Consumer, Entry, Probe, Producer};
pub use rings::Rings;
pub use umem::{PACKET_HEADROOM_BYTES, Umem};
pub use unbound::{Unbound, XskOptions};
pub use xsk::Xsk;
