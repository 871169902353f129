//! Metrics over HTTP, served by one thread that never blocks on a connection. A client that is silent, slow or does not read delays
//! no other scrape. What is measured is asked a few times a second at most, however many requests come.

use crate::text::CONTENT_TYPE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidestep_sys::Problem;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time for a request and for reading its answer.
const TALK_MAX: Duration = Duration::from_secs(2);
/// Connections at a time; the oldest goes when another one comes.
const CONNECTIONS_MAX: usize = 64;
/// Connections of one host (by IPv6 a network of 64 bits): when it opens more, its oldest one is closed.
const CONNECTIONS_PER_HOST_MAX: usize = 8;
/// Connections accepted before the open ones are served again.
const ACCEPTS_PER_TURN_MAX: usize = 16;
/// The longest request, bytes.
const REQUEST_BYTES_MAX: usize = 4096;
/// Pause after a turn that accepted: a flood of connections gets a few percent of a CPU, and a scrape waits no longer than this.
const BREATH: Duration = Duration::from_millis(5);
/// The time for which an answer is reused: an engine answers between two polls, on the trading thread.
const FRESH: Duration = Duration::from_millis(200);
/// Pause before the next accept where no descriptors are left.
const REST: Duration = Duration::from_millis(50);

/// What another method gets (RFC 9110 section 15.5.6).
const REFUSAL: &[u8] =
    b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// One connection.
struct Connection {
    stream: TcpStream,
    host: IpAddr,
    end: Instant,
    state: State,
}

enum State {
    /// The received part of the request.
    Asking(Vec<u8>),
    /// The answer, which connections share, and the bytes of it that have left.
    Answered(Arc<[u8]>, usize),
}

/// The result of serving a connection once.
enum Step {
    /// It goes on when the socket is ready.
    Waits,
    /// The request is whole.
    Asks(Asked),
    /// It has ended.
    Over,
}

/// What a request asks for (RFC 9110 section 9.3).
enum Asked {
    Get,
    Head,
    Other,
}

/// Listens on an address.
///
/// # Errors
/// The address cannot be had.
pub fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Problem> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr().map(|local| (listener, local)));
    bound.map_err(|error| {
        Problem::failed(format!("cannot listen on {address}"), error)
            .next("choose an address of this host and a port that is free, or 0 for any")
    })
}

/// Answers GET and HEAD with what `render` gives, whatever the path, as long as the process lives.
pub fn serve(listener: &TcpListener, render: impl Fn() -> io::Result<String>) {
    let (mut connections, mut fresh) = (Vec::new(), None);
    // A listener of ours that cannot be set so is none.
    while listener.set_nonblocking(true).is_ok() {
        wait(listener, &connections);
        if accept(listener, &mut connections) {
            std::thread::sleep(BREATH);
        }
        let now = Instant::now();
        connections.retain_mut(|connection: &mut Connection| {
            connection.end > now && connection.serve(|| rendered(&mut fresh, &render, now))
        });
    }
}

/// The last answer, or another one.
fn rendered(
    fresh: &mut Option<(Instant, Arc<[u8]>)>,
    render: &impl Fn() -> io::Result<String>,
    now: Instant,
) -> Option<Arc<[u8]>> {
    if fresh.as_ref().is_none_or(|(at, _)| now.duration_since(*at) >= FRESH) {
        *fresh = render().ok().map(|text| (Instant::now(), response(&text)));
    }
    fresh.as_ref().map(|(_, answer)| answer.clone())
}

fn response(text: &str) -> Arc<[u8]> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), text.as_bytes()].concat().into()
}

/// An answer without its content (RFC 9110 section 9.3.2).
fn head_of(answer: &[u8]) -> Arc<[u8]> {
    const END: &[u8] = b"\r\n\r\n";
    let end = answer.windows(END.len()).position(|bytes| bytes == END);
    answer[..end.map_or(answer.len(), |at| at + END.len())].into()
}

/// The part of an address that shares a limit: a host by IPv4; by IPv6 a network of 64 bits, as hosts choose the rest themselves.
fn narrow(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & (u128::MAX << 64)).into()),
        v4 => v4,
    }
}

/// Waits until a connection comes, is ready, or reaches its time limit.
fn wait(listener: &TcpListener, connections: &[Connection]) {
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    fds.extend(connections.iter().map(|connection| {
        let wanted = if matches!(connection.state, State::Asking(_)) { PollFlags::IN } else { PollFlags::OUT };
        PollFd::new(&connection.stream, wanted)
    }));
    let now = Instant::now();
    let left = connections.iter().map(|connection| connection.end.saturating_duration_since(now)).min();
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    if poll(&mut fds, timeout.as_ref()).is_err_and(|error| error != rustix::io::Errno::INTR) {
        std::thread::sleep(REST);
    }
}

