//! Packets in rings that the steering program fills, end to end: control, readers, and a sender that knows only the kernel.

mod support;
#[path = "ring_flow/tail.rs"]
mod tail;

use sidestep::engine::{Mode, Reason};
use sidestep::idle::IdleStrategy;
use sidestep::ring::flow::{Entry, EntryId, EntryPath, Flow, FlowOptions, Protocol, Verdict};
use sidestep_control_api::client::Client;
use sidestep_lab::{Host, Lab, Options, Side};
use socket2::{Domain, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::lab::{introduce, socket_on};
use support::{WATCHDOG, finish, is_root, send_signal, sidestep};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const PORT: u16 = 7000;

/// A lab, and a folder for its control plane.
struct Place {
    control: Option<Child>,
    lab: Lab,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(options: &Options) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let mut place = Self { control: None, lab: Lab::up(options).unwrap(), folder: tempfile::tempdir().unwrap() };
        introduce(place.host(), place.lab.host(Side::B));
        place.start_control();
        Some(place)
    }

    fn host(&self) -> &Host {
        self.lab.host(Side::A)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn start_control(&mut self) {
        let socket = self.socket();
        let _ = fs::remove_file(&socket);
        let mut command = sidestep(&["control", "--socket", socket.to_str().unwrap()]);
        command.env("SIDESTEP_STATE_DIR", self.folder.path()).stderr(Stdio::null());
        let control = self.host().within(|| Ok(command.spawn().unwrap())).unwrap();
        let control = self.control.insert(control);
        let begin = Instant::now();
        while Client::connect_to(&socket, "test").and_then(Client::bye).is_err() {
            assert!(control.try_wait().unwrap().is_none() && begin.elapsed() < WATCHDOG, "no control plane");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends control in order: what it has attached goes with it.
    fn end_control(&mut self) {
        let Some(control) = self.control.take() else { return };
        send_signal(control.id(), "TERM");
        let ended = finish(control);
        assert!(ended.code == 0 || std::thread::panicking(), "{}", ended.stderr);
    }

    fn options(&self) -> FlowOptions {
        FlowOptions { control: Some(self.socket()), ..FlowOptions::on(&self.host().interface) }
    }

    /// A flow on the first host, with one entry.
    fn flow(
        &self,
        options: &FlowOptions,
        add: impl FnOnce(&mut Flow) -> Result<EntryId, sidestep::error::Problem> + Send,
    ) -> (Flow, EntryId) {
        self.host()
            .within(|| {
                let mut flow = Flow::open(options)?;
                let entry = add(&mut flow)?;
                Ok((flow, entry))
            })
            .unwrap()
    }

    fn group(&self, options: &FlowOptions, verdict: Verdict) -> (Flow, EntryId) {
        self.flow(options, |flow| flow.join((GROUP, PORT).into(), None, verdict))
    }

    fn sender(&self) -> Sender {
        Sender { socket: socket_on(self.lab.host(Side::B)), next: 0 }
    }

    /// Packets to groups that the kernel of the first host has received.
    fn kernel_group_packets(&self) -> u64 {
        let text = self.host().within(|| Ok(fs::read_to_string("/proc/thread-self/net/netstat").unwrap())).unwrap();
        let mut rows = text.lines().filter(|line| line.starts_with("IpExt:")).map(str::split_whitespace);
        let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
        let (_, value) = names.zip(values).find(|(name, _)| *name == "InMcastPkts").expect("Linux counts them");
        value.parse().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end_control();
    }
}

/// Datagrams with their number in front.
struct Sender {
    socket: UdpSocket,
    next: u32,
}

impl Sender {
    fn send(&mut self, to: SocketAddr, count: u32, bytes: usize) {
        for _ in 0..count {
            let mut payload = self.next.to_le_bytes().to_vec();
            payload.resize(bytes, self.next as u8);
            self.socket.send_to(&payload, to).unwrap();
            self.next += 1;
        }
    }
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + WATCHDOG)
}

/// The next packet, as its number and whether a ring has brought it; every byte is compared.
fn next(flow: &mut Flow) -> (u32, bool) {
    flow.wait(IdleStrategy::SPIN_THEN_YIELD, soon()).expect("a packet comes");
    let packet = flow.receive().expect("it was waited for");
    let payload = packet.payload();
    let number = u32::from_le_bytes(*payload.first_chunk().expect("a number"));
    assert!(payload[4..].iter().all(|byte| *byte == number as u8), "{number}");
    (number, packet.queue().is_some())
}

fn expect(flow: &mut Flow, numbers: std::ops::Range<u32>) {
    // Packets of different queues come in any order.
    let mut found: Vec<u32> = numbers
        .clone()
        .map(|_| next(flow))
        .map(|(number, by_ring)| {
            assert!(by_ring, "{number}");
            number
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, numbers.collect::<Vec<_>>());
    assert!(flow.receive().is_none());
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < WATCHDOG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn verdict_of(flow: &Flow, entry: EntryId) -> Verdict {
    match flow.path(entry) {
        EntryPath::Ring { verdict, mode, .. } => {
            assert_ne!(mode, Mode::Generic, "a veth does native XDP");
            verdict
        }
        path => panic!("{path}"),
    }
}

fn several_readers(queues: u32) {
    let Some(place) = Place::new(&Options { queues, ..Options::default() }) else { return };
    let shared = place.options().feed("prices");
    let readers = [&shared, &shared, &place.options()].map(|options| place.group(options, Verdict::Pass));
    let mut sender = place.sender();
    for (bytes, count) in [(64, 200), (1472, 200), (4, 1)] {
        let first = sender.next;
        // No more at a time than the smallest queue of a veth holds.
        for _ in 0..count / 50 {
            sender.send((GROUP, PORT).into(), 50, bytes);
            std::thread::sleep(Duration::from_millis(2));
        }
        sender.send((GROUP, PORT).into(), count % 50, bytes);
        assert_eq!(sender.next - first, count);
    }
    for (mut flow, entry) in readers {
        assert_eq!(verdict_of(&flow, entry), Verdict::Pass);
        expect(&mut flow, 0..sender.next);
        let statistics = flow.statistics();
        assert_eq!((statistics.packets(), statistics.lost(), statistics.by_kernel), (401, 0, 0));
        assert_eq!((statistics.bad_checksums, statistics.malformed), (0, 0));
    }
}

#[test]
fn readers_of_a_shared_feed_and_of_one_of_their_own_receive_everything() {
    several_readers(1);
}

#[test]
fn a_device_of_four_queues_has_four_rings() {
    several_readers(4);
}

#[test]
fn the_kernel_receives_under_pass_and_is_spared_under_drop() {
    let Some(place) = Place::new(&Options::default()) else { return };
    for (verdict, share) in [(Verdict::Pass, 1), (Verdict::Drop, 0)] {
        let (mut flow, entry) = place.group(&place.options(), verdict);
        assert_eq!(flow.path(entry).to_string().contains("drop"), verdict == Verdict::Drop, "{}", flow.path(entry));
        let before = place.kernel_group_packets();
        place.sender().send((GROUP, PORT).into(), 50, 64);
        expect(&mut flow, 0..50);
        assert_eq!(place.kernel_group_packets() - before, 50 * share, "{verdict:?}");
    }
}

/// All entries that match a packet count: a reader of one sender takes nothing from a reader of all, and a reader that wants the packets
/// to pass has them pass for all.
#[test]
fn entries_that_overlap_take_nothing_from_each_other() {
    let Some(place) = Place::new(&Options::default()) else { return };
    let sender = IpAddr::from(place.lab.host(Side::B).ipv4);
    let narrow = |verdict| place.flow(&place.options(), |flow| flow.join((GROUP, PORT).into(), Some(sender), verdict));
    let (mut all, of_all) = place.group(&place.options(), Verdict::Drop);
    let (mut one, of_one) = narrow(Verdict::Drop);
    assert_eq!((verdict_of(&all, of_all), verdict_of(&one, of_one)), (Verdict::Drop, Verdict::Drop));
    let before = place.kernel_group_packets();
    place.sender().send((GROUP, PORT).into(), 50, 64);
    expect(&mut all, 0..50);
    expect(&mut one, 0..50);
    assert_eq!(place.kernel_group_packets(), before, "nobody else has lost them");
    let (mut passes, of_passes) = narrow(Verdict::Pass);
    assert_eq!(verdict_of(&passes, of_passes), Verdict::Pass);
    until("both are told", || {
        [(&all, of_all), (&one, of_one)].iter().all(|(flow, entry)| verdict_of(flow, *entry) == Verdict::Pass)
    });
    place.sender().send((GROUP, PORT).into(), 50, 64);
    for flow in [&mut all, &mut one, &mut passes] {
        expect(flow, 0..50);
    }
    assert_eq!(place.kernel_group_packets(), before + 50);
}

#[test]
fn another_socket_of_the_host_loses_nothing_by_drop() {
    let Some(place) = Place::new(&Options::default()) else { return };
    let (mut flow, entry) = place.group(&place.options(), Verdict::Drop);
    assert_eq!(verdict_of(&flow, entry), Verdict::Drop);
    let host = place.host();
    let other = host
        .within(|| {
            let socket = shared_socket().unwrap();
            socket.join_multicast_v4(&GROUP, &host.ipv4).unwrap();
            Ok(socket)
        })
        .unwrap();
    until("control sees the other socket", || verdict_of(&flow, entry) == Verdict::Pass);
    other.set_read_timeout(Some(WATCHDOG)).unwrap();
    place.sender().send((GROUP, PORT).into(), 20, 64);
    expect(&mut flow, 0..20);
    for number in 0..20_u32 {
        let mut buffer = [0; 64];
        assert_eq!(other.recv(&mut buffer).unwrap(), 64);
        assert_eq!(buffer[..4], number.to_le_bytes());
    }
}

/// The flow's socket has the port with SO_REUSEADDR; so must this one.
fn shared_socket() -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((GROUP, PORT)).into())?;
    Ok(socket.into())
}

#[test]
fn a_slow_reader_knows_exactly_what_it_lost() {
    let Some(place) = Place::new(&Options::default()) else { return };
    let shared = place.options().feed("fast and slow");
    let ((mut fast, first), (mut slow, second)) =
        (place.group(&shared, Verdict::Pass), place.group(&shared, Verdict::Pass));
    assert_eq!((verdict_of(&fast, first), verdict_of(&slow, second)), (Verdict::Pass, Verdict::Pass));
    let mut sender = place.sender();
    // A ring holds some 8,000 of these.
    for _ in 0..600 {
        sender.send((GROUP, PORT).into(), 50, 64);
        while fast.receive().is_some() {}
    }
    sender.send((GROUP, PORT).into(), 1, 4);
    let last = sender.next - 1;
    for flow in [&mut fast, &mut slow] {
        let mut told = 0;
        loop {
            flow.wait(IdleStrategy::SPIN_THEN_YIELD, soon()).unwrap();
            let packet = flow.receive().unwrap();
            told += packet.lost_before();
            if packet.payload() == last.to_le_bytes() {
                break;
            }
        }
        assert!(told <= flow.statistics().lost());
    }
    let seen = |flow: &Flow| flow.statistics().packets() + flow.statistics().lost();
    let beside =
        |flow: &Flow| (flow.statistics().by_kernel, flow.statistics().bad_checksums, flow.statistics().malformed);
    assert_eq!((beside(&fast), beside(&slow)), ((0, 0, 0), (0, 0, 0)));
    let (one, other) = (fast.statistics(), slow.statistics());
    let dropped = (fast.dropped(), slow.dropped());
    assert_eq!(seen(&fast), seen(&slow), "what the device delivered: {one:?} {other:?} {dropped:?}");
    assert!(seen(&slow) <= u64::from(sender.next) && slow.statistics().lost() > 0, "{:?}", slow.statistics());
}

#[test]
fn long_frames_are_in_the_ring() {
    let Some(place) = Place::new(&Options { mtu: 9000, ..Options::default() }) else { return };
    let (mut flow, entry) = place.group(&place.options(), Verdict::Drop);
    verdict_of(&flow, entry);
    place.sender().send((GROUP, PORT).into(), 20, 8972);
    expect(&mut flow, 0..20);
}

#[test]
fn a_port_of_this_host_is_read_from_a_ring() {
    let Some(place) = Place::new(&Options { queues: 4, ..Options::default() }) else { return };
    let at = SocketAddr::from((place.host().ipv4, PORT));
    let (mut flow, entry) = place.flow(&place.options(), |flow| flow.bind(at, Verdict::Drop));
    verdict_of(&flow, entry);
    place.sender().send(at, 30, 200);
    expect(&mut flow, 0..30);
}

#[test]
fn a_reader_sleeps_until_its_doorbell_rings() {
    let Some(place) = Place::new(&Options { queues: 4, ..Options::default() }) else { return };
    let (mut flow, entry) = place.group(&place.options().doorbell(true), Verdict::Drop);
    verdict_of(&flow, entry);
    let mut sender = place.sender();
    for number in 0..50 {
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                flow.wait(IdleStrategy::PARK, soon()).unwrap();
                next(&mut flow)
            });
            std::thread::sleep(Duration::from_millis(u64::from(number % 3)));
            sender.send((GROUP, PORT).into(), 1, 64);
            assert_eq!(waiter.join().unwrap(), (number, true));
        });
    }
}

