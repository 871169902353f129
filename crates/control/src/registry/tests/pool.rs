//! Reserved ports: limits per user, exclusions, and the end of a stack or of control.

use super::*;
use crate::ports::Ports;
use crate::registry::pool::{BLOCKS_PER_STACK_MAX, Pool};
use sidestep_control_api::message::PortBlock;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Ports that only record their holders.
#[derive(Clone, Default)]
struct FakePorts {
    range: Option<RangeInclusive<u16>>,
    kept: Vec<RangeInclusive<u16>>,
    /// Ports in use by others.
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

/// Packets to an address of this host may be translated to a host behind it.
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
    // Twenty blocks.
    let ports = || FakePorts { range: Some(55_808..=60_927), ..FakePorts::default() };
    let mut case = case(ports());
    assert_eq!(case.registry.blocks_max(), 20);
    let mut had = 0;
    for uid in [7, 8, 9] {
        let id = case.client(uid);
        let mut of_user = 0;
        for _ in 0..2 {
            let stack = case.open(id);
            of_user += (0..).take_while(|_| case.reserve(id, stack).is_ok()).count();
            assert_eq!(case.reserve(id, stack).unwrap_err().code, Code::Limit);
        }
        assert!(of_user <= 10, "user {uid}: {of_user}");
        had += of_user;
    }
    assert_eq!(had, 16, "the last ones are root's");
    let root = case.client(0);
    let stack = case.open(root);
    assert_eq!((0..).take_while(|_| case.reserve(root, stack).is_ok()).count(), 4);
    assert!(case.registry.dataplane.ports.keys().all(|port| (55_808..=60_927).contains(port)));
    // A single stack has a limit, too.
    case.registry.pool = Pool::default();
    case.registry.pool.kernel = Box::new(ports());
    assert_eq!((0..).take_while(|_| case.reserve(root, stack).is_ok()).count(), BLOCKS_PER_STACK_MAX);
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
    use sidestep_control_api::message::IcmpErrorKind;
    let mut case = case(FakePorts::default());
    let (one, two) = (case.client(7), case.client(8));
    let stacks = [case.open(one), case.open(two)];
    case.reserve(one, stacks[0]).unwrap();
    let port = case.reserve(two, stacks[1]).unwrap().first();
    let kind = IcmpErrorKind::TooBig { mtu: 1300 };
    let (local, remote) = (([198, 18, 0, 1], port).into(), "198.18.9.2:8".parse().unwrap());
    let mut error = IcmpError { protocol: Protocol::Tcp, local, remote, sequence: Some(1), kind };
    assert_eq!(case.registry.owners_of_error(error), [(two, Reply::IcmpError(error))]);
    error.protocol = Protocol::Udp;
    assert_eq!(case.registry.owners_of_error(error), []);
}

/// For the duration of TIME-WAIT no other stack gets a stack's ports, as long as there are others.
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

/// Segments for another user's connections must not be seen, and cooling blocks count as owned.
#[test]
fn ports_that_cool_are_their_users_alone() {
    let mut case = case(FakePorts { range: Some(58_880..=60_927), ..FakePorts::default() });
    let (one, two) = (case.client(7), case.client(8));
    let stack = case.open(one);
    let of_one: Vec<u16> = (0..4).map(|_| case.reserve(one, stack).unwrap().first()).collect();
    assert_eq!(case.reserve(one, stack).unwrap_err().code, Code::Limit, "half of eight");
    case.ask(one, Request::CloseStack { stack });
    let other = case.open(two);
    let of_two: Vec<u16> = std::iter::from_fn(|| case.reserve(two, other).ok()).map(|block| block.first()).collect();
    assert_eq!(of_two.len(), 2, "two are root's, four cool");
    assert!(of_two.iter().all(|first| !of_one.contains(first)));
    let stack = case.open(one);
    let again: Vec<u16> = std::iter::from_fn(|| case.reserve(one, stack).ok()).map(|block| block.first()).collect();
    assert_eq!(again, of_one, "its own, the oldest first");
    // Root has the rest, and none of the cooling ones.
    case.ask(one, Request::CloseStack { stack });
    let root = case.client(0);
    let stack = case.open(root);
    assert_eq!(std::iter::from_fn(|| case.reserve(root, stack).ok()).count(), 2);
    case.registry.expire(Instant::now() + Duration::from_secs(61));
    assert_eq!(std::iter::from_fn(|| case.reserve(root, stack).ok()).count(), 4);
}

/// A restarted control holds the ports again; those taken meanwhile stay the stack's, and are held once they are free.
#[test]
fn a_restarted_control_holds_them_again_and_those_of_others_later() {
    let this = Process::this().unwrap();
    let taken = Rc::new(RefCell::new(BTreeSet::from([60_901])));
    let mut case = case(FakePorts { taken: Rc::clone(&taken), ..FakePorts::default() });
    case.registry.dataplane.adoptable.insert(3);
    case.registry.dataplane.ports.extend([(60_900, 3), (60_901, 3), (60_999, 3), (50_000, 9)]);
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
    let steered: Vec<_> = case.registry.dataplane.ports.keys().copied().collect();
    assert_eq!(steered, [50_000, 60_900, 60_901, 60_999]);
    assert_eq!((case.registry.pool.count(3), case.registry.pool.owner(60_901)), (2, Some(3)));
    case.registry.hold_ports();
    assert_eq!(case.registry.pool.count(3), 2, "somebody still has it");
    taken.borrow_mut().clear();
    case.registry.dataplane.ports.remove(&60_901);
    case.registry.hold_ports();
    assert_eq!(case.registry.pool.count(3), 3);
    assert_eq!(case.registry.dataplane.ports.get(&60_901), Some(&3), "written anew: nobody shares it");
    let id = case.client(7);
    assert!(matches!(case.ask(id, Request::ResumeStack { stack: 3 }), Reply::Stack(_)));
    // A new block has none of those.
    assert_eq!(case.reserve(id, 3).unwrap().first(), 60_416);
}

/// Ports that a stack never got back are free when it ends.
#[test]
fn ports_that_were_not_held_do_not_cool() {
    let taken = Rc::new(RefCell::new(BTreeSet::from([60_901])));
    let mut pool = Pool::default();
    pool.kernel = Box::new(FakePorts { taken: Rc::clone(&taken), ..FakePorts::default() });
    assert_eq!(pool.adopt(3, Owner::User(7), &[60_900, 60_901]), [60_900]);
    let now = Instant::now();
    pool.release(3, now);
    taken.borrow_mut().clear();
    assert_eq!(pool.hold_again(8), []);
    let block = pool.take(4, Owner::User(7), false).unwrap();
    assert_eq!(block.ports().collect::<Vec<_>>(), [60_900]);
}

/// The steering program uses only the owner of such a port: another user's entry would lead to that stack.
#[test]
fn a_reserved_port_that_somebody_took_is_steered_to_nobody_else() {
    let mut case = case(FakePorts::default());
    let (one, two) = (case.client(7), case.client(8));
    let (stack, other) = (case.open(one), case.open(two));
    let twin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let local = twin.local_addr().unwrap();
    // While no control was running its holder had it.
    case.registry.pool.adopt(stack, Owner::User(7), &[local.port()]);
    let listener = Entry::Listener { protocol: Protocol::Tcp, local, vlan: None };
    assert_eq!(case.steer(two, other, listener, &twin), Some(Code::Taken));
    assert!(case.registry.dataplane.steered.is_empty());
    case.ask(one, Request::CloseStack { stack });
    assert_eq!(case.steer(two, other, listener, &twin), None);
}
