//! A generic netlink socket (linux/genetlink.h): families by name, requests, answers.

use super::attribute::{Attributes, find};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::io::{self, ErrorKind};

/// GENL_ID_CTRL, CTRL_CMD_GETFAMILY and its attributes.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;

/// NLM_F_CAPPED and NLM_F_ACK_TLVS: of the request there is only the header, and attributes come after it.
const WORDS_FOLLOW: u16 = 0x100 | 0x200;
/// NLMSGERR_ATTR_MSG
const MESSAGE: u16 = 1;

const NETLINK_HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
/// The most packets of one dump: a NIC with thousands of NAPI instances needs about a hundred.
const PACKETS_MAX: usize = 4096;

/// A socket and its generic netlink family.
pub(crate) struct Family {
    socket: Socket,
    id: u16,
    sequence: u32,
}

impl Family {
    /// Looks up a family by name. NotFound if the kernel has no such family.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let mut family = Self { socket, id: CONTROL, sequence: 0 };
        let answers = family.ask(GET_FAMILY, Attributes::default().text(FAMILY_NAME, name))?;
        let id = answers.first().and_then(|answer| find(answer, FAMILY_ID)?.number());
        family.id = id.and_then(|id| id.try_into().ok()).ok_or(ErrorKind::NotFound)?;
        Ok(family)
    }

    /// Sends one request; returns the attributes of each answer.
    pub(crate) fn ask(&mut self, command: u8, attributes: Attributes) -> io::Result<Vec<Vec<u8>>> {
        self.transact(command, REQUEST | ACK, attributes)
    }

    /// Sends a request for a change. An error carries the kernel's message, if there is one.
    pub(crate) fn tell(&mut self, command: u8, attributes: Attributes) -> io::Result<()> {
        self.socket.set_cap_ack(true)?;
        self.socket.set_ext_ack(true)?;
        self.transact(command, REQUEST | ACK, attributes).map(|_| ())
    }

    /// Sends a request whose answer is a list.
    pub(crate) fn dump(&mut self, command: u8, attributes: Attributes) -> io::Result<Vec<Vec<u8>>> {
        self.transact(command, REQUEST | DUMP, attributes)
    }

    fn transact(&mut self, command: u8, flags: u16, attributes: Attributes) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        self.socket.send(&request(self.id, flags, self.sequence, command, attributes), 0)?;
        let mut answers = Vec::new();
        for _ in 0..PACKETS_MAX {
            let (packet, _) = self.socket.recv_from_full()?;
            if collect(&packet, self.sequence, &mut answers)? {
                return Ok(answers);
            }
        }
        Err(io::Error::other("the kernel's answer does not end"))
    }
}

fn request(family: u16, flags: u16, sequence: u32, command: u8, attributes: Attributes) -> Vec<u8> {
    let attributes = attributes.into_bytes();
    let length = NETLINK_HEADER + GENERIC_HEADER + attributes.len();
    let mut bytes = u32::try_from(length).expect("what we send is short").to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    // The command, version 1, two bytes reserved.
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attributes);
    bytes
}

/// Adds the attributes of a packet's messages; true when the answer is complete.
fn collect(packet: &[u8], sequence: u32, answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    let mut rest = packet;
    while let Some((header, _)) = rest.split_at_checked(NETLINK_HEADER) {
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let length = word(0) as usize;
        let Some(body) = rest.get(NETLINK_HEADER..length) else {
            return Err(io::Error::new(ErrorKind::InvalidData, "a netlink message is cut short"));
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        match kind {
            // A late answer to an earlier request.
            _ if word(8) != sequence => {}
            // The end of a list, or the error that ends it.
            NLMSG_DONE => return outcome(0, body).map(|()| true),
            NLMSG_ERROR => return outcome(u16::from_ne_bytes([header[6], header[7]]), body).map(|()| true),
            _ => answers.extend(body.get(GENERIC_HEADER..).map(<[u8]>::to_vec)),
        }
    }
    Ok(false)
}

/// Decodes an error message: a negated errno, zero for an acknowledgement. After the header of the request, which follows
/// it, there may be a text.
fn outcome(flags: u16, body: &[u8]) -> io::Result<()> {
    let code = body.first_chunk().map_or(i32::MIN, |bytes| i32::from_ne_bytes(*bytes));
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(code.saturating_neg());
    let has_words = flags & WORDS_FOLLOW == WORDS_FOLLOW;
    let words = body.get(4 + NETLINK_HEADER..).filter(|_| has_words).and_then(|rest| find(rest, MESSAGE));
    Err(match words.map(|words| words.text()) {
        Some(words) => io::Error::new(error.kind(), format!("{error}: {words}")),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn answers_end_with_done_or_an_acknowledgement() {
        let mut answers = Vec::new();
        let first = message(0x14, 7, &[1, 1, 0, 0, 5, 0, 1, 0]);
        assert!(!collect(&[first, message(0x14, 6, &[9; 8])].concat(), 7, &mut answers).unwrap());
        assert_eq!(answers, [vec![5, 0, 1, 0]], "another sequence number is another answer");
        assert!(collect(&message(NLMSG_DONE, 7, &[0; 4]), 7, &mut answers).unwrap());
        assert!(collect(&message(NLMSG_ERROR, 7, &[0; 20]), 7, &mut answers).unwrap());
        let refused = collect(&message(NLMSG_ERROR, 7, &(-95_i32).to_ne_bytes()), 7, &mut answers).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(95));
    }

    #[test]
    fn a_refusal_may_have_words() {
        let words = Attributes::default().text(MESSAGE, "requested channel count exceeds maximum").into_bytes();
        let body = [&(-22_i32).to_ne_bytes()[..], &[0; NETLINK_HEADER], &words].concat();
        let refused = outcome(WORDS_FOLLOW, &body).unwrap_err();
        assert!(refused.to_string().ends_with("requested channel count exceeds maximum"), "{refused}");
        assert_eq!(outcome(0, &body).unwrap_err().raw_os_error(), Some(22), "without the flag these are no attributes");
    }

    #[test]
    fn garbage_ends() {
        let mut cut = message(0x14, 7, &[0; 8]);
        cut.truncate(20);
        assert!(collect(&cut, 7, &mut Vec::new()).is_err());
        assert!(collect(&[0; 16], 7, &mut Vec::new()).is_err(), "a length of nothing must not loop");
        assert!(!collect(&[1; 7], 7, &mut Vec::new()).unwrap());
        assert!(outcome(0, &[]).is_err() && outcome(WORDS_FOLLOW, &[1; 9]).is_err());
    }

    #[test]
    fn the_kernel_has_its_families() {
        assert!(Family::open("ethtool").is_ok());
        assert_eq!(Family::open("no-such-family").err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    }
}