#[test]
fn a_tap_sees_a_connection_of_the_kernels() {
    let Some(place) = Place::new(&Options::default()) else { return };
    let at = SocketAddr::from((place.host().ipv4, 8080));
    let listener = place.host().within(|| Ok(TcpListener::bind(at).unwrap())).unwrap();
    let entry = Entry::Listener { protocol: Protocol::Tcp, local: at, vlan: None };
    let (mut flow, id) = place.flow(&place.options(), |flow| flow.tap(entry, Verdict::Pass));
    assert_eq!(verdict_of(&flow, id), Verdict::Pass);
    let mut client = place.lab.host(Side::B).within(|| Ok(TcpStream::connect(at).unwrap())).unwrap();
    let (mut server, from) = listener.accept().unwrap();
    client.write_all(b"8=FIX.4.4").unwrap();
    let mut buffer = [0; 9];
    server.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"8=FIX.4.4", "the kernel has it, too");
    let mut payload = Vec::new();
    while payload.len() < 9 {
        flow.wait(IdleStrategy::SPIN_THEN_YIELD, soon()).unwrap();
        let packet = flow.receive().unwrap();
        assert_eq!((packet.source(), packet.destination(), packet.protocol()), (from, at, Protocol::Tcp));
        payload.extend_from_slice(packet.payload());
    }
    assert_eq!(payload, b"8=FIX.4.4");
}

