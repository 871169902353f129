//! Feeds: who shares them, who may read what, and when packets are dropped for them.

use super::*;
use crate::registry::feeds::FEEDS_PER_USER_MAX;
use sidestep_control_api::message::{FEED_NAME_BYTES_MAX, FeedVerdict, Verdict};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

const READER: u32 = 1000;
const OTHER: u32 = 1001;

impl Case {
    fn open_feed(&mut self, id: u32, name: &str) -> u32 {
        match self.ask(id, Request::OpenFeed { interface: "eth1".into(), name: name.into() }) {
            Reply::Feed(facts) => facts.feed,
            reply => panic!("{reply:?}"),
        }
    }

    fn feed_code(&mut self, id: u32, name: &str) -> Option<Code> {
        self.code(id, Request::OpenFeed { interface: "eth1".into(), name: name.into() })
    }

    fn steer_feed(&mut self, id: u32, feed: u32, entry: Entry, verdict: Verdict, twin: Option<&UdpSocket>) -> Reply {
        let descriptors: Vec<OwnedFd> = twin.into_iter().map(|twin| twin.try_clone().unwrap().into()).collect();
        let request = Request::SteerFeed { feed, entry, verdict };
        self.registry.handle(id, request, descriptors, &mut self.host, self.now).reply
    }

    /// The verdict in force, and whether a reason came with it.
    fn verdict(&mut self, id: u32, feed: u32, entry: Entry, verdict: Verdict, twin: &UdpSocket) -> (Verdict, bool) {
        match self.steer_feed(id, feed, entry, verdict, Some(twin)) {
            Reply::FeedSteered { verdict, reason } => (verdict, reason.is_some()),
            reply => panic!("{reply:?}"),
        }
    }

    fn check_feeds(&mut self) -> Vec<(u32, Reply)> {
        self.registry.check_feeds(&self.host)
    }
}

fn code_of(reply: Reply) -> Option<Code> {
    if let Reply::Refused(refusal) = reply { Some(refusal.code) } else { None }
}

/// A socket of this host, and the entry of its port.
fn port() -> (UdpSocket, Entry) {
    let twin = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = twin.local_addr().unwrap();
    (twin, Entry::Listener { protocol: Protocol::Udp, local, vlan: None })
}

fn flow(entry: &Entry, remote: &str) -> Entry {
    Entry::Flow { protocol: Protocol::Udp, local: entry.local(), remote: remote.parse().unwrap(), vlan: None }
}

/// A socket that another user has at this port.
fn stranger(local: SocketAddr, uid: u32) -> KernelSocket {
    KernelSocket::sample(Protocol::Udp, local, "0.0.0.0:0".parse().unwrap(), uid)
}

#[test]
fn clients_of_one_user_share_a_feed_by_its_name() {
    let mut case = Case::new();
    let (one, two, other, root) = (case.client(READER), case.client(READER), case.client(OTHER), case.client(0));
    let shared = case.open_feed(one, "prices");
    assert_eq!(case.open_feed(two, "prices"), shared);
    assert_eq!(case.open_feed(one, "prices"), shared, "again");
    assert_ne!(case.open_feed(two, "news"), shared);
    let private = case.open_feed(one, "");
    assert_ne!(case.open_feed(two, ""), private);
    assert_ne!(case.open_feed(other, "prices"), shared, "another user's");
    assert_ne!(case.open_feed(root, "prices"), shared, "root does not join unasked");
    // A feed is used by its number alone: a stranger's guess is refused.
    for request in [
        Request::OpenDoorbell { feed: shared },
        Request::CloseFeed { feed: shared },
        Request::UnsteerFeed { feed: shared, entry: port().1 },
        Request::OpenDoorbell { feed: 999 },
    ] {
        assert_eq!(case.code(other, request), Some(Code::NoFeed));
    }
    let (twin, entry) = port();
    assert_eq!(code_of(case.steer_feed(other, shared, entry, Verdict::Pass, Some(&twin))), Some(Code::NoFeed));
    let feeds = case.registry.dataplane.feeds.len();
    case.registry.hang_up(one, case.now);
    assert_eq!(case.registry.dataplane.feeds.len(), feeds - 1, "its private one; the other is two's, too");
    assert!(matches!(case.ask(two, Request::OpenDoorbell { feed: shared }), Reply::Doorbell));
    case.registry.hang_up(two, case.now);
    assert!(!case.registry.dataplane.feeds.contains_key(&shared) && case.registry.dataplane.doorbells.is_empty());
}

