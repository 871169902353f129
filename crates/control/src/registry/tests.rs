//! Permissions, lifetimes, and limits.

use super::*;
use crate::guard::Guard;
use crate::netlink::sockets::{KernelSocket, Wanted};
use crate::testing::{Fake, link, stack_facts};
use share::{CLIENTS_MAX, CLIENTS_OF_ROOT, CLIENTS_PER_USER_MAX, STACKS_PER_CLIENT_MAX};
use sidestep_control_api::message::{OpenStack, PACKET_BYTES_MAX, Protocol};
use sidestep_sys::xdp::program::Injector;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

mod feeds;
mod hand_over_lies;
mod hand_overs;
mod opening;
mod options;
mod others;
mod pool;
mod shares;

struct FakeHost {
    links: Vec<Link>,
    namespace: u64,
    guard: Guard,
    asked: Vec<(u32, IpAddr)>,
    /// True if no other UDP socket exists.
    are_groups_free: bool,
    /// Further receiving sockets.
    receivers: Vec<KernelSocket>,
}

impl Host for FakeHost {
    fn links(&self) -> &[Link] {
        &self.links
    }

    fn is_local(&self, address: IpAddr) -> bool {
        address == IpAddr::from(Ipv4Addr::LOCALHOST)
    }

    fn is_neighbour(&self, _interface: u32, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(address) if address.octets()[..2] == [198, 18])
    }

    fn resolve(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        self.asked.push((interface, address));
        Ok(())
    }

    fn namespace(&self) -> u64 {
        self.namespace
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }

    fn injector(&self) -> Option<&Injector> {
        None
    }

    /// Loopback addresses are ordinary here.
    fn has_socket(&self, wanted: Wanted, is_it: &mut dyn FnMut(&KernelSocket) -> bool) -> io::Result<bool> {
        let all = match wanted {
            Wanted::Port(Protocol::Udp, _) if self.are_groups_free => return Ok(false),
            // Its addresses are not those that the kernel knows.
            Wanted::Connection(local, ..) => Wanted::Port(Protocol::Tcp, local.port()),
            Wanted::Port(..) | Wanted::Receivers(_) => wanted,
        };
        if let Wanted::Receivers(protocol) = wanted {
            self.receivers.iter().filter(|socket| socket.protocol == protocol).for_each(|socket| _ = is_it(socket));
        }
        crate::netlink::sockets::any(all, &mut |socket| is_it(&self.elsewhere(socket)))
    }
}

impl FakeHost {
    fn elsewhere(&self, socket: &KernelSocket) -> KernelSocket {
        let mut moved = *socket;
        if moved.remote.ip().is_loopback() {
            moved.remote.set_ip([198, 18, 0, 2].into());
        }
        moved
    }
}

struct Case {
    registry: Registry<Fake, ()>,
    host: FakeHost,
    now: Instant,
}

