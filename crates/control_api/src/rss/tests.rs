use super::device::understand;
use super::*;
use proptest::prelude::*;
use rustix::io::Errno;
use sidestep_sys::ethtool::{HashFunction, Rss, field};

/// Microsoft's key, as in the documents of all NICs.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

fn rss() -> Rss {
    let table = (0..128).map(|entry| entry % 8).collect();
    Rss { function: HashFunction::Toeplitz, transform: 0, key: KEY.to_vec(), table }
}

fn spread(rss: Rss) -> Spread {
    understand(Ok(8), Ok(rss), [Ok(field::ALL); 4], "igb", (6, 12))
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

const REMOTE: &str = "66.9.149.187:2794";
const LOCAL: &str = "161.142.100.80:1766";
/// The hashes of the vectors, with ports and without.
const HASH: u32 = 0x51cc_c178;
const HASH_OF_ADDRESSES: u32 = 0x323e_8fc2;

fn queue(spread: &Spread) -> Result<u32, WhyUnknown> {
    spread.queue_of(Protocol::Tcp, at(REMOTE), at(LOCAL))
}

#[test]
fn the_table_is_asked_by_the_low_bits_of_the_hash() {
    assert_eq!(queue(&spread(rss())), Ok(HASH % 128 % 8));
    let all =
        (0..8).map(|port| spread(rss()).queue_of(Protocol::Udp, at(REMOTE), at(&format!("161.142.100.80:{port}"))));
    assert!(all.flatten().collect::<std::collections::HashSet<_>>().len() > 1, "ports have different queues");
    let v6 = spread(rss()).queue_of(Protocol::Tcp, at("[3ffe:2501:200:1fff::7]:2794"), at("[3ffe:2501:200:3::1]:1766"));
    assert_eq!(v6, Ok(0x4020_7d3d % 8));
}

#[test]
fn a_mapped_address_is_the_one_that_is_on_the_wire() {
    let mapped = spread(rss()).queue_of(Protocol::Tcp, at("[::ffff:66.9.149.187]:2794"), at(LOCAL));
    assert_eq!(mapped, Ok(HASH % 8));
}

#[test]
fn where_ports_are_not_hashed_none_makes_a_difference() {
    let spread = understand(Ok(8), Ok(rss()), [Ok(field::ADDRESSES); 4], "igb", (6, 12));
    let toward = spread.toward(Protocol::Udp, at(REMOTE), at(LOCAL).ip()).unwrap();
    assert!(!toward.depends_on_port());
    assert!((0..100).all(|port| toward.queue_of(port) == Ok(HASH_OF_ADDRESSES % 8)));
}

#[test]
fn one_queue_is_known_whatever_else_is_told() {
    let nothing = || [Err(unsupported()); 4];
    let none = Err(WhyUnknown::Rss(unsupported()));
    let spread = understand(Ok(1), none, nothing(), "lo", (6, 1));
    assert_eq!(queue(&spread), Ok(0));
    assert_eq!(spread.receiving(), Ok(vec![0]));
    let veth = understand(Ok(4), Err(WhyUnknown::Rss(unsupported())), nothing(), "veth", (6, 1));
    assert_eq!(queue(&veth), Err(WhyUnknown::Rss(unsupported())));
    assert_eq!(veth.receiving(), Ok(vec![0, 1, 2, 3]));
}

fn unsupported() -> i32 {
    Errno::OPNOTSUPP.raw_os_error()
}

#[test]
fn what_is_not_certain_is_said_by_name() {
    let why = |change: fn(&mut Rss)| {
        let mut rss = rss();
        change(&mut rss);
        queue(&spread(rss)).unwrap_err()
    };
    assert_eq!(why(|rss| rss.function = HashFunction::Xor), WhyUnknown::Function(HashFunction::Xor));
    assert_eq!(why(|rss| rss.transform = 4), WhyUnknown::Transform(4));
    assert_eq!(why(|rss| rss.key.clear()), WhyUnknown::Key(0));
    assert_eq!(why(|rss| rss.key.truncate(16)), WhyUnknown::Key(16));
    assert_eq!(why(|rss| rss.table.clear()), WhyUnknown::Table(0));
    assert_eq!(why(|rss| rss.table.truncate(96)), WhyUnknown::Table(96));
    assert_eq!(why(|rss| rss.table[77] = 8), WhyUnknown::TableEntry(8));
    let fields = |told| queue(&understand(Ok(8), Ok(rss()), [told; 4], "igb", (6, 12))).unwrap_err();
    assert_eq!(fields(Ok(field::SOURCE_ADDRESS)), WhyUnknown::Fields(field::SOURCE_ADDRESS));
    assert_eq!(fields(Ok(0)), WhyUnknown::Fields(0));
    assert_eq!(fields(Err(5)), WhyUnknown::NoFields(5));
    let queues = understand(Err(WhyUnknown::Queues(95)), Ok(rss()), [Ok(field::ALL); 4], "igb", (6, 12));
    assert_eq!(queue(&queues).unwrap_err(), WhyUnknown::Queues(95));
    let ena = understand(Ok(8), Ok(rss()), [Ok(field::ALL); 4], "ena", (6, 12));
    assert_eq!(queue(&ena).unwrap_err(), WhyUnknown::Driver("ena"));
    let virtio = |release| queue(&understand(Ok(8), Ok(rss()), [Ok(field::ALL); 4], "virtio_net", release));
    assert_eq!(virtio((6, 1)).unwrap_err(), WhyUnknown::Driver("virtio_net"));
    assert_eq!(virtio((6, 12)), Ok(HASH % 8));
    let families = spread(rss()).queue_of(Protocol::Tcp, at(REMOTE), at("[::1]:1")).unwrap_err();
    assert_eq!(families, WhyUnknown::Families);
    assert!(WhyUnknown::Rss(unsupported()).to_string().contains("does not report how it spreads"));
    assert!(WhyUnknown::Rss(13).to_string().contains("ermission denied"));
}

#[test]
fn a_long_key_is_cut() {
    let mut long = rss();
    long.key.resize(4096, 0xaa);
    assert_eq!(queue(&spread(long)), Ok(HASH % 8));
}

/// mlx5 hashed symmetrically long before it could report that.
#[test]
fn a_driver_that_does_not_say_that_its_hash_is_symmetric_is_known() {
    let both_ways = |release| {
        let spread = understand(Ok(8), Ok(rss()), [Ok(field::ALL); 4], "mlx5_core", release);
        let there = |port| spread.queue_of(Protocol::Tcp, at(REMOTE), SocketAddr::new(at(LOCAL).ip(), port));
        let back = |port| spread.queue_of(Protocol::Tcp, SocketAddr::new(at(LOCAL).ip(), port), at(REMOTE));
        (0..64).all(|port| there(port) == back(port))
    };
    assert!(both_ways((6, 12)) && both_ways((5, 14)));
    assert!(!both_ways((6, 16)), "from then on it says so");
}

#[test]
fn queues_that_the_table_leaves_out_receive_nothing() {
    let mut some = rss();
    some.table = [2, 5].repeat(64);
    assert_eq!(spread(some.clone()).receiving(), Ok(vec![2, 5]));
    let untold = understand(Ok(8), Ok(some.clone()), [Ok(field::ALL); 4], "virtio_net", (6, 1));
    assert_eq!(untold.receiving(), Ok((0..8).collect()));
    let unhashed = understand(Ok(8), Ok(some), [Ok(field::ALL), Ok(0), Ok(field::ALL), Ok(0)], "igb", (6, 12));
    assert_eq!(unhashed.receiving(), Ok(vec![0, 2, 5]));
}

/// A rule for TCP over IPv4 to a queue.
fn to_queue(cookie: u64) -> FlowRule {
    let mut bytes = [0; FlowRule::BYTES];
    bytes[0] = 1;
    bytes[152..160].copy_from_slice(&cookie.to_ne_bytes());
    FlowRule::of_bytes(bytes)
}

#[test]
fn queues_that_rules_name_receive_too() {
    let mut some = rss();
    some.table = [2, 5].repeat(64);
    let with = |cookies: &[u64]| {
        let rules = Ok(cookies.iter().map(|cookie| to_queue(*cookie)).collect());
        Spread { rules, ..spread(some.clone()) }.receiving()
    };
    assert_eq!(with(&[7, 5]), Ok(vec![2, 5, 7]));
    assert_eq!(with(&[u64::MAX]), Ok(vec![2, 5]), "dropped");
    assert_eq!(with(&[7, 1 << 32]), Ok((0..8).collect()), "of a virtual function");
    let unread = Spread { rules: Err(WhyUnknown::NoRules(12)), ..spread(some.clone()) };
    assert_eq!(unread.receiving(), Ok((0..8).collect()));
    assert_eq!(Spread::of(8, some.clone()).receiving(), Ok(vec![2, 5]));
}

/// A reset of the device is not a change of its table.
#[test]
fn what_could_not_be_asked_is_no_answer() {
    let of = |rss: Result<Rss, WhyUnknown>, fields| understand(Ok(8), rss, [fields; 4], "ice", (6, 12));
    assert!(spread(rss()).is_answer());
    for (errno, is_answer) in [
        (Errno::OPNOTSUPP.raw_os_error(), true),
        (Errno::IO.raw_os_error(), false),
        (Errno::BUSY.raw_os_error(), false),
    ] {
        assert_eq!(of(Err(WhyUnknown::Rss(errno)), Ok(field::ALL)).is_answer(), is_answer, "{errno}");
        assert_eq!(of(Ok(rss()), Err(errno)).is_answer(), is_answer, "{errno}");
        let rules = Err(WhyUnknown::NoRules(errno));
        assert!(!Spread { rules, ..spread(rss()) }.is_answer(), "{errno}");
    }
    let too_many = Err(WhyUnknown::NoRules(Errno::OVERFLOW.raw_os_error()));
    assert!(Spread { rules: too_many, ..spread(rss()) }.is_answer());
    let unused = Rss { function: HashFunction::Toeplitz, transform: 0, key: Vec::new(), table: Vec::new() };
    assert!(of(Ok(unused), Ok(0)).is_answer(), "it tells that it does not tell");
    assert!(!understand(Err(WhyUnknown::Queues(19)), Ok(rss()), [Ok(0); 4], "ice", (6, 12)).is_answer());
}

proptest! {
    /// Any report of a driver: no panic, and no queue that the device lacks.
    #[test]
    fn no_answer_is_too_odd(
        queues in 0_u32..20,
        key in proptest::collection::vec(any::<u8>(), 0..60),
        table in proptest::collection::vec(0_u32..20, 0..130),
        transform: u8,
        fields: [u64; 4],
        is_plain: bool,
        port: u16,
    ) {
        let told = if is_plain { [Ok(field::ALL); 4] } else { fields.map(Ok) };
        let transform = if is_plain { transform % 3 } else { transform };
        let rss = Rss { function: HashFunction::Toeplitz, transform, key, table };
        let spread = understand(Ok(queues), Ok(rss), told, "igb", (6, 12));
        if let Ok(queue) = spread.queue_of(Protocol::Tcp, at(REMOTE), SocketAddr::new(at(LOCAL).ip(), port)) {
            prop_assert!(queue < queues);
        }
        let _ = spread.receiving();
    }
}
