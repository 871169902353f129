//! Whole Ethernet frames to and from one interface (packet(7)), for the impaired wire and captures.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::Problem;

/// The longest frame the kernel hands over: 64 KiB of IP packet and an Ethernet header with one VLAN tag.
pub const FRAME_BYTES_MAX: usize = 65_536 + ETHERNET_HEADER_BYTES + VLAN_TAG_BYTES;

/// Memory for frames that arrive while the owner is busy: about 4,000 full frames, including the kernel's overhead.
const RECEIVE_BUFFER_BYTES: libc::c_int = 8 << 20;

const ETHERNET_HEADER_BYTES: usize = 14;
const ETHERNET_ADDRESSES_BYTES: usize = 12;
const VLAN_TAG_BYTES: usize = 4;
/// IEEE 802.1Q.
const TPID_VLAN: u16 = 0x8100;

/// A promiscuous, non-blocking AF_PACKET socket on one interface. It receives the frames that arrive, not those that it
/// sends.
#[derive(Debug)]
pub struct PacketSocket {
    descriptor: OwnedFd,
    interface: String,
}

/// Memory for one received frame, with space in front to reinsert a VLAN tag without moving the payload.
#[derive(Debug)]
pub struct FrameBuffer(Box<[u8]>);

impl FrameBuffer {
    /// A buffer for the longest frame.
    pub fn new() -> Self {
        Self(vec![0; VLAN_TAG_BYTES + FRAME_BYTES_MAX].into())
    }
}

impl Default for FrameBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl PacketSocket {
    /// Opens the socket on an interface of the calling thread's namespace.
    pub fn open(interface: &str) -> Result<Self, Problem> {
        let problem = |error: io::Error| {
            Problem::failed(format!("cannot open a packet socket on {interface}"), error)
                .next("run as root (a packet socket needs CAP_NET_RAW) and check the interface with: ip link")
        };
        let socket = Self { descriptor: unbound_socket().map_err(problem)?, interface: interface.to_owned() };
        socket.configure().map_err(problem)?;
        Ok(socket)
    }

    /// Sets options first and binds last: no frame may come in before the socket is configured.
    fn configure(&self) -> io::Result<()> {
        let index = interface_index(&self.interface)?;
        self.set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER_BYTES)?;
        self.set_option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        self.set_option(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32)?;
        let promiscuous = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set_option(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        self.bind(index)
    }

    fn bind(&self, index: libc::c_int) -> io::Result<()> {
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is a sockaddr_ll of the length given and lives until after the call.
        check(unsafe { libc::bind(self.descriptor.as_raw_fd(), (&raw const address).cast(), length) })
    }

