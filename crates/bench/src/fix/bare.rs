//! The bare acceptor: an order is answered by two reports that were encoded before.
//!
//! It is a yardstick for our own: the same bytes both ways, the same streams, one receive and one send for an order and its
//! reports, and of FIX only what the client cannot do without: the end of a message is found, ClOrdID is copied, MsgSeqNum and CheckSum
//! are patched. Nothing is indexed, validated or stored. It serves one run of this program, and trusts its client.

use super::inbox::Inbox;
use super::message::{Header, SOH, Stamp, Template};
use sidestep_socket::stream::{Endpoint, Io, Listener, Options, Stream, Waiting, is_retry};
use sidestep_sys::Problem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The field in front of a ClOrdID.
const ID_TAG: &[u8] = &[SOH, b'1', b'1', b'='];
/// HeartBtInt that it agrees to; it sends none.
const HEARTBEATS: Duration = Duration::from_secs(60);

/// A bare acceptor that listens.
pub struct Bare {
    io: Io,
    listener: Listener,
    connections: Vec<Connection>,
}

impl Bare {
    /// Listens on `endpoint`.
    ///
    /// # Errors
    /// The endpoint cannot be had.
    pub fn listen(endpoint: &Endpoint) -> Result<Self, Problem> {
        let mut io = Io::named("sidestep bench fix: bare acceptor");
        let listener = Listener::bind(&mut io, endpoint, &Options { waiting: Waiting::Spin, ..Options::default() })?;
        Ok(Self { io, listener, connections: Vec::new() })
    }

    /// Returns where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        self.listener.endpoint()
    }

    /// Serves without sleeping until `stop` is set. A client that fails loses its connection.
    ///
    /// # Errors
    /// No further connection can be accepted.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Problem> {
        let failed = |what: &str, why: &dyn std::fmt::Display| Problem::failed(what, why);
        while !stop.load(Ordering::Relaxed) {
            self.io.poll().map_err(|error| failed("cannot go past the kernel", &error))?;
            let accepted = self.listener.accept(&mut self.io);
            if let Some(accepted) = accepted.map_err(|error| failed("cannot accept", &error))? {
                self.connections.push(Connection::new(accepted.stream));
            }
            let Self { io, connections, .. } = self;
            connections.retain_mut(|connection| connection.serve(io).unwrap_or(false) || connection.close(io));
        }
        Ok(())
    }
}

struct Connection {
    stream: Stream,
    inbox: Inbox,
    answers: Option<Answers>,
}

impl Connection {
    fn new(stream: Stream) -> Self {
        Self { stream, inbox: Inbox::new(), answers: None }
    }

    /// Answers what has come; false at the end of the session.
    #[inline]
    fn serve(&mut self, io: &mut Io) -> Result<bool, Problem> {
        match self.stream.read(io, self.inbox.spare()) {
            Ok(0) => return Ok(false),
            Ok(count) => self.inbox.filled(count),
            Err(error) if is_retry(&error) => return Ok(true),
            Err(error) => return Err(lost(error)),
        }
        while let Some(place) = self.inbox.next()? {
            let frame = self.inbox.frame(&place);
            let answers = match &mut self.answers {
                Some(answers) => answers,
                none => none.insert(Answers::to(frame.field(8), frame.field(49), frame.field(56))?),
            };
            let answer = match place.kind {
                b'D' => answers.reports(frame.bytes())?,
                b'A' => answers.log_on(),
                b'1' => answers.heartbeat(frame.field(112).unwrap_or_default()),
                b'5' => answers.log_out(),
                _ => continue,
            };
            self.stream.write_all(io, answer).map_err(lost)?;
            if place.kind == b'5' {
                return Ok(false);
            }
        }
        self.inbox.release();
        Ok(true)
    }

    /// Ends it; always false, as it is not kept.
    fn close(&mut self, io: &mut Io) -> bool {
        // One that has ended already is as wanted.
        let _ = self.stream.close(io);
        false
    }
}

/// The answers to one client, encoded at its first message.
struct Answers {
    begin_string: String,
    sender: String,
    target: String,
    ack: Template,
    fill: Template,
    output: Vec<u8>,
    sequence: u64,
    /// Where ClOrdID begins in an order. All orders of a client are alike.
    id_at: usize,
}