/// Accepts some of those that wait; true if there were any.
fn accept(listener: &TcpListener, connections: &mut Vec<Connection>) -> bool {
    let mut accepted_any = false;
    for _ in 0..ACCEPTS_PER_TURN_MAX {
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Out of descriptors it fails at once, again and again.
            Err(_) => {
                std::thread::sleep(REST);
                break;
            }
        };
        accepted_any = true;
        let host = narrow(peer.ip());
        // In order of their coming: the first that is found is the oldest.
        let of_host = connections.iter().filter(|connection| connection.host == host).count();
        let oldest = match () {
            () if of_host >= CONNECTIONS_PER_HOST_MAX => {
                connections.iter().position(|connection| connection.host == host)
            }
            () if connections.len() >= CONNECTIONS_MAX => Some(0),
            () => None,
        };
        oldest.into_iter().for_each(|oldest| _ = connections.remove(oldest));
        if stream.set_nonblocking(true).is_ok() {
            let state = State::Asking(Vec::new());
            connections.push(Connection { stream, host, end: Instant::now() + TALK_MAX, state });
        }
    }
    accepted_any
}

impl Connection {
    /// Goes on with it as far as it goes without waiting; `false` when it is over.
    fn serve(&mut self, render: impl FnOnce() -> Option<Arc<[u8]>>) -> bool {
        let step = match &mut self.state {
            State::Asking(request) => hear(&mut self.stream, request),
            State::Answered(answer, sent) => say(&mut self.stream, answer, sent),
        };
        let asked = match step {
            Step::Waits => return true,
            Step::Over => return false,
            Step::Asks(asked) => asked,
        };
        let answer = match asked {
            Asked::Get => render(),
            Asked::Head => render().map(|answer| head_of(&answer)),
            Asked::Other => Some(Arc::from(REFUSAL)),
        };
        let Some(answer) = answer else { return false };
        let mut sent = 0;
        let step = say(&mut self.stream, &answer, &mut sent);
        self.state = State::Answered(answer, sent);
        matches!(step, Step::Waits)
    }
}

/// Reads to the empty line after the headers, so that closing the connection does not reset it.
fn hear(stream: &mut TcpStream, request: &mut Vec<u8>) -> Step {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Step::Over,
            Ok(count) => request.extend(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Waits,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Step::Over,
        }
        // RFC 9112 section 2.2: a line may end with a bare LF.
        if request.windows(4).any(|end| end == b"\r\n\r\n") || request.windows(2).any(|end| end == b"\n\n") {
            return Step::Asks(match () {
                () if request.starts_with(b"GET ") => Asked::Get,
                () if request.starts_with(b"HEAD ") => Asked::Head,
                () => Asked::Other,
            });
        }
        if request.len() > REQUEST_BYTES_MAX {
            return Step::Over;
        }
    }
}

fn say(stream: &mut TcpStream, answer: &[u8], sent: &mut usize) -> Step {
    while *sent < answer.len() {
        match stream.write(&answer[*sent..]) {
            Ok(0) => return Step::Over,
            Ok(count) => *sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Waits,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Step::Over,
        }
    }
    Step::Over
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A server whose metrics count how often they were asked for.
    fn started(text: &str) -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let (count, text) = (Arc::clone(&asked), text.to_owned());
        let render = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(text.clone())
        };
        std::thread::spawn(move || serve(&listener, render));
        (address, asked)
    }

    fn scrape(from: &str, to: SocketAddr, request: &str) -> String {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from.parse().unwrap(), 0).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_scrape_is_answered_and_nothing_else() {
        let (address, _) = started("up 1\n");
        let answer = scrape("127.0.0.1", address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nup 1\n"), "{answer}");
        let head = scrape("127.0.0.1", address, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(head.contains("\r\nContent-Length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let refused = scrape("127.0.0.1", address, "POST / HTTP/1.1\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 405") && refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
    }

    #[test]
    fn silent_and_slow_connections_hold_up_no_scrape_and_a_flood_does_not_reach_the_engine() {
        // More than fits the buffers of a connection that nobody reads.
        let (address, asked) = started(&"x".repeat(16 << 20));
        let begun = Instant::now();
        let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        let deaf: Vec<_> = (0..8)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                stream
            })
            .collect();
        let mut answers = 0;
        while answers < 20 {
            answers += usize::from(scrape("127.0.0.2", address, "GET / HTTP/1.1\r\n\r\n").len() > 16 << 20);
        }
        // As often as time allows, not as often as it was asked.
        let allowed = begun.elapsed().as_millis() / FRESH.as_millis() + 2;
        assert!(asked.load(Ordering::Relaxed) as u128 <= allowed, "{asked:?} of {allowed}");
        drop((silent, deaf));
    }
}