impl Case {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let namespace = sidestep_sys::socket::netns_cookie(socket.as_fd()).unwrap();
        let vlan = Link { vlan: Some((2, 100)), ..link(3, "eth1.100") };
        let links = vec![link(2, "eth1"), vlan, Link { is_up: false, ..link(4, "eth2") }];
        let guard = Guard::open().unwrap();
        let host =
            FakeHost { links, namespace, guard, asked: Vec::new(), are_groups_free: false, receivers: Vec::new() };
        Self { registry: Registry::new(Fake::default(), ()).unwrap(), host, now: Instant::now() }
    }

    /// A client of this very process.
    fn client(&mut self, uid: u32) -> u32 {
        let peer = Credentials { pid: Some(std::process::id()), uid, gid: uid };
        let id = self.registry.admit(peer, Owner::User(peer.uid), Some(Process::this().unwrap()), self.now).unwrap();
        let hello = Request::Hello { version: VERSION, name: "feed".into() };
        assert!(matches!(self.ask(id, hello), Reply::Welcome { .. }));
        id
    }

    fn ask(&mut self, id: u32, request: Request) -> Reply {
        self.registry.handle(id, request, Vec::new(), &mut self.host, self.now).reply
    }

    fn code(&mut self, id: u32, request: Request) -> Option<Code> {
        match self.ask(id, request) {
            Reply::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    fn open(&mut self, id: u32) -> u32 {
        self.begin(id);
        match self.ask(id, Request::BindStack) {
            Reply::Stack(facts) => facts.id,
            reply => panic!("{reply:?}"),
        }
    }

    fn begin(&mut self, id: u32) {
        let reply = self.ask(id, Request::OpenStack(OpenStack::on("eth1")));
        assert!(matches!(reply, Reply::Prepared(_)), "{reply:?}");
    }

    /// The number of unbound sockets.
    fn unbound(&self) -> usize {
        std::rc::Rc::strong_count(&self.registry.dataplane.unbound) - 1
    }

    fn steer(&mut self, id: u32, stack: u32, entry: Entry, twin: impl AsFd) -> Option<Code> {
        let twin = twin.as_fd().try_clone_to_owned().unwrap();
        let request = Request::Steer { stack, entry };
        match self.registry.handle(id, request, vec![twin], &mut self.host, self.now).reply {
            Reply::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }
}

fn port() -> (UdpSocket, Entry) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = socket.local_addr().unwrap();
    (socket, Entry::Listener { protocol: Protocol::Udp, local, vlan: None })
}

#[test]
fn a_greeting_comes_first_and_once_and_of_the_same_version() {
    let mut case = Case::new();
    let peer = Credentials { pid: None, uid: 7, gid: 7 };
    let id = case.registry.admit(peer, Owner::User(peer.uid), None, case.now).unwrap();
    let answer = case.registry.handle(id, Request::List { from: 0 }, Vec::new(), &mut case.host, case.now);
    assert!(answer.is_last);
    let newer = Request::Hello { version: VERSION + 1, name: String::new() };
    let answer = case.registry.handle(id, newer, Vec::new(), &mut case.host, case.now);
    assert!(answer.is_last && matches!(answer.reply, Reply::Refused(Refusal { code: Code::Version, .. })));
    let id = case.client(7);
    let again = Request::Hello { version: VERSION, name: String::new() };
    assert!(case.registry.handle(id, again, Vec::new(), &mut case.host, case.now).is_last);
}

#[test]
fn interfaces_that_cannot_serve_are_named() {
    let mut case = Case::new();
    let id = case.client(7);
    for (name, code) in [
        ("eth9", Code::NoInterface),
        ("99", Code::NoInterface),
        ("eth1.100", Code::InterfaceKind),
        ("eth2", Code::InterfaceDown),
    ] {
        assert_eq!(case.code(id, Request::OpenStack(OpenStack::on(name))), Some(code), "{name}");
    }
    assert_eq!(case.code(id, Request::OpenStack(OpenStack::on("2"))), None, "by number");
    assert_eq!(case.registry.client(id).unwrap().refused, 4, "kept for ps");
}

#[test]
fn stacks_and_ports_have_one_owner() {
    let mut case = Case::new();
    let (one, two) = (case.client(7), case.client(8));
    let stack = case.open(one);
    let (socket, entry) = port();
    assert_eq!(case.steer(two, stack, entry, &socket), Some(Code::NoStack), "another's stack");
    assert_eq!(case.code(one, Request::Steer { stack, entry }), Some(Code::TwinMissing));
    assert_eq!(case.steer(one, stack, entry, &port().0), Some(Code::TwinMismatch), "another's port");
    assert_eq!(case.steer(one, stack, entry, &socket), None);
    assert_eq!(case.steer(one, stack, entry, &socket), None, "again changes nothing");
    let other = case.open(two);
    assert_eq!(case.steer(two, other, entry, &socket), Some(Code::Taken));
    assert_eq!(case.code(two, Request::CloseStack { stack }), Some(Code::NoStack));
    assert_eq!(case.code(one, Request::Unsteer { stack, entry }), None);
    assert_eq!(case.code(one, Request::Unsteer { stack, entry }), Some(Code::NoEntry));
    let strange = Entry::Listener { protocol: Protocol::Udp, local: "198.18.0.1:7".parse().unwrap(), vlan: None };
    let any = UdpSocket::bind("0.0.0.0:0").unwrap();
    let local = ("198.18.0.1".parse::<IpAddr>().unwrap(), any.local_addr().unwrap().port()).into();
    let Entry::Listener { protocol, vlan, .. } = strange else { unreachable!() };
    assert_eq!(case.steer(one, stack, Entry::Listener { protocol, local, vlan }, &any), Some(Code::NotLocal));
}

#[test]
fn an_entry_has_one_name() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let (socket, entry) = port();
    let port = entry.local().port();
    let mapped = Entry::Listener {
        protocol: Protocol::Udp,
        local: format!("[::ffff:127.0.0.1]:{port}").parse().unwrap(),
        vlan: None,
    };
    assert_eq!(case.steer(id, stack, mapped, &socket), None);
    assert_eq!(case.steer(id, stack, entry, &socket), None);
    assert_eq!(case.registry.dataplane.steered.keys().collect::<Vec<_>>(), [&entry]);
    assert_eq!(case.code(id, Request::Unsteer { stack, entry: mapped }), None);
    assert_eq!(case.code(id, Request::Unsteer { stack, entry }), Some(Code::NoEntry));
}

