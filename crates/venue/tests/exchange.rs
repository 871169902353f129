//! The exchange over real sockets, on loopback: what clients see of it.

use sidestep_fix::Now;
use sidestep_fix::value::Precision;
use sidestep_socket::stream::Endpoint;
use sidestep_sys::idle::IdleStrategy;
use sidestep_venue::exchange::DaySettings;
use sidestep_venue::load::{LoadSettings, Profile};
use sidestep_venue::matching::Limits;
use sidestep_venue::ouch::OuchSettings;
use sidestep_venue::run::{Exchange, Settings, Stats};
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SESSION: [u8; 10] = *b"TEST000001";
const PATIENCE: Duration = Duration::from_secs(60);

/// A running exchange, and the receivers of its lines.
struct Lab {
    stop: Arc<AtomicBool>,
    exchange: Option<JoinHandle<Stats>>,
    places: BTreeMap<&'static str, String>,
    lines: [UdpSocket; 2],
}

/// A socket that has joined a group on loopback, at a port that was free.
fn receiver(group: Ipv4Addr) -> (UdpSocket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    socket.bind(&SocketAddrV4::new(group, 0).into()).unwrap();
    let _ = socket.set_recv_buffer_size(8 << 20);
    socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let socket: UdpSocket = socket.into();
    let port = socket.local_addr().unwrap().port();
    (socket, SocketAddrV4::new(group, port).into())
}

impl Lab {
    fn new(rate: u64, loss_ppm: [u32; 2]) -> Self {
        Self::with_history(rate, loss_ppm, 200_000)
    }

    fn with_history(rate: u64, loss_ppm: [u32; 2], history: usize) -> Self {
        let (a, group_a) = receiver(Ipv4Addr::new(239, 192, 77, 1));
        let (b, group_b) = receiver(Ipv4Addr::new(239, 192, 77, 2));
        let port = || Some(Endpoint::parse("127.0.0.1:0").unwrap());
        let settings = Settings {
            day: DaySettings {
                load: LoadSettings { seed: 3, symbols: 10, live_orders: 100 },
                profile: Profile::Steady,
                rate,
                speed: 1,
                history,
                limits: Limits { orders: 10_000, levels: 1_000 },
            },
            session: SESSION,
            interface: "lo".to_owned(),
            groups: [Some(group_a), Some(group_b)],
            ttl: 0,
            messages_per_packet: 4,
            loss_ppm,
            rerequest: "127.0.0.1:0".parse().ok(),
            glimpse: port(),
            ouch: port(),
            ouch_settings: OuchSettings::default(),
            fix: port(),
            idle: IdleStrategy::PARK,
        };
        let mut exchange = Exchange::open(&settings).unwrap();
        let places = exchange.places().into_iter().collect();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let run = move || {
            exchange.run(&flag, None);
            exchange.stats()
        };
        let exchange = Some(std::thread::spawn(run));
        Self { stop, exchange, places, lines: [a, b] }
    }