    fn set_option<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        let length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the value is a plain C structure of the length given and lives until after the call.
        check(unsafe {
            libc::setsockopt(self.descriptor.as_raw_fd(), level, name, ptr::from_ref(value).cast(), length)
        })
    }

    /// Receives the next frame; `None` if there is none. A VLAN tag that the kernel has stripped is reinserted.
    pub fn receive<'a>(&self, buffer: &'a mut FrameBuffer) -> io::Result<Option<&'a [u8]>> {
        let FrameBuffer(bytes) = buffer;
        let Some((length, tag)) = self.receive_into(&mut bytes[VLAN_TAG_BYTES..])? else { return Ok(None) };
        let end = VLAN_TAG_BYTES + length;
        let Some(tag) = tag.filter(|_| length >= ETHERNET_ADDRESSES_BYTES) else {
            return Ok(Some(&bytes[VLAN_TAG_BYTES..end]));
        };
        bytes.copy_within(VLAN_TAG_BYTES..VLAN_TAG_BYTES + ETHERNET_ADDRESSES_BYTES, 0);
        bytes[ETHERNET_ADDRESSES_BYTES..ETHERNET_ADDRESSES_BYTES + VLAN_TAG_BYTES].copy_from_slice(&tag);
        Ok(Some(&bytes[..end]))
    }

    fn receive_into(&self, frame: &mut [u8]) -> io::Result<Option<(usize, Option<[u8; VLAN_TAG_BYTES]>)>> {
        let mut control = ControlBuffer([0; 64]);
        let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<ControlBuffer>() as _;
        // SAFETY: frame and control buffer are writable for the lengths given and live until after the call.
        let length = unsafe { libc::recvmsg(self.descriptor.as_raw_fd(), &raw mut message, 0) };
        match usize::try_from(length) {
            Ok(length) => Ok(Some((length, vlan_tag(&message)))),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Sends a frame on the interface. WouldBlock and ENOBUFS mean that it has no space now, EMSGSIZE that the frame
    /// exceeds its MTU.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame is readable for the length given and lives until after the call.
        let sent = unsafe { libc::send(self.descriptor.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The number of frames that the kernel dropped because the buffer was full, since the last call.
    pub fn take_dropped(&self) -> io::Result<u32> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, the size of the structure, which lives until after the call.
        check(unsafe {
            libc::getsockopt(
                self.descriptor.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        })?;
        Ok(statistics.tp_drops)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Sleeps until one of the descriptors is readable, the timeout has passed, or a signal arrives.
pub fn wait_readable<const N: usize>(descriptors: [BorrowedFd<'_>; N], timeout_ns: u64) -> io::Result<()> {
    let mut polled =
        descriptors.map(|descriptor| libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the array and the timeout live until after the call, and a null mask leaves the signals alone.
    if unsafe { libc::ppoll(polled.as_mut_ptr(), N as libc::nfds_t, &raw const timeout, ptr::null()) } >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        error => Err(error),
    }
}

/// Space for control messages, aligned as `cmsghdr` must be.
#[repr(C, align(8))]
struct ControlBuffer([u8; 64]);

/// The 802.1Q tag of a frame as it was on the wire. The kernel strips it from a received frame and reports it in a
/// control message.
fn vlan_tag(message: &libc::msghdr) -> Option<[u8; VLAN_TAG_BYTES]> {
    // SAFETY: recvmsg has filled the control buffer and its length in; the CMSG functions stay inside of it.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: a header returned by the CMSG functions lies inside the control buffer and is aligned.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_PACKET && kind == libc::PACKET_AUXDATA {
            // SAFETY: a message of this type carries one tpacket_auxdata; read_unaligned asks for no alignment.
            let data = unsafe { ptr::read_unaligned(libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>()) };
            return tag_of(&data);
        }
        // SAFETY: as for the first header.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

fn tag_of(data: &libc::tpacket_auxdata) -> Option<[u8; VLAN_TAG_BYTES]> {
    if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tells_tpid = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let [tpid_high, tpid_low] = if tells_tpid { data.tp_vlan_tpid } else { TPID_VLAN }.to_be_bytes();
    let [tci_high, tci_low] = data.tp_vlan_tci.to_be_bytes();
    Some([tpid_high, tpid_low, tci_high, tci_low])
}

/// Protocol 0: no frame of any interface is received before bind.
fn unbound_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointer.
    let descriptor = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    check(descriptor.min(0))?;
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn interface_index(interface: &str) -> io::Result<libc::c_int> {
    let name = CString::new(interface).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: the name is a C string that lives until after the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index.cast_signed()),
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_is_named() {
        let problem = PacketSocket::open("none0").unwrap_err();
        assert!(problem.to_string().contains("none0"), "{problem}");
    }

    #[test]
    fn a_tag_is_rebuilt_only_where_there_was_one() {
        // SAFETY: all-zero bytes are a valid tpacket_auxdata.
        let mut data: libc::tpacket_auxdata = unsafe { mem::zeroed() };
        data.tp_vlan_tci = 0x2064;
        data.tp_vlan_tpid = 0x88a8;
        assert_eq!(tag_of(&data), None);
        data.tp_status = libc::TP_STATUS_VLAN_VALID;
        assert_eq!(tag_of(&data), Some([0x81, 0x00, 0x20, 0x64]));
        data.tp_status |= libc::TP_STATUS_VLAN_TPID_VALID;
        assert_eq!(tag_of(&data), Some([0x88, 0xa8, 0x20, 0x64]));
    }

    #[test]
    fn waiting_ends_by_time() {
        let (reader, _writer) = std::os::unix::net::UnixStream::pair().unwrap();
        wait_readable([reader.as_fd()], 1_000).unwrap();
    }
}
