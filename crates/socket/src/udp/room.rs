//! Limits on unread datagrams: of one socket, and of all.
//!
//! Unread datagrams lie in frames of the link, which the device and TCP need, too. A socket's share is as long as what is left of
//! the room for all (the dynamic threshold of switch buffers, Choudhury and Hahne 1998): one socket that is never read gets half
//! of it, four get a fifth each, and there is always some for one that is read. SO_RCVBUF says for each socket of the kernel
//! what these rules say for all of ours together.

use crate::udp::datagram::{Datagram, Storage};
use sidestep_frame::Received;
use sidestep_frame::xdp::XdpLink;

/// Datagrams that one socket may leave unread, however much room there is.
pub(crate) const QUEUE_MAX: usize = 1024;

/// One frame of so many is kept for sending.
const PART_FOR_SENDING: u32 = 8;

/// One frame of so many of the room is kept for sockets of which nothing is unread.
const PART_FOR_FIRST: u32 = 4;

/// One frame of so many is kept for sending from a program, too, that takes datagrams and does not give them back.
const PART_NEVER_KEPT: u32 = 16;

/// The room for unread datagrams in one kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Datagrams that may be unread or with the program at a time.
    all: u32,
    /// So many of them may be further ones of a socket that has unread ones already.
    further: u32,
    /// So many may there be with what goes to a program that asks for it at this moment.
    asked_for: u32,
}

impl Room {
    /// In a link of so many frames, of which so many are lent to the device.
    pub(crate) fn of_frames(frames: u32, lent_to_device: u32) -> Self {
        let spare = frames.saturating_sub(lent_to_device);
        let asked_for = spare.saturating_sub(frames / PART_NEVER_KEPT).max(1);
        Self { asked_for, ..Self::of(spare.saturating_sub(frames / PART_FOR_SENDING).max(1)) }
    }

    /// In all; the rest is for others.
    pub(crate) fn of(all: u32) -> Self {
        Self { all, further: all - all / PART_FOR_FIRST, asked_for: all }
    }

    /// Returns whether a datagram can be given to a program that asks for it, when `used` are in use by all, that one included.
    #[inline]
    pub(crate) fn can_be_asked_for(self, used: u32) -> bool {
        used <= self.asked_for
    }

    /// Returns whether a socket with `unread` datagrams may have another one, when `used` are in use by all, that one included.
    #[inline]
    pub(crate) fn has_place(self, used: u32, unread: usize) -> bool {
        if unread == 0 {
            return used <= self.all;
        }
        unread < QUEUE_MAX && unread as u64 <= u64::from(self.further.saturating_sub(used))
    }
}

/// The room in a link: long frames, of which there are fewer, lie in memory of their own.
#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) short: Room,
    pub(crate) long: Room,
}

impl Rooms {
    /// As [`Room::can_be_asked_for`], for a frame that has come.
    #[inline]
    pub(crate) fn can_be_asked_for(&self, link: &XdpLink, frame: &Received) -> bool {
        match link.is_long(frame) {
            false => self.short.can_be_asked_for(link.lent()),
            true => self.long.can_be_asked_for(link.lent_long()),
        }
    }

    /// As [`Room::has_place`], for a datagram of a socket that has so many unread ones.
    #[inline]
    pub(crate) fn has_place(&self, link: &XdpLink, datagram: &Datagram, unread: usize) -> bool {
        match &datagram.storage {
            Storage::Frame(frame) if link.is_long(frame) => self.long.has_place(link.lent_long(), unread),
            _ => self.short.has_place(link.lent(), unread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Datagrams that each socket has when all of them are sent more than there is room for, in turn.
    fn flooded(room: Room, sockets: usize) -> Vec<usize> {
        let (mut unread, mut used) = (vec![0; sockets], 0);
        for _ in 0..2 * QUEUE_MAX {
            for unread in &mut unread {
                let is_kept = room.has_place(used + 1, *unread);
                *unread += usize::from(is_kept);
                used += u32::from(is_kept);
            }
        }
        unread
    }

    #[test]
    fn sockets_that_are_not_read_leave_room_for_those_that_are() {
        let room = Room::of_frames(4096, 2048);
        assert_eq!(room, Room { all: 1536, further: 1152, asked_for: 1792 });
        for (sockets, share) in [(1, 576), (4, 231), (100, 12)] {
            let unread = flooded(room, sockets);
            let (fewest, most) = (unread.iter().min().unwrap(), unread.iter().max().unwrap());
            assert!(most - fewest <= 1 && fewest.abs_diff(share) <= 1, "{sockets} sockets: {fewest} to {most}");
            let used = unread.iter().sum::<usize>() as u32;
            assert!(room.has_place(used + 1, 0), "one that is read gets its datagram");
        }
        let unread = flooded(room, 1000);
        assert!(unread.iter().all(|unread| *unread >= 1), "everybody has one");
        assert!(room.has_place(unread.iter().sum::<usize>() as u32 + 1, 0));
    }

    #[test]
    fn there_is_an_end() {
        let room = Room::of_frames(4096, 2048);
        assert!(flooded(room, 4000).iter().sum::<usize>() <= 1536);
        assert!(!room.has_place(1537, 0) && room.can_be_asked_for(1537) && !room.can_be_asked_for(1793));
        assert!(Room::of_frames(2, 1).has_place(1, 0), "however few frames there are");
        assert_eq!(flooded(Room::of(1 << 20), 1), [QUEUE_MAX]);
    }
}
