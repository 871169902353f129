//! The thread beside the owner and a control that is slow, breaks off, or dies.

use super::fake::{Do, FakeControl, facts, page};
use super::*;
use sidestep_control_api::message::{IcmpErrorKind, Protocol, Refusal, Reply, Request};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Instant;

/// A watchdog, not a measurement.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Of `lo`, in every network namespace: it never has a program.
const LOOPBACK: u32 = 1;

/// Of no interface.
const NONE: u32 = 0x7fff_0000;

const STACK: u32 = 7;

fn agent(control: &FakeControl, interface: u32) -> ControlAgent {
    agent_beside(control, Held { stack: STACK, interface, counters_page: page(), spread: None })
}

fn agent_beside(control: &FakeControl, held: Held) -> ControlAgent {
    let client = Client::connect_to(control.path(), "test").unwrap();
    let held = Some(held);
    ControlAgent::start(Start { client, held, path: control.path().to_owned(), name: "test".into(), cpu: None })
        .unwrap()
}

fn entry(port: u16) -> Entry {
    Entry::Listener { protocol: Protocol::Tcp, local: ([198, 18, 0, 1], port).into(), vlan: None }
}

fn next(control: &FakeControl) -> Request {
    control.asked.recv_timeout(WATCHDOG).expect("it asks for something")
}

/// The replies of a control that knows the stack.
fn usual(request: &Request) -> Do {
    match request {
        Request::ResumeStack { stack } => Do::Answer(Reply::Stack(facts(*stack, LOOPBACK))),
        _ => Do::Answer(Reply::Done),
    }
}

/// The entry would stay for ever, and its packets would get no answer.
#[test]
fn a_rule_whose_asker_has_gone_is_taken_back() {
    let (leave, waits) = channel();
    let mut waits = Some(waits);
    let control = FakeControl::start(move |request| match request {
        Request::Steer { entry: Entry::Listener { local, .. }, .. } if local.port() == 1 => {
            Do::Await(waits.take().unwrap())
        }
        _ => usual(request),
    });
    let agent = agent(&control, LOOPBACK);
    let (one, two) = (agent.begin_to_steer(entry(1), page()), agent.begin_to_steer(entry(2), page()));
    assert_eq!(next(&control), Request::Steer { stack: STACK, entry: entry(1) });
    assert_eq!(one.wait(Duration::from_millis(10)), None, "control is slow");
    drop((one, two));
    leave.send(Reply::Done).unwrap();
    assert_eq!(next(&control), Request::Unsteer { stack: STACK, entry: entry(1) });
    // The other was given up before its turn came: it is not made.
    assert_eq!(next(&control), Request::Unsteer { stack: STACK, entry: entry(2) });
    assert_eq!(agent.steer(entry(3), page()), Ok(()));
    assert_eq!(next(&control), Request::Steer { stack: STACK, entry: entry(3) });
}

/// It may have been done; who still waits learns it, for the others it is taken back.
#[test]
fn what_was_asked_for_when_the_connection_broke_is_settled_by_the_next_one() {
    let (leave, waits) = channel();
    let mut broken = 0;
    let control = FakeControl::start(move |request| match request {
        Request::Steer { .. } if broken < 2 => {
            broken += 1;
            waits.recv().unwrap();
            Do::HangUp
        }
        _ => usual(request),
    });
    let agent = agent(&control, LOOPBACK);
    let waiting = agent.begin_to_steer(entry(1), page());
    leave.send(()).unwrap();
    assert_eq!(waiting.wait(WATCHDOG), None, "at once: nobody knows how long it will take");
    let asked: Vec<Request> = (0..2).map(|_| next(&control)).collect();
    let steer = |port| Request::Steer { stack: STACK, entry: entry(port) };
    assert_eq!(asked, [steer(1), Request::ResumeStack { stack: STACK }]);
    // The second attempt breaks, too; by then nobody waits.
    assert_eq!(next(&control), steer(1));
    drop(waiting);
    leave.send(()).unwrap();
    let asked: Vec<Request> = (0..2).map(|_| next(&control)).collect();
    assert_eq!(asked, [Request::ResumeStack { stack: STACK }, Request::Unsteer { stack: STACK, entry: entry(1) }]);
}

