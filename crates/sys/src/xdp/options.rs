//! Options of an AF_XDP socket, and its statistics.

use super::abi::{SO_BUSY_POLL_BUDGET, SO_PREFER_BUSY_POLL, XDP_MAX_TX_SKB_BUDGET};
use super::facts::BusyPoll;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The kernel's statistics of a socket (XDP_STATISTICS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames dropped for other reasons than a full RX ring: the FILL ring was empty (in copy mode), or they were too long.
    pub rx_dropped: u64,
    /// Addresses in the FILL ring that lie outside of the UMEM.
    pub rx_invalid_descriptors: u64,
    /// Descriptors in the TX ring that the kernel refused.
    pub(crate) tx_invalid_descriptors: u64,
    /// Frames dropped because the RX ring was full.
    pub rx_ring_full: u64,
    /// Frames dropped because the FILL ring was empty.
    pub(crate) fill_ring_empty: u64,
    /// Times the TX ring was found empty.
    pub(crate) tx_ring_empty: u64,
}

/// The kernel's statistics of the socket since it was made.
pub fn statistics(socket: BorrowedFd<'_>) -> io::Result<Statistics> {
    // SAFETY: integers only; all zeroes is valid.
    let none: libc::xdp_statistics = unsafe { std::mem::zeroed() };
    let counted = option(socket, libc::SOL_XDP, libc::XDP_STATISTICS, none)?;
    Ok(Statistics {
        rx_dropped: counted.rx_dropped,
        rx_invalid_descriptors: counted.rx_invalid_descs,
        tx_invalid_descriptors: counted.tx_invalid_descs,
        rx_ring_full: counted.rx_ring_full,
        fill_ring_empty: counted.rx_fill_ring_empty_descs,
        tx_ring_empty: counted.tx_ring_empty_descs,
    })
}

/// Returns whether the bound socket is zero-copy, as the kernel sees it (XDP_OPTIONS).
pub fn is_zero_copy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let options = option(socket, libc::SOL_XDP, libc::XDP_OPTIONS, libc::xdp_options { flags: 0 })?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// The pending error of the socket, if any (SO_ERROR), which is reported once. ENETDOWN: the interface has gone down or
/// away.
pub fn take_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    match option(socket, libc::SOL_SOCKET, libc::SO_ERROR, 0_i32)? {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// TX descriptors per call in copy mode (Linux 6.17).
pub(super) fn set_tx_budget(socket: BorrowedFd<'_>, descriptors: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &descriptors)
}

/// Makes our system calls drive the device queue; raising the limits needs CAP_NET_ADMIN.
pub(super) fn set_busy_poll(socket: BorrowedFd<'_>, poll: BusyPoll) -> io::Result<()> {
    let int = |value: u32| i32::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    set_option(socket, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1_i32)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &int(poll.microseconds)?)?;
    set_option(socket, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &int(poll.budget)?)
}

/// Plain integer types, of which any bits are a value.
pub(super) trait Plain: Copy {}
impl Plain for i32 {}
impl Plain for u32 {}
impl Plain for libc::xdp_mmap_offsets {}
impl Plain for libc::xdp_statistics {}
impl Plain for libc::xdp_options {}
impl Plain for libc::xdp_umem_reg {}

/// Reads an option over `value`. An older kernel may write a shorter structure; the rest then keeps its value.
pub(super) fn option<T: Plain>(socket: BorrowedFd<'_>, level: i32, name: i32, mut value: T) -> io::Result<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes, the size of `value`, any bits of which are a value.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut size) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

pub(super) fn set_option<T: Plain>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has the size given and lives until after the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
