//! bind(2) of an AF_XDP socket: the best available mode, and the reason if it is not the best.

use super::errno::explain;
use super::facts::{Downgrade, Mode};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The pause between two attempts at a queue that is being released.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// The queue to bind to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) index: u32,
    pub(super) queue: u32,
    pub(super) sharing: Option<Sharing<'a>>,
    /// Frames of several buffers are wanted (XDP_USE_SG).
    pub(super) multi_buffer: bool,
    /// The time for which a busy queue is retried.
    pub(super) patience: Duration,
}

/// The socket whose UMEM is shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing<'a> {
    pub(super) owner: BorrowedFd<'a>,
    pub(super) mode: Mode,
}

/// The mode that a socket was bound in.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) mode: Mode,
    pub(super) downgrades: Vec<Downgrade>,
    pub(super) multi_buffer: bool,
}

/// Binds in the best mode from `best` down to `least`. The error is that of the last mode tried.
pub(super) fn bind(
    socket: BorrowedFd<'_>,
    target: Target<'_>,
    best: Mode,
    least: Mode,
) -> Result<Bound, (Mode, io::Error)> {
    let mut downgrades = Vec::new();
    if let Some(Sharing { mode, .. }) = target.sharing {
        // The mode is that of the socket that owns the UMEM; the kernel rejects a mode flag (EINVAL).
        let bound = bind_patiently(socket, target, 0).map(|()| Bound { mode, downgrades, multi_buffer: false });
        return bound.map_err(|error| (mode, error));
    }
    if best == Mode::ZeroCopy {
        match bind_with_buffers(socket, target, libc::XDP_ZEROCOPY) {
            Ok(multi_buffer) => return Ok(Bound { mode: Mode::ZeroCopy, downgrades, multi_buffer }),
            Err(error) if least > Mode::ZeroCopy && error.raw_os_error() != Some(libc::EBUSY) => {
                let reason = format!("{} ({})", meaning(&error), explain(&error));
                downgrades.push(Downgrade { from: Mode::ZeroCopy, to: Mode::Copy, reason });
            }
            Err(error) => return Err((Mode::ZeroCopy, error)),
        }
    }
    let mode = best.max(Mode::Copy);
    let bound = bind_with_buffers(socket, target, libc::XDP_COPY);
    bound.map(|multi_buffer| Bound { mode, downgrades, multi_buffer }).map_err(|error| (mode, error))
}

/// Binds with frames of several buffers if they are wanted and supported, and returns whether they are.
fn bind_with_buffers(socket: BorrowedFd<'_>, target: Target<'_>, flags: u16) -> io::Result<bool> {
    if target.multi_buffer {
        match bind_patiently(socket, target, flags | libc::XDP_USE_SG) {
            Ok(()) => return Ok(true),
            // A kernel before Linux 6.6 does not know the flag, and a driver may not support such frames in zero copy.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {}
            Err(error) => return Err(error),
        }
    }
    bind_patiently(socket, target, flags).map(|()| false)
}

fn meaning(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "the driver has no zero-copy for AF_XDP on this queue",
        Some(libc::EINVAL) => "the driver refuses zero-copy with this queue, frame size or headroom",
        Some(libc::ENOMEM) => "the driver could not map the frames for the device",
        _ => "the driver failed",
    }
}

/// Binds, and retries EBUSY for a while: the kernel releases the queue of a closed socket a little later, when readers
/// of the old state have finished.
fn bind_patiently(socket: BorrowedFd<'_>, target: Target<'_>, flags: u16) -> io::Result<()> {
    let deadline = Instant::now() + target.patience;
    loop {
        match bind_once(socket, target, flags) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(BUSY_PAUSE);
            }
            result => return result,
        }
    }
}

fn bind_once(socket: BorrowedFd<'_>, target: Target<'_>, flags: u16) -> io::Result<()> {
    let flags = match target.sharing {
        Some(_) => libc::XDP_SHARED_UMEM,
        None => flags | libc::XDP_USE_NEED_WAKEUP,
    };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: target.index,
        sxdp_queue_id: target.queue,
        sxdp_shared_umem_fd: target.sharing.map_or(0, |it| it.owner.as_raw_fd().cast_unsigned()),
    };
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is a sockaddr_xdp of the size given and lives until after the call.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
