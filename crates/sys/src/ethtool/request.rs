//! One SIOCETHTOOL request: a command and its structure.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The structure of a command, aligned as the kernel's are. It begins with the command's number.
#[derive(Debug)]
pub(super) struct Buffer {
    words: Vec<u64>,
    bytes: usize,
}

impl Buffer {
    /// A structure that is zero except for the command.
    pub(super) fn new(command: u32, bytes: usize) -> Self {
        let mut buffer = Self { words: vec![0; bytes.max(4).div_ceil(8)], bytes };
        buffer.put_u32(0, command);
        buffer
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).take(self.bytes)
    }

    /// The bytes at an offset; fewer at the end of the structure.
    pub(super) fn slice(&self, offset: usize, length: usize) -> Vec<u8> {
        self.bytes().skip(offset).take(length).collect()
    }

    pub(super) fn u32(&self, offset: usize) -> u32 {
        self.array(offset).map_or(0, u32::from_ne_bytes)
    }

    pub(super) fn u64(&self, offset: usize) -> u64 {
        self.array(offset).map_or(0, u64::from_ne_bytes)
    }

    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.slice(offset, N).try_into().ok()
    }

    pub(super) fn put_u32(&mut self, offset: usize, value: u32) {
        self.put(offset, &value.to_ne_bytes());
    }

    /// Writes bytes at an offset.
    pub(super) fn put(&mut self, offset: usize, bytes: &[u8]) {
        for (index, byte) in (offset..).zip(bytes) {
            let mut word = self.words[index / 8].to_ne_bytes();
            word[index % 8] = *byte;
            self.words[index / 8] = u64::from_ne_bytes(word);
        }
    }

    /// Makes the kernel read and fill the structure.
    ///
    /// # Safety
    /// The command must read and write no more than the bytes of this buffer, given the sizes that stand in it.
    pub(super) unsafe fn call(&mut self, interface: &str) -> io::Result<()> {
        let mut request = request_for(interface)?;
        request.ifr_ifru.ifru_data = self.words.as_mut_ptr().cast();
        let socket = any_socket()?;
        // SAFETY: the request and the words it points to live until after the call; that the command stays within them is
        // the caller's promise.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// A request about an interface; ENODEV if no interface can have that name.
pub(crate) fn request_for(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte is reserved for the terminator of the C string.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}

/// A socket for the request, which only selects the namespace. A UNIX socket exists in every kernel.
pub(crate) fn any_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointer.
    let descriptor = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read() {
        let mut buffer = Buffer::new(7, 21);
        buffer.put(5, &[1, 2, 3, 4, 5]);
        buffer.put_u32(13, 0x0102_0304);
        assert_eq!((buffer.u32(0), buffer.u32(13)), (7, 0x0102_0304));
        assert_eq!(buffer.slice(4, 8), [0, 1, 2, 3, 4, 5, 0, 0]);
        assert_eq!((buffer.u64(16), buffer.slice(20, 8).len(), buffer.u32(4096)), (0, 1, 0));
    }
}
