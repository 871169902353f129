//! Hand-overs of applications that lie, and requests for those of others.

use super::*;
use rustix::net::{AddressFamily, SocketType, bind, ipproto, listen, socket};
use sidestep_control_api::message::HandOver;
use sidestep_control_api::token;
use sidestep_sys::memory::memfd;
use sidestep_sys::process::is_root;
use sidestep_sys::tcp_repair;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};

pub(super) fn record() -> HandOver {
    HandOver {
        local: "127.0.0.1:7".parse().unwrap(),
        remote: "198.18.0.2:8".parse().unwrap(),
        vlan: None,
        send_start: 1,
        has_acknowledged: false,
        unacknowledged: 2,
        unsent: 3,
        receive_end: 5,
        received: 4,
        own_fin: false,
        is_fin_sent: false,
        peer_fin: false,
        segment_bytes: 1460,
        sack: true,
        send_shift: 7,
        receive_shift: 7,
        timestamps: None,
        send_window: 1 << 16,
        send_window_max: 1 << 16,
        send_update: 1,
        receive_window: 1 << 16,
    }
}

pub(super) fn tcp() -> OwnedFd {
    socket(AddressFamily::INET, SocketType::STREAM, None).unwrap()
}

/// As many bytes in a memfd.
pub(super) fn bytes(count: usize) -> OwnedFd {
    let mut file = File::from(memfd("test", false).unwrap());
    file.write_all(&vec![7; count]).unwrap();
    file.into()
}

/// An application that has a stack with one connection.
pub(super) struct Owner {
    pub(super) case: Case,
    id: u32,
    stack: u32,
}

impl Owner {
    pub(super) fn new() -> Self {
        Self::of_user(7)
    }

    fn of_user(uid: u32) -> Self {
        let mut case = Case::new();
        let id = case.client(uid);
        let stack = case.open(id);
        let mut owner = Self { case, id, stack };
        owner.has(&record());
        owner
    }

    /// Another stack of the same application is used from now on.
    pub(super) fn moves_to(&mut self, interface: &str) {
        self.case.host.links.iter_mut().for_each(|link| link.is_up = true);
        let begun = self.case.ask(self.id, Request::OpenStack(OpenStack::on(interface)));
        let bound = self.case.ask(self.id, Request::BindStack);
        let (Reply::Prepared(_), Reply::Stack(facts)) = (begun, bound) else { panic!("no stack on {interface}") };
        self.stack = facts.id;
    }