/// Otherwise a program without the right would read the taps of one that has it.
#[test]
fn a_program_with_taps_shares_no_feed_with_one_without() {
    let mut case = Case::new();
    let (plain, tap) = (case.client(READER), case.client(READER));
    case.registry.permit_taps(tap, true);
    let feed = case.open_feed(tap, "prices");
    assert_ne!(case.open_feed(plain, "prices"), feed);
    let (_, entry) = port();
    assert!(matches!(case.steer_feed(tap, feed, entry, Verdict::Pass, None), Reply::FeedSteered { .. }));
    assert_eq!(code_of(case.steer_feed(tap, feed, entry, Verdict::Drop, None)), Some(Code::TwinMissing));
    let own = case.open_feed(plain, "");
    assert_eq!(code_of(case.steer_feed(plain, own, entry, Verdict::Pass, None)), Some(Code::NoTap));
    let root = case.client(0);
    let feed = case.open_feed(root, "");
    assert!(matches!(case.steer_feed(root, feed, entry, Verdict::Pass, None), Reply::FeedSteered { .. }));
}

#[test]
fn only_what_its_socket_receives_is_copied_for_a_client() {
    let mut case = Case::new();
    let id = case.client(READER);
    let feed = case.open_feed(id, "");
    let ((twin, entry), (_held, other)) = (port(), port());
    let mut ask = |entry, twin: &UdpSocket| code_of(case.steer_feed(id, feed, entry, Verdict::Pass, Some(twin)));
    assert_eq!(ask(entry, &twin), None);
    assert_eq!(ask(other, &twin), Some(Code::TwinMismatch), "another port");
    let any: SocketAddr = ([0, 0, 0, 0], entry.local().port()).into();
    let whole = Entry::Listener { protocol: Protocol::Udp, local: any, vlan: None };
    assert_eq!(ask(whole, &twin), Some(Code::TwinMismatch), "more than it is bound to");
    let far = Entry::Listener { protocol: Protocol::Udp, local: "198.18.0.9:7".parse().unwrap(), vlan: None };
    assert_eq!(ask(far, &twin), Some(Code::NotLocal));
    let zero = Entry::Listener { protocol: Protocol::Udp, local: "127.0.0.1:0".parse().unwrap(), vlan: None };
    assert_eq!(ask(zero, &twin), Some(Code::Malformed));
    let tcp = Entry::Listener { protocol: Protocol::Tcp, local: entry.local(), vlan: None };
    assert_eq!(code_of(case.steer_feed(id, feed, tcp, Verdict::Drop, Some(&twin))), Some(Code::Malformed));
    // Of sockets that share a port, the kernel selects one.
    case.host.receivers = vec![stranger(entry.local(), OTHER)];
    let notices = case.check_feeds();
    let is_gone = |(client, reply): &(u32, Reply)| {
        *client == id && matches!(reply, Reply::FeedVerdict(FeedVerdict { verdict: None, reason: Some(_), .. }))
    };
    assert!(notices.iter().any(is_gone), "{notices:?}");
    assert!(case.registry.dataplane.feeds[&feed].1.is_empty(), "a latecomer's datagrams are not copied");
}

/// With an address that is shared, a bound socket would prove others' connections from there.
#[test]
fn a_connection_of_tcp_is_proved_by_itself() {
    let mut case = Case::new();
    let id = case.client(READER);
    let feed = case.open_feed(id, "");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let local = listener.local_addr().unwrap();
    let client = std::net::TcpStream::connect(local).unwrap();
    let remote = client.local_addr().unwrap();
    let accepted = listener.accept().unwrap().0;
    let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan: None };
    let mut ask = |twin: OwnedFd| {
        let request = Request::SteerFeed { feed, entry: flow, verdict: Verdict::Pass };
        code_of(case.registry.handle(id, request, vec![twin], &mut case.host, case.now).reply)
    };
    assert_eq!(ask(listener.try_clone().unwrap().into()), Some(Code::TwinMismatch), "another process may accept it");
    // The connection's own socket belongs to this process's user, whatever the client says to be.
    let own = ask(accepted.try_clone().unwrap().into());
    assert!(own.is_none() || own == Some(Code::Taken), "{own:?}");
}

