//! SoupBinTCP 3.00, the server's side of one connection: packets in, packets out, heartbeats. No socket.
//!
//! A packet is a length (2 bytes, big-endian, of what follows), a type and a payload. Numbers in login packets are ASCII, padded
//! with spaces on the left.

/// The longest payload that a client may send. OUCH's longest message with every option is 47 + 2 + 100 bytes.
pub const PAYLOAD_MAX: usize = 256;

/// Bytes that wait to be sent to a client, at most, before nothing more is taken from its messages.
pub const OUTPUT_MAX: usize = 64 * 1024;

/// Silence of a client after which its connection is closed, ns.
pub const SILENCE_MAX_NS: u64 = 15_000_000_000;

/// Time for a client to log in, ns.
pub const LOGIN_MAX_NS: u64 = 30_000_000_000;

/// The longest silence of the server, ns.
const HEARTBEAT_NS: u64 = 1_000_000_000;

/// Bytes of a login's payload.
const LOGIN_BYTES: usize = 46;

/// One packet of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each message")]
pub enum Packet {
    /// `L`.
    Login(Login),
    /// `U`, unsequenced data.
    Data(Payload),
    /// `O`.
    Logout,
}

/// The payload of a data packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    length: usize,
    bytes: [u8; PAYLOAD_MAX],
}

impl Payload {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// The user, 6 characters.
    pub user: [u8; 6],
    /// The password, 10 characters.
    pub password: [u8; 10],
    /// The session that is wanted; blank for the current one.
    pub session: [u8; 10],
    /// The first message that is wanted; 0 for the next one.
    pub sequence: u64,
}

impl Login {
    fn parse(payload: &[u8]) -> Option<Self> {
        let payload: &[u8; LOGIN_BYTES] = payload.try_into().ok()?;
        let (user, rest) = payload.split_first_chunk::<6>()?;
        let (password, rest) = rest.split_first_chunk::<10>()?;
        let (session, sequence) = rest.split_first_chunk::<10>()?;
        let (user, password, session) = (*user, *password, *session);
        Some(Self { user, password, session, sequence: number(sequence)? })
    }

    /// True if the session of this name is wanted, or the current one.
    pub fn wants(&self, session: &[u8; 10]) -> bool {
        let wanted = self.session.trim_ascii();
        wanted.is_empty() || wanted == session.trim_ascii()
    }
}

/// An ASCII number with spaces around it; blank is 0.
fn number(text: &[u8]) -> Option<u64> {
    text.trim_ascii().iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A number of 20 ASCII characters, padded on the left.
pub(crate) fn padded(number: u64) -> [u8; 20] {
    let mut text = [b' '; 20];
    let mut rest = number;
    for place in text.iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client logged out, or closed the connection.
    Left,
    /// Bytes that are no SoupBinTCP: a length of 0 or above the limit, an unknown type, a login that is none.
    Garbage,
    /// Nothing came for 15 s.
    Silent,
    /// No login came within 30 s.
    NoLogin,
    /// The login was refused.
    Refused,
    /// It does not read what it asked for.
    Slow,
    /// Another connection logged in as the same user.
    Replaced,
    /// The session has ended.
    EndOfSession,
}

/// The progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connected {
        since_ns: u64,
    },
    Open,
    /// What is left is sent, then the connection is closed.
    Ending(End),
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Connection {
    phase: Phase,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    heard_ns: u64,
    said_ns: u64,
}