    pub(super) fn has(&mut self, record: &HandOver) {
        let HandOver { local, remote, vlan, .. } = *record;
        let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan };
        self.case.registry.stacks.get_mut(&self.stack).unwrap().entries.insert(flow, None);
    }

    pub(super) fn hand_over(&mut self, connection: HandOver, descriptors: Vec<OwnedFd>) -> Option<Code> {
        let (id, stack) = (self.id, self.stack);
        self.hand_over_of(id, stack, connection, descriptors)
    }

    /// With a token, as the last descriptor.
    fn hand_over_of(&mut self, id: u32, stack: u32, connection: HandOver, mut sent: Vec<OwnedFd>) -> Option<Code> {
        sent.push(token::make().unwrap());
        self.send(id, stack, connection, sent)
    }

    fn send(&mut self, id: u32, stack: u32, connection: HandOver, sent: Vec<OwnedFd>) -> Option<Code> {
        let request = Request::HandOver { stack, connection };
        let Case { registry, host, now } = &mut self.case;
        match registry.handle(id, request, sent, host, *now).reply {
            Reply::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    /// No hand-over has left anything.
    pub(super) fn has_left_nothing(&self) -> bool {
        let Registry { dataplane, handed_over, .. } = &self.case.registry;
        handed_over.times == 0 && dataplane.passed.is_empty() && dataplane.shared.is_empty()
    }
}

#[test]
fn who_hands_over_owns_stack_and_connection() {
    let mut owner = Owner::new();
    let (id, stack) = (owner.id, owner.stack);
    let other = owner.case.client(8);
    let sent = || vec![tcp(), bytes(9)];
    assert_eq!(owner.hand_over_of(other, stack, record(), sent()), Some(Code::NoStack));
    assert_eq!(owner.hand_over_of(id, stack + 1, record(), sent()), Some(Code::NoStack));
    let stranger = HandOver { remote: "198.18.0.2:9".parse().unwrap(), ..record() };
    assert_eq!(owner.hand_over(stranger, sent()), Some(Code::NoEntry));
    let elsewhere = HandOver { local: "198.18.0.1:7".parse().unwrap(), ..record() };
    owner.has(&elsewhere);
    assert_eq!(owner.hand_over(elsewhere, sent()), Some(Code::NotLocal));
    assert!(owner.has_left_nothing());
}

/// `sidestep control --hand-over root`
#[test]
fn the_administrator_may_keep_hand_overs_to_root() {
    for (uid, hand_overs, is_refused) in
        [(7, HandOvers::Root, true), (0, HandOvers::Root, false), (7, HandOvers::All, false)]
    {
        let mut owner = Owner::of_user(uid);
        owner.case.registry.set_hand_overs(hand_overs);
        // What comes next is that there is no socket.
        let refused = owner.hand_over(record(), Vec::new());
        assert_eq!(refused, Some(if is_refused { Code::NotAllowed } else { Code::TwinMissing }), "user {uid}");
        assert!(owner.has_left_nothing());
    }
}

#[test]
fn records_that_lie_are_refused() {
    let mut owner = Owner::new();
    let lies: [fn(&mut HandOver); 8] = [
        |it| it.received = u32::MAX,
        |it| it.unacknowledged = u32::MAX,
        |it| it.unsent = u32::MAX,
        |it| it.segment_bytes = 0,
        |it| it.send_shift = u8::MAX,
        |it| it.receive_window = u32::MAX,
        |it| it.remote = "[2001:db8::2]:8".parse().unwrap(),
        |it| it.is_fin_sent = true,
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let mut lying = record();
        lie(&mut lying);
        assert_eq!(owner.hand_over(lying, vec![tcp(), bytes(9)]), Some(Code::Malformed), "lie {number}");
    }
    assert!(owner.has_left_nothing());
}

#[test]
fn sockets_that_cannot_be_the_connection_are_refused() {
    let mut owner = Owner::new();
    let bound = |at: &str| {
        let socket = tcp();
        bind(&socket, &at.parse::<SocketAddr>().unwrap()).unwrap();
        socket
    };
    let listening = bound("127.0.0.1:0");
    listen(&listening, 1).unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let sockets: [(&str, OwnedFd); 6] = [
        ("UDP", UdpSocket::bind("127.0.0.1:0").unwrap().into()),
        ("another family", socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap()),
        ("MPTCP or raw", socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::UDP)).unwrap()),
        ("listening", listening),
        ("connected", connected.into()),
        ("bound elsewhere", bound("127.0.0.2:0")),
    ];
    for (kind, socket) in sockets {
        assert_eq!(owner.hand_over(record(), vec![socket, bytes(9)]), Some(Code::TwinMismatch), "{kind}");
    }
    let file = File::open("/dev/null").unwrap().into();
    assert!(owner.hand_over(record(), vec![file, bytes(9)]).is_some(), "no socket");
    assert_eq!(owner.hand_over(record(), Vec::new()), Some(Code::TwinMissing));
    assert_eq!(owner.hand_over(record(), vec![tcp()]), Some(Code::TwinMissing));
    assert_eq!(owner.hand_over(record(), vec![tcp(), bytes(9), bytes(9)]), Some(Code::TwinMissing));
    assert!(owner.has_left_nothing());
}

