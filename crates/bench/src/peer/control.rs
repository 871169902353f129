//! The control connection: framed messages over TCP or a socket pair.

use super::protocol::{MAGIC, MESSAGE_MAX_BYTES, PROTOCOL, Reply, Request, Told};
use crate::host;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sidestep_report::schema::Host;
use sidestep_sys::Problem;
use socket2::{Socket, TcpKeepalive};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The longest silence of the other end while no slice runs. A live peer answers in milliseconds;
/// there is no point in waiting longer for a dead one.
const SILENCE: Duration = Duration::from_secs(10);

/// The same while the other end makes a slice ready: it may have to take its control plane off the interface, and waits up to ten
/// seconds where that has been too often.
const READY_MAX: Duration = Duration::from_secs(30);
/// The smallest MTU of IPv4 (RFC 791).
const MTU_MIN: u32 = 68;

/// One end of a control connection.
pub struct Control {
    socket: Socket,
    /// When the present slice was asked for.
    asked: Instant,
}

/// The peer's answer to the greeting.
pub struct Greeting {
    /// Facts about its host.
    pub host: Host,
    /// Its version.
    pub version: String,
    /// The longest IP packet that its interface takes.
    pub mtu: Option<u32>,
    /// Set if it runs under the same kernel.
    pub same_machine: bool,
    /// CPU of its pinned paths.
    pub cpu: Option<u32>,
    /// What it may do past the kernel.
    pub past_kernel: Told,
}

impl Control {
    /// Returns a control connection over a connected stream socket.
    pub fn over(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        if socket.local_addr()?.as_socket().is_some() {
            socket.set_tcp_nodelay(true)?;
            let keepalive = TcpKeepalive::new().with_time(SILENCE / 2).with_interval(Duration::from_secs(1));
            socket.set_tcp_keepalive(&keepalive)?;
        }
        Ok(Self { socket, asked: Instant::now() })
    }

    /// Connects to a serving peer.
    pub fn connect(address: SocketAddr) -> Result<Self, Problem> {
        let connect = || {
            let socket = Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
            socket.connect_timeout(&address.into(), SILENCE / 2)?;
            Self::over(socket)
        };
        connect().map_err(|error| {
            Problem::failed(format!("cannot reach a sidestep peer at {address}"), error)
                .next("start it there with: sidestep bench serve --listen ADDRESS:PORT, and check the firewall")
        })
    }

