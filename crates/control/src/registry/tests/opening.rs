//! A stack is opened in two steps; the state in between does not last.

use super::share::*;
use super::*;
use sidestep_control_api::message::{BIND_WAIT, QUEUES_MAX, Queues};

#[test]
fn a_socket_that_nobody_has_bound_is_given_up() {
    let mut case = Case::new();
    let id = case.client(7);
    assert_eq!(case.code(id, Request::BindStack), Some(Code::NoStack), "nothing was begun");
    case.begin(id);
    case.begin(id);
    assert_eq!(case.unbound(), 1, "one at a time");
    case.registry.expire(case.now + BIND_WAIT / 2);
    assert_eq!(case.unbound(), 1);
    case.registry.expire(case.now + BIND_WAIT);
    assert_eq!(case.unbound(), 0);
    assert_eq!(case.code(id, Request::BindStack), Some(Code::NoStack));
    // Requested too late, before any check.
    case.begin(id);
    case.now += BIND_WAIT;
    assert_eq!((case.code(id, Request::BindStack), case.unbound()), (Some(Code::NoStack), 0));
    let answer = Request::OpenStack(OpenStack::on("none0"));
    case.begin(id);
    assert_eq!((case.code(id, answer), case.unbound()), (Some(Code::NoInterface), 0), "another begins");
}

#[test]
fn a_socket_of_an_application_that_is_gone_is_given_up_at_once() {
    let mut case = Case::new();
    let (with_a_stack, without) = (case.client(7), case.client(7));
    let stack = case.open(with_a_stack);
    [with_a_stack, without].into_iter().for_each(|id| case.begin(id));
    assert_eq!(case.unbound(), 2);
    case.registry.hang_up(without, case.now);
    case.registry.hang_up(with_a_stack, case.now);
    assert_eq!(case.unbound(), 0);
    assert!(case.registry.dataplane.open.contains(&stack), "this one is kept for a moment");
    let id = case.client(7);
    case.begin(id);
    case.ask(id, Request::Bye);
    assert_eq!(case.unbound(), 0);
}

#[test]
fn what_cannot_be_bound_leaves_nothing_and_can_be_asked_for_again() {
    let mut case = Case::new();
    let id = case.client(7);
    case.registry.dataplane.bind_fails = true;
    case.begin(id);
    assert_eq!(case.code(id, Request::BindStack), Some(Code::QueueBusy));
    assert_eq!((case.unbound(), case.registry.dataplane.open.len()), (0, 0));
    case.registry.dataplane.bind_fails = false;
    case.begin(id);
    case.host.links.iter_mut().for_each(|link| link.is_up = false);
    assert_eq!((case.code(id, Request::BindStack), case.unbound()), (Some(Code::InterfaceDown), 0), "gone meanwhile");
    case.host.links.iter_mut().for_each(|link| link.is_up = true);
    case.open(id);
}

#[test]
fn what_is_begun_counts() {
    let mut case = Case::new();
    case.registry.set_queues_per_user(1000);
    let full = STACKS_PER_USER_MAX / STACKS_PER_CLIENT_MAX - 1;
    for _ in 0..full {
        let id = case.client(7);
        (0..STACKS_PER_CLIENT_MAX).for_each(|_| _ = case.open(id));
    }
    for _ in full * STACKS_PER_CLIENT_MAX..STACKS_PER_USER_MAX {
        let id = case.client(7);
        case.begin(id);
    }
    let id = case.client(7);
    assert_eq!(case.code(id, Request::OpenStack(OpenStack::on("eth1"))), Some(Code::Limit), "of one user");
    let large = OpenStack { frames: 1 << 17, frame_bytes: 4096, ..OpenStack::on("eth1") };
    for _ in 0..MEMORY_PER_USER_MAX / MEMORY_PER_STACK_MAX {
        let id = case.client(8);
        assert_eq!(case.code(id, Request::OpenStack(large.clone())), None);
        assert_eq!(case.code(id, Request::OpenStack(large.clone())), None, "in the place of the one before");
    }
    let another = case.client(8);
    assert_eq!(case.code(another, Request::OpenStack(OpenStack::on("eth1"))), Some(Code::Limit), "memory");
}

