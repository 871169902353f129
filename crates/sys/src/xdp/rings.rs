//! The four rings of a socket, mapped. Mapping takes the descriptor and no capability.

use super::abi::Descriptor;
use super::errno::explain;
use super::facts::RingSizes;
use super::options::option;
use super::ring::{Consumer, Entry, Layout, Producer};
use crate::Problem;
use crate::memory::{Access, Mapping};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The rings of one socket. Each may be used by one process at a time: the kernel does not guard them, and two users
/// lose frames.
#[derive(Debug)]
pub struct Rings {
    /// Frames lent to the kernel for receiving; `None` if the socket shares another one's.
    pub fill: Option<Producer<u64>>,
    /// Frames that the kernel has sent; `None` if the socket shares another one's.
    pub completion: Option<Consumer<u64>>,
    /// Received frames.
    pub rx: Option<Consumer<Descriptor>>,
    /// Frames to send.
    pub tx: Option<Producer<Descriptor>>,
}

impl Rings {
    /// Maps the rings of a socket that was made with these sizes and is not bound yet ([`Unbound`]); a ring of size 0
    /// is left out. Since Linux 6.4 the rings of a bound socket can be mapped, too.
    ///
    /// [`Unbound`]: super::Unbound
    pub fn map(socket: BorrowedFd<'_>, sizes: RingSizes) -> Result<Self, Problem> {
        sizes.check()?;
        map(socket, sizes).map_err(|error| {
            let what = "cannot map the rings of an AF_XDP socket";
            if error.raw_os_error() == Some(libc::EBUSY) {
                // Until Linux 6.4, xsk_mmap of net/xdp/xsk.c requires a socket that is not bound yet.
                let why = format!("{}: it is bound, and this kernel maps them only before that", explain(&error));
                return Problem::failed(what, why).next("map them before it is bound");
            }
            Problem::failed(what, explain(&error))
                .next("take descriptor and facts from one and the same sidestep process")
        })
    }
}

fn map(socket: BorrowedFd<'_>, sizes: RingSizes) -> io::Result<Rings> {
    // SAFETY: integers only; all zeroes is valid.
    let none: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let offsets = option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, none)?;
    let place = |page_offset, ring: &libc::xdp_ring_offset, size| Place { socket, page_offset, ring: *ring, size };
    let fill = place(libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, sizes.fill);
    let completion = place(libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, sizes.completion);
    let rx = place(libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, sizes.rx);
    let tx = place(libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, sizes.tx);
    Ok(Rings {
        fill: fill.open::<u64, _>(Producer::new)?,
        completion: completion.open::<u64, _>(Consumer::new)?,
        rx: rx.open::<Descriptor, _>(Consumer::new)?,
        tx: tx.open::<Descriptor, _>(Producer::new)?,
    })
}

/// The location of a ring.
struct Place<'a> {
    socket: BorrowedFd<'a>,
    page_offset: u64,
    ring: libc::xdp_ring_offset,
    size: u32,
}

impl Place<'_> {
    fn open<T: Entry, R>(&self, make: impl FnOnce(Arc<Mapping>, Layout) -> Option<R>) -> io::Result<Option<R>> {
        if self.size == 0 {
            return Ok(None);
        }
        let odd = || io::Error::other("the kernel describes a ring with an impossible layout");
        let offset = |value: u64| usize::try_from(value).map_err(|_| odd());
        let layout = Layout {
            producer: offset(self.ring.producer)?,
            consumer: offset(self.ring.consumer)?,
            flags: offset(self.ring.flags)?,
            entries: offset(self.ring.desc)?,
            size: self.size,
        };
        let bytes = layout.bytes::<T>().ok_or_else(odd)?;
        let memory = Mapping::shared_at(self.socket, self.page_offset, bytes, Access::ReadWrite)?;
        memory.leave_out_of_children()?;
        make(Arc::new(memory), layout).ok_or_else(odd).map(Some)
    }
}
