//! XDP facts of an interface, read over rtnetlink: /sys/class/net shows the namespace of its mount, which may differ
//! from the thread's.

use crate::Problem;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// linux/if_link.h.
const IFLA_ADDRESS: u16 = 1;
const IFLA_MTU: u16 = 4;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
/// linux/if.h.
const IF_OPER_UP: u8 = 6;
/// The mask that removes NLA_F_NESTED and NLA_F_NET_BYTEORDER from an attribute's type.
const NLA_TYPE_MASK: u16 = 0x3fff;

const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();
const LINK_BYTES: usize = size_of::<libc::ifinfomsg>();
/// Space for one link's attributes; with statistics they take about 2 KiB.
const ANSWER_BYTES: usize = 32 << 10;

/// The pause between two checks of an interface that is coming up.
const POLL: Duration = Duration::from_millis(1);

/// Facts about an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its index in the calling thread's namespace.
    pub index: u32,
    /// True if it carries frames (operational state UP, RFC 2863): before that, a device drops them silently.
    pub is_up: bool,
    /// Its MAC address; `None` if it has none of six bytes.
    pub mac: Option<[u8; 6]>,
    /// Bytes of IP packet per frame.
    pub mtu: u32,
    /// The XDP program attached to it.
    pub xdp_program: Option<u32>,
}

/// Reads an interface of the calling thread's namespace.
pub fn device(interface: &str) -> Result<Device, Problem> {
    let no_such = |error: io::Error| {
        Problem::failed(format!("cannot find interface {interface}"), error).next("list the interfaces with: ip link")
    };
    let index = index_of(interface).map_err(no_such)?;
    let answer = ask(index).map_err(no_such)?;
    let mut device = Device { name: interface.to_owned(), index, is_up: false, mac: None, mtu: 0, xdp_program: None };
    for (kind, value) in attributes(answer.get(HEADER_BYTES + LINK_BYTES..).unwrap_or_default()) {
        match kind {
            IFLA_ADDRESS => device.mac = value.try_into().ok(),
            IFLA_MTU => device.mtu = word(value).unwrap_or(0),
            IFLA_OPERSTATE => device.is_up = value.first() == Some(&IF_OPER_UP),
            IFLA_XDP => {
                let id = attributes(value).find(|(kind, _)| *kind == IFLA_XDP_PROG_ID);
                device.xdp_program = id.and_then(|(_, value)| word(value)).filter(|id| *id != 0);
            }
            _ => {}
        }
    }
    Ok(device)
}

/// Waits until the interface carries frames: attaching a program may take it down for a moment.
pub fn wait_until_up(interface: &str, timeout: Duration) -> Result<Device, Problem> {
    let deadline = Instant::now() + timeout;
    loop {
        let device = device(interface)?;
        if device.is_up {
            return Ok(device);
        }
        if Instant::now() > deadline {
            return Err(Problem::failed(format!("{interface} does not come up"), "its operational state is not UP")
                .next(format!("see its state with: ip link show {interface}, and bring both ends of the wire up")));
        }
        std::thread::sleep(POLL);
    }
}

/// The most receive queues that an interface can have: the number it was made with.
pub(crate) fn receive_queues_max(interface: &str) -> io::Result<u32> {
    let answer = ask(index_of(interface)?)?;
    let mut list = attributes(answer.get(HEADER_BYTES + LINK_BYTES..).unwrap_or_default());
    let queues = list.find(|(kind, _)| *kind == IFLA_NUM_RX_QUEUES).and_then(|(_, value)| word(value));
    queues.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn index_of(interface: &str) -> io::Result<u32> {
    let name = CString::new(interface).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    // SAFETY: the name is a C string that lives until after the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Sends one RTM_GETLINK and returns the answer, header included.
fn ask(index: u32) -> io::Result<Vec<u8>> {
    let socket = route_socket()?;
    let mut request = Vec::with_capacity(HEADER_BYTES + LINK_BYTES);
    request.extend(((HEADER_BYTES + LINK_BYTES) as u32).to_ne_bytes());
    request.extend(libc::RTM_GETLINK.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]); // Sequence and port: one request, one answer, one socket.
    request.extend([0; 4]); // Family, padding, type.
    request.extend(index.to_ne_bytes());
    request.extend([0; 8]); // Flags and their mask.
    // SAFETY: the request is readable for the length given and lives until after the call.
    let sent = unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = vec![0; ANSWER_BYTES];
    // SAFETY: the answer is writable for the length given and lives until after the call.
    let received = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
    answer.truncate(usize::try_from(received).map_err(|_| io::Error::last_os_error())?);
    match answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]])) {
        Some(libc::RTM_NEWLINK) => Ok(answer),
        Some(kind) if i32::from(kind) == libc::NLMSG_ERROR => {
            let errno = answer.get(HEADER_BYTES..).and_then(word).map_or(0, u32::cast_signed);
            Err(io::Error::from_raw_os_error(-errno))
        }
        _ => Err(io::Error::other("rtnetlink sent an unexpected answer")),
    }
}

fn route_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointer.
    let descriptor =
        unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The attributes of a message: type and value, each padded to four bytes. Ends at the first that does not fit.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header: [u8; 4] = rest.get(..4)?.try_into().ok()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & NLA_TYPE_MASK;
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn word(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_what_it_is() {
        let device = device("lo").unwrap();
        assert_eq!((device.mac, device.xdp_program), (Some([0; 6]), None));
        assert!(device.index > 0 && device.mtu > 0, "{device:?}");
    }

    #[test]
    fn a_missing_interface_is_named() {
        assert!(device("none0").unwrap_err().to_string().contains("none0"));
        assert!(device("a\0b").is_err());
    }

    #[test]
    fn damaged_attributes_end_the_list() {
        let good = [8, 0, 4, 0, 1, 2, 3, 4];
        assert_eq!(attributes(&good).collect::<Vec<_>>(), [(4, &[1, 2, 3, 4][..])]);
        for bad in [&[][..], &[8, 0, 4][..], &[3, 0, 4, 0, 9][..], &[9, 0, 4, 0, 1, 2, 3, 4][..], &[0; 4][..]] {
            assert_eq!(attributes(bad).count(), 0, "{bad:?}");
        }
    }
}
