//! Streams over a bottleneck in virtual time: a rate, a queue, a delay, and chances that a packet is lost or held back.
#![allow(unreachable_pub, reason = "shared by tests")]

use sidestep_stack::tcp::{
    Config, Congestion, ConnectionId, Incoming, Instant, ListenerId, NoRoom, Options, Outgoing, Secret, Tcp,
};
use sidestep_wire::Addresses;
use sidestep_wire::tcp::View;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;

/// One direction. Chances are of 10 000.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Bits per second of IP packets; 0: no limit.
    pub rate_bps: u64,
    pub delay_ns: u64,
    pub loss: u32,
    pub reorder: u32,
    pub gap_ns: u64,
    pub queue_bytes: u64,
}

impl Path {
    /// 200 Mbit/s and 2 ms each way, with the queue of a thousand packets that Linux gives a device.
    pub const USUAL: Self =
        Self { rate_bps: 200_000_000, delay_ns: 2 * MS, loss: 0, reorder: 0, gap_ns: 0, queue_bytes: 1_500_000 };

    /// What a stream can carry at most, bytes/s.
    pub fn payload_rate(&self) -> u64 {
        self.rate_bps / 8 * 1448 / 1500
    }
}

/// Packets under way by time of arrival.
struct Link {
    path: Path,
    random: fastrand::Rng,
    order: BinaryHeap<Reverse<(u64, u64)>>,
    packets: BTreeMap<u64, (Addresses, Vec<u8>)>,
    number: u64,
    free_at_ns: u64,
    /// When packets with more than a header left, if anybody wants to know.
    departures: Option<Vec<u64>>,
}

impl Link {
    fn new(path: Path, seed: u64) -> Self {
        let (order, packets, random) = (BinaryHeap::new(), BTreeMap::new(), fastrand::Rng::with_seed(seed));
        Self { path, random, order, packets, number: 0, free_at_ns: 0, departures: None }
    }

    fn chance(&mut self, of_10_000: u32) -> bool {
        self.random.u32(0..10_000) < of_10_000
    }

    fn take(&mut self, now_ns: u64, addresses: Addresses, bytes: Vec<u8>) {
        if let Some(departures) = self.departures.as_mut().filter(|_| bytes.len() > 100) {
            departures.push(now_ns);
        }
        if self.chance(self.path.loss) {
            return;
        }
        let byte_ns_1024 = (SECOND * 8 * 1024).checked_div(self.path.rate_bps).unwrap_or(0);
        let waiting_ns = self.free_at_ns.saturating_sub(now_ns);
        if byte_ns_1024 > 0 && waiting_ns * 1024 / byte_ns_1024 > self.path.queue_bytes {
            return;
        }
        self.free_at_ns = self.free_at_ns.max(now_ns) + (bytes.len() as u64 + 20) * byte_ns_1024 / 1024;
        let late_ns = if self.chance(self.path.reorder) { self.path.gap_ns } else { 0 };
        let at_ns = self.free_at_ns + self.path.delay_ns + late_ns;
        self.order.push(Reverse((at_ns, self.number)));
        self.packets.insert(self.number, (addresses, bytes));
        self.number += 1;
    }

    fn next_at_ns(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    fn arrive(&mut self, now_ns: u64) -> Option<(Addresses, Vec<u8>)> {
        if self.next_at_ns()? > now_ns {
            return None;
        }
        let Reverse((_, number)) = self.order.pop()?;
        self.packets.remove(&number)
    }
}

/// What an application at the sending end does.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Always has more.
    Bulk,
    /// Sends so many bytes each so many nanoseconds.
    Messages { bytes: usize, each_ns: u64 },
    /// Sends nothing.
    Silent,
}

pub struct Flow {
    pub id: ConnectionId,
    pub load: Load,
    /// Bytes that have arrived.
    pub arrived: u64,
    next_message_ns: u64,
    received_by: Option<ConnectionId>,
}

/// Two hosts; all streams go from host 0 to host 1.
pub struct Net {
    pub now_ns: u64,
    pub hosts: [Tcp; 2],
    listener: ListenerId,
    links: [Link; 2],
    pub flows: Vec<Flow>,
}

fn address(host: usize, port: u16) -> SocketAddr {
    SocketAddr::new(format!("192.0.2.{}", host + 1).parse().unwrap(), port)
}

impl Net {
    pub fn new(there: Path, back: Path, config: &Config, seed: u64) -> Self {
        let begin = Instant::from_nanos(SECOND);
        let mut hosts = [0, 1].map(|host| Tcp::new(config.clone(), Secret([seed, host, 3, 4]), begin));
        let options = hosts[1].config().options();
        let listener = hosts[1].listen(address(1, 80), 64, options).unwrap();
        let links = [Link::new(there, seed), Link::new(back, !seed)];
        Self { now_ns: SECOND, hosts, listener, links, flows: Vec::new() }
    }

    /// The same path both ways; losses and reordering of data only, as ACKs are cumulative.
    pub fn over(path: Path, congestion: Congestion, seed: u64) -> Self {
        let back = Path { loss: 0, reorder: 0, ..path };
        Self::new(path, back, &Config { congestion, nodelay: true, ..Config::default() }, seed)
    }

