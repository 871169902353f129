//! A handler on loopback: two lines, a re-request server, a snapshot server, and a reader of what it publishes, all of the test's own.

use sidestep_feed_handler::{Application, FeedHandler, Line, Options, Publication, SnapshotServer, Update};
use sidestep_market::book::{self, Books};
use sidestep_market::feed::{Action, State};
use sidestep_market::mold64::{PacketWriter, Request, Session};
use sidestep_market::publish::{self, Interest};
use sidestep_market::units::{Alpha, Locate, Price, Sequence, Side};
use sidestep_socket::stream::Endpoint;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

const SESSION: Session = Alpha(*b"DAY1      ");
/// Far above what anything here takes on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(60);

fn directory(locate: u8, symbol: &[u8; 8]) -> Vec<u8> {
    let mut bytes = vec![0; 39];
    (bytes[0], bytes[2]) = (b'R', locate);
    bytes[11..19].copy_from_slice(symbol);
    bytes
}

fn add(order: u8, side: u8, shares: u8, price: u32) -> Vec<u8> {
    let mut bytes = vec![0; 36];
    (bytes[0], bytes[2], bytes[18], bytes[19], bytes[23]) = (b'A', 1, order, side, shares);
    bytes[24..32].copy_from_slice(b"AAPL    ");
    bytes[32..].copy_from_slice(&price.to_be_bytes());
    bytes
}

fn delete(order: u8) -> Vec<u8> {
    let mut bytes = vec![0; 19];
    (bytes[0], bytes[2], bytes[18]) = (b'D', 1, order);
    bytes
}

/// Messages 1 to 6 of the session.
fn day() -> Vec<Vec<u8>> {
    let bids = [add(1, b'B', 10, 99_0000), add(2, b'B', 20, 98_0000)];
    let rest = [add(3, b'S', 30, 101_0000), add(4, b'S', 40, 102_0000), delete(1)];
    [directory(1, b"AAPL    ")].into_iter().chain(bids).chain(rest).collect()
}

/// A datagram with these messages, the first of which has this number.
fn packet(first: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut buffer = [0; 1400];
    let mut writer = PacketWriter::new(&mut buffer, SESSION, Sequence(first)).unwrap();
    assert!(messages.iter().all(|message| writer.push(message)));
    writer.finish().to_vec()
}

#[derive(Default)]
struct Seen {
    messages: Vec<(u64, u8, bool)>,
    states: Vec<&'static str>,
}

impl Application for Seen {
    fn message(&mut self, update: &Update<'_>) {
        assert!(update.change.is_ok(), "{:?}", update.message);
        self.messages.push((update.sequence.0, update.message.kind(), update.origin.recovered));
    }

    fn notice(&mut self, action: &Action<Session>, _: &Books) {
        self.states.push(match action {
            Action::State(State::Live) => "live",
            Action::State(State::Recovering { .. }) => "recovering",
            Action::State(State::Stale { .. }) => "stale",
            Action::Request { .. } => "request",
            Action::OpenSnapshot { .. } => "snapshot",
            Action::Skipped { .. } => "skipped",
            _ => return,
        });
    }
}

fn free() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Options for two lines of unicast datagrams on loopback.
fn options() -> Options {
    let mut options = Options::of([Line::new("lo", free()), Line::new("lo", free())]);
    options.line.accelerate = false;
    options.channel.books = book::Limits { instruments: 10, orders: 1_000, levels: 1_000, side_levels: 100 };
    options.channel.policy.gap_wait_ns = 100_000;
    options
}

/// Polls until something is so.
fn until(handler: &mut FeedHandler, seen: &mut Seen, mut is_so: impl FnMut(&FeedHandler, &Seen) -> bool) {
    let begin = Instant::now();
    while !is_so(handler, seen) {
        assert!(begin.elapsed() < WATCHDOG, "{:?} {:?}", seen.messages, seen.states);
        if handler.poll(seen).unwrap() == 0 {
            handler.sleep(Duration::from_millis(10)).unwrap();
        }
    }
}

