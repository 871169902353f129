//! The re-request server: messages that a subscriber has lost, once more, to it alone.

use super::History;
use crate::mold::{PAYLOAD_MAX, Packer, Request, Session};
use std::net::IpAddr;

/// Requests per second that a client may make on average. The longest outage that 1,000 answers of 30 messages cannot
/// repair in a second is one for a snapshot.
pub const REQUESTS_PER_SECOND: u64 = 1_000;

/// Requests that a client may make at once.
pub const BURST: u64 = 100;

/// Requests per second of all clients together: 29 MB/s of answers at most. Addresses can be made up, and an answer is 70 times as long as
/// its request.
pub const REQUESTS_ALL_PER_SECOND: u64 = 20_000;

/// Requests of all clients at once.
pub const BURST_ALL: u64 = 2_000;

/// Clients whose requests are counted. The one that was silent longest gives way to a new one.
pub const CLIENTS_MAX: usize = 256;

/// The price of a request, in ns of waiting.
const COST_NS: u64 = 1_000_000_000 / REQUESTS_PER_SECOND;

/// The same for all clients.
const COST_ALL_NS: u64 = 1_000_000_000 / REQUESTS_ALL_PER_SECOND;

/// Counts of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RerequestCounters {
    /// Requests that were answered by messages.
    pub answered: u64,
    /// Messages in these answers.
    pub messages: u64,
    /// Datagrams that are no request.
    pub malformed: u64,
    /// Requests about another session.
    pub other_session: u64,
    /// Requests for messages that are not kept any more, not sent yet, or none.
    pub out_of_range: u64,
    /// Requests beyond the limit of their client, or of all clients.
    pub limited: u64,
}

/// A client, and until when its requests are paid for.
#[derive(Debug, Clone, Copy)]
struct Client {
    address: IpAddr,
    paid_ns: u64,
}

/// The server. Nothing but an answer tells a client that a request was not granted.
#[derive(Debug)]
pub struct Rerequest {
    session: Session,
    packer: Packer,
    clients: Vec<Client>,
    /// Until when the requests of all clients are paid for.
    paid_ns: u64,
    counters: RerequestCounters,
}

impl Rerequest {
    /// A server of this session.
    pub fn new(session: Session) -> Self {
        let packer = Packer::new(session, 1, PAYLOAD_MAX);
        let clients = Vec::with_capacity(CLIENTS_MAX);
        Self { session, packer, clients, paid_ns: 0, counters: RerequestCounters::default() }
    }

    /// The answer to a datagram: as many of the messages, from the first one, as fit one datagram.
    pub fn answer(&mut self, now_ns: u64, client: IpAddr, datagram: &[u8], history: &History) -> Option<&[u8]> {
        if !self.is_allowed(now_ns, client) {
            self.counters.limited += 1;
            return None;
        }
        let Some(request) = Request::parse(datagram) else {
            self.counters.malformed += 1;
            return None;
        };
        if request.session != self.session {
            self.counters.other_session += 1;
            return None;
        }
        self.packer.restart(request.first);
        let wanted = (request.first..history.next()).take(usize::from(request.count));
        let messages = wanted.map_while(|sequence| history.message(sequence));
        let count = messages.take_while(|message| self.packer.push(message)).count();
        if count == 0 {
            self.counters.out_of_range += 1;
            return None;
        }
        self.counters.answered += 1;
        self.counters.messages += count as u64;
        self.packer.packet()
    }

    /// What it has done.
    pub fn counters(&self) -> RerequestCounters {
        self.counters
    }

    /// A bucket of tokens for each client and one for all, as times until which is paid.
    fn is_allowed(&mut self, now_ns: u64, address: IpAddr) -> bool {
        let known = self.clients.iter().position(|client| client.address == address);
        let at = known.unwrap_or_else(|| self.place_for(address, now_ns));
        let (paid, paid_by_all) = (self.clients[at].paid_ns.max(now_ns), self.paid_ns.max(now_ns));
        let is_allowed =
            paid - now_ns <= (BURST - 1) * COST_NS && paid_by_all - now_ns <= (BURST_ALL - 1) * COST_ALL_NS;
        if is_allowed {
            (self.clients[at].paid_ns, self.paid_ns) = (paid + COST_NS, paid_by_all + COST_ALL_NS);
        }
        is_allowed
    }

