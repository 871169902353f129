//! How many queues a network interface of the calling thread's namespace receives by at present (SIOCETHTOOL, ethtool -l).
//! rtnetlink tells how many its driver has made room for, which on most devices are more.

use crate::ethtool::{any_socket, request_for};
use std::io;
use std::os::fd::AsRawFd;

/// ETHTOOL_GCHANNELS of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

const _: () = assert!(size_of::<Channels>() == 36);

/// Queues that the interface receives by; `None` where its driver does not say. Needs no privilege.
pub fn receive_queues(interface: &str) -> io::Result<Option<u32>> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let mut request = request_for(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    let socket = any_socket()?;
    // SAFETY: the request and the structure it points to live until after the call, and the command fills one
    // ethtool_channels of 36 bytes.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::EOPNOTSUPP) { Ok(None) } else { Err(error) };
    }
    // A device has combined queues, or queues of each kind; an answer of none is no answer.
    Ok(channels.receive.checked_add(channels.combined).filter(|count| *count != 0))
}

/// Numbers of queues for people: "0-3, 7".
pub fn ranges(queues: impl IntoIterator<Item = u32>) -> String {
    let mut sorted: Vec<u32> = queues.into_iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for queue in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == queue => *last = queue,
            _ => ranges.push((queue, queue)),
        }
    }
    let text = |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_does_not_say_and_what_is_not_there_is_an_error() {
        assert_eq!(receive_queues("lo").unwrap(), None);
        assert_eq!(receive_queues("none0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn ranges_are_as_people_write_them() {
        assert_eq!(ranges([]), "");
        assert_eq!(ranges([3]), "3");
        assert_eq!(ranges([7, 2, 0, 1, 2]), "0-2, 7");
        assert_eq!(ranges([u32::MAX, 5]), "5, 4294967295");
    }
}