/// Its connection goes on past the kernel, with other numbers than those of the record.
#[test]
fn a_request_whose_program_has_stopped_waiting_changes_nothing() {
    let mut owner = Owner::new();
    let (id, stack) = (owner.id, owner.stack);
    let near = HandOver { remote: "127.0.0.2:8".parse().unwrap(), ..record() };
    owner.has(&near);
    let (socket, token) = (tcp(), token::make().unwrap());
    let sent = [&socket, &bytes(9), &token].map(|descriptor| descriptor.try_clone().unwrap());
    assert!(token::take(token.as_fd()).unwrap());
    assert_eq!(owner.send(id, stack, near.clone(), sent.into()), Some(Code::NoEntry));
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    let no_token = [File::open("/").unwrap().into(), pipe];
    for descriptor in no_token {
        let sent = vec![socket.try_clone().unwrap(), bytes(9), descriptor];
        assert!(owner.send(id, stack, near.clone(), sent).is_some());
    }
    assert_eq!(sidestep_sys::socket::tcp_state(socket.as_fd()).unwrap(), sidestep_sys::socket::TcpState::Closed);
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    assert!(bound.port() == 0 && owner.has_left_nothing());
    let connection = owner.case.registry.stacks[&stack].entries.len();
    assert_eq!(connection, 2, "both are the stack's still");
}

/// Reading another file than a memfd may take as long as its owner likes.
#[test]
fn bytes_that_do_not_come_leave_no_connection() {
    let mut owner = Owner::new();
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    assert_eq!(owner.hand_over(record(), vec![tcp(), pipe]), Some(Code::Malformed));
    assert!(owner.has_left_nothing());
    if !is_root() {
        println!("skipped: needs root");
        return;
    }
    let near = HandOver { remote: "127.0.0.2:8".parse().unwrap(), ..record() };
    owner.has(&near);
    for count in [0, 1, 5] {
        let socket = tcp();
        let copy = socket.try_clone().unwrap();
        assert!(owner.hand_over(near.clone(), vec![socket, bytes(count)]).is_some(), "{count} bytes");
        assert!(!tcp_repair::is_on(copy.as_fd()).unwrap());
        let state = sidestep_sys::socket::tcp_state(copy.as_fd()).unwrap();
        assert_eq!(state, sidestep_sys::socket::TcpState::Closed);
    }
    assert!(owner.has_left_nothing());
}

/// All who have stacks are asked for a connection, and each could say that it stays.
#[test]
fn only_the_user_of_a_socket_can_say_that_its_connection_stays() {
    let mut owner = Owner::new();
    let (asker, maker) = (owner.case.client(9), owner.case.client(0));
    let twin = tcp();
    let cookie = tcp_repair::cookie(twin.as_fd()).unwrap();
    let Case { registry, host, now } = &mut owner.case;
    let answer = registry.handle(asker, Request::HandOverTwin, vec![twin], host, *now);
    assert!(answer.is_later);
    registry.answer_later(asker, 3);
    assert_eq!(registry.take_notices(), [(owner.id, Reply::HandOverTwin { cookie })]);
    let stays = Request::TwinStays { cookie, code: Code::NoEntry };
    // This very process has made the socket.
    let is_own = rustix::process::geteuid().as_raw() == 7;
    registry.handle(owner.id, stays.clone(), Vec::new(), host, *now);
    assert_eq!(registry.due_answers(*now).len(), usize::from(is_own));
    registry.handle(maker, stays, Vec::new(), host, *now);
    let due = registry.due_answers(*now);
    assert!(matches!(&due[..], [(client, 3, Reply::Refused(_))] if *client == asker) || is_own, "{due:?}");
}

/// An owner that is stopped answers nothing.
#[test]
fn who_asks_for_a_silent_owners_connection_gets_an_answer_in_time() {
    let mut owner = Owner::new();
    let asker = owner.case.client(9);
    let Case { registry, host, now } = &mut owner.case;
    let mut waiting = 0;
    for number in 1..1000 {
        let answer = registry.handle(asker, Request::HandOverTwin, vec![tcp()], host, *now);
        if answer.is_later {
            registry.answer_later(asker, number);
            waiting += 1;
        }
    }
    assert!((1..100).contains(&waiting), "{waiting} wait");
    assert!(registry.due_answers(*now).is_empty());
    let late = *now + sidestep_control_api::message::HAND_OVER_WAIT;
    assert_eq!(registry.due_answers(late).len(), waiting);
    assert!(registry.due_answers(late).is_empty());
}