#[test]
fn a_group_is_read_by_its_members() {
    let mut case = Case::new();
    case.host.links.insert(0, link(1, "lo1"));
    let id = case.client(READER);
    let Reply::Feed(facts) = case.ask(id, Request::OpenFeed { interface: "lo1".into(), name: String::new() }) else {
        panic!("no feed")
    };
    let twin = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = twin.local_addr().unwrap().port();
    let group = |last: u8, source: Option<&str>| Entry::Multicast {
        group: ([239, 7, 7, last], port).into(),
        source: source.map(|source| source.parse().unwrap()),
        vlan: None,
    };
    let ask = |case: &mut Case, entry| code_of(case.steer_feed(id, facts.feed, entry, Verdict::Pass, Some(&twin)));
    assert_eq!(ask(&mut case, group(1, None)), Some(Code::NotMember));
    let here = Ipv4Addr::LOCALHOST;
    if let Err(error) = twin.join_multicast_v4(&[239, 7, 7, 1].into(), &here) {
        return eprintln!("skipped: cannot join on loopback: {error}");
    }
    assert_eq!(ask(&mut case, group(1, None)), None);
    assert_eq!(ask(&mut case, group(1, Some("198.18.0.2"))), None, "a part of it");
    assert_eq!(ask(&mut case, group(2, None)), Some(Code::NotMember));
    let feed = case.open_feed(id, "");
    let reply = case.steer_feed(id, feed, group(1, None), Verdict::Pass, Some(&twin));
    assert_eq!(code_of(reply), Some(Code::NotMember), "on another interface");
    twin.leave_multicast_v4(&[239, 7, 7, 1].into(), &here).unwrap();
    assert_eq!(case.check_feeds().len(), 2, "who leaves the group reads it no longer");
    assert!(case.registry.dataplane.feeds[&facts.feed].1.is_empty());
}

#[test]
fn a_packet_is_dropped_only_where_nobody_else_loses_it() {
    let mut case = Case::new();
    let (one, two) = (case.client(READER), case.client(READER));
    let (here, there) = (case.open_feed(one, ""), case.open_feed(two, ""));
    let (twin, entry) = port();
    let key = (2, entry);
    assert_eq!(case.verdict(one, here, entry, Verdict::Drop, &twin), (Verdict::Drop, false));
    assert!(case.registry.dataplane.drops.contains(&key) && case.registry.dataplane.beats.get() > 0);
    // Another reader wants it to pass, even for a part.
    let part = flow(&entry, "198.18.0.2:9");
    assert_eq!(case.verdict(two, there, part, Verdict::Pass, &twin), (Verdict::Pass, false));
    assert!(!case.registry.dataplane.drops.contains(&key));
    let told = case.registry.take_notices();
    assert!(
        matches!(told[..], [(id, Reply::FeedVerdict(FeedVerdict { verdict: Some(Verdict::Pass), .. }))] if id == one)
    );
    assert_eq!(case.check_feeds(), [], "and it stays so");
    assert_eq!(case.verdict(one, here, entry, Verdict::Drop, &twin), (Verdict::Pass, true));
    assert!(matches!(case.ask(two, Request::UnsteerFeed { feed: there, entry: part }), Reply::Done));
    let told = case.check_feeds();
    assert!(
        matches!(told[..], [(id, Reply::FeedVerdict(FeedVerdict { verdict: Some(Verdict::Drop), .. }))] if id == one)
    );
    // A kernel socket comes, of the very user, and goes.
    case.host.receivers = vec![stranger(entry.local(), READER)];
    let told = case.check_feeds();
    assert!(
        matches!(told[..], [(_, Reply::FeedVerdict(FeedVerdict { verdict: Some(Verdict::Pass), .. }))]),
        "{told:?}"
    );
    assert!(!case.registry.dataplane.drops.contains(&key));
    case.host.receivers.clear();
    assert_eq!(case.check_feeds().len(), 1);
    assert!(case.registry.dataplane.drops.contains(&key));
    assert_eq!(case.registry.feeds.counts(), (2, 1));
    // Its reader ends.
    case.registry.hang_up(one, case.now);
    assert!(case.registry.dataplane.drops.is_empty() && !case.registry.dataplane.feeds.contains_key(&here));
    assert_eq!(case.registry.feeds.counts(), (1, 0));
}

