//! Ancillary data of received datagrams, as the kernel writes it (put_cmsg, linux/net/core/scm.c).

use super::options::{Kind, Wanted};
use libc::{c_int, cmsghdr, msghdr};
use sidestep_socket::Datagram;
use std::net::SocketAddr;

/// linux/in.h, linux/in6.h, asm-generic/socket.h: those that the libc crate lacks.
const IP_ORIGDSTADDR: c_int = 20;
const IPV6_ORIGDSTADDR: c_int = 74;
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// The room for ancillary data of a message.
pub(super) struct Control<'a> {
    message: &'a mut msghdr,
    used: usize,
}

impl<'a> Control<'a> {
    /// # Safety
    /// The message's control data is null, or valid for writes of as many bytes as it says.
    pub(super) unsafe fn new(message: &'a mut msghdr) -> Self {
        Self { message, used: 0 }
    }

    /// Writes an entry: as much as fits, and notes what does not.
    pub(super) fn put(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        #[allow(clippy::unnecessary_cast)] // musl has a socklen_t there.
        let room = (self.message.msg_controllen as usize).saturating_sub(self.used);
        if self.message.msg_control.is_null() || room < size_of::<cmsghdr>() {
            self.message.msg_flags |= libc::MSG_CTRUNC;
            return;
        }
        // SAFETY: both compute a length from a length.
        let (length, space) =
            unsafe { (libc::CMSG_LEN(data.len() as u32) as usize, libc::CMSG_SPACE(data.len() as u32) as usize) };
        let length = if room < length {
            self.message.msg_flags |= libc::MSG_CTRUNC;
            room
        } else {
            length
        };
        // SAFETY: the struct is integers alone.
        let mut header: cmsghdr = unsafe { std::mem::zeroed() };
        (header.cmsg_len, header.cmsg_level, header.cmsg_type) = (length as _, level, kind);
        let count = length - size_of::<cmsghdr>();
        // SAFETY: `new` was promised the room, of which `length` bytes from `used` on are left.
        unsafe {
            let place = self.message.msg_control.cast::<u8>().add(self.used);
            place.cast::<cmsghdr>().write_unaligned(header);
            std::ptr::copy_nonoverlapping(data.as_ptr(), place.add(size_of::<cmsghdr>()), count.min(data.len()));
        }
        self.used += space.min(room);
    }

    fn put_int(&mut self, level: c_int, kind: c_int, value: c_int) {
        self.put(level, kind, &value.to_ne_bytes());
    }

    fn put_time(&mut self, kind: c_int, seconds: u64, part: u64) {
        let both = [seconds.to_ne_bytes(), part.to_ne_bytes()].concat();
        self.put(libc::SOL_SOCKET, kind, &both);
    }

    /// Tells the program how much there is.
    pub(super) fn finish(self) {
        self.message.msg_controllen = self.used as _;
    }
}