#[test]
fn who_waits_over_a_broken_connection_gets_the_answer() {
    let mut has_broken = false;
    let control = FakeControl::start(move |request| match request {
        Request::Steer { .. } if !std::mem::replace(&mut has_broken, true) => Do::HangUp,
        _ => usual(request),
    });
    let agent = agent(&control, LOOPBACK);
    let waiting = agent.begin_to_steer(entry(1), page());
    let deadline = Instant::now() + WATCHDOG;
    let answer = loop {
        if let Some(answer) = waiting.take() {
            break answer;
        }
        assert!(Instant::now() < deadline, "no answer");
        std::thread::yield_now();
    };
    assert_eq!(answer, Ok(()));
}

/// Nobody else would tell: the kernel has the traffic, and resets connections that it does not know.
#[test]
fn a_program_that_went_with_its_control_is_noticed_without_one() {
    for (interface, told) in [(LOOPBACK, "was detached"), (NONE, "the interface is gone")] {
        let control = FakeControl::start(|_| Do::Die);
        let agent = agent(&control, interface);
        agent.report("x".into(), Code::NoRoute);
        let deadline = Instant::now() + WATCHDOG;
        let events = loop {
            let events = agent.take_events();
            if !events.is_empty() {
                break events;
            }
            assert!(Instant::now() < deadline, "no events");
            std::thread::yield_now();
        };
        assert!(matches!(&events[..], [Event::Revoked(Reason::Revoked, text)] if text.contains(told)), "{events:?}");
        assert_eq!(agent.steer(entry(1), page()), Err(Reason::Revoked));
    }
}

#[test]
fn a_socket_that_is_not_steered_is_let_go_before_the_owner_is_told() {
    let control = FakeControl::start(|request| match request {
        Request::Steer { .. } => {
            let refusal = Refusal::plain(Code::Taken, "cannot steer");
            Do::Answer(Reply::Refused(refusal))
        }
        _ => usual(request),
    });
    let agent = agent(&control, LOOPBACK);
    for _ in 0..100 {
        let (mut seen, twin) = UnixStream::pair().unwrap();
        seen.set_nonblocking(true).unwrap();
        assert_eq!(agent.steer(entry(1), twin.into()), Err(Reason::Taken));
        assert_eq!(seen.read(&mut [0; 1]).map_err(|error| error.kind()), Ok(0), "it is closed");
    }
}

/// Of a stack that has not every queue, also where no connection was ever made from here; and once more where control sees it
/// otherwise, as it may have been so for a moment between two looks.
#[test]
fn the_owner_is_told_that_its_device_spreads_otherwise() {
    let control = FakeControl::start(|request| match request {
        Request::Steer { .. } => Do::Answer(Reply::Refused(Refusal::plain(Code::QueueElsewhere, "cannot steer"))),
        _ => usual(request),
    });
    let before = Some(spread_over(&[0]));
    let held = Held { stack: STACK, interface: LOOPBACK, counters_page: page(), spread: before };
    let agent = agent_beside(&control, held);
    let is_told = || {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            match &agent.take_events()[..] {
                [] => assert!(Instant::now() < deadline, "no events"),
                events => return matches!(events, [Event::Spread(spread)] if **spread == spread_of(LOOPBACK)),
            }
            std::thread::yield_now();
        }
    };
    assert!(is_told());
    assert_eq!(agent.steer(entry(1), page()), Err(Reason::QueueElsewhere));
    assert!(is_told());
}

#[test]
fn what_others_can_cause_and_nobody_fetches_is_bounded_and_nothing_else_is_lost() {
    let wake = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let twins = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let shared =
        Shared { has_events: AtomicBool::new(false), mailbox: Mutex::default(), wake, twins, owner: OnceLock::new() };
    let error = |sequence| IcmpError {
        protocol: Protocol::Tcp,
        local: ([198, 18, 0, 1], 7).into(),
        remote: ([198, 18, 0, 2], 8).into(),
        sequence: Some(sequence),
        kind: IcmpErrorKind::TooBig { mtu: 1300 },
    };
    shared.post(Event::Twin(7));
    (0..1000).for_each(|sequence| shared.post(Event::IcmpError(error(sequence))));
    shared.post(Event::Twin(8));
    (0..5000).for_each(|cookie| shared.post(Event::HandOverTwin(cookie)));
    let mailbox = shared.mailbox.into_inner().unwrap();
    assert_eq!(mailbox.len(), ICMP_ERRORS_MAX + 2 + TWINS_MAX);
    assert!(matches!(mailbox.last(), Some(Event::HandOverTwin(4999))));
    assert!(matches!(mailbox[..2], [Event::Twin(7), Event::IcmpError(IcmpError { sequence: Some(936), .. })]));
    assert!(matches!(mailbox[ICMP_ERRORS_MAX + 1], Event::Twin(8)));
}