    pub fn open(&mut self, options: Options, load: Load) -> usize {
        let (now, port) = (Instant::from_nanos(self.now_ns), 40_000 + self.flows.len() as u16);
        let mut sink = sink(&mut self.links[0], self.now_ns);
        let id = self.hosts[0].connect(now, address(0, port), address(1, 80), None, options, &mut sink).unwrap();
        self.flows.push(Flow { id, load, arrived: 0, next_message_ns: self.now_ns, received_by: None });
        self.flows.len() - 1
    }

    pub fn open_usual(&mut self, load: Load) -> usize {
        let options = self.hosts[0].config().options();
        self.open(options, load)
    }

    /// From now on the application does something else.
    pub fn set_load(&mut self, flow: usize, load: Load) {
        self.flows[flow].load = load;
        self.step();
    }

    /// Changes the path of the data.
    pub fn set_path(&mut self, path: Path) {
        self.links[0].path = path;
    }

    /// Lets `time_ns` pass, and gives the times at which segments with data left.
    pub fn departures(&mut self, time_ns: u64) -> Vec<u64> {
        self.links[0].departures = Some(Vec::new());
        self.run(time_ns);
        self.links[0].departures.take().unwrap_or_default()
    }

    /// Lets `time_ns` pass, and gives the bytes of each stream that have arrived meanwhile.
    pub fn run(&mut self, time_ns: u64) -> Vec<u64> {
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.arrived).collect();
        let end_ns = self.now_ns + time_ns;
        while let Some(at_ns) = self.next_at_ns().filter(|&at_ns| at_ns <= end_ns) {
            self.now_ns = self.now_ns.max(at_ns);
            self.step();
        }
        self.now_ns = end_ns;
        self.flows.iter().zip(before).map(|(flow, before)| flow.arrived - before).collect()
    }

    /// The same in bytes/s, of all streams together.
    pub fn rate(&mut self, time_ns: u64) -> u64 {
        self.run(time_ns).iter().sum::<u64>() * 1000 / (time_ns / MS)
    }

    fn next_at_ns(&self) -> Option<u64> {
        let links = self.links.iter().filter_map(Link::next_at_ns);
        let timers = self.hosts.iter().filter_map(Tcp::next_poll).map(|at| at.as_nanos());
        let messages = self.flows.iter().filter(|flow| matches!(flow.load, Load::Messages { .. }));
        links.chain(timers).chain(messages.map(|flow| flow.next_message_ns)).min().map(|at| at.max(self.now_ns))
    }

    fn step(&mut self) {
        for to in [1, 0] {
            while let Some((addresses, bytes)) = self.links[1 - to].arrive(self.now_ns) {
                self.deliver(to, &addresses, &bytes);
            }
        }
        self.write();
        let now = Instant::from_nanos(self.now_ns);
        for host in [0, 1] {
            let mut sink = sink(&mut self.links[host], self.now_ns);
            self.hosts[host].poll(now, &mut sink);
            while host == 1 && self.hosts[1].accept(self.listener).is_ok() {}
            while self.hosts[host].next_event().is_some() {}
        }
    }

    fn deliver(&mut self, to: usize, addresses: &Addresses, bytes: &[u8]) {
        let now = Instant::from_nanos(self.now_ns);
        let segment = View::parse(bytes).unwrap();
        let place = segment.source_port().max(segment.destination_port()) - 40_000;
        let incoming = Incoming { addresses, segment, is_verified: true };
        let mut arrived = 0;
        let mut sink = sink(&mut self.links[to], self.now_ns);
        self.hosts[to].receive(now, &incoming, &mut sink, &mut |id, payload| {
            arrived += payload.len() as u64;
            self.flows[usize::from(place)].received_by = Some(id);
            payload.len()
        });
        let flow = &mut self.flows[usize::from(place)];
        // What came behind a hole was kept, and is read.
        if let Some(id) = flow.received_by.filter(|_| to == 1) {
            let mut out = [0; 65_536];
            while let Ok(count @ 1..) = self.hosts[1].read(now, id, &mut out, &mut sink) {
                arrived += count as u64;
            }
        }
        flow.arrived += arrived;
    }

    fn write(&mut self) {
        let (now, bytes) = (Instant::from_nanos(self.now_ns), [7; 65_536]);
        for flow in &mut self.flows {
            let count = match flow.load {
                Load::Bulk => usize::MAX,
                Load::Messages { bytes, each_ns } if flow.next_message_ns <= self.now_ns => {
                    flow.next_message_ns = self.now_ns + each_ns;
                    bytes
                }
                _ => 0,
            };
            let mut left = count;
            while left > 0 {
                let mut sink = sink(&mut self.links[0], self.now_ns);
                match self.hosts[0].send(now, flow.id, &bytes[..left.min(bytes.len())], &mut sink) {
                    Ok(count @ 1..) => left = left.saturating_sub(count),
                    _ => break,
                }
            }
        }
    }
}

fn put(link: &mut Link, now_ns: u64, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
    let mut bytes = vec![0; segment.bytes()];
    segment.write(&mut bytes).expect("the frame is large enough");
    link.take(now_ns, segment.flow.addresses, bytes);
    Ok(())
}

fn sink(link: &mut Link, now_ns: u64) -> impl FnMut(&Outgoing<'_>) -> Result<(), NoRoom> {
    move |segment| put(link, now_ns, segment)
}
