//! The control messages of stamps: `struct scm_timestamping` and, in the error queue, `struct sock_extended_err`
//! (linux/errqueue.h).
//!
//! ```text
//! cmsghdr   | length 8 | level 4 | type 4 | data, padded to a multiple of 8 |
//! stamps    | software: seconds 8, nanoseconds 8 | nothing 16 | hardware: seconds 8, nanoseconds 8 |
//! error     | errno 4 | origin 1 | type 1 | code 1 | pad 1 | info 4: the station | data 4: the number |
//! ```

/// The length of a header.
const HEADER_BYTES: usize = 16;
/// SO_EE_ORIGIN_TIMESTAMPING.
const ORIGIN_TIMESTAMPING: u8 = 4;

/// The times of a stamp; none where a clock did not give one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// CLOCK_REALTIME, nanoseconds.
    pub software: Option<u64>,
    /// The device's clock, nanoseconds.
    pub hardware: Option<u64>,
}

/// A station of a sent datagram (SCM_TSTAMP_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// It goes to the queueing discipline.
    Scheduled,
    /// The driver has it, or, with a hardware stamp, the wire.
    Driver,
}

/// The stamp of a sent datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number among those that asked for stamps.
    pub id: u32,
    /// The station.
    pub station: Station,
    /// The time.
    pub stamp: Stamp,
}

/// The control message that asks for the stamps of one datagram.
pub(super) fn request(flags: u32) -> Vec<u8> {
    let mut message = ((HEADER_BYTES + 4) as u64).to_ne_bytes().to_vec();
    message.extend(libc::SOL_SOCKET.to_ne_bytes());
    message.extend(libc::SO_TIMESTAMPING.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 4]);
    message
}

/// The stamp among control messages; empty if there is none.
pub(super) fn stamp(control: &[u8]) -> Stamp {
    let found = messages(control).find(|(level, kind, _)| (*level, *kind) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPING));
    let Some((_, _, data)) = found else { return Stamp::default() };
    let time = |at: usize| {
        let (seconds, rest) = (u64_at(data, at)?, u64_at(data, at + 8)?);
        // A clock that gave no time is zero.
        seconds.checked_mul(1_000_000_000)?.checked_add(rest).filter(|ns| *ns > 0)
    };
    Stamp { software: time(0), hardware: time(32) }
}

/// The stamp of a sent datagram among the control messages of an error; none if the error is about something else.
pub(super) fn sent(control: &[u8]) -> Option<Sent> {
    let kinds = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
    let (_, _, error) = messages(control).find(|(level, kind, _)| kinds.contains(&(*level, *kind)))?;
    let is_stamp = u32_at(error, 0)? == libc::ENOMSG.cast_unsigned() && error.get(4) == Some(&ORIGIN_TIMESTAMPING);
    let station = match u32_at(error, 8)? {
        0 => Station::Driver,
        1 => Station::Scheduled,
        _ => return None,
    };
    is_stamp.then_some(Sent { id: u32_at(error, 12)?, station, stamp: stamp(control) })
}

/// Level, type and data of each message.
fn messages(mut control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u64_at(control, 0)?).ok()?;
        let (level, kind) = (u32_at(control, 8)?.cast_signed(), u32_at(control, 12)?.cast_signed());
        let data = control.get(HEADER_BYTES..length)?;
        control = control.get(length.checked_next_multiple_of(8)?..).unwrap_or_default();
        Some((level, kind, data))
    })
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER_BYTES + data.len()) as u64).to_ne_bytes().to_vec();
        message.extend(level.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(data);
        message.resize(message.len().next_multiple_of(8), 0);
        message
    }

    fn stamps(software: [u64; 2], hardware: [u64; 2]) -> Vec<u8> {
        let words = [software, [0, 0], hardware].concat();
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        message(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &data)
    }

    fn error(errno: i32, origin: u8, station: u32, id: u32) -> Vec<u8> {
        let mut data = errno.to_ne_bytes().to_vec();
        data.extend([origin, 0, 0, 0]);
        data.extend(station.to_ne_bytes());
        data.extend(id.to_ne_bytes());
        data.extend([0; 16]); // The address of the origin.
        message(libc::IPPROTO_IP, libc::IP_RECVERR, &data)
    }

    #[test]
    fn both_clocks_are_told_apart() {
        let software = Stamp { software: Some(2_000_000_003), hardware: None };
        assert_eq!(stamp(&stamps([2, 3], [0, 0])), software);
        assert_eq!(stamp(&stamps([0, 0], [1, 9])), Stamp { software: None, hardware: Some(1_000_000_009) });
        let both = [message(1, 99, b"other"), stamps([2, 3], [1, 9])].concat();
        assert_eq!(stamp(&both), Stamp { hardware: Some(1_000_000_009), ..software });
        assert_eq!(stamp(&[]), Stamp::default());
    }

    #[test]
    fn a_sent_datagram_has_its_number_and_its_station() {
        for (number, station) in [(0, Station::Driver), (1, Station::Scheduled)] {
            let control = [stamps([2, 3], [0, 0]), error(libc::ENOMSG, ORIGIN_TIMESTAMPING, number, 41)].concat();
            let wanted = Sent { id: 41, station, stamp: Stamp { software: Some(2_000_000_003), hardware: None } };
            assert_eq!(sent(&control), Some(wanted));
        }
        // With OPT_TX_SWHW the wire's stamp is a message of its own, without the software's.
        let wire = [stamps([0, 0], [7, 1]), error(libc::ENOMSG, ORIGIN_TIMESTAMPING, 0, 41)].concat();
        assert_eq!(sent(&wire).unwrap().stamp, Stamp { software: None, hardware: Some(7_000_000_001) });
    }

    #[test]
    fn other_errors_and_cut_messages_are_none() {
        let icmp = [stamps([2, 3], [0, 0]), error(libc::ECONNREFUSED, 2, 0, 0)].concat();
        assert_eq!(sent(&icmp), None);
        let acknowledged = [stamps([2, 3], [0, 0]), error(libc::ENOMSG, ORIGIN_TIMESTAMPING, 2, 0)].concat();
        assert_eq!(sent(&acknowledged), None);
        let whole = [error(libc::ENOMSG, ORIGIN_TIMESTAMPING, 0, 1), stamps([2, 3], [7, 1])].concat();
        for end in 0..whole.len() {
            let _ = (sent(&whole[..end]), stamp(&whole[..end]));
        }
        for length in [0_u64, 1, 15, 17, u64::MAX, u64::MAX - 7] {
            let mut odd = whole.clone();
            odd[..8].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(sent(&odd), None, "{length}");
        }
    }

    #[test]
    fn a_request_is_one_control_message() {
        assert_eq!(messages(&request(7)).collect::<Vec<_>>(), [(1, 37, &7_u32.to_ne_bytes()[..])]);
    }
}