fn best(handler: &FeedHandler) -> [Option<(i64, u64)>; 2] {
    let book = handler.channel().books().book(Locate(1)).unwrap();
    [Side::Buy, Side::Sell].map(|side| book.best(side).map(|level| (level.price.0, level.shares)))
}

#[test]
fn two_lines_with_different_datagrams_give_one_book() {
    let (options, day) = (options(), day());
    let mut handler = FeedHandler::open(&options).unwrap();
    let mut seen = Seen::default();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let [a, b] = [0, 1].map(|line| options.lines[line].group);
    // A has lost the second datagram of three, B its first message.
    sender.send_to(&packet(1, &day[..2]), a).unwrap();
    sender.send_to(&packet(5, &day[4..]), a).unwrap();
    sender.send_to(&packet(2, &day[1..]), b).unwrap();
    until(&mut handler, &mut seen, |_, seen| seen.messages.len() == 6);
    let numbers: Vec<u64> = seen.messages.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    assert_eq!(best(&handler), [Some((98_0000, 20)), Some((101_0000, 30))]);
    assert_eq!(handler.channel().symbol(Locate(1)).map(|symbol| symbol.to_string()), Some("AAPL".into()));
    assert_eq!(handler.channel().feed().state(), State::Live);
}

#[test]
fn what_no_line_brings_is_asked_for_and_published_as_recovered() {
    let day = day();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let publication = Publication::within(folder.path().join("feed"));
    let options = Options {
        // Nobody listens at the first one.
        rerequest: vec![free(), server.local_addr().unwrap()],
        publish: Some(publication.clone()),
        ..options()
    };
    let mut handler = FeedHandler::open(&options).unwrap();
    let (mut subscriber, names) = publication.subscribe(Interest::all()).unwrap();
    let answers = day.clone();
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; 64];
        let (count, from) = server.recv_from(&mut buffer).unwrap();
        let request = Request::parse(&buffer[..count]).unwrap();
        let first = request.first.0 as usize - 1;
        let wanted = &answers[first..first + usize::from(request.count)];
        server.send_to(&packet(request.first.0, wanted), from).unwrap();
    });
    let mut seen = Seen::default();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for line in &options.lines {
        sender.send_to(&packet(1, &day[..2]), line.group).unwrap();
        sender.send_to(&packet(6, &day[5..]), line.group).unwrap();
    }
    until(&mut handler, &mut seen, |handler, seen| {
        seen.messages.len() == 6 && handler.channel().feed().state() == State::Live
    });
    thread.join().unwrap();
    let recovered: Vec<bool> = seen.messages.iter().map(|(_, _, recovered)| *recovered).collect();
    assert_eq!(recovered, [false, false, true, true, true, false]);
    assert!(seen.states.contains(&"request"), "{:?}", seen.states);
    let apple = names.find(Alpha(*b"AAPL    ")).unwrap();
    let top = subscriber.tops().top(apple.locate).unwrap();
    assert_eq!(top.bid.map(|level| (level.price, level.quantity)), Some((Price(98_0000), 20)));
    assert_eq!((top.state, subscriber.channel().decimals), (publish::State::Live, 0));
    let mut events = 0;
    while subscriber.try_next().unwrap().is_some() {
        events += 1;
    }
    assert!(events > 1 && subscriber.channel().state == publish::State::Live, "{events}");
    assert_eq!(handler.channel().counters().unpublished, 0);
    assert!(subscriber.tops().heartbeat_ns() > 0, "readers see that the handler's thread runs");
}

