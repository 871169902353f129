//! The kernel's audit system, over audit netlink (linux/audit.h): its status, and the number of its rules. CAP_AUDIT_CONTROL.

use netlink_sys::constants::NETLINK_AUDIT;
use netlink_sys::{Socket, SocketAddr};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

const GET: u16 = 1000;
const LIST_RULES: u16 = 1013;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST and NLM_F_ACK.
const REQUEST: u16 = 1 | 4;
const HEADER: usize = 16;
/// `struct audit_status`: mask, then `enabled`.
const ENABLED: usize = 4;
/// The answer comes from a kernel thread, after the acknowledgement.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two looks for it.
const PAUSE: Duration = Duration::from_millis(1);
/// The most messages of one answer; a large rule set has some thousand.
const MESSAGES_MAX: usize = 65_536;

/// Returns `enabled` of the status: 0 off, 1 on, 2 on and locked.
pub(super) fn enabled() -> io::Result<u32> {
    let mut found = None;
    ask(GET, |kind, body| {
        if kind == GET {
            found = status(body);
        }
        kind == GET
    })?;
    found.ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Returns the number of rules.
pub(super) fn rules() -> io::Result<usize> {
    let mut count = 0;
    ask(LIST_RULES, |kind, _| {
        count += usize::from(kind == LIST_RULES);
        kind == NLMSG_DONE
    })?;
    Ok(count)
}

fn status(body: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*body.get(ENABLED..)?.first_chunk()?))
}

/// Sends a request, and passes the messages of the answer to `take` until it returns true.
fn ask(kind: u16, mut take: impl FnMut(u16, &[u8]) -> bool) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_AUDIT)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(kind), 0)?;
    // An answer that does not come must not hold the caller.
    socket.set_non_blocking(true)?;
    let end = Instant::now() + PATIENCE;
    for _ in 0..MESSAGES_MAX {
        let packet = loop {
            match socket.recv_from_full() {
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
                Ok((packet, _)) => break packet,
            }
        };
        if collect(&packet, &mut take)? {
            return Ok(());
        }
    }
    Err(io::Error::other("the kernel's answer does not end"))
}

fn request(kind: u16) -> Vec<u8> {
    let mut request = (HEADER as u32).to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Sequence number 1; the kernel fills in the port.
    request.extend(1_u32.to_ne_bytes());
    request.extend([0; 4]);
    request
}

/// Passes the messages of a packet to `take`; true when it has all. An error of the kernel is returned.
fn collect(packet: &[u8], take: &mut impl FnMut(u16, &[u8]) -> bool) -> io::Result<bool> {
    let mut rest = packet;
    while let Some((header, _)) = rest.split_at_checked(HEADER) {
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        // The audit system leaves its own header out of some lengths: the packet's end bounds the message.
        let end = length.max(HEADER).min(rest.len());
        let body = &rest[HEADER..end];
        if kind == NLMSG_ERROR {
            let code = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            if code != 0 {
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
        } else if take(kind, body) {
            return Ok(true);
        }
        rest = rest.get(end.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Decodes arbitrary bytes as an answer. For fuzzing.
pub(super) fn decode_any(bytes: &[u8]) -> usize {
    let mut count = usize::from(status(bytes).is_some());
    let _ = collect(bytes, &mut |_, _| {
        count += 1;
        false
    });
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn the_acknowledgement_may_come_before_the_status() {
        let status_bytes = [1_u32, 1, 0, 77].map(u32::to_ne_bytes).concat();
        let packet = [message(NLMSG_ERROR, &[0; 20]), message(GET, &status_bytes)].concat();
        let mut found = None;
        let complete = collect(&packet, &mut |kind, body| {
            found = status(body);
            kind == GET
        });
        assert_eq!((complete.unwrap(), found), (true, Some(1)));
    }

    #[test]
    fn a_refusal_and_garbage_end() {
        let refused = collect(&message(NLMSG_ERROR, &(-1_i32).to_ne_bytes()), &mut |_, _| false).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert!(!collect(&[0; 64], &mut |_, _| false).unwrap(), "a length of nothing must not loop");
        assert!(!collect(&[0xff; 40], &mut |_, _| false).unwrap());
        assert_eq!(decode_any(&[]), 0);
    }
}