/// Each decision lists the kernel's sockets twice: a thousand at a time would keep control from its heartbeat.
#[test]
fn few_verdicts_are_decided_at_a_time() {
    let mut case = Case::new();
    let id = case.client(READER);
    let feed = case.open_feed(id, "");
    let ports: Vec<_> = (0..20).map(|_| port()).collect();
    for (twin, entry) in &ports {
        assert_eq!(case.verdict(id, feed, *entry, Verdict::Drop, twin), (Verdict::Drop, false));
    }
    case.host.receivers = ports.iter().map(|(_, entry)| stranger(entry.local(), READER)).collect();
    case.check_feeds();
    let drops = |case: &Case| case.registry.dataplane.drops.len();
    assert_eq!(drops(&case), 0, "all end at once");
    case.host.receivers.clear();
    for count in [8, 16, 20] {
        case.check_feeds();
        assert_eq!(drops(&case), count);
    }
}

/// Of other addresses of the port.
#[test]
fn a_thousand_sockets_of_others_take_no_entry_away() {
    let mut case = Case::new();
    let id = case.client(READER);
    let feed = case.open_feed(id, "");
    let (twin, entry) = port();
    assert_eq!(case.verdict(id, feed, entry, Verdict::Drop, &twin), (Verdict::Drop, false));
    let elsewhere = SocketAddr::from(([127, 0, 9, 9], entry.local().port()));
    case.host.receivers = vec![stranger(elsewhere, OTHER); 2000];
    assert_eq!(case.check_feeds(), []);
    assert!(case.registry.dataplane.drops.contains(&(2, entry)));
    case.host.receivers = vec![stranger(entry.local(), READER); 2000];
    let told = case.check_feeds();
    assert!(matches!(told[..], [(_, Reply::FeedVerdict(FeedVerdict { verdict: None, .. }))]), "{told:?}");
}

/// Its first packet must not be dropped for a feed.
#[test]
fn a_stack_gets_its_packets_from_the_first_one_on() {
    let mut case = Case::new();
    let (id, other) = (case.client(READER), case.client(READER));
    let feed = case.open_feed(other, "");
    let stack = case.open(id);
    let (twin, entry) = port();
    case.verdict(other, feed, entry, Verdict::Drop, &twin);
    case.registry.dataplane.order.clear();
    let request = Request::Steer { stack, entry };
    let answer = case.registry.handle(id, request, vec![twin.try_clone().unwrap().into()], &mut case.host, case.now);
    assert_eq!(answer.reply, Reply::Done);
    assert_eq!(case.registry.dataplane.order, [format!("pass {entry}"), format!("steer {entry}")]);
    case.check_feeds();
    assert!(case.registry.dataplane.drops.is_empty());
    assert_eq!(case.verdict(other, feed, entry, Verdict::Drop, &twin), (Verdict::Pass, true));
    // Another user's feed gets nothing of the stack's.
    let stranger = case.client(OTHER);
    let theirs = case.open_feed(stranger, "");
    assert_eq!(code_of(case.steer_feed(stranger, theirs, entry, Verdict::Pass, Some(&twin))), Some(Code::Taken));
    // It is the feed's alone again.
    assert_eq!(case.ask(id, Request::CloseStack { stack }), Reply::Done);
    case.check_feeds();
    assert!(case.registry.dataplane.drops.contains(&(2, entry)));
}

/// The socket of a reader that has gone away is a receiver like any other.
#[test]
fn a_reader_that_leaves_an_entry_and_keeps_its_socket_is_not_deaf() {
    let mut case = Case::new();
    let (one, two) = (case.client(READER), case.client(READER));
    let feed = case.open_feed(one, "both");
    assert_eq!(case.open_feed(two, "both"), feed);
    let (twin, entry) = port();
    case.verdict(one, feed, entry, Verdict::Drop, &twin);
    case.verdict(two, feed, entry, Verdict::Drop, &twin);
    assert!(case.registry.dataplane.drops.contains(&(2, entry)));
    assert!(matches!(case.ask(one, Request::UnsteerFeed { feed, entry }), Reply::Done));
    assert!(case.registry.dataplane.drops.is_empty(), "until it is checked");
    assert!(case.registry.dataplane.feeds[&feed].1.contains(&entry), "the other one goes on");
    assert_eq!(case.code(one, Request::UnsteerFeed { feed, entry }), Some(Code::NoEntry));
}