#[test]
fn a_late_joiner_takes_a_snapshot_and_goes_on_with_the_feed() {
    let day = day();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint: Endpoint = listener.local_addr().unwrap().into();
    let options = Options { snapshot: Some(SnapshotServer::at(endpoint)), ..options() };
    let mut handler = FeedHandler::open(&options).unwrap();
    let spin = [0, 1, 2, 3].map(|message: usize| day[message].clone());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut login = [0; 49];
        stream.read_exact(&mut login).unwrap();
        let soup =
            |kind: u8, payload: &[u8]| [&(payload.len() as u16 + 1).to_be_bytes()[..], &[kind], payload].concat();
        let accepted = soup(b'A', format!("{:>10}{:>20}", "DAY1", 1).as_bytes());
        let end = soup(b'S', format!("G{:>20}", 5).as_bytes());
        let spin = spin.iter().map(|message| soup(b'S', message));
        // One byte at a time: a stream has no borders.
        let bytes: Vec<u8> = [accepted].into_iter().chain(spin).chain([end]).flatten().collect();
        bytes.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut seen = Seen::default();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    // It comes when messages 1 to 4 are gone.
    sender.send_to(&packet(5, &day[4..]), options.lines[0].group).unwrap();
    until(&mut handler, &mut seen, |handler, _| handler.channel().feed().state() == State::Live);
    assert_eq!(best(&handler), [Some((98_0000, 20)), Some((101_0000, 30))]);
    let kinds: Vec<u8> = seen.messages.iter().map(|(_, kind, _)| *kind).collect();
    // The snapshot, and messages 5 and 6 of the feed.
    assert_eq!(kinds, b"RAAAAD");
    assert!(seen.states.contains(&"snapshot") && seen.states.contains(&"skipped"), "{:?}", seen.states);
    assert!(
        handler.channel().books().book(Locate(1)).unwrap().suspect().is_none(),
        "the snapshot replaced what was skipped"
    );
    drop(handler);
    thread.join().unwrap();
}

#[test]
fn without_any_source_the_loss_is_told_and_the_books_are_suspect() {
    let (options, day) = (options(), day());
    let mut handler = FeedHandler::open(&options).unwrap();
    let mut seen = Seen::default();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(&packet(1, &day[..2]), options.lines[0].group).unwrap();
    sender.send_to(&packet(4, &day[3..5]), options.lines[0].group).unwrap();
    until(&mut handler, &mut seen, |_, seen| seen.messages.len() == 4);
    assert!(seen.states.contains(&"skipped"), "{:?}", seen.states);
    assert!(matches!(handler.channel().feed().state(), State::Stale { .. }));
    assert!(handler.channel().books().book(Locate(1)).unwrap().suspect().is_some());
}

#[test]
fn a_server_that_floods_does_not_keep_the_answer_of_another_waiting() {
    let servers = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    servers.iter().for_each(|server| server.set_nonblocking(true).unwrap());
    let mut options = options();
    options.rerequest = servers.iter().map(|server| server.local_addr().unwrap()).collect();
    // Nothing is given up while the test is slow.
    options.channel.policy.request_tries = 1_000;
    let day = day();
    let mut handler = FeedHandler::open(&options).unwrap();
    let mut seen = Seen::default();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(&packet(1, &day[..1]), options.lines[0].group).unwrap();
    sender.send_to(&packet(3, &day[2..]), options.lines[0].group).unwrap();
    let mut clients = [None; 2];
    until(&mut handler, &mut seen, |_, _| {
        for (server, client) in servers.iter().zip(&mut clients) {
            *client = client.or(server.recv_from(&mut [0; 100]).ok().map(|(_, client)| client));
        }
        clients.iter().all(Option::is_some)
    });
    for _ in 0..200 {
        servers[0].send_to(b"garbage", clients[0].unwrap()).unwrap();
    }
    servers[1].send_to(&packet(2, &day[1..2]), clients[1].unwrap()).unwrap();
    handler.poll(&mut seen).unwrap();
    assert_eq!(seen.messages.len(), 6, "the next poll has the answer");
}

#[test]
fn a_snapshot_server_that_says_nothing_is_told_as_such_and_given_up() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = options();
    let endpoint = server.local_addr().unwrap().to_string();
    options.snapshot = Some(SnapshotServer::at(Endpoint::parse(&endpoint).unwrap()));
    options.channel.policy.snapshot_timeout_ns = 20_000_000;
    let mut handler = FeedHandler::open(&options).unwrap();
    let mut seen = Seen::default();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(&packet(3, &day()[2..]), options.lines[0].group).unwrap();
    until(&mut handler, &mut seen, |handler, _| handler.snapshot_failure().is_some());
    let why = handler.snapshot_failure().unwrap();
    assert!(why.contains(&endpoint) && why.contains("brought nothing in time"), "{why}");
}