#[test]
fn a_user_leaves_room_for_others() {
    let mut case = Case::new();
    case.host.are_groups_free = true;
    let (one, two) = (case.client(7), case.client(8));
    let (stack, other) = (case.open(one), case.open(two));
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let group = |number: u32| Entry::Multicast {
        group: (Ipv4Addr::from_bits(0xefff_0000 + number), port).into(),
        source: None,
        vlan: None,
    };
    let most = sidestep_xdp_steering::GROUPS_MAX / 2;
    for number in 0..most {
        assert_eq!(case.steer(one, stack, group(number), &socket), None);
    }
    assert_eq!(case.steer(one, stack, group(most), &socket), Some(Code::Limit));
    assert_eq!(case.steer(one, stack, group(0), &socket), None, "what it has it keeps");
    assert_eq!(case.steer(two, other, group(most), &socket), None);
    case.registry.limit_entries(most as usize + 1);
    assert_eq!(case.steer(two, other, group(most + 1), &socket), Some(Code::Limit), "descriptors are few");
}

#[test]
fn numbers_that_are_taken_are_passed_over() {
    let taken = BTreeMap::from([(1, ()), (2, ()), (u32::MAX, ())]);
    assert_eq!([0, 1, 3, u32::MAX].map(|from| free_number(from, &taken)), [3, 3, 3, 3]);
}

#[test]
fn a_port_that_was_given_up_is_given_back() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let (socket, entry) = port();
    assert_eq!(case.steer(id, stack, entry, &socket), None);
    assert_eq!(case.registry.check_twins(&case.host, case.now), []);
    assert_eq!(case.registry.dataplane.steered.len(), 1);
    // Another namespace stands for a socket that no longer proves anything.
    case.host.namespace += 1;
    let told = case.registry.check_twins(&case.host, case.now);
    assert_eq!(told, [(id, Reply::GivenBack { stack, entry })]);
    assert_eq!(case.registry.dataplane.steered.len(), 0);
}

#[test]
fn a_lost_connection_may_come_back_and_a_stranger_gets_nothing_of_it() {
    let mut case = Case::new();
    let one = case.client(7);
    let stack = case.open(one);
    case.registry.hang_up(one, case.now);
    case.registry.expire(case.now);
    assert!(case.registry.dataplane.open.contains(&stack), "its process lives");
    let stranger =
        case.registry.admit(Credentials { pid: Some(1), uid: 7, gid: 7 }, Owner::User(7), None, case.now).unwrap();
    let hello = Request::Hello { version: VERSION, name: String::new() };
    case.ask(stranger, hello);
    assert_eq!(case.code(stranger, Request::ResumeStack { stack }), Some(Code::NoStack));
    let other_user = case.client(8);
    assert_eq!(case.code(other_user, Request::ResumeStack { stack }), Some(Code::NoStack), "a pid given out again");
    let again = case.client(7);
    assert!(matches!(case.ask(again, Request::ResumeStack { stack }), Reply::Stack(facts) if facts.id == stack));
    assert!(case.registry.client(one).is_none(), "nothing is left of the old connection");
    case.registry.expire(case.now + GRACE);
    assert!(case.registry.dataplane.open.contains(&stack));
    case.registry.hang_up(again, case.now);
    case.registry.expire(case.now + GRACE - Duration::from_millis(1));
    assert!(case.registry.dataplane.open.contains(&stack));
    case.registry.expire(case.now + GRACE);
    assert!(case.registry.dataplane.open.is_empty() && case.registry.client(again).is_none());
}