/// Everybody with a stack has work with each question: one user has so many in a second, however often its programs connect anew.
#[test]
fn a_flood_of_questions_for_twins_is_passed_on_slowly() {
    let mut owner = Owner::new();
    let ask = |owner: &mut Owner, uid| {
        let asker = owner.case.client(uid);
        let Case { registry, host, now } = &mut owner.case;
        assert!(registry.handle(asker, Request::HandOverTwin, vec![tcp()], host, *now).is_later);
        registry.answer_later(asker, 3);
        asker
    };
    let passed_on = |owner: &mut Owner| {
        owner.case.registry.due_answers(owner.case.now);
        owner.case.registry.take_notices().len()
    };
    let mut count = 0;
    for _ in 0..TWINS_PER_SECOND_MAX + 100 {
        let asker = ask(&mut owner, 9);
        count += passed_on(&mut owner);
        owner.case.registry.hang_up(asker, owner.case.now);
    }
    assert_eq!(count, TWINS_PER_SECOND_MAX as usize);
    ask(&mut owner, 8);
    ask(&mut owner, 0);
    assert_eq!(passed_on(&mut owner), 2, "others and root are not held up");
    // One that waits has its turn in the next second.
    ask(&mut owner, 9);
    assert_eq!(passed_on(&mut owner), 0);
    owner.case.now += Duration::from_secs(1);
    assert_eq!((passed_on(&mut owner), passed_on(&mut owner)), (1, 0));
}

/// It would lose its connections, or keep control from ending.
#[test]
fn a_control_that_ends_opens_no_stack() {
    let mut owner = Owner::new();
    assert_eq!(owner.case.registry.begin_to_end(), [(owner.id, Reply::HandOverAll { for_good: false })]);
    let late = owner.case.client(8);
    assert_eq!(owner.case.code(late, Request::OpenStack(OpenStack::on("eth1"))), Some(Code::NoControl));
    assert_eq!(owner.case.registry.releases_left(), (1, 0));
    let stack = owner.stack;
    assert_eq!(owner.case.code(owner.id, Request::CloseStack { stack }), None);
    assert_eq!(owner.case.registry.releases_left(), (0, 0));
}

/// Two thousand connections take longer than one: whoever asks waits as long as something is done, and not for ever.
#[test]
fn a_release_has_time_as_long_as_it_goes_on() {
    let mut owner = Owner::new();
    let asker = owner.case.client(0);
    let Case { registry, host, now } = &mut owner.case;
    let release = Request::ReleaseProcess { pid: std::process::id() };
    assert!(registry.handle(asker, release, Vec::new(), host, *now).is_later);
    registry.answer_later(asker, 3);
    assert_eq!(registry.take_notices(), [(owner.id, Reply::HandOverAll { for_good: true })]);
    let begun = *now;
    let step = sidestep_control_api::message::HAND_OVER_WAIT * 9 / 10;
    let mut steps = 0;
    while registry.due_answers(*now).is_empty() {
        registry.note_handed_over(owner.id);
        assert!(registry.due_answers(*now).is_empty());
        *now += step;
        steps += 1;
    }
    assert!((3..6).contains(&steps), "{steps} steps, until {:?}", now.duration_since(begun));
    // Another one's hand-overs are no progress.
    assert!(
        registry.handle(asker, Request::ReleaseProcess { pid: std::process::id() }, Vec::new(), host, *now).is_later
    );
    registry.answer_later(asker, 4);
    registry.note_handed_over(asker);
    assert!(registry.due_answers(*now).is_empty());
    assert_eq!(registry.due_answers(*now + sidestep_control_api::message::HAND_OVER_WAIT).len(), 1);
}