impl Answers {
    /// Answers to a client of these CompIDs.
    fn to(begin_string: Option<&[u8]>, sender: Option<&[u8]>, target: Option<&[u8]>) -> Result<Self, Problem> {
        let text = |value: Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
        let (Some(begin_string), Some(client), Some(own)) = (text(begin_string), text(sender), text(target)) else {
            return Err(lost("its Logon names nobody"));
        };
        let header = Header { begin_string: &begin_string, sender: &own, target: &client };
        let (ack, fill) = (Template::report(&header, false), Template::report(&header, true));
        Ok(Self { ack, fill, output: Vec::new(), sequence: 0, id_at: 0, begin_string, sender: own, target: client })
    }

    /// The acknowledgement of an order and its fill.
    #[inline]
    fn reports(&mut self, order: &[u8]) -> Result<&[u8], Problem> {
        if order.get(self.id_at..self.id_at + ID_TAG.len()) != Some(ID_TAG) {
            let found = order.windows(ID_TAG.len()).position(|window| window == ID_TAG);
            self.id_at = found.ok_or_else(|| lost("it sent an order without ClOrdID"))?;
        }
        let id = &order[self.id_at + ID_TAG.len()..];
        self.output.clear();
        for report in [&mut self.ack, &mut self.fill] {
            self.sequence += 1;
            let bytes = report.answer(self.sequence, id).ok_or_else(|| lost("its order ends within ClOrdID"))?;
            self.output.extend_from_slice(bytes);
        }
        Ok(&self.output)
    }

    fn log_on(&mut self) -> &[u8] {
        // The client resets the sequence numbers.
        self.sequence = 0;
        self.seldom(|header| Template::logon(header, HEARTBEATS))
    }

    fn heartbeat(&mut self, id: &[u8]) -> &[u8] {
        self.seldom(|header| Template::heartbeat(header, id))
    }

    fn log_out(&mut self) -> &[u8] {
        self.seldom(Template::logout)
    }

    fn seldom(&mut self, make: impl FnOnce(&Header<'_>) -> Template) -> &[u8] {
        self.sequence += 1;
        let header = Header { begin_string: &self.begin_string, sender: &self.sender, target: &self.target };
        self.output = make(&header).stamp(self.sequence, 0, &mut Stamp::default()).to_vec();
        &self.output
    }
}

fn lost(why: impl std::fmt::Display) -> Problem {
    Problem::failed("lost the client", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Header<'static> = Header { begin_string: "FIX.4.4", sender: "BENCH001", target: "EXCHANGE" };

    #[test]
    fn an_order_is_answered_by_two_sound_reports_of_its_own_id() {
        let (mut order, mut now) = (Template::order(&CLIENT), Stamp::default());
        let mut answers = Answers::to(Some(b"FIX.4.4"), Some(b"BENCH001"), Some(b"EXCHANGE")).expect("names");
        assert!(answers.log_on().windows(5).any(|field| field == b"\x0135=A"));
        for number in [1, 2, 999_999_999] {
            let order = order.stamp(number, number, &mut now).to_vec();
            let bytes = answers.reports(&order).expect("an order").to_vec();
            let mut inbox = Inbox::new();
            inbox.spare()[..bytes.len()].copy_from_slice(&bytes);
            inbox.filled(bytes.len());
            for kind in [&b"0"[..], b"F"] {
                let place = inbox.next().expect("it is FIX").expect("a report");
                let frame = inbox.frame(&place);
                assert!(place.kind == b'8' && frame.is_sound(), "{frame}");
                assert_eq!(frame.field(150), Some(kind), "{frame}");
                assert_eq!(frame.field(11), Some(format!("O{number:09}").as_bytes()), "{frame}");
                assert_eq!(frame.field(56), Some(&b"BENCH001"[..]), "{frame}");
            }
        }
        assert_eq!(answers.sequence, 7, "a Logon and six reports");
    }

    #[test]
    fn bytes_that_are_no_order_end_the_connection() {
        let mut answers = Answers::to(Some(b"FIX.4.4"), Some(b"A"), Some(b"B")).expect("names");
        assert!(answers.reports(b"8=FIX.4.4\x019=5\x0135=D\x0110=000\x01").is_err());
        assert!(answers.reports(b"8=FIX.4.4\x0135=D\x0111=O1").is_err(), "a short ClOrdID");
        assert!(Answers::to(None, Some(b"A"), Some(b"B")).is_err());
    }
}
