//! The acceptor's half: acceptors, connections that have not said who they are, sessions made when they are asked for.

use super::channel::Channel;
use super::crowd::Crowd;
use super::plan::SessionPlan;
use super::source::Source;
use super::tls::Tls;
use super::transport::Listening;
use super::wire::{Io, is_retry};
use crate::decode::{Index, Message};
use crate::frame::Framer;
use crate::session::SessionId;
use crate::tag;
use rustls::pki_types::CertificateDer;
use sidestep_sys::Problem;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Sessions made from templates.
pub const DYNAMIC_MAX: usize = 1000;
/// How long a connection may take to say who it is, TLS included. QuickFIX's LogonTimeout.
pub(super) const LOGON_MAX: Duration = Duration::from_secs(10);
/// Connections taken at a time at each acceptor, before what they have sent is looked at: fewer than the places of one host, so that
/// nobody is crowded out unheard.
const ACCEPTS_PER_ROUND: usize = 16;
/// A first message that is no Logon of usual size is not waited for.
const LOGON_BYTES_MAX: usize = 8 << 10;
/// Read at a time of who has not yet logged on.
const READ_BYTES: usize = 4 << 10;

/// Connections that did not become sessions' connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// From a host that may not connect, or without a certificate that its session takes.
    pub address: u64,
    /// They gave up their place to others that came later: see [`PENDING_MAX`](super::PENDING_MAX).
    pub crowd: u64,
    /// They said nothing in time, or ended first.
    pub silent: u64,
    /// What they said first was no Logon, or no TLS.
    pub no_logon: u64,
    /// No session has that name.
    pub unknown: u64,
    /// Their session is connected already, or cannot go on.
    pub taken: u64,
    /// A template would have made a session for them, but their Logon was refused. They get no answer.
    pub refused: u64,
    /// As many sessions are kept as templates may make: see [`SessionPlan::kept_max`]. They get a Logout.
    pub sessions: u64,
}

impl Refusals {
    /// Each reason's name and count.
    pub fn by_reason(self) -> [(&'static str, u64); 8] {
        [
            ("address", self.address),
            ("crowd", self.crowd),
            ("silent", self.silent),
            ("no_logon", self.no_logon),
            ("unknown", self.unknown),
            ("taken", self.taken),
            ("refused", self.refused),
            ("sessions", self.sessions),
        ]
    }
}

/// One place where connections come in, with the sessions that are reached there.
pub(super) struct Acceptor {
    pub(super) listening: Listening,
    pub(super) tls: Option<Tls>,
    pub(super) sessions: HashMap<SessionId, usize>,
    pub(super) templates: Vec<SessionPlan>,
    /// Plans of the sessions, for their hosts.
    pub(super) plans: Vec<SessionPlan>,
}

impl Acceptor {
    fn lets_in(&self, peer: Option<IpAddr>) -> bool {
        let mut plans = self.plans.iter().chain(&self.templates).peekable();
        plans.peek().is_none() || plans.any(|plan| plan.allows(peer))
    }

    /// The session that a template of this acceptor has made, if it is the one that `plan` would make.
    pub(super) fn made_as(&self, plan: &SessionPlan) -> Option<usize> {
        let slot = *self.sessions.get(&plan.settings.id)?;
        let made = self.plans.iter().find(|made| made.settings.id == plan.settings.id)?;
        let by_template = self.template_for(&plan.settings.id, None).is_some();
        (by_template && made.store == plan.store).then_some(slot)
    }

    /// The first template that the session fits and the host may use, with the session's name in it. `*` stands for any name.
    pub(super) fn template_for(&self, id: &SessionId, peer: Option<IpAddr>) -> Option<SessionPlan> {
        let fits = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        let found = self.templates.iter().find(|plan| {
            let pattern = &plan.settings.id;
            plan.allows(peer)
                && fits(&pattern.begin_string, &id.begin_string)
                && fits(&pattern.sender_comp_id, &id.sender_comp_id)
                && fits(&pattern.target_comp_id, &id.target_comp_id)
                && fits(&pattern.sender_sub_id, &id.sender_sub_id)
                && fits(&pattern.target_sub_id, &id.target_sub_id)
        });
        found.map(|plan| plan.for_session(id.clone()))
    }
}

/// A connection that has not said who it is.
pub(super) struct Pending {
    acceptor: usize,
    channel: Channel,
    /// Its first message as far as it came. Who says nothing costs no buffer.
    framer: Option<Framer>,
    peer: Option<IpAddr>,
    source: Source,
    came_ns: u64,
    /// The round that it came in, or was last looked at.
    pub(super) looked: u64,
    message_bytes_max: usize,
}

/// What has become of a pending connection.
pub(super) enum Fate {
    /// Nothing yet.
    Waits,
    /// It is closed.
    Gone,
    /// It has logged on as this session; the message is whole.
    Logon(Box<SessionId>, Vec<u8>),
}

impl Pending {
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

    /// Where it came from.
    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// When it came.
    pub(super) fn came_ns(&self) -> u64 {
        self.came_ns
    }

    /// Whether its descriptor becomes readable when it has sent something.
    pub(super) fn tells_of_input(&self) -> bool {
        self.channel.tells_of_room()
    }

    pub(super) fn wants_write(&self) -> bool {
        self.channel.wants_write()
    }

    /// Whether what it sends next may be as much work as a hundred orders.
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

/// The session that a Logon is for, as we name it.
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

/// The names that a session may be kept under, the most exact one first.
pub(super) fn candidates(id: &SessionId) -> [SessionId; 2] {
    [id.clone(), SessionId::new(&id.begin_string, &id.sender_comp_id, &id.target_comp_id)]
}

/// Takes connections in at every acceptor.
pub(super) fn accept(
    io: &mut Io,
    acceptors: &mut [Acceptor],
    crowd: &mut Crowd,
    refusals: &mut Refusals,
    mono_ns: u64,
) -> Result<usize, Problem> {
    let mut count = 0;
    for (number, acceptor) in acceptors.iter_mut().enumerate() {
        for _ in 0..ACCEPTS_PER_ROUND {
            let (mut wire, peer, source) = match acceptor.listening.accept(io) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => break,
                // Out of descriptors is no reason to end those who are logged on: a stranger goes, and the next look takes
                // the newcomer in.
                Err(error) => {
                    if !is_out_of_descriptors(&error) {
                        break;
                    }
                    crowd.say_full(mono_ns);
                    if crowd.make_room(io, refusals) {
                        continue;
                    }
                    break;
                }
            };
            count += 1;
            if !acceptor.lets_in(peer) {
                refusals.address += 1;
                wire.close(io);
                continue;
            }
            let channel = match &acceptor.tls {
                Some(tls) => tls.channel(wire, None)?,
                None => Channel::plain(wire),
            };
            let bytes = acceptor.plans.iter().chain(&acceptor.templates).map(|plan| plan.message_bytes_max).max();
            let message_bytes_max = bytes.unwrap_or(crate::frame::MESSAGE_BYTES_MAX);
            let (framer, came_ns) = (None, mono_ns);
            let pending =
                Pending { acceptor: number, channel, framer, peer, source, came_ns, looked: 0, message_bytes_max };
            crowd.take_in(io, pending, refusals);
        }
    }
    Ok(count)
}

fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    let errors = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(|error| Some(error.raw_os_error()));
    errors.contains(&error.raw_os_error())
}
