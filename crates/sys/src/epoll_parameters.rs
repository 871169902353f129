//! Whether the kernel lets each epoll instance choose its busy polling (EPIOCSPARAMS, Linux 6.9; linux/eventpoll.h).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct epoll_params`.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    busy_poll_usecs: u32,
    busy_poll_budget: u16,
    prefer_busy_poll: u8,
    pad: u8,
}

/// EPIOCGPARAMS: `_IOR(0x8A, 2, struct epoll_params)`.
const GET: u32 = 0x8008_8a02;

/// Asks a new epoll instance for its parameters. Ok(false): the kernel does not know the request. An error of EOPNOTSUPP: the kernel
/// is built without busy polling.
pub fn are_supported() -> io::Result<bool> {
    // SAFETY: epoll_create1 takes no pointer.
    let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    let epoll = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let mut parameters = Parameters::default();
    // SAFETY: the request writes at most one epoll_params, which lives until after the call.
    if unsafe { libc::ioctl(epoll.as_raw_fd(), GET as _, &raw mut parameters) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => Ok(false),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_by_its_version() {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
        let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        match are_supported() {
            // Older kernels of some distributions have it, too.
            Ok(is_supported) => assert!(is_supported || version < (6, 9), "{version:?}"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        }
        assert_eq!(size_of::<Parameters>(), 8);
    }
}
