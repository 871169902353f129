//! ICMP errors that arrive at this host (raw(7), RFC 3542 section 3.2), about packets that some process here has sent.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// linux/icmp.h, with the level of raw sockets.
const ICMP_FILTER: libc::c_int = 1;
/// linux/icmpv6.h.
const ICMPV6_FILTER: libc::c_int = 1;

/// Destination unreachable, time exceeded, parameter problem (RFC 792). A set bit filters a type out.
const ERRORS_V4: u32 = !(1 << 3 | 1 << 11 | 1 << 12);
/// Destination unreachable, packet too big, time exceeded, parameter problem (RFC 4443).
const ERRORS_V6: u32 = !(1 << 1 | 1 << 2 | 1 << 3 | 1 << 4);

/// A socket that receives all ICMP errors of one family in the calling thread's network namespace.
#[derive(Debug)]
pub struct ErrorSocket {
    descriptor: OwnedFd,
    is_v6: bool,
}

impl ErrorSocket {
    /// Opens a non-blocking socket. Needs CAP_NET_RAW.
    pub fn open(is_v6: bool) -> io::Result<Self> {
        let (family, protocol) =
            if is_v6 { (libc::AF_INET6, libc::IPPROTO_ICMPV6) } else { (libc::AF_INET, libc::IPPROTO_ICMP) };
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket takes no pointer.
        let descriptor = unsafe { libc::socket(family, kind, protocol) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor for us, and nobody else has it.
        let socket = Self { descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) }, is_v6 };
        socket.filter()?;
        Ok(socket)
    }

    fn filter(&self) -> io::Result<()> {
        let v6 = [ERRORS_V6, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX];
        let (level, option, bytes) = match self.is_v6 {
            true => (libc::IPPROTO_ICMPV6, ICMPV6_FILTER, size_of_val(&v6)),
            false => (libc::SOL_RAW, ICMP_FILTER, size_of::<u32>()),
        };
        let v4 = ERRORS_V4;
        let value: *const u32 = if self.is_v6 { v6.as_ptr() } else { &raw const v4 };
        // SAFETY: `value` points to `bytes` bytes that live until after the call.
        let result = unsafe {
            libc::setsockopt(self.descriptor.as_raw_fd(), level, option, value.cast(), bytes as libc::socklen_t)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Receives the next message, truncated to the buffer; over IPv6 also its sender. Over IPv4 it begins with the IP
    /// header, over IPv6 with the ICMP header, whose checksum the kernel has verified. `WouldBlock` if there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Ipv6Addr>)> {
        // SAFETY: all-zero bytes are a valid sockaddr_in6, which is no smaller than the one of IPv4.
        let mut source: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        let mut size = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
        // SAFETY: buffer, address and size are valid for the kernel to write to, of the lengths given.
        let count = unsafe {
            libc::recvfrom(
                self.descriptor.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
                (&raw mut source).cast(),
                &raw mut size,
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        Ok((count, self.is_v6.then(|| source.sin6_addr.s6_addr.into())))
    }
}

impl AsFd for ErrorSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    #[test]
    fn it_hears_errors_and_nothing_else() {
        for address in ["127.0.0.1", "::1"] {
            let is_v6 = address.contains(':');
            let socket = match ErrorSocket::open(is_v6) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return eprintln!("skipped: needs root");
                }
                Err(_) if is_v6 => return eprintln!("skipped: needs IPv6"),
                opened => opened.unwrap(),
            };
            let Ok(asking) = UdpSocket::bind((address, 0)) else { return eprintln!("skipped: needs IPv6") };
            // No socket listens at the discard port: its kernel answers with an error.
            asking.send_to(b"?", (address, 9)).unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            let mut buffer = [0; 256];
            let (count, from) = loop {
                match socket.receive(&mut buffer) {
                    Ok(received) => break received,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                assert!(Instant::now() < deadline, "no error came");
            };
            let (message_type, code) = if is_v6 { (buffer[0], buffer[1]) } else { (buffer[20], buffer[21]) };
            assert_eq!((message_type, code), if is_v6 { (1, 4) } else { (3, 3) });
            assert!(count > 28 && from.is_some() == is_v6);
        }
    }
}
