//! When a datagram passed the stations of its way: SO_TIMESTAMPING (Documentation/networking/timestamping.rst).
//!
//! Stamps of sent datagrams are asked for one by one, by a control message, and come back by the socket's error queue. Those of
//! received ones come with the data. Software stamps are CLOCK_REALTIME, hardware stamps the time of the device's own clock (PHC):
//! a difference of the two means nothing.

mod control;
mod device;

pub use control::{Sent, Stamp, Station};
pub use device::{Capabilities, HardwareStamps, capabilities};

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// SOF_TIMESTAMPING_* of linux/net_tstamp.h.
mod flag {
    pub(super) const TX_HARDWARE: u32 = 1;
    pub(super) const TX_SOFTWARE: u32 = 1 << 1;
    pub(super) const RX_HARDWARE: u32 = 1 << 2;
    pub(super) const RX_SOFTWARE: u32 = 1 << 3;
    pub(super) const SOFTWARE: u32 = 1 << 4;
    pub(super) const RAW_HARDWARE: u32 = 1 << 6;
    pub(super) const OPT_ID: u32 = 1 << 7;
    pub(super) const TX_SCHED: u32 = 1 << 8;
    pub(super) const OPT_TSONLY: u32 = 1 << 11;
    pub(super) const OPT_TX_SWHW: u32 = 1 << 14;
}

/// What a socket reports; sent datagrams are numbered from 0 (OPT_ID), come back without their data (OPT_TSONLY), and with
/// both kinds of stamps where there are both (OPT_TX_SWHW, Linux 4.13).
const REPORTED: u32 = flag::SOFTWARE
    | flag::RAW_HARDWARE
    | flag::RX_SOFTWARE
    | flag::RX_HARDWARE
    | flag::OPT_ID
    | flag::OPT_TSONLY
    | flag::OPT_TX_SWHW;
/// What is stamped of a datagram that asks for it.
const ASKED: u32 = flag::TX_SCHED | flag::TX_SOFTWARE | flag::TX_HARDWARE;
/// Space for the stamps, the error and the address of its origin.
const CONTROL_WORDS: usize = 32;
/// Errors of other kinds that are taken from the queue in one call.
const OTHERS_MAX: usize = 16;

/// Makes the kernel report stamps of this UDP socket. While any socket of the host does, the kernel stamps every packet that it
/// receives. It begins to in a work queue: the first packets after this call may have no stamp of their way in.
///
/// # Errors
/// Fails if the kernel is older than 4.13 or the descriptor is no socket.
pub fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = REPORTED;
    // SAFETY: the value is an int that lives for the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a datagram on a connected socket and asks for its stamps.
///
/// # Errors
/// Fails as send(2) does.
pub fn send(socket: BorrowedFd<'_>, datagram: &[u8]) -> io::Result<()> {
    let mut space = [0_u64; CONTROL_WORDS];
    let control = control::request(ASKED);
    for (to, from) in space.iter_mut().zip(control.chunks_exact(8)) {
        *to = u64::from_ne_bytes(from.try_into().expect("chunks of eight"));
    }
    let mut data = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
    let header = header(&mut data, &mut space[..control.len() / 8]);
    // SAFETY: the data and the control message live until after the call, with the lengths given; sendmsg writes to neither.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives a datagram with the stamps of its way in; waits as the socket does. Returns its length.
///
/// # Errors
/// Fails as recv(2) does.
pub fn receive(socket: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<(usize, Stamp)> {
    let (count, control) = receive_message(socket, to, 0)?;
    Ok((count, control::stamp(&control)))
}

/// The oldest stamp of a sent datagram; none if there is none yet. Does not wait.
///
/// # Errors
/// Fails if the descriptor is no socket.
pub fn next_sent(socket: BorrowedFd<'_>) -> io::Result<Option<Sent>> {
    for _ in 0..OTHERS_MAX {
        let message = receive_message(socket, &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT);
        match message {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
            Ok((_, control)) => {
                if let Some(sent) = control::sent(&control) {
                    return Ok(Some(sent));
                }
            }
        }
    }
    Ok(None)
}

fn receive_message(socket: BorrowedFd<'_>, to: &mut [u8], flags: libc::c_int) -> io::Result<(usize, Vec<u8>)> {
    let mut space = [0_u64; CONTROL_WORDS];
    let mut data = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let mut header = header(&mut data, &mut space);
    // SAFETY: the data and the control memory are as long as the header says and live until after the call.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = space.iter().flat_map(|word| word.to_ne_bytes()).take(header.msg_controllen).collect();
    Ok((count as usize, bytes))
}

fn header(data: &mut libc::iovec, control: &mut [u64]) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = null_mut();
    header.msg_iov = data;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(control);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    fn now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
    }

    #[test]
    fn a_datagram_over_loopback_has_software_stamps_in_order() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(server) = UdpSocket::bind(address) else { return eprintln!("skipped: needs IPv6") };
            let client = UdpSocket::bind(address).unwrap();
            client.connect(server.local_addr().unwrap()).unwrap();
            server.connect(client.local_addr().unwrap()).unwrap();
            enable(client.as_fd()).unwrap();
            assert_eq!(next_sent(client.as_fd()).unwrap(), None);
            let mut buffer = [0; 64];
            let deadline = Instant::now() + Duration::from_secs(30);
            let is_on = || {
                server.send(b"warm-up").unwrap();
                receive(client.as_fd(), &mut [0; 64]).unwrap().1.software.is_some()
            };
            while !is_on() {
                assert!(Instant::now() < deadline, "received datagrams are not stamped");
                std::thread::sleep(Duration::from_millis(1));
            }
            for id in 0..3 {
                // One that asks for nothing is not numbered.
                client.send(b"plain").unwrap();
                server.recv(&mut buffer).unwrap();
                let begin = now();
                send(client.as_fd(), b"stamped").unwrap();
                assert_eq!(server.recv(&mut buffer).unwrap(), 7);
                server.send(b"answer").unwrap();
                let (count, received) = receive(client.as_fd(), &mut buffer).unwrap();
                let end = now();
                assert_eq!(&buffer[..count], b"answer");
                let received = received.software.expect("it was asked for");
                let deadline = Instant::now() + Duration::from_secs(30);
                let mut sent = Vec::new();
                while sent.len() < 2 {
                    assert!(Instant::now() < deadline, "the stamps did not come: {sent:?}");
                    sent.extend(next_sent(client.as_fd()).unwrap());
                }
                let at = |station| {
                    let found = sent.iter().find(|sent| sent.station == station && sent.id == id);
                    found.and_then(|sent| sent.stamp.software).unwrap_or_else(|| panic!("{station:?} {id}: {sent:?}"))
                };
                let times = [begin, at(Station::Scheduled), at(Station::Driver), received, end];
                assert!(times.is_sorted(), "{times:?}");
            }
        }
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert!(enable(file.as_fd()).is_err() && send(file.as_fd(), b"x").is_err());
        assert!(receive(file.as_fd(), &mut [0]).is_err() && next_sent(file.as_fd()).is_err());
    }
}