impl Connection {
    /// A connection that was accepted now.
    pub fn new(now_ns: u64) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        Self { phase: Phase::Connected { since_ns: now_ns }, input, output, sent: 0, heard_ns: now_ns, said_ns: now_ns }
    }

    /// Takes bytes that have come; at most as many as [`Self::room`]. A connection that ends takes no notice of them.
    pub fn push(&mut self, now_ns: u64, bytes: &[u8]) {
        self.heard_ns = now_ns;
        if self.ending().is_some() {
            return;
        }
        self.input.extend_from_slice(&bytes[..bytes.len().min(self.room())]);
    }

    /// Bytes that can be taken now. All packets are to be taken before more bytes come.
    pub fn room(&self) -> usize {
        INPUT_MAX.saturating_sub(self.input.len())
    }

    /// The next packet of those that have come whole. Heartbeats and debug packets are not shown.
    ///
    /// # Errors
    ///
    /// The bytes are no SoupBinTCP. The connection ends by [`Self::end`].
    pub fn packet(&mut self) -> Result<Option<Packet>, End> {
        loop {
            if matches!(self.phase, Phase::Ending(_)) {
                return Ok(None);
            }
            let Some((length, rest)) = self.input.split_first_chunk::<2>() else { return Ok(None) };
            let length = usize::from(u16::from_be_bytes(*length));
            if length == 0 || length > 1 + PAYLOAD_MAX {
                return Err(End::Garbage);
            }
            let Some(packet) = rest.get(..length) else { return Ok(None) };
            let packet = self.read(packet[0], &packet[1..])?;
            self.input.drain(..2 + length);
            if packet.is_some() {
                return Ok(packet);
            }
        }
    }

    fn read(&self, kind: u8, payload: &[u8]) -> Result<Option<Packet>, End> {
        let is_open = self.phase == Phase::Open;
        match kind {
            b'L' if !is_open => Login::parse(payload).map(|login| Some(Packet::Login(login))).ok_or(End::Garbage),
            b'U' if is_open => {
                let mut data = Payload { length: payload.len(), bytes: [0; PAYLOAD_MAX] };
                data.bytes[..payload.len()].copy_from_slice(payload);
                Ok(Some(Packet::Data(data)))
            }
            b'O' => Ok(Some(Packet::Logout)),
            b'R' | b'+' => Ok(None),
            _ => Err(End::Garbage),
        }
    }

    /// Accepts the login: `session`, and the sequence number of the next message that will be sent.
    pub fn accept(&mut self, session: &[u8; 10], next: u64) {
        self.phase = Phase::Open;
        let mut payload = [b' '; 30];
        payload[..10].copy_from_slice(session);
        payload[10..].copy_from_slice(&padded(next));
        self.say(b'A', &payload);
    }

    /// Refuses the login: `A` not authorised, `S` no such session or sequence number.
    pub fn refuse(&mut self, reason: u8) {
        self.say(b'J', &[reason]);
        self.end(End::Refused);
    }

    /// True if it has logged in and goes on.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// True if more messages may be appended to what waits.
    pub fn has_room(&self) -> bool {
        self.phase == Phase::Open && self.output.len() - self.sent < OUTPUT_MAX
    }

    /// Appends a sequenced message.
    pub fn sequenced(&mut self, message: &[u8]) {
        self.say(b'S', message);
    }

    /// Appends packets that are whole already.
    pub fn raw(&mut self, packets: &[u8]) {
        self.output.extend_from_slice(packets);
    }

    /// Ends the connection once what waits is sent. `Z` is said before if the session has ended.
    pub fn end(&mut self, why: End) {
        if matches!(self.phase, Phase::Ending(_)) {
            return;
        }
        if why == End::EndOfSession && self.phase == Phase::Open {
            self.say(b'Z', &[]);
        }
        self.phase = Phase::Ending(why);
        self.input = Vec::new();
    }

    /// Why it ends, if it does.
    pub fn ending(&self) -> Option<End> {
        match self.phase {
            Phase::Ending(why) => Some(why),
            _ => None,
        }
    }

    /// Time passes: heartbeats, and the ends of connections that say nothing.
    pub fn poll(&mut self, now_ns: u64) {
        self.check_silence(now_ns);
        if self.is_open() && self.output.is_empty() && now_ns.saturating_sub(self.said_ns) >= HEARTBEAT_NS {
            self.said_ns = now_ns;
            self.say(b'H', &[]);
        }
    }

    /// Ends a connection that says nothing for too long.
    pub fn check_silence(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Connected { since_ns } if now_ns.saturating_sub(since_ns) > LOGIN_MAX_NS => self.end(End::NoLogin),
            Phase::Open if now_ns.saturating_sub(self.heard_ns) > SILENCE_MAX_NS => self.end(End::Silent),
            _ => {}
        }
    }

    /// What waits to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// So many bytes of it were sent.
    pub fn sent(&mut self, now_ns: u64, count: usize) {
        self.said_ns = now_ns;
        self.sent = (self.sent + count).min(self.output.len());
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        } else if self.sent >= OUTPUT_MAX {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn say(&mut self, kind: u8, payload: &[u8]) {
        frame(&mut self.output, kind, payload);
    }
}

