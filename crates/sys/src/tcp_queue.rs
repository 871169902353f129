//! Bytes for the queues of a connection that is handed over, out of the file that goes with its record.

use rustix::io::{Errno, pread};
use rustix::net::{SendFlags, send};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Bytes read at a time.
const PIECE: usize = 64 << 10;

/// Attempts at a queue that takes nothing: the kernel is short of memory for TCP.
const TRIES: usize = 16;

/// Writes a part of the file into the chosen queue of a socket. A file that is shorter than its owner says is an error
/// (UnexpectedEof): it may shrink at any time.
pub fn fill(socket: BorrowedFd<'_>, file: BorrowedFd<'_>, part: Range<u64>) -> io::Result<()> {
    let mut piece = vec![0; PIECE.min((part.end - part.start) as usize)];
    let mut at = part.start;
    while at < part.end {
        let wanted = PIECE.min((part.end - at) as usize);
        let count = pread(file, &mut piece[..wanted], at)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        put(socket, &piece[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// Writes bytes into the chosen queue of a socket.
pub fn put(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    let mut tries = 0;
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => (bytes, tries) = (&bytes[count..], 0),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) if tries < TRIES => {
                tries += 1;
                std::thread::yield_now();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