#[test]
fn a_dead_owner_loses_its_stacks_at_once() {
    let mut case = Case::new();
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let process = Process::of(child.id()).unwrap().unwrap();
    let peer = Credentials { pid: Some(child.id()), uid: 7, gid: 7 };
    let id = case.registry.admit(peer, Owner::User(peer.uid), Some(process), case.now).unwrap();
    case.ask(id, Request::Hello { version: VERSION, name: "child".into() });
    case.open(id);
    case.registry.expire(case.now);
    assert_eq!(case.registry.dataplane.open.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    case.registry.expire(case.now);
    assert!(case.registry.dataplane.open.is_empty() && case.registry.client(id).is_none());
}

#[test]
fn what_would_not_close_is_tried_again() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    case.registry.dataplane.close_fails = true;
    assert_eq!(case.code(id, Request::CloseStack { stack }), None);
    assert!(case.registry.dataplane.open.contains(&stack));
    case.registry.dataplane.close_fails = false;
    case.registry.expire(case.now);
    assert!(case.registry.dataplane.open.is_empty());
}

#[test]
fn nobody_gets_more_than_a_share() {
    let mut case = Case::new();
    let id = case.client(7);
    for _ in 0..STACKS_PER_CLIENT_MAX {
        case.open(id);
    }
    assert_eq!(case.code(id, Request::OpenStack(OpenStack::on("eth1"))), Some(Code::Limit));
    let other = case.client(8);
    let huge = OpenStack { frames: u32::MAX, frame_bytes: 4096, ..OpenStack::on("eth1") };
    assert_eq!(case.code(other, Request::OpenStack(huge)), Some(Code::Limit));
    let peer = Credentials { pid: None, uid: 9, gid: 9 };
    let admitted =
        (0..CLIENTS_MAX).filter(|_| case.registry.admit(peer, Owner::User(peer.uid), None, case.now).is_ok()).count();
    assert_eq!(admitted, CLIENTS_PER_USER_MAX);
    let others = (0..CLIENTS_MAX as u32).map(|uid| Credentials { pid: None, uid: 100 + uid, gid: 0 });
    let admitted =
        others.filter(|peer| case.registry.admit(*peer, Owner::User(peer.uid), None, case.now).is_ok()).count();
    assert_eq!(admitted, CLIENTS_MAX - CLIENTS_OF_ROOT - CLIENTS_PER_USER_MAX - 2);
    let root = Credentials { pid: None, uid: 0, gid: 0 };
    let mut admit = |owner| case.registry.admit(root, owner, None, case.now).is_ok();
    assert!(!admit(Owner::Container(1)) && !admit(Owner::Unknown), "root of its own namespace alone");
    let admitted = (0..CLIENTS_MAX).filter(|_| admit(Owner::User(0))).count();
    assert_eq!(admitted, CLIENTS_OF_ROOT);
}

#[test]
fn every_page_fits_a_packet_and_all_of_them_are_the_list() {
    let mut case = Case::new();
    case.registry.set_queues_per_user(1000);
    for uid in 0..40 {
        let id = case.client(1000 + uid);
        (0..STACKS_PER_CLIENT_MAX).for_each(|_| _ = case.open(id));
        for number in 0..50 {
            let subject = format!("{number} {}", "\"".repeat(300));
            case.ask(id, Request::Report { subject, code: Code::RouteUnknown });
        }
    }
    let (mut from, mut seen) = (0, 0);
    loop {
        let reply = case.ask(1, Request::List { from });
        assert!(serde_json::to_vec(&reply).unwrap().len() + 64 < PACKET_BYTES_MAX);
        let Reply::Listing { clients, next } = reply else { panic!("{reply:?}") };
        seen += clients.len();
        let Some(next) = next else { break };
        from = next;
    }
    assert_eq!(seen, 40);
    let (mut from, mut seen) = (0, 0);
    loop {
        let reply = case.ask(1, Request::Inspect { client: 5, from });
        assert!(serde_json::to_vec(&reply).unwrap().len() + 64 < PACKET_BYTES_MAX);
        let Reply::Details { lines, next } = reply else { panic!("{reply:?}") };
        seen += lines.len();
        let Some(next) = next else { break };
        from = next;
    }
    assert_eq!(seen, 32, "the latest refusals");
}