/// Bytes of a client that wait to be read: some whole packets.
const INPUT_MAX: usize = 4 * (3 + PAYLOAD_MAX);

/// Appends one packet to `output`.
pub(crate) fn frame(output: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let length = u16::try_from(1 + payload.len()).unwrap_or(u16::MAX);
    output.extend_from_slice(&length.to_be_bytes());
    output.push(kind);
    output.extend_from_slice(&payload[..usize::from(length) - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opened() -> Connection {
        let mut connection = Connection::new(0);
        connection.push(0, &login_packet("", 1));
        assert!(matches!(connection.packet(), Ok(Some(Packet::Login(_)))));
        connection.accept(b"VENUE00001", 1);
        connection
    }

    fn login_packet(session: &str, sequence: u64) -> Vec<u8> {
        format!("\0\x2fL{:<6}{:<10}{session:>10}{sequence:>20}", "USER", "SECRET").into_bytes()
    }

    #[test]
    fn a_login_is_read_byte_by_byte() {
        let mut connection = Connection::new(0);
        let bytes = login_packet("VENUE00001", 7);
        for byte in &bytes[..bytes.len() - 1] {
            connection.push(0, &[*byte]);
            assert_eq!(connection.packet(), Ok(None));
        }
        connection.push(0, &bytes[bytes.len() - 1..]);
        let Ok(Some(Packet::Login(login))) = connection.packet() else { panic!() };
        assert_eq!((&login.user, &login.password, login.sequence), (b"USER  ", b"SECRET    ", 7));
        assert!(login.wants(b"VENUE00001") && !login.wants(b"VENUE00002"));
    }

    #[test]
    fn answers_are_byte_for_byte_as_specified() {
        let mut connection = opened();
        connection.sequenced(b"x");
        assert_eq!(connection.output(), b"\0\x1fAVENUE00001                   1\0\x02Sx");
        let mut refused = Connection::new(0);
        refused.refuse(b'S');
        assert_eq!((refused.output(), refused.ending()), (&b"\0\x02JS"[..], Some(End::Refused)));
        assert_eq!(&padded(u64::MAX), b"18446744073709551615");
    }

    #[test]
    fn garbage_ends_a_connection() {
        let mut no_number = login_packet("", 1);
        *no_number.last_mut().unwrap() = b'x';
        for bytes in [&b"\0\0"[..], b"\xff\xffL", b"\0\x01Q", b"\0\x02LX", b"\0\x02Ux", &no_number] {
            let mut connection = Connection::new(0);
            connection.push(0, bytes);
            assert_eq!(connection.packet(), Err(End::Garbage), "{bytes:?}");
        }
        let mut connection = opened();
        connection.push(0, &login_packet("", 1));
        assert_eq!(connection.packet(), Err(End::Garbage), "a second login");
    }

    #[test]
    fn silence_is_answered_by_heartbeats_and_at_last_by_the_end() {
        let mut connection = opened();
        connection.sent(0, 1_000);
        connection.poll(HEARTBEAT_NS);
        assert_eq!(connection.output(), b"\0\x01H");
        connection.sent(HEARTBEAT_NS, 3);
        connection.push(HEARTBEAT_NS, b"\0\x01R");
        assert_eq!(connection.packet(), Ok(None));
        connection.poll(HEARTBEAT_NS + SILENCE_MAX_NS + 1);
        assert_eq!(connection.ending(), Some(End::Silent));
        let mut connection = Connection::new(5);
        connection.poll(LOGIN_MAX_NS + 5);
        assert_eq!(connection.ending(), None);
        connection.poll(LOGIN_MAX_NS + 6);
        assert_eq!(connection.ending(), Some(End::NoLogin));
    }

    #[test]
    fn a_client_that_does_not_read_gets_no_more_than_the_limit() {
        let mut connection = opened();
        while connection.has_room() {
            connection.sequenced(&[0; 64]);
        }
        assert!(connection.output().len() < OUTPUT_MAX + 100);
        connection.sent(0, OUTPUT_MAX);
        assert!(connection.has_room() && connection.output().len() < 100);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_input_is_bounded(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 0..20)) {
            let mut connection = opened();
            for chunk in chunks {
                connection.push(0, &chunk);
                prop_assert!(connection.input.len() <= INPUT_MAX);
                while let Ok(Some(_)) = connection.packet() {}
            }
        }
    }
}
