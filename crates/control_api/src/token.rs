//! The right to begin with a request: one read takes it, of control or of the program that has stopped waiting.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use sidestep_sys::own_descriptors::keep;
use std::io::{self, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};

/// The place that a file without places is read at (preadv2(2)).
const NO_PLACE: u64 = u64::MAX;

/// Makes a token: an eventfd.
pub fn make() -> io::Result<OwnedFd> {
    Ok(keep(eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

/// Takes a token; false if somebody else has it. Of a descriptor that is none, and was sent by a stranger, it never waits
/// (RWF_NOWAIT; of an eventfd Linux 5.8).
pub fn take(token: BorrowedFd<'_>) -> io::Result<bool> {
    let mut value = [0; 8];
    loop {
        match preadv2(token, &mut [IoSliceMut::new(&mut value)], NO_PLACE, ReadWriteFlags::NOWAIT) {
            Ok(count) => return Ok(count == value.len()),
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn one_has_it() {
        let token = make().unwrap();
        let copy = token.try_clone().unwrap();
        assert!(take(copy.as_fd()).unwrap());
        assert!(!take(token.as_fd()).unwrap() && !take(copy.as_fd()).unwrap());
    }

    #[test]
    fn what_is_no_token_is_not_waited_for() {
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        assert!(!take(pipe.as_fd()).unwrap());
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!take(socket.as_fd()).unwrap());
        assert!(!take(File::open("/dev/null").unwrap().as_fd()).unwrap_or(false));
        assert!(take(File::open("/").unwrap().as_fd()).is_err());
    }
}
