//! Reserved ports: who may have how many, what is left out, what stays when a stack or a control ends.

use super::*;
use crate::ports::Ports;
use crate::registry::pool::BLOCKS_PER_STACK_MAX;
use sidestep_plane::message::PortBlock;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Ports that only remember who holds them.
#[derive(Clone, Default)]
struct FakePorts {
    range: Option<RangeInclusive<u16>>,
    kept: Vec<RangeInclusive<u16>>,
    /// Somebody else's.
    taken: Rc<RefCell<BTreeSet<u16>>>,
    is_forwarding: bool,
}

impl Ports for FakePorts {
    fn range(&self) -> RangeInclusive<u16> {
        self.range.clone().unwrap_or(40_960..=60_999)
    }

    fn kept(&self) -> Vec<RangeInclusive<u16>> {
        self.kept.clone()
    }

    fn hold(&self, port: u16) -> io::Result<OwnedFd> {
        if self.taken.borrow().contains(&port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(std::fs::File::open("/dev/null")?.into())
    }

    fn is_forwarding(&self, _interface: &str) -> bool {
        self.is_forwarding
    }
}

fn case(ports: FakePorts) -> Case {
    let mut case = Case::new();
    case.registry.pool.kernel = Box::new(ports);
    case
}

impl Case {
    fn reserve(&mut self, id: u32, stack: u32) -> Result<PortBlock, Refusal> {
        match self.ask(id, Request::ReservePorts { stack }) {
            Reply::Ports(ports) => Ok(ports),
            Reply::Refused(refusal) => Err(refusal),
            reply => panic!("{reply:?}"),
        }
    }
}

#[test]
fn a_block_is_steered_whole_and_what_others_have_is_left_out() {
    let taken = Rc::new(RefCell::new(BTreeSet::from([60_930, 60_931])));
    let mut case = case(FakePorts { kept: vec![60_940..=60_949], taken, ..FakePorts::default() });
    let (one, two) = (case.client(7), case.client(8));
    let stack = case.open(one);
    assert_eq!(case.reserve(two, stack).unwrap_err().code, Code::NoStack, "another's stack");
    let ports = case.reserve(one, stack).unwrap();
    // The range ends in this block, at 60999.
    assert_eq!((ports.first(), ports.len()), (60_928, 72 - 2 - 10));
    assert!(ports.has(60_928) && ports.has(60_999) && !ports.has(60_930) && !ports.has(60_945) && !ports.has(61_000));
    assert!(ports.ports().all(|port| case.registry.dataplane.ports.get(&port) == Some(&stack)));
    let other = case.open(two);
    let others = case.reserve(two, other).unwrap();
    assert_eq!((others.first(), others.len()), (60_672, 256), "never the same");
    assert_eq!(case.registry.dataplane.ports.len(), 60 + 256);
    let Reply::Listing { clients, .. } = case.ask(one, Request::List { from: 0 }) else { panic!("no list") };
    assert_eq!(clients.iter().map(|line| line.stacks[0].ports).collect::<Vec<_>>(), [60, 256]);
}

/// What comes to an address of this host may be translated back to somebody behind it.
#[test]
fn a_host_that_forwards_keeps_its_ports() {
    let mut case = case(FakePorts { is_forwarding: true, ..FakePorts::default() });
    let id = case.client(7);
    let stack = case.open(id);
    let refusal = case.reserve(id, stack).unwrap_err();
    assert_eq!(refusal.code, Code::Forwards);
    assert!(refusal.next.contains("net.ipv4.conf.eth1.forwarding"), "{refusal:?}");
}

#[test]
fn stacks_and_users_have_their_share_and_root_finds_some() {
    let mut case = case(FakePorts::default());
    let most = case.registry.blocks_max();
    assert_eq!(most, 79);
    // More than a user may have: each stack as many as it may.
    let mut had = 0;
    for uid in [7, 8, 9] {
        let id = case.client(uid);
        let mut of_user = 0;
        for _ in 0..4 {
            let stack = case.open(id);
            let blocks = (0..).take_while(|_| case.reserve(id, stack).is_ok()).count();
            assert!(blocks <= BLOCKS_PER_STACK_MAX);
            assert_eq!(case.reserve(id, stack).unwrap_err().code, Code::Limit);
            of_user += blocks;
        }
        assert!(of_user <= most.div_ceil(2), "user {uid}: {of_user}");
        had += of_user;
    }
    assert_eq!(had, most - 4, "the last ones are root's");
    let root = case.client(0);
    let stack = case.open(root);
    let blocks = (0..).take_while(|_| case.reserve(root, stack).is_ok()).count();
    assert_eq!(blocks, 4);
    assert!(case.registry.dataplane.ports.keys().all(|port| (40_960..=60_999).contains(port)));
}

#[test]
fn few_descriptors_make_few_ports_and_leave_some_to_entries() {
    let mut case = case(FakePorts::default());
    case.registry.limit_entries(2 * 256 + 100);
    assert_eq!((case.registry.blocks_max(), case.registry.entries_max), (1, 2 * 256 + 100 - 256));
    let id = case.client(0);
    let stack = case.open(id);
    case.reserve(id, stack).unwrap();
    assert_eq!(case.reserve(id, stack).unwrap_err().code, Code::Limit);
}

#[test]
fn icmp_about_a_reserved_port_is_its_stacks() {
    use sidestep_plane::message::TroubleKind;
    let mut case = case(FakePorts::default());
    let (one, two) = (case.client(7), case.client(8));
    let stacks = [case.open(one), case.open(two)];
    case.reserve(one, stacks[0]).unwrap();
    let port = case.reserve(two, stacks[1]).unwrap().first();
    let kind = TroubleKind::TooBig { mtu: 1300 };
    let (local, remote) = (([198, 18, 0, 1], port).into(), "198.18.9.2:8".parse().unwrap());
    let mut trouble = Trouble { protocol: Protocol::Tcp, local, remote, sequence: Some(1), kind };
    assert_eq!(case.registry.troubled(trouble), [(two, Reply::Trouble(trouble))]);
    trouble.protocol = Protocol::Udp;
    assert_eq!(case.registry.troubled(trouble), []);
}

/// For as long as TIME-WAIT lasts nobody gets what a stack had, as long as there are others.
#[test]
fn ports_of_a_closed_stack_cool() {
    let mut case = case(FakePorts { range: Some(60_416..=60_927), ..FakePorts::default() });
    let id = case.client(0);
    let stack = case.open(id);
    assert_eq!(case.reserve(id, stack).unwrap().first(), 60_672);
    case.ask(id, Request::CloseStack { stack });
    assert!(case.registry.dataplane.ports.is_empty(), "nothing is steered any more");
    let stack = case.open(id);
    assert_eq!(case.reserve(id, stack).unwrap().first(), 60_416, "the other one");
    assert_eq!(case.reserve(id, stack).unwrap().first(), 60_672, "better than none");
    assert_eq!(case.reserve(id, stack).unwrap_err().code, Code::Limit);
    case.ask(id, Request::CloseStack { stack });
    case.registry.expire(Instant::now() + Duration::from_secs(61));
    let stack = case.open(id);
    assert_eq!(case.reserve(id, stack).unwrap().first(), 60_672);
}

/// A control that comes back holds the ports again; what somebody took meanwhile is the kernel's, and its owner is told.
#[test]
fn a_restarted_control_holds_them_again_and_tells_of_what_is_lost() {
    let this = Process::this().unwrap();
    let mut case = case(FakePorts::default());
    case.registry.dataplane.adoptable.insert(3);
    case.registry.dataplane.ports.extend([(60_900, 3), (60_901, 3), (60_999, 3), (50_000, 9)]);
    case.registry.pool.kernel =
        Box::new(FakePorts { taken: Rc::new(RefCell::new(BTreeSet::from([60_901]))), ..FakePorts::default() });
    let record = Record {
        facts: stack_facts(3, "eth1", 0),
        name: "feed".into(),
        pid: this.pid,
        start_ticks: this.start_ticks,
        uid: 7,
        gid: 7,
        owner: Owner::User(7),
    };
    case.registry.adopt(vec![record], case.now);
    assert_eq!(case.registry.dataplane.ports.keys().copied().collect::<Vec<_>>(), [50_000, 60_900, 60_999]);
    assert_eq!(case.registry.pool.count(3), 2);
    assert_eq!(case.registry.lost_ports(), [], "nobody is there to be told");
    let id = case.client(7);
    assert!(matches!(case.ask(id, Request::ResumeStack { stack: 3 }), Reply::Stack(_)));
    let mut lost = PortBlock::around(60_901);
    lost.insert(60_901);
    assert_eq!(case.registry.lost_ports(), [(id, Reply::PortsLost { stack: 3, ports: lost })]);
    assert_eq!(case.registry.lost_ports(), [], "once");
    // A new block is none of those.
    assert_eq!(case.reserve(id, 3).unwrap().first(), 60_416);
}