#[test]
fn a_restart_keeps_the_stacks_of_the_living() {
    let this = Process::this().unwrap();
    let record = |stack, start_ticks| Record {
        facts: stack_facts(stack, "eth1", stack),
        name: "feed".into(),
        pid: this.pid,
        start_ticks,
        uid: 7,
        gid: 7,
        owner: Owner::User(7),
    };
    let mut case = Case::new();
    case.registry.dataplane.adoptable.extend([3, 4, 5]);
    let records = vec![record(3, this.start_ticks), record(4, this.start_ticks + 1), record(9, this.start_ticks)];
    case.registry.adopt(records, case.now);
    assert_eq!(case.registry.dataplane.open, BTreeSet::from([3]), "4 is a dead owner's, 9 is not there any more");
    let id = case.client(7);
    assert!(matches!(case.ask(id, Request::ResumeStack { stack: 3 }), Reply::Stack(_)));
    assert!(case.open(id) > 9, "no number is given twice");
    case.registry.expire(case.now + RESTART_GRACE);
    assert!(case.registry.dataplane.open.contains(&3));
}

#[test]
fn after_a_restart_a_port_is_proved_again_or_given_back() {
    let this = Process::this().unwrap();
    let (pid, start_ticks) = (this.pid, this.start_ticks);
    let record = Record {
        facts: stack_facts(3, "eth1", 0),
        name: "feed".into(),
        pid,
        start_ticks,
        uid: 7,
        gid: 7,
        owner: Owner::User(7),
    };
    let mut case = Case::new();
    let ((shown, entry), (_closed, forgotten)) = (port(), port());
    case.registry.dataplane.adoptable.insert(3);
    case.registry.dataplane.steered.extend([(entry, 3), (forgotten, 3)]);
    case.registry.adopt(vec![record], case.now);
    let id = case.client(7);
    assert!(matches!(case.ask(id, Request::ResumeStack { stack: 3 }), Reply::Stack(_)));
    assert_eq!(case.steer(id, 3, entry, &shown), None);
    case.registry.check_twins(&case.host, case.now);
    assert_eq!(case.registry.dataplane.steered.len(), 2, "there is time");
    case.registry.check_twins(&case.host, case.now + PROOF_WAIT);
    assert_eq!(case.registry.dataplane.steered.keys().collect::<Vec<_>>(), [&entry]);
}

#[test]
fn a_lost_interface_is_told_to_the_owner() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    case.registry.dataplane.lost.push(stack);
    let notices = case.registry.look(&[]);
    assert!(matches!(&notices[..], [(to, Reply::Revoked { stack: lost, .. })] if *to == id && *lost == stack));
    assert_eq!(case.code(id, Request::CloseStack { stack }), Some(Code::NoStack));
    let stack = case.open(id);
    assert!(matches!(&case.registry.end()[..], [(_, Reply::Revoked { stack: lost, .. })] if *lost == stack));
    assert!(case.registry.dataplane.has_ended);
}

#[test]
fn who_is_told_of_icmp_errors_is_who_sent_the_packet() {
    use sidestep_control_api::message::IcmpErrorKind;
    let mut case = Case::new();
    let (one, other) = (case.client(7), case.client(8));
    let (stack, _) = (case.open(one), case.open(other));
    let at = |text: &str| text.parse().unwrap();
    let entries = &mut case.registry.stacks.get_mut(&stack).unwrap().entries;
    let flow =
        |vlan| Entry::Flow { protocol: Protocol::Tcp, local: at("198.18.0.1:7"), remote: at("198.18.9.2:8"), vlan };
    entries.insert(flow(Some(5)), None);
    entries.insert(Entry::Listener { protocol: Protocol::Udp, local: at("0.0.0.0:9"), vlan: None }, None);
    let told = |protocol, local: &str, remote: &str| {
        let kind = IcmpErrorKind::TooBig { mtu: 1300 };
        let error = IcmpError { protocol, local: at(local), remote: at(remote), sequence: Some(1), kind };
        case.registry.owners_of_error(error).into_iter().map(|(client, _)| client).collect::<Vec<_>>()
    };
    let nobody = Vec::<u32>::new();
    assert_eq!(told(Protocol::Tcp, "198.18.0.1:7", "198.18.9.2:8"), [one]);
    assert_eq!(told(Protocol::Tcp, "198.18.0.1:7", "198.18.9.2:9"), nobody, "another connection");
    assert_eq!(told(Protocol::Udp, "198.18.0.1:7", "198.18.9.2:8"), nobody, "another protocol");
    assert_eq!(told(Protocol::Udp, "198.18.0.1:9", "198.18.9.2:8"), [one], "whatever the address");
    assert_eq!(told(Protocol::Udp, "[2001:2::1]:9", "[2001:2::2]:8"), nobody, "another family");
}