    fn place_for(&mut self, address: IpAddr, now_ns: u64) -> usize {
        let client = Client { address, paid_ns: now_ns };
        if self.clients.len() < CLIENTS_MAX {
            self.clients.push(client);
            return self.clients.len() - 1;
        }
        let places = self.clients.iter().enumerate();
        let at = places.min_by_key(|(_, client)| client.paid_ns).map_or(0, |(at, _)| at);
        self.clients[at] = client;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mold::{HEADER, empty};
    use std::net::Ipv4Addr;

    const SESSION: Session = *b"VENUE00001";
    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn history() -> History {
        let mut history = History::new(1_000);
        (1..=2_000_u64).for_each(|number| history.push(&[&[0; 28][..], &number.to_be_bytes()].concat()));
        history
    }

    fn request(first: u64, count: u16) -> [u8; HEADER] {
        empty(SESSION, first, count)
    }

    #[test]
    fn an_answer_is_what_fits_one_datagram_from_the_first_message_on() {
        let (mut server, history) = (Rerequest::new(SESSION), history());
        let answer = server.answer(0, CLIENT, &request(1_500, 1_000), &history).unwrap();
        let count = u16::from_be_bytes(answer[18..20].try_into().unwrap());
        assert_eq!((count, answer.len()), (38, HEADER + 38 * 38));
        for (block, sequence) in answer[HEADER..].chunks(38).zip(1_500..) {
            assert_eq!(&block[2..], history.message(sequence).unwrap());
        }
        let two = server.answer(0, CLIENT, &request(1_999, 5), &history).unwrap();
        assert_eq!(&two[10..20], &[&1_999_u64.to_be_bytes()[..], &2_u16.to_be_bytes()[..]].concat());
        assert_eq!(server.counters().messages, 40);
    }

    #[test]
    fn what_cannot_be_had_is_not_answered_and_counted() {
        let (mut server, history) = (Rerequest::new(SESSION), history());
        for first in [0, 1_000, 2_001, u64::MAX] {
            assert!(server.answer(0, CLIENT, &request(first, 1), &history).is_none());
        }
        assert!(server.answer(0, CLIENT, &request(1_500, 0), &history).is_none());
        assert!(server.answer(0, CLIENT, &empty(*b"OTHER00001", 1_500, 1), &history).is_none());
        for length in [0, 19, 21, 1_400] {
            assert!(server.answer(0, CLIENT, &vec![b'V'; length], &history).is_none());
        }
        let expected = RerequestCounters { out_of_range: 5, other_session: 1, malformed: 4, ..Default::default() };
        assert_eq!(server.counters(), expected);
        assert!(server.answer(0, CLIENT, &request(2_000, u16::MAX), &history).is_some());
    }

    #[test]
    fn a_client_that_asks_too_often_is_not_answered_and_others_are() {
        let (mut server, history) = (Rerequest::new(SESSION), history());
        let mut ask = |now_ns, client| server.answer(now_ns, client, &request(1_500, 1), &history).is_some();
        assert_eq!((0..1_000).filter(|_| ask(0, CLIENT)).count(), BURST as usize);
        let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        assert!(ask(0, other) && !ask(0, CLIENT));
        assert_eq!((0..1_000).filter(|_| ask(10 * COST_NS, CLIENT)).count(), 10);
    }

    #[test]
    fn clients_without_number_fill_neither_the_memory_nor_the_line() {
        let (mut server, history) = (Rerequest::new(SESSION), history());
        for client in 0..10_000_u32 {
            server.answer(0, IpAddr::V4(client.into()), &request(1_500, 1), &history);
        }
        assert_eq!((server.clients.len(), server.counters().answered), (CLIENTS_MAX, BURST_ALL), "all have one limit");
        let more = (0..10_000_u32).filter(|client| {
            server.answer(10 * COST_ALL_NS, IpAddr::V4((*client).into()), &request(1_500, 1), &history).is_some()
        });
        assert_eq!(more.count(), 10);
    }
}
