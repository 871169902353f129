//! Threads with their own table of descriptors.

use crate::process::unshare_descriptors;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::sync_channel;
use std::thread;

/// Starts a thread whose descriptor table holds only `kept` and the three standard descriptors. Descriptors that other
/// threads open later are not visible in it, and vice versa. Returns once the thread has closed all others, and the
/// calling process no longer has `kept`.
///
/// `work` must not capture another descriptor: its number would be invalid in that thread.
pub fn spawn_unshared(name: &str, kept: OwnedFd, work: impl FnOnce(OwnedFd) + Send + 'static) -> io::Result<()> {
    let (tell, told) = sync_channel(1);
    let number = kept.as_raw_fd();
    let begin = move || match unshare_descriptors().and_then(|()| close_all_but(number)) {
        Ok(()) => {
            let _ = tell.send(Ok(()));
            // SAFETY: the number is open in this thread's own table, a copy that nothing else owns.
            work(unsafe { OwnedFd::from_raw_fd(number) });
        }
        Err(error) => _ = tell.send(Err(error)),
    };
    thread::Builder::new().name(name.into()).spawn(begin)?;
    let result = told.recv().unwrap_or_else(|_| Err(io::Error::other("the thread has ended")));
    // Not earlier: the thread copies the table with `kept` in it.
    drop(kept);
    result
}

/// Closes all numbers above the standard ones but that of `kept`. Only for a thread that shares its table with no
/// other.
fn close_all_but(kept: RawFd) -> io::Result<()> {
    let kept = kept.unsigned_abs();
    let below = if kept > 3 { close_range(3, kept - 1) } else { Ok(()) };
    below.and_then(|()| close_range(kept.max(2) + 1, u32::MAX))
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the call takes numbers alone (Linux 5.9); the caller's thread shares its table with nobody, so nobody's
    // descriptors are closed but the copies that this thread was given.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_thread_apart_has_one_descriptor_and_others_keep_theirs() {
        let other = File::open("/dev/null").unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        let count = |kept: OwnedFd| {
            // The table of this thread. The listing itself uses one descriptor.
            let count = fs::read_dir("/proc/thread-self/fd").unwrap().count();
            let standard =
                (0..3).filter(|number| fs::metadata(format!("/proc/thread-self/fd/{number}")).is_ok()).count();
            UnixStream::from(kept).write_all(&[(count - standard) as u8]).unwrap();
        };
        spawn_unshared("test", there.into(), count).unwrap();
        let mut told = [0];
        here.read_exact(&mut told).unwrap();
        assert_eq!(told, [2]);
        assert!(other.metadata().is_ok());
        assert_eq!(here.read(&mut told).unwrap(), 0, "nobody else has a copy of the other end");
    }
}