#[test]
fn feeds_are_bounded() {
    let mut case = Case::new();
    let id = case.client(READER);
    let long = "x".repeat(FEED_NAME_BYTES_MAX + 1);
    assert_eq!(case.feed_code(id, &long), Some(Code::Malformed));
    let feed = case.open_feed(id, "");
    (1..FEEDS_PER_USER_MAX).for_each(|_| _ = case.open_feed(id, ""));
    assert_eq!(case.feed_code(id, ""), Some(Code::Limit));
    let second = case.client(READER);
    assert_eq!(case.feed_code(second, ""), Some(Code::Limit), "of the user, not of the program");
    let other = case.client(OTHER);
    case.registry.dataplane.rings = Some(300);
    assert_eq!(case.feed_code(other, ""), Some(Code::Limit), "300 MiB");
    case.registry.dataplane.rings = Some(200);
    case.open_feed(other, "");
    assert_eq!(case.feed_code(other, ""), Some(Code::Limit), "400 MiB");
    // Memory that was closed and is still mapped counts.
    case.registry.hang_up(other, case.now);
    let other = case.client(OTHER);
    let mapped = case.open_feed(other, "");
    case.registry.dataplane.held.insert(mapped);
    assert_eq!(case.ask(other, Request::CloseFeed { feed: mapped }), Reply::Done);
    assert_eq!(case.feed_code(other, ""), Some(Code::Limit), "it has mapped 200 MiB");
    case.registry.dataplane.held.clear();
    case.open_feed(other, "");
    while !matches!(case.ask(id, Request::OpenDoorbell { feed }), Reply::Refused(_)) {
        assert!(case.registry.dataplane.doorbells.len() <= 16);
    }
    // Entries: half of all are a user's.
    case.registry.feeds.limit(64);
    let (twin, entry) = port();
    let remotes = (1..100).map(|port| format!("198.18.0.2:{port}"));
    let mut codes =
        remotes.map(|remote| code_of(case.steer_feed(id, feed, flow(&entry, &remote), Verdict::Pass, Some(&twin))));
    assert_eq!(codes.by_ref().take(4).collect::<Vec<_>>(), [None; 4]);
    assert!(codes.all(|code| code == Some(Code::Limit)));
    let Reply::Details { lines, next: None } = case.ask(id, Request::Inspect { client: id, from: 0 }) else { panic!() };
    let fed = lines.iter().filter(|line| matches!(line, sidestep_control_api::message::DetailLine::Fed(_))).count();
    assert_eq!(fed, 4);
}

#[test]
fn a_feed_that_loses_its_interface_is_revoked_and_one_that_cannot_be_closed_later() {
    let mut case = Case::new();
    let id = case.client(READER);
    let (feed, stays) = (case.open_feed(id, ""), case.open_feed(id, ""));
    let (twin, entry) = port();
    case.verdict(id, feed, entry, Verdict::Drop, &twin);
    case.registry.dataplane.lost_feeds = vec![feed, 999];
    let links = case.host.links.clone();
    let notices = case.registry.look(&links);
    assert!(matches!(&notices[..], [(to, Reply::FeedRevoked(lost))] if *to == id && lost.feed == feed), "{notices:?}");
    assert_eq!(case.code(id, Request::CloseFeed { feed }), Some(Code::NoFeed));
    assert!(case.registry.dataplane.drops.is_empty());
    case.registry.dataplane.close_fails = true;
    assert!(matches!(case.ask(id, Request::CloseFeed { feed: stays }), Reply::Done));
    assert!(case.registry.dataplane.feeds.contains_key(&stays));
    assert_ne!(case.open_feed(id, ""), stays, "its number is not used yet");
    case.registry.dataplane.close_fails = false;
    case.registry.expire(case.now);
    assert!(!case.registry.dataplane.feeds.contains_key(&stays));
    let other = case.open_feed(id, "");
    case.verdict(id, other, entry, Verdict::Drop, &twin);
    let told = case.registry.end_feeds();
    assert!(
        case.registry.dataplane.drops.is_empty() && !case.registry.dataplane.feeds.is_empty(),
        "packets still come"
    );
    assert_eq!(told.iter().filter(|(_, reply)| matches!(reply, Reply::FeedRevoked(_))).count(), 2);
    assert_eq!(case.registry.end(), []);
    assert!(case.registry.dataplane.feeds.is_empty());
}

#[test]
fn the_heartbeat_goes_on_while_there_are_feeds() {
    let mut case = Case::new();
    let beats = |case: &Case| case.registry.dataplane.beats.get();
    case.registry.beat(case.now);
    assert_eq!(beats(&case), 0, "nobody needs it");
    let id = case.client(READER);
    case.open_feed(id, "");
    let later = |millis| case.now + Duration::from_millis(millis);
    let times = [later(0), later(1), later(50), later(250), later(500)];
    times.into_iter().for_each(|time| case.registry.beat(time));
    assert_eq!(beats(&case), 3);
}
