//! Connections before their Logon.

use super::channel::Channel;
use super::refusals::Refusals;
use super::source::Source;

use crate::decode::{Index, Message};
use crate::frame::Framer;
use crate::session::SessionId;
use crate::tag;
use rustls::pki_types::CertificateDer;
use sidestep_socket::stream::{Io, is_retry};
use std::net::IpAddr;
use std::time::Duration;

/// The time for a Logon, TLS included. QuickFIX's LogonTimeout.
pub(super) const LOGON_MAX: Duration = Duration::from_secs(10);
/// The longest first message: a Logon of usual size is shorter.
const LOGON_BYTES_MAX: usize = 8 << 10;
/// Bytes read at a time before the Logon.
const READ_BYTES: usize = 4 << 10;

/// A connection that has not logged on.
pub(super) struct Pending {
    acceptor: usize,
    channel: Channel,
    /// Its first message as far as it came. A silent connection costs no buffer.
    framer: Option<Framer>,
    peer: Option<IpAddr>,
    source: Source,
    came_ns: u64,
    /// The round in which it came, or was last served.
    pub(super) looked: u64,
    message_bytes_max: usize,
}

/// The fate of a pending connection.
pub(super) enum Fate {
    /// Nothing yet.
    Waits,
    /// It is closed.
    Gone,
    /// It has logged on as this session; the message is whole.
    Logon(Box<SessionId>, Vec<u8>),
}

impl Pending {
    /// Makes one that has sent nothing yet, of an acceptor's number; it may send messages of so many bytes once it is logged on.
    pub(super) fn new(
        acceptor: usize,
        channel: Channel,
        (peer, source): (Option<IpAddr>, Source),
        came_ns: u64,
        message_bytes_max: usize,
    ) -> Self {
        Self { acceptor, channel, framer: None, peer, source, came_ns, looked: 0, message_bytes_max }
    }

    pub(super) fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.channel.descriptor()
    }

    pub(super) fn acceptor(&self) -> usize {
        self.acceptor
    }

    pub(super) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    pub(super) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.channel.certificate()
    }

    /// Returns its source.
    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// Returns the time of its accept.
    pub(super) fn came_ns(&self) -> u64 {
        self.came_ns
    }

    /// Returns whether its descriptor becomes readable when it has sent something.
    pub(super) fn tells_of_input(&self) -> bool {
        self.channel.signals_room()
    }

    pub(super) fn wants_write(&self) -> bool {
        self.channel.wants_write()
    }

    /// Returns whether its next bytes may be as much work as a hundred orders.
    pub(super) fn is_handshaking(&self) -> bool {
        self.channel.is_handshaking()
    }

    pub(super) fn into_parts(self) -> (Channel, Framer, String) {
        let mut framer = Framer::new(self.message_bytes_max);
        if let Some(first) = self.framer {
            // What came behind the Logon has room: a new framer takes more than was read.
            framer.push(first.rest());
        }
        let peer = self.peer.map_or_else(|| "this host".to_owned(), |peer| peer.to_string());
        (self.channel, framer, peer)
    }

    pub(super) fn close(mut self, io: &mut Io) {
        self.channel.close(io);
    }

    /// Reads the first message.
    pub(super) fn poll(&mut self, io: &mut Io, index: &mut Index, refusals: &mut Refusals) -> Fate {
        let mut buffer = [0; READ_BYTES];
        loop {
            let spare = self.framer.as_mut().map_or(READ_BYTES, |framer| framer.spare().len().min(READ_BYTES));
            match self.channel.read(io, &mut buffer[..spare]) {
                Ok(0) => {
                    refusals.silent += 1;
                    return Fate::Gone;
                }
                Ok(count) => {
                    let framer = self.framer.get_or_insert_with(|| Framer::small(LOGON_BYTES_MAX));
                    framer.push(&buffer[..count]);
                }
                Err(error) if is_retry(&error) => {
                    let _ = self.channel.flush(io);
                    return Fate::Waits;
                }
                Err(_) => {
                    refusals.no_logon += 1;
                    return Fate::Gone;
                }
            }
            match self.first_message(index, refusals) {
                Fate::Waits => {}
                fate => return fate,
            }
        }
    }

    fn first_message(&mut self, index: &mut Index, refusals: &mut Refusals) -> Fate {
        let Some(framer) = &mut self.framer else { return Fate::Waits };
        let found = match framer.next() {
            Ok(None) => return Fate::Waits,
            Ok(Some(frame)) => match index.decode(frame) {
                Ok(message) if message.msg_type() == b"A" => Some((of_logon(&message), frame.to_vec())),
                _ => None,
            },
            // FIX session test case 1d: an invalid Logon ends the connection without an answer.
            Err(_) => None,
        };
        match found {
            Some((id, frame)) => Fate::Logon(Box::new(id), frame),
            None => {
                refusals.no_logon += 1;
                Fate::Gone
            }
        }
    }
}

/// Returns the session that a Logon is for, as we name it.
fn of_logon(message: &Message<'_, '_>) -> SessionId {
    let text = |tag: u32| String::from_utf8_lossy(message.get(tag).unwrap_or_default()).into_owned();
    SessionId {
        begin_string: String::from_utf8_lossy(message.begin_string()).into_owned(),
        sender_comp_id: text(tag::TARGET_COMP_ID),
        sender_sub_id: text(tag::TARGET_SUB_ID),
        sender_location_id: text(tag::TARGET_LOCATION_ID),
        target_comp_id: text(tag::SENDER_COMP_ID),
        target_sub_id: text(tag::SENDER_SUB_ID),
        target_location_id: text(tag::SENDER_LOCATION_ID),
        qualifier: String::new(),
    }
}
