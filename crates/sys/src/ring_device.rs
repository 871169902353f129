//! The device of the kernel module that fills rings, `/dev/sidestep-ring`: its two calls for readers (ioctl(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The version of these calls.
pub const DEVICE_ABI: u32 = 1;

/// `_IOR('s', 1, struct sidestep_ring_info)`: read, 24 bytes.
const INFO: libc::Ioctl = 2 << 30 | 24 << 16 | (b's' as libc::Ioctl) << 8 | 1;
/// `_IOW('s', 3, __u64)`: write, 8 bytes.
const SEEN: libc::Ioctl = 1 << 30 | 8 << 16 | (b's' as libc::Ioctl) << 8 | 3;

/// `_IOW('s', 4, __u64)`: write, 8 bytes.
const INTERVAL: libc::Ioctl = 1 << 30 | 8 << 16 | (b's' as libc::Ioctl) << 8 | 4;

/// The memory of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The version of the calls: [`DEVICE_ABI`].
    pub abi: u32,
    /// Zero.
    pub reserved: u32,
    /// The bytes that can be mapped.
    pub bytes: u64,
    /// The cells of the ring.
    pub cells: u64,
}

/// Asks a device for its facts. ENOTTY: it is another device.
pub fn info(device: BorrowedFd<'_>) -> io::Result<Info> {
    let mut info = Info::default();
    // SAFETY: `info` has the size that the number of the call names, and lives until it returns.
    if unsafe { libc::ioctl(device.as_raw_fd(), INFO, &raw mut info) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info)
}

/// Tells a device the messages that the holder of this descriptor has read or lost: from then on poll(2) and epoll(7) report it as
/// readable when there are more.
pub fn seen(device: BorrowedFd<'_>, sequence: u64) -> io::Result<()> {
    // SAFETY: the kernel reads eight bytes of `sequence`, which lives until the call returns.
    if unsafe { libc::ioctl(device.as_raw_fd(), SEEN, &raw const sequence) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets the time from one event of the device's timer to the next, ns.
pub fn set_interval(device: BorrowedFd<'_>, interval_ns: u64) -> io::Result<()> {
    // SAFETY: the kernel reads eight bytes of `interval_ns`, which lives until the call returns.
    if unsafe { libc::ioctl(device.as_raw_fd(), INTERVAL, &raw const interval_ns) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn another_device_does_not_know_the_calls() {
        let null = File::open("/dev/null").unwrap();
        assert_eq!(info(null.as_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(seen(null.as_fd(), 1).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(set_interval(null.as_fd(), 100_000).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