impl Wanted {
    /// Writes all that is wanted of a datagram, in the kernel's order: sock_recv_cmsgs, then those of IPv6, then ip_cmsg_recv.
    pub(super) fn write(&self, control: &mut Control<'_>, datagram: &Datagram, shown: SocketAddr, dropped: u64) {
        self.write_of_socket(control, datagram, dropped);
        let destination = datagram.destination();
        if let (true, SocketAddr::V6(to)) = (self.has(Kind::Info6), shown) {
            let info = [&to.ip().octets()[..], &datagram.interface().to_ne_bytes()].concat();
            control.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        match destination {
            SocketAddr::V4(_) => self.write_v4(control, datagram),
            SocketAddr::V6(_) => self.write_v6(control, datagram),
        }
    }

    fn write_of_socket(&self, control: &mut Control<'_>, datagram: &Datagram, dropped: u64) {
        if self.has_time() {
            let (seconds, ns) = (datagram.software_ns() / NS_PER_SECOND, datagram.software_ns() % NS_PER_SECOND);
            if self.has(Kind::TimestampNsNew) {
                control.put_time(SO_TIMESTAMPNS_NEW, seconds, ns);
            } else if self.has(Kind::TimestampNs) {
                control.put_time(libc::SO_TIMESTAMPNS, seconds, ns);
            } else if self.has(Kind::TimestampNew) {
                control.put_time(SO_TIMESTAMP_NEW, seconds, ns / 1000);
            } else {
                control.put_time(libc::SO_TIMESTAMP, seconds, ns / 1000);
            }
        }
        if self.has(Kind::Overflow) && dropped != 0 {
            control.put(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &(dropped as u32).to_ne_bytes());
        }
    }

    fn write_v4(&self, control: &mut Control<'_>, datagram: &Datagram) {
        let SocketAddr::V4(to) = datagram.destination() else { return };
        let octets = to.ip().octets();
        if self.has(Kind::Info4) {
            // struct in_pktinfo. Of a group the local address is left open, as an answer cannot come from the group.
            let local = if to.ip().is_multicast() { [0; 4] } else { octets };
            let info = [datagram.interface().to_ne_bytes(), local, octets].concat();
            control.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        }
        if self.has(Kind::TimeToLive) {
            control.put_int(libc::IPPROTO_IP, libc::IP_TTL, datagram.time_to_live().into());
        }
        if self.has(Kind::TypeOfService) {
            control.put(libc::IPPROTO_IP, libc::IP_TOS, &[datagram.type_of_service()]);
        }
        if self.has(Kind::Destination4) {
            let family = (libc::AF_INET as u16).to_ne_bytes();
            let address = [&family[..], &to.port().to_be_bytes(), &octets, &[0; 8]].concat();
            control.put(libc::IPPROTO_IP, IP_ORIGDSTADDR, &address);
        }
    }

    fn write_v6(&self, control: &mut Control<'_>, datagram: &Datagram) {
        let SocketAddr::V6(to) = datagram.destination() else { return };
        if self.has(Kind::HopLimit) {
            control.put_int(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, datagram.time_to_live().into());
        }
        if self.has(Kind::TrafficClass) {
            control.put_int(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, datagram.type_of_service().into());
        }
        if self.has(Kind::Destination6) {
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            let parts =
                [&family[..], &to.port().to_be_bytes(), &[0; 4], &to.ip().octets(), &to.scope_id().to_ne_bytes()];
            control.put(libc::IPPROTO_IPV6, IPV6_ORIGDSTADDR, &parts.concat());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(room: &mut [u64]) -> msghdr {
        // SAFETY: the struct is integers and pointers.
        let mut message: msghdr = unsafe { std::mem::zeroed() };
        (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), size_of_val(room) as _);
        message
    }

    /// The entries that the macros of C find.
    fn entries(message: &msghdr) -> Vec<(c_int, c_int, usize)> {
        let mut all = Vec::new();
        // SAFETY: the message's control data is that of the test.
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(message);
            while !at.is_null() {
                all.push(((*at).cmsg_level, (*at).cmsg_type, (*at).cmsg_len as usize - size_of::<cmsghdr>()));
                at = libc::CMSG_NXTHDR(message, at);
            }
        }
        all
    }

    #[test]
    fn entries_are_found_by_the_macros_of_c() {
        let mut room = [0; 16];
        let mut message = message(&mut room);
        // SAFETY: the room is as long as the message says.
        let mut control = unsafe { Control::new(&mut message) };
        control.put(0, 2, &[7]);
        control.put_int(41, 52, 64);
        control.finish();
        assert_eq!((message.msg_controllen, message.msg_flags), (48, 0));
        assert_eq!(entries(&message), [(0, 2, 1), (41, 52, 4)]);
    }

    #[test]
    fn what_has_no_room_is_cut_and_noted() {
        for (words, entry, used) in [(2, Some(0), 16), (3, Some(8), 24), (1, None, 0), (0, None, 0)] {
            let mut room = [0; 3];
            let mut message = message(&mut room[..words]);
            // SAFETY: the room is as long as the message says.
            let mut control = unsafe { Control::new(&mut message) };
            control.put(0, 8, &[1; 12]);
            control.finish();
            assert_eq!(message.msg_flags, libc::MSG_CTRUNC, "{words}");
            assert_eq!(message.msg_controllen, used, "{words}");
            assert_eq!(entries(&message).first().map(|(_, _, length)| *length), entry, "{words}");
        }
    }
}
