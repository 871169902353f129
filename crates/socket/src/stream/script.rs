//! Streams that a test drives.

use super::unread::copy_to;
use std::io;

/// Bytes by a test's script, in place of a connection: partial reads and writes, ends and errors, as the test wants them.
pub trait Script: Send {
    /// Shows bytes to `deliver`, as [`Stream::receive_with`](super::Stream::receive_with) does.
    ///
    /// # Errors
    /// As the script wants.
    fn receive_with(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize>;

    /// Takes bytes, as [`Stream::write`](super::Stream::write) does.
    ///
    /// # Errors
    /// As the script wants.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads bytes, as [`Stream::read`](super::Stream::read) does.
    ///
    /// # Errors
    /// As the script wants.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_with(&mut copy_to(buffer))
    }
}