/// All clients wait while it is made.
#[test]
fn what_one_request_makes_is_bounded_for_root_too() {
    let mut case = Case::new();
    for uid in [0, 7] {
        let id = case.client(uid);
        let wish = |frames, queues| OpenStack { frames, frame_bytes: 4096, queues, ..OpenStack::on("eth1") };
        assert_eq!(case.code(id, Request::OpenStack(wish((1 << 17) + 1, Queues::Any))), Some(Code::Limit));
        assert_eq!(case.code(id, Request::OpenStack(wish(u32::MAX, Queues::Every))), Some(Code::Limit));
        assert_eq!(
            case.code(id, Request::OpenStack(wish((1 << 14) + 1, Queues::Every))),
            Some(Code::Limit),
            "eight fold"
        );
        assert_eq!(case.code(id, Request::OpenStack(wish(1 << 14, Queues::Every))), None);
    }
}

impl Case {
    /// The reply, and the number of descriptors sent with it.
    fn ask_for(&mut self, id: u32, request: Request) -> (Reply, usize) {
        let answer = self.registry.handle(id, request, Vec::new(), &mut self.host, self.now);
        (answer.reply, answer.descriptors.len())
    }

    fn begin_with(&mut self, id: u32, queues: Queues) -> Reply {
        self.ask(id, Request::OpenStack(OpenStack { queues, ..OpenStack::on("eth1") }))
    }
}

#[test]
fn sockets_of_several_queues_are_handed_over_by_a_few_and_bound_in_turns() {
    let mut case = Case::new();
    let id = case.client(7);
    let none = Request::TakeSockets { from: 0 };
    assert_eq!(case.code(id, none), Some(Code::NoStack), "nothing was begun");
    let wish = OpenStack { queues: Queues::These((0..6).collect()), ..OpenStack::on("eth1") };
    let (reply, descriptors) = case.ask_for(id, Request::OpenStack(wish));
    let Reply::Prepared(prepared) = reply else { panic!("{reply:?}") };
    assert_eq!((prepared.sockets, prepared.frames, descriptors), (6, 6 * 4096, 2));
    for (from, count) in [(1, 4), (5, 1), (2, 4)] {
        assert_eq!(case.ask_for(id, Request::TakeSockets { from }), (Reply::Sockets, count));
    }
    for from in [6, u32::MAX] {
        assert_eq!(case.code(id, Request::TakeSockets { from }), Some(Code::NoQueue));
    }
    for _ in 0..5 {
        assert_eq!(case.ask(id, Request::BindStack), Reply::Binding);
        // Each iteration gets its time.
        case.now += BIND_WAIT / 2;
    }
    let Reply::Stack(facts) = case.ask(id, Request::BindStack) else { panic!("it is not open") };
    assert_eq!(facts.queues.iter().map(|queue| queue.queue).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(case.code(id, Request::BindStack), Some(Code::NoStack), "it is open");
    // A client that sends no further request loses its stack.
    case.begin_with(id, Queues::Every);
    assert_eq!((case.ask(id, Request::BindStack), case.unbound()), (Reply::Binding, 1));
    case.registry.expire(case.now + BIND_WAIT);
    assert_eq!(case.unbound(), 0);
}

#[test]
fn queues_have_limits_and_their_list_fits_a_packet() {
    let mut case = Case::new();
    case.registry.set_queues_per_user(1000);
    let every = QUEUES_MAX as usize;
    let id = case.client(7);
    for _ in 0..QUEUES_PER_USER_MAX / every {
        assert!(matches!(case.begin_with(id, Queues::Every), Reply::Prepared(_)));
        while case.ask(id, Request::BindStack) == Reply::Binding {}
    }
    assert_eq!(case.code(id, Request::OpenStack(OpenStack::on("eth1"))), Some(Code::Limit), "of one user");
    let (reply, _) = case.ask_for(id, Request::List { from: 0 });
    assert!(serde_json::to_vec(&reply).unwrap().len() < PACKET_BYTES_MAX);
    for uid in 0..QUEUES_BEGUN_MAX / every {
        let id = case.client(100 + uid as u32);
        assert!(matches!(case.begin_with(id, Queues::Every), Reply::Prepared(_)));
    }
    let another = case.client(99);
    assert_eq!(case.code(another, Request::OpenStack(OpenStack::on("eth1"))), Some(Code::Limit), "of all at a time");
    case.registry.expire(case.now + BIND_WAIT);
    assert_eq!(case.code(another, Request::OpenStack(OpenStack::on("eth1"))), None);
}
