//! The error queue of a UDP socket (IP_RECVERR, ip(7)): it tells which datagram an ICMP error is about, also for an
//! unconnected socket.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A datagram that was sent and could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The destination of the datagram.
    pub destination: SocketAddr,
    /// The reason.
    pub errno: i32,
    /// With EMSGSIZE: the path MTU, bytes.
    pub mtu: Option<u32>,
}

/// `struct sock_extended_err` of linux/errqueue.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Extended {
    errno: u32,
    origin: u8,
    message_type: u8,
    code: u8,
    padding: u8,
    info: u32,
    data: u32,
}

/// Space for the error, the address of its sender, and their headers; what does not fit is truncated.
const CONTROL_WORDS: usize = 32;

/// Makes the kernel queue errors about datagrams sent by this socket (IP_RECVERR); a dual-stack socket gets those of
/// both families.
pub fn keep_errors(socket: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    let v4 = (libc::IPPROTO_IP, libc::IP_RECVERR);
    let options: &[_] = if is_v6 { &[(libc::IPPROTO_IPV6, libc::IPV6_RECVERR), v4] } else { &[v4] };
    for (level, option) in options {
        let on: libc::c_int = 1;
        // SAFETY: `on` is an int that lives for the call, and its size is given.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                *level,
                *option,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Takes the oldest error; `None` if there is none. Does not wait.
pub fn next_error(socket: BorrowedFd<'_>) -> io::Result<Option<Undelivered>> {
    let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    // SAFETY: name and control memory are as long as the header says and live until after the call; no data is asked for.
    let count = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    };
    if count < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    // SAFETY: zeroed at first, written by the kernel since: a valid address of some family.
    let destination = address(unsafe { name.assume_init_ref() });
    let found = destination.zip(extended(&header));
    Ok(found.map(|(destination, error)| {
        let errno = error.errno.cast_signed();
        Undelivered { destination, errno, mtu: (errno == libc::EMSGSIZE).then_some(error.info) }
    }))
}

/// Finds the error among the control messages.
fn extended(header: &libc::msghdr) -> Option<Extended> {
    // SAFETY: the header is one that recvmsg has filled, and its control memory is still there.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers within the control memory.
        let facts = unsafe { message.read_unaligned() };
        let kinds = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
        // SAFETY: CMSG_LEN computes, and touches no memory.
        let least = unsafe { libc::CMSG_LEN(size_of::<Extended>() as u32) } as usize;
        if kinds.contains(&(facts.cmsg_level, facts.cmsg_type)) && facts.cmsg_len as usize >= least {
            // SAFETY: the message is as long as such an error, which any bytes are.
            return Some(unsafe { libc::CMSG_DATA(message).cast::<Extended>().read_unaligned() });
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}

fn address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: sockaddr_storage is large enough and aligned for every socket address, and the family is this one.
            let v4 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
            Some(SocketAddr::new(v4.sin_addr.s_addr.to_ne_bytes().into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::new(v6.sin6_addr.s6_addr.into(), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    #[test]
    fn it_is_told_which_datagram_found_nobody() {
        for address in ["127.0.0.1", "::1"] {
            let Ok(socket) = UdpSocket::bind((address, 0)) else { return eprintln!("skipped: needs IPv6") };
            keep_errors(socket.as_fd(), address.contains(':')).unwrap();
            assert_eq!(next_error(socket.as_fd()).unwrap(), None);
            // The discard service, which does not run.
            let nobody = SocketAddr::new(address.parse().unwrap(), 9);
            socket.send_to(b"?", nobody).unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            let told = loop {
                if let Some(told) = next_error(socket.as_fd()).unwrap() {
                    break told;
                }
                assert!(Instant::now() < deadline, "no error came");
            };
            assert_eq!(told, Undelivered { destination: nobody, errno: libc::ECONNREFUSED, mtu: None });
        }
    }
}
