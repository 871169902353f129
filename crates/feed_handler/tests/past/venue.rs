//! The venue, step by step at a time of its own, on sockets of the test: what it sends and keeps back is the test's to choose.

use crate::{GROUPS, Level};
use sidestep_feed_handler::Line as Place;
use sidestep_lab::Host;
use sidestep_venue::exchange::{Day, DaySettings};
use sidestep_venue::feed::{Line, Rerequest};
use sidestep_venue::load::{LoadSettings, Profile};
use sidestep_venue::matching::Limits;
use sidestep_venue::service::Time;
use sidestep_venue::units::Side;
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

const SESSION: [u8; 10] = *b"LAB0000001";
/// The venue's time between two steps: 20 messages of the opening, 10 of the load.
const STEP_NS: u64 = 100_000;
/// The rate of the load, messages a second.
const RATE: u64 = 100_000;
/// Messages of a datagram of each line: at 20 to 40 bytes each, one of line B has some 700 bytes.
const PER_PACKET: [u16; 2] = [7, 20];
/// A login of SoupBinTCP 3.00, with its length.
const LOGIN_BYTES: usize = 49;

pub(crate) struct Venue {
    day: Day,
    time: Time,
    lines: [(Line, UdpSocket, SocketAddr); 2],
    /// Nothing of a line leaves.
    pub(crate) is_mute: [bool; 2],
    requests: UdpSocket,
    rerequest: Rerequest,
    glimpse: TcpListener,
    logins: Vec<TcpStream>,
    /// Requests that were answered.
    pub(crate) answered: u64,
    /// Snapshots that were given.
    pub(crate) snapshots: u64,
}

impl Venue {
    /// On a host, which sends line A by one interface and line B by the other.
    pub(crate) fn on(host: &Host, interfaces: [&str; 2]) -> Self {
        let place = |line: usize| Place::new(interfaces[line], GROUPS[line].parse().unwrap());
        host.within(|| Ok(Self::open(&[place(0), place(1)], &host.ipv4.to_string()))).unwrap()
    }

    /// Here. It sends lines to where they are received, and serves at `address`.
    pub(crate) fn open(places: &[Place; 2], address: &str) -> Self {
        let settings = DaySettings {
            load: LoadSettings { seed: 19, symbols: 20, live_orders: 500 },
            profile: Profile::Steady,
            rate: RATE,
            speed: 1,
            history: 1 << 20,
            limits: Limits::default(),
        };
        let line = |place: usize| {
            let Place { interface, group, .. } = &places[place];
            (Line::new(SESSION, PER_PACKET[place], 0, 1, 0), sender(interface), *group)
        };
        let requests = UdpSocket::bind((address, 0)).unwrap();
        let glimpse = TcpListener::bind((address, 0)).unwrap();
        requests.set_nonblocking(true).unwrap();
        glimpse.set_nonblocking(true).unwrap();
        Self {
            day: Day::new(&settings, 0),
            time: Time { mono_ns: 0, day_ns: 0 },
            lines: [line(0), line(1)],
            is_mute: [false; 2],
            requests,
            rerequest: Rerequest::new(SESSION),
            glimpse,
            logins: Vec::new(),
            answered: 0,
            snapshots: 0,
        }
    }

    pub(crate) fn rerequest_at(&self) -> SocketAddr {
        self.requests.local_addr().unwrap()
    }

    pub(crate) fn glimpse_at(&self) -> SocketAddr {
        self.glimpse.local_addr().unwrap()
    }

    /// The load goes on for a tenth of a millisecond, all of it is sent, and what is asked is answered.
    pub(crate) fn step(&mut self) {
        self.time = Time { mono_ns: self.time.mono_ns + STEP_NS, day_ns: self.time.day_ns + STEP_NS };
        self.day.poll(self.time);
        self.send();
        self.serve();
    }

    fn send(&mut self) {
        for ((line, socket, group), is_mute) in self.lines.iter_mut().zip(self.is_mute) {
            while let Some(packet) = line.next(self.time.mono_ns, &self.day.core.output.history) {
                if !is_mute {
                    socket.send_to(packet, *group).unwrap();
                }
            }
        }
    }

    /// Answers requests, and gives snapshots.
    pub(crate) fn serve(&mut self) {
        let mut buffer = [0; 64];
        while let Ok((length, client)) = self.requests.recv_from(&mut buffer) {
            let history = &self.day.core.output.history;
            if let Some(answer) = self.rerequest.answer(self.time.mono_ns, client.ip(), &buffer[..length], history) {
                self.requests.send_to(answer, client).unwrap();
                self.answered += 1;
            }
            // Its limits of requests a second are no subject here.
            self.time.mono_ns += 1_000_000;
        }
        if let Ok((stream, _)) = self.glimpse.accept() {
            stream.set_nonblocking(true).unwrap();
            self.logins.push(stream);
        }
        // The client's thread is this one: it is not waited for.
        let ready = |stream: &mut TcpStream| stream.peek(&mut [0; 64]).is_ok_and(|count| count == LOGIN_BYTES);
        for mut stream in self.logins.extract_if(.., ready).collect::<Vec<_>>() {
            stream.set_nonblocking(false).unwrap();
            stream.write_all(&self.snapshot()).unwrap();
            self.snapshots += 1;
        }
    }

    /// The answer to a login, the present state, and the end, in packets of SoupBinTCP.
    fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut packet = |kind: u8, payload: &[u8]| {
            bytes.extend((payload.len() as u16 + 1).to_be_bytes());
            bytes.push(kind);
            bytes.extend(payload);
        };
        packet(b'A', format!("{}{:>20}", str::from_utf8(&SESSION).unwrap(), 1).as_bytes());
        self.day.core.matching.snapshot(self.time.day_ns, |message| packet(b'S', message));
        packet(b'S', format!("G{:>20}", self.next()).as_bytes());
        bytes
    }

    /// The day ends, and is told to have ended.
    pub(crate) fn end(&mut self) {
        self.day.close(self.time);
        self.send();
        self.lines.iter_mut().for_each(|(line, ..)| line.end());
        self.time.mono_ns += 2_000_000_000;
        self.send();
    }

    /// The number of the next message.
    pub(crate) fn next(&self) -> u64 {
        self.day.core.output.history.next()
    }

    /// The books as the feed shows them.
    pub(crate) fn levels(&self) -> Vec<Level> {
        let matching = &self.day.core.matching;
        let mut levels = Vec::new();
        for locate in 1..=matching.instruments() as u16 {
            for side in [Side::Buy, Side::Sell] {
                let all = (0..).map_while(|place| matching.depth(locate, side, place));
                let shown = all.filter(|(_, displayed, _)| *displayed > 0);
                levels.extend(shown.map(|(price, shares, _)| (locate, side == Side::Buy, i64::from(price), shares)));
            }
        }
        assert!(levels.len() > 100);
        levels
    }
}

/// A socket that sends to groups by an interface, as fast as the kernel takes it.
fn sender(interface: &str) -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    socket.bind_device(Some(interface.as_bytes())).unwrap();
    socket.set_multicast_loop_v4(interface == "lo").unwrap();
    socket.into()
}