    fn connect(&self, server: &str) -> TcpStream {
        let stream = TcpStream::connect(self.places[server].as_str()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn end(mut self) -> Stats {
        self.stop.store(true, Ordering::Relaxed);
        self.exchange.take().unwrap().join().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A packet: first sequence number, count, messages.
fn packet(bytes: &[u8]) -> (u64, u16, Vec<Vec<u8>>) {
    assert_eq!(bytes[..10], SESSION);
    let first = u64::from_be_bytes(bytes[10..18].try_into().unwrap());
    let count = u16::from_be_bytes(bytes[18..20].try_into().unwrap());
    let (mut rest, mut messages) = (&bytes[20..], Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let (message, behind) = behind.split_at(usize::from(u16::from_be_bytes(*length)));
        messages.push(message.to_vec());
        rest = behind;
    }
    (first, count, messages)
}

/// What a line has brought: messages by number, first numbers of datagrams, and the end of the session.
#[derive(Default)]
struct Received {
    messages: BTreeMap<u64, Vec<u8>>,
    firsts: Vec<u64>,
    end: Option<u64>,
}

impl Received {
    fn read(&mut self, socket: &UdpSocket) -> bool {
        let mut buffer = [0; 2_048];
        let Ok(length) = socket.recv(&mut buffer) else { return false };
        let (first, count, messages) = packet(&buffer[..length]);
        match count {
            u16::MAX => self.end = Some(first),
            0 => {}
            _ => {
                self.firsts.push(first);
                self.messages.extend((first..).zip(messages));
            }
        }
        true
    }

    fn read_until(&mut self, socket: &UdpSocket, is_enough: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_enough(self) {
            assert!(Instant::now() < end, "{} messages came", self.messages.len());
            self.read(socket);
        }
    }
}

/// The next packet of SoupBinTCP: type and payload.
fn soup(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes).unwrap();
    (bytes[0], bytes[1..].to_vec())
}

fn log_in(stream: &mut TcpStream, user: &str, sequence: u64) {
    write!(stream, "\0\x2fL{user:<6}{:<10}{:>10}{sequence:>20}", "", "").unwrap();
    assert_eq!(soup(stream).0, b'A');
}

fn enter(stream: &mut impl Write, user_ref: u32, side: u8, price: u64) {
    let mut packet = b"\0\x30UO".to_vec();
    packet.extend(user_ref.to_be_bytes());
    packet.push(side);
    packet.extend(100_u32.to_be_bytes());
    packet.extend(b"AAAA    ");
    packet.extend(price.to_be_bytes());
    packet.extend(b"0YANNORDER         \0\0");
    stream.write_all(&packet).unwrap();
}

/// The next sequenced message.
fn answer(stream: &mut TcpStream) -> Vec<u8> {
    loop {
        if let (b'S', message) = soup(stream) {
            return message;
        }
    }
}

#[test]
fn lines_agree_lost_messages_come_by_request_and_the_end_is_told() {
    let lab = Lab::new(5_000, [200_000, 0]);
    let (mut a, mut b) = (Received::default(), Received::default());
    std::thread::scope(|scope| {
        let (ours, theirs) = (&mut a, &mut b);
        scope.spawn(|| theirs.read_until(&lab.lines[1], |line| line.end.is_some()));
        ours.read_until(&lab.lines[0], |line| line.messages.len() > 4_000);
        lab.stop.store(true, Ordering::Relaxed);
        ours.read_until(&lab.lines[0], |line| line.end.is_some());
    });
    assert_eq!(a.end, b.end);
    let last = b.end.unwrap() - 1;
    assert_eq!(b.messages.len() as u64, last, "line B has all");
    assert!(
        a.messages.len() < b.messages.len()
            && a.messages.iter().all(|(number, message)| b.messages[number] == *message)
    );
    assert_ne!(a.firsts, b.firsts);
    // While the end is told, what is missing can still be had.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let missing = (1..=last).find(|number| !a.messages.contains_key(number)).unwrap();
    let mut request = SESSION.to_vec();
    request.extend(missing.to_be_bytes());
    request.extend(3_u16.to_be_bytes());
    socket.send_to(&request, lab.places["re-requests"].as_str()).unwrap();
    let mut buffer = [0; 2_048];
    let length = socket.recv(&mut buffer).unwrap();
    let (first, count, messages) = packet(&buffer[..length]);
    assert_eq!((first, usize::from(count)), (missing, messages.len()));
    for (number, message) in (missing..).zip(messages) {
        assert_eq!(b.messages[&number], message);
    }
    let stats = lab.end();
    assert!(stats.lines[0].counters.dropped > 0 && stats.rerequest.unwrap().answered == 1);
}

#[test]
fn orders_by_ouch_and_fix_meet_and_are_published_with_their_references() {
    let lab = Lab::new(0, [0, 0]);
    let mut feed = Received::default();
    feed.read_until(&lab.lines[0], |line| {
        line.messages.values().any(|message| message[0] == b'S' && message[11] == b'Q')
    });
    let mut ouch = lab.connect("OUCH");
    log_in(&mut ouch, "CLIENT", 0);
    enter(&mut ouch, 1, b'B', 5_000_100);
    let accepted = answer(&mut ouch);
    assert_eq!(accepted[0], b'A');
    // Higher than any offer of the load: it takes them, and the rest stands in the book.
    let taken = std::iter::from_fn(|| Some(answer(&mut ouch)).filter(|message| message[0] == b'E'));
    assert_eq!(taken.take(1).count(), 1);
    let mut fix = lab.connect("FIX");
    let mut said = 0;
    let mut say = |body: &str| {
        said += 1;
        let mut time = [0; 27];
        let length = Now::system().utc().write(Precision::Millis, &mut time);
        let time = String::from_utf8_lossy(&time[..length]);
        let head = format!("49=CLIENT|56=VENUE|34={said}|52={time}|");
        let (kind, rest) = body.split_once('|').unwrap();
        let body = format!("35={kind}|{head}{rest}").replace('|', "\x01");
        let message = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
        let sum = message.bytes().fold(0_u8, u8::wrapping_add);
        fix.write_all(format!("{message}10={sum:03}\x01").as_bytes()).unwrap();
    };
    say("A|98=0|108=30|141=Y|");
    let orders = [
        "D|11=one|55=AAAB|54=1|38=100|40=2|44=1.01|60=20260101-00:00:00|",
        "G|11=two|41=one|55=AAAB|54=1|38=150|40=2|44=1.02|60=20260101-00:00:00|",
        "F|11=three|41=two|55=AAAB|54=1|38=150|60=20260101-00:00:00|",
        "F|11=four|41=two|55=AAAB|54=1|38=150|60=20260101-00:00:00|",
        "D|11=five|55=AAAB|54=1|38=100|40=1|59=3|60=20260101-00:00:00|",
        "D|11=six|55=NONE|54=1|38=100|40=2|44=1|60=20260101-00:00:00|",
    ];
    orders.iter().for_each(|order| say(order));
    let mut fix = lab_fix(fix);
    let reports: Vec<(String, String)> = std::iter::from_fn(|| Some(fix.next_report()))
        .take_while(|report| !report.contains("|11=six|"))
        .map(|report| (field(&report, "35"), field(&report, "39")))
        .collect();
    let told: Vec<String> = reports.iter().map(|(kind, status)| format!("{kind}{status}")).collect();
    assert_eq!(told[..4], ["80", "80", "84", "98"], "new, replaced, cancelled, too late to cancel");
    assert_eq!(told[4], "80");
    assert!(told[5..].iter().all(|report| ["81", "82", "84"].contains(&report.as_str())), "{told:?}");
    let reference = fix.references[0];
    feed.read_until(&lab.lines[0], |line| {
        line.messages.values().any(|message| message[0] == b'A' && message[11..19] == reference.to_be_bytes())
    });
    let stats = lab.end();
    assert_eq!(stats.fix.unwrap().requests, 6);
    assert_eq!((stats.load, stats.totals.refused), (0, 1));
}

fn field(report: &str, tag: &str) -> String {
    let found = report.split('|').find_map(|field| field.strip_prefix(tag)?.strip_prefix('='));
    found.unwrap_or_default().to_owned()
}

struct FixClient {
    stream: TcpStream,
    bytes: Vec<u8>,
    references: Vec<u64>,
}

fn lab_fix(stream: TcpStream) -> FixClient {
    FixClient { stream, bytes: Vec::new(), references: Vec::new() }
}

impl FixClient {
    /// The next ExecutionReport or OrderCancelReject, `|` for SOH.
    fn next_report(&mut self) -> String {
        loop {
            let end = self.bytes.windows(4).position(|window| window == b"\x0110=").map(|at| at + 8);
            if let Some(end) = end.filter(|end| *end <= self.bytes.len()) {
                let message: Vec<u8> = self.bytes.drain(..end).collect();
                let text = String::from_utf8(message).unwrap().replace('\x01', "|");
                if text.contains("|35=8|") || text.contains("|35=9|") {
                    self.references.extend(field(&text, "37").parse::<u64>());
                    return text;
                }
                assert!(text.contains("|35=A|"), "{text}");
                continue;
            }
            let mut buffer = [0; 4_096];
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the connection has ended");
            self.bytes.extend(&buffer[..count]);
        }
    }
}

#[test]
fn a_client_that_is_cut_off_resumes_without_loss_or_duplicates() {
    let lab = Lab::new(0, [0, 0]);
    let mut all = Vec::new();
    let mut number = 0;
    for _ in 0..5 {
        let mut client = lab.connect("OUCH");
        log_in(&mut client, "CLIENT", all.len() as u64 + 1);
        for _ in 0..20 {
            number += 1;
            // Sent twice, as a client does that does not know what has come.
            enter(&mut client, number, b'B', 100);
            enter(&mut client, number, b'B', 100);
        }
        // Some answers are read, the others are cut off with the connection, by a RST.
        (0..10).for_each(|_| all.push(answer(&mut client)));
        Socket::from(client).set_linger(Some(Duration::ZERO)).unwrap();
    }
    let mut client = lab.connect("OUCH");
    log_in(&mut client, "CLIENT", all.len() as u64 + 1);
    client.write_all(b"\0\x02UQ").unwrap();
    while all.last().is_none_or(|last| last[0] != b'Q') {
        all.push(answer(&mut client));
    }
    let references: Vec<u32> = all
        .iter()
        .filter(|message| message[0] == b'A')
        .map(|message| u32::from_be_bytes(message[9..13].try_into().unwrap()))
        .collect();
    assert!(references.windows(2).all(|pair| pair[0] < pair[1]), "{references:?}");
    let used = u32::from_be_bytes(all.last().unwrap()[9..13].try_into().unwrap()) - 1;
    assert_eq!(*references.last().unwrap(), used);
    let stats = lab.end();
    assert_eq!(stats.totals.accepted as usize, references.len() + opening_orders(&stats));
}

/// Orders of the load's opening: at least 8 for each of ten instruments, no more are entered without a rate.
fn opening_orders(stats: &Stats) -> usize {
    // Two system events, two messages for each instrument, one more event, three at the end; the rest are adds.
    stats.messages as usize - (2 + 2 * 10 + 1 + 3) - stats.ouch.unwrap().0.answers as usize
}

#[test]
fn a_snapshot_goes_on_with_the_feed() {
    let lab = Lab::new(2_000, [0, 0]);
    let mut feed = Received::default();
    feed.read_until(&lab.lines[0], |line| line.messages.len() > 300);
    let mut client = lab.connect("GLIMPSE");
    log_in(&mut client, "CLIENT", 1);
    let (mut adds, mut listed) = (0, 0);
    let next = loop {
        let message = answer(&mut client);
        match message[0] {
            b'A' | b'F' => adds += 1,
            b'R' => listed += 1,
            b'H' => {}
            b'G' => break String::from_utf8(message[1..].to_vec()).unwrap().trim().parse::<u64>().unwrap(),
            kind => panic!("{}", kind as char),
        }
    };
    assert_eq!((listed, adds > 50), (10, true));
    feed.read_until(&lab.lines[0], |line| line.messages.contains_key(&next));
    lab.end();
}

#[test]
fn hostile_clients_do_not_stop_the_exchange() {
    let lab = Lab::new(1_000, [0, 0]);
    let mut crowd: Vec<TcpStream> = (0..400).map(|_| lab.connect("OUCH")).collect();
    for (index, stream) in crowd.iter_mut().enumerate() {
        let bytes: Vec<u8> = (0..index as u32 * 7).map(|at| (at * 31 + index as u32) as u8).collect();
        let _ = stream.write_all(&bytes);
    }
    let requests = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..2_000 {
        let _ = requests.send_to(&vec![b'T'; length % 100], lab.places["re-requests"].as_str());
    }
    let mut glimpses: Vec<TcpStream> = (0..30).map(|_| lab.connect("GLIMPSE")).collect();
    glimpses.iter_mut().for_each(|stream| drop(stream.write_all(b"\xff\xff\xff\xff")));
    let mut client = lab.connect("OUCH");
    log_in(&mut client, "CLIENT", 0);
    enter(&mut client, 1, b'B', 100);
    assert_eq!(answer(&mut client)[0], b'A');
    let stats = lab.end();
    assert!(stats.ouch.unwrap().0.garbage > 0);
    assert!(stats.rerequest.unwrap().malformed > 0);
}

#[test]
fn a_flood_of_orders_waits_for_the_feed_which_loses_nothing() {
    let lab = Lab::with_history(1_000, [0, 0], 10_000);
    let flood = |user: &str| {
        let mut client = lab.connect("OUCH");
        log_in(&mut client, user, 0);
        let mut reader = client.try_clone().unwrap();
        let reader = std::thread::spawn(move || while reader.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) {});
        let mut orders = Vec::new();
        for number in 1..=30_000 {
            enter(&mut orders, number, b'B', 100);
            orders.extend(b"\0\x0aUX");
            orders.extend(number.to_be_bytes());
            orders.extend([0; 4]);
        }
        client.write_all(&orders).unwrap();
        (client, reader)
    };
    let clients: Vec<_> = ["FLOOD1", "FLOOD2"].into_iter().map(flood).collect();
    let mut last = lab.connect("OUCH");
    log_in(&mut last, "CLIENT", 0);
    enter(&mut last, 1, b'B', 100);
    assert_eq!(answer(&mut last)[0], b'A', "others are heard meanwhile");
    for (client, reader) in clients {
        let _ = client.shutdown(std::net::Shutdown::Write);
        reader.join().unwrap();
    }
    let stats = lab.end();
    assert!(stats.messages > 100_000, "{} messages", stats.messages);
    for line in &stats.lines {
        assert_eq!(line.counters.messages, stats.messages, "each message has left on {}", line.group);
    }
}