    /// The address of this end and of the other; none for a socket pair.
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        let local = self.socket.local_addr().ok()?.as_socket()?.ip().to_canonical();
        let peer = self.socket.peer_addr().ok()?.as_socket()?.ip().to_canonical();
        Some((local, peer))
    }

    /// Sends the greeting and returns the other end's answer.
    pub fn greet(&mut self) -> Result<Greeting, Problem> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.send(&Request::Hello { magic: MAGIC.into(), protocol: PROTOCOL, version, boot_id: host::boot_id() })
            .map_err(|error| gone(&error))?;
        match self.reply()? {
            Reply::Hello { protocol, mtu: Some(mtu), .. } if protocol == PROTOCOL && mtu < MTU_MIN => {
                Err(impossible(&format!("an MTU of {mtu}")))
            }
            Reply::Hello { protocol, version, host, mtu, same_machine, cpu, past_kernel } if protocol == PROTOCOL => {
                Ok(Greeting { host: *host, version, mtu, same_machine, cpu, past_kernel })
            }
            Reply::Hello { protocol, version, .. } => Err(other_version(protocol, &version)),
            other => Err(unexpected(&other)),
        }
    }

    /// Requests a slice and returns the peer's answer; a refusal is a [`Problem`].
    pub fn ask(&mut self, request: &Request) -> Result<Reply, Problem> {
        self.send(request).map_err(|error| gone(&error))?;
        // Frames are counted since an earlier request.
        if !matches!(request, Request::Frames { .. }) {
            self.asked = Instant::now();
        }
        self.reply_within(READY_MAX)
    }

    /// Receives the peer's next reply.
    pub fn reply(&mut self) -> Result<Reply, Problem> {
        self.reply_within(SILENCE)
    }

    fn reply_within(&mut self, timeout: Duration) -> Result<Reply, Problem> {
        match self.recv(timeout).map_err(|error| gone(&error))? {
            Some(Reply::Done(done)) if !done.is_possible_within(self.asked.elapsed()) => {
                Err(impossible("more messages or CPU time than the slice has room for"))
            }
            Some(Reply::Refused { reason, next }) => Err(Problem::failed("the peer refused", reason).next(next)),
            Some(reply) => Ok(reply),
            None => Err(gone(&ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Sends one message.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let body = serde_json::to_vec(message).map_err(io::Error::other)?;
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend(body);
        self.socket.set_write_timeout(Some(SILENCE))?;
        self.socket.write_all(&frame)
    }

    /// Receives one message; none if the other end has closed in order. `timeout` is for the begin of the message; its length
    /// must be whole ten seconds later, and the message ten seconds after that.
    pub fn recv<T: DeserializeOwned>(&mut self, timeout: Duration) -> io::Result<Option<T>> {
        let mut length = [0; 4];
        self.socket.set_read_timeout(Some(timeout))?;
        match uninterrupted(|| self.socket.read(&mut length))? {
            0 => return Ok(None),
            count => self.rest(&mut length[count..], deadline(SILENCE))?,
        }
        let length = u32::from_le_bytes(length);
        if length > MESSAGE_MAX_BYTES {
            let why = format!("a message of {length} bytes, the limit is {MESSAGE_MAX_BYTES}");
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        let mut body = vec![0; length as usize];
        self.rest(&mut body, deadline(SILENCE))?;
        serde_json::from_slice(&body).map(Some).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    /// Fills `bytes` until `deadline`, in any number of receives.
    fn rest(&mut self, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            match uninterrupted(|| self.socket.read(bytes))? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => bytes = &mut bytes[count..],
            }
        }
        Ok(())
    }

    /// Returns whether a message or the end of the connection arrives within `timeout`.
    pub fn has_word(&self, timeout: Duration) -> bool {
        let mut byte = [std::mem::MaybeUninit::uninit(); 1];
        self.socket.set_read_timeout(Some(timeout)).is_ok() && uninterrupted(|| self.socket.peek(&mut byte)).is_ok()
    }

    /// The same, without waiting.
    pub(crate) fn has_word_now(&self) -> bool {
        if self.socket.set_nonblocking(true).is_err() {
            return true;
        }
        let mut byte = [std::mem::MaybeUninit::uninit(); 1];
        // The end of the connection counts, too: the next receive reports it.
        let is_there = !self.socket.peek(&mut byte).is_err_and(|error| sidestep_socket::stream::is_retry(&error));
        self.socket.set_nonblocking(false).is_err() || is_there
    }

    /// Closes the connection for both ends.
    pub(crate) fn close(&self) {
        // One that is broken is closed.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Returns whether the other end has closed, without waiting.
    pub fn is_closed(&self) -> bool {
        if self.socket.set_nonblocking(true).is_err() {
            return true;
        }
        let mut byte = [std::mem::MaybeUninit::uninit(); 1];
        let closed = match self.socket.peek(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => !sidestep_socket::stream::is_retry(&error),
        };
        closed || self.socket.set_nonblocking(false).is_err()
    }
}

fn deadline(within: Duration) -> Instant {
    Instant::now() + within
}

/// Calls again after EINTR, which a receive with a time-out also gets when the kernel freezes and thaws the thread.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn gone(error: &io::Error) -> Problem {
    let why = match error.kind() {
        ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it has been silent for too long".into(),
        ErrorKind::InvalidData => format!("it does not speak our protocol ({error})"),
        _ => error.to_string(),
    };
    Problem::failed("lost the peer", why).next("see what the peer printed; is it the same sidestep version?")
}

fn impossible(what: &str) -> Problem {
    Problem::failed("cannot measure against this peer", format!("it tells {what}, which no host can have"))
        .next("install the same version of sidestep on both ends")
}

fn other_version(protocol: u32, version: &str) -> Problem {
    let why = format!(
        "it is version {version} (protocol {protocol}), this is {} (protocol {PROTOCOL})",
        env!("CARGO_PKG_VERSION")
    );
    Problem::failed("cannot measure against this peer", why).next("install the same version of sidestep on both ends")
}

fn unexpected(reply: &Reply) -> Problem {
    let name = match reply {
        Reply::Hello { .. } => "hello",
        Reply::Ready(_) => "ready",
        Reply::Done(_) => "done",
        Reply::Refused { .. } => "refused",
    };
    Problem::failed("lost the peer", format!("it answered {name:?} out of turn")).next("restart the peer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::protocol::{Done, Spent, Told};

    fn pair() -> (Control, Control) {
        let (one, two) = Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket pair");
        (Control::over(one).expect("connected"), Control::over(two).expect("connected"))
    }

    #[test]
    fn a_peer_that_tells_what_no_host_can_have_is_refused() {
        let spent = |ns, messages| Spent { ns, messages, last_cpu: None };
        let possible = Done { received: 1_000_000, cpu: spent(1_000_000_000, 1_000_000), ..Done::default() };
        assert!(possible.is_possible_within(Duration::from_secs(1)));
        for done in [
            Done { cpu: spent(u64::MAX, 1), ..possible.clone() },
            Done { cpu: spent(1, u64::MAX), ..possible.clone() },
            Done { received: u64::MAX, ..possible.clone() },
            Done { gaps: u64::MAX, ..possible.clone() },
            Done { duplicates: u64::MAX, ..possible.clone() },
            Done { reordered: u64::MAX, ..possible.clone() },
            Done { involuntary_switches: u64::MAX, ..possible.clone() },
        ] {
            let (mut one, mut two) = pair();
            two.send(&Reply::Done(done)).expect("connected");
            assert!(one.reply().expect_err("no host").to_string().contains("no host can have"));
        }
        for mtu in [0, 1] {
            let (mut one, mut two) = pair();
            let hello = Reply::Hello {
                protocol: PROTOCOL,
                version: String::new(),
                host: Box::default(),
                mtu: Some(mtu),
                same_machine: false,
                cpu: None,
                past_kernel: Told::Nothing,
            };
            two.send(&hello).expect("connected");
            assert!(one.greet().err().expect("no host").to_string().contains("an MTU of"));
        }
    }

    #[test]
    fn who_drips_a_message_is_not_waited_for() {
        let (one, mut two) = pair();
        let mut sender = one.socket;
        sender.write_all(&100_u32.to_le_bytes()).expect("there is room");
        let mut body = [0; 100];
        let (ended, is_over) = std::sync::mpsc::channel::<()>();
        let dripping = std::thread::spawn(move || {
            while is_over.try_recv().is_err() && sender.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut length = [0; 4];
        two.rest(&mut length, deadline(SILENCE)).expect("it is there");
        let error = two.rest(&mut body, deadline(Duration::from_millis(50))).expect_err("not in time");
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        ended.send(()).expect("it listens");
        dripping.join().expect("it does not panic");
    }

    #[test]
    fn messages_arrive_and_an_end_is_an_end() {
        let (mut one, mut two) = pair();
        one.send(&Reply::Done(Done::default())).expect("connected");
        assert!(matches!(two.recv(SILENCE), Ok(Some(Reply::Done(_)))));
        assert!(!two.is_closed());
        drop(one);
        assert!(two.is_closed());
        assert!(matches!(two.recv::<Reply>(SILENCE), Ok(None)));
    }

    #[test]
    fn strange_bytes_are_refused() {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[4, 0, 0, 0, b'x', b'y', b'z', b'!'], &[255; 8], &[9, 0]] {
            let (mut one, two) = pair();
            (&two.socket).write_all(bytes).expect("connected");
            drop(two);
            assert!(one.recv::<Request>(SILENCE).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn silence_ends() {
        let (mut one, _two) = pair();
        let error = one.recv::<Reply>(Duration::from_millis(10)).expect_err("nobody speaks");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}