#[test]
fn kernel_sockets_take_over_when_control_ends_and_rings_when_it_returns() {
    let Some(mut place) = Place::new(&Options::default()) else { return };
    let (mut flow, entry) = place.group(&place.options(), Verdict::Drop);
    let mut sender = place.sender();
    sender.send((GROUP, PORT).into(), 5, 64);
    place.end_control();
    until("the loss is noticed", || !flow.path(entry).is_ring());
    assert!(matches!(flow.path(entry).reason(), Some(Reason::ControlAbsent | Reason::Revoked | Reason::Released)));
    sender.send((GROUP, PORT).into(), 5, 64);
    // What was in the rings comes first; packets may come twice at a change, but none of these was lost.
    let mut seen = BTreeMap::new();
    while seen.len() < 10 {
        let (number, by_ring) = next(&mut flow);
        seen.insert(number, by_ring);
    }
    assert!((0..5).all(|number| seen[&number]) && (5..10).all(|number| !seen[&number]), "{seen:?}");
    place.start_control();
    until("the rings are back", || flow.path(entry).is_ring());
    while flow.receive().is_some() {}
    sender.send((GROUP, PORT).into(), 5, 64);
    expect(&mut flow, 10..15);
    assert_eq!(flow.statistics().fallbacks, 1);
}

/// It tells the readers first, and they turn to their kernel sockets while the rings are still filled.
#[test]
fn no_packet_is_missing_where_control_ends_in_order() {
    const LAST: u32 = 599;
    for verdict in [Verdict::Pass, Verdict::Drop] {
        let Some(mut place) = Place::new(&Options::default()) else { return };
        let (mut flow, entry) = place.group(&place.options(), verdict);
        assert_eq!(verdict_of(&flow, entry), verdict);
        let mut sender = place.sender();
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                while sender.next <= LAST {
                    sender.send((GROUP, PORT).into(), 1, 64);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let reader = scope.spawn(|| {
                let mut seen = BTreeSet::new();
                while !seen.contains(&LAST) {
                    seen.insert(next(&mut flow).0);
                }
                seen
            });
            std::thread::sleep(Duration::from_millis(200));
            place.end_control();
            reader.join().unwrap()
        });
        assert!(!flow.path(entry).is_ring());
        let missing: Vec<u32> = (0..=LAST).filter(|number| !seen.contains(number)).collect();
        assert!(missing.is_empty(), "{verdict:?}: {missing:?}");
    }
}
