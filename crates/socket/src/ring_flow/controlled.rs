//! Flows beside a control that answers as a test wants it to.

use super::testing::{Feed, message_v4};
use super::*;
use crate::options::Checksums as Wish;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};
use sidestep_control_api::message::{
    Channel, Code, FeedRevoked, FeedVerdict, Numbered, Refusal, Reply, Request, VERSION,
};
use sidestep_control_api::table::Writer;
use sidestep_sys::idle::IdleStrategy;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What a test has control say or do.
enum Order {
    Tell(Box<Reply>),
    HangUp,
}

/// A control with one feed after the other: the first connection gets the first one.
struct Control {
    path: PathBuf,
    asked: Receiver<Request>,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    fn start(feeds: &[&Feed], steer: impl Fn(Entry) -> Reply + Send + 'static) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sidestep-flow-{}-{number}", std::process::id()));
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&socket, 8).unwrap();
        let (tell, asked) = channel();
        let (orders, inbox) = channel();
        let feeds: Vec<_> = (1..).zip(feeds).map(|(number, feed)| (feed.facts(number), feed.file())).collect();
        let serve = move || {
            let table = Writer::create(1).unwrap();
            for (facts, map) in feeds {
                let Ok(connection) = accept_with(&socket, SocketFlags::CLOEXEC) else { return };
                let channel = Channel::over(connection);
                serve_one(&channel, &table, &inbox, |request| {
                    let _ = tell.send(request.clone());
                    match request {
                        Request::OpenFeed { .. } => (Reply::Feed(facts.clone()), Some(&map)),
                        Request::SteerFeed { entry, .. } => (steer(*entry), None),
                        _ => (Reply::Done, None),
                    }
                });
            }
        };
        Self { path, asked, orders, thread: Some(std::thread::spawn(serve)) }
    }

    fn flow(&self) -> Flow {
        let options = FlowOptions { control: Some(self.path.clone()), ..FlowOptions::on("lo") };
        Flow::open(&options.checksums(Wish::Verify)).unwrap()
    }

    fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

/// Serves until the other end, or the test, hangs up.
fn serve_one<'a>(
    channel: &Channel,
    table: &Writer,
    inbox: &Receiver<Order>,
    mut answer: impl FnMut(&Request) -> (Reply, Option<&'a OwnedFd>),
) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    loop {
        match inbox.try_recv() {
            Ok(Order::Tell(body)) => channel.send(&Numbered { number: 0, body: *body }, &[]).unwrap(),
            Ok(Order::HangUp) => return,
            Err(_) => {}
        }
        let pause = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        if poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&pause)) == Ok(0) {
            continue;
        }
        let Ok(incoming) = channel.receive::<Request>() else { return };
        let Numbered { number, body } = incoming.message;
        let (reply, descriptor) = match &body {
            Request::Hello { .. } => (Reply::Welcome { version: VERSION, pid: 1 }, Some(table.file())),
            request => {
                let (reply, descriptor) = answer(request);
                (reply, descriptor.map(AsFd::as_fd))
            }
        };
        let descriptors: Vec<_> = descriptor.into_iter().collect();
        if channel.send(&Numbered { number, body: reply }, &descriptors).is_err() {
            return;
        }
    }
}

fn carried(verdict: Verdict) -> Reply {
    Reply::FeedSteered { verdict, reason: None }
}

fn until(what: &str, flow: &mut Flow, mut is_so: impl FnMut(&mut Flow) -> bool) {
    let begin = Instant::now();
    while !is_so(flow) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn port(flow: &mut Flow) -> EntryId {
    flow.bind("127.0.0.1:0".parse().unwrap(), Verdict::Drop).unwrap()
}

fn next(flow: &mut Flow) -> Vec<u8> {
    flow.wait(IdleStrategy::SPIN_THEN_YIELD, Some(Instant::now() + Duration::from_secs(20))).unwrap();
    flow.receive().unwrap().payload().to_vec()
}

#[test]
fn a_ring_carries_an_entry_and_its_kernel_socket_is_deaf() {
    let mut feed = Feed::new(2);
    let control = Control::start(&[&feed], |_| carried(Verdict::Drop));
    let mut flow = control.flow();
    assert_eq!(flow.refusal(), None);
    let id = port(&mut flow);
    let to = flow.local(id).unwrap();
    let way =
        EntryPath::Ring { verdict: Verdict::Drop, mode: sidestep_control_api::message::Mode::Copy, downgrade: None };
    assert_eq!(flow.path(id), way);
    let Ok(Request::OpenFeed { interface, name }) = control.asked.recv() else { panic!("no feed") };
    assert_eq!((interface.as_str(), name.as_str()), ("lo", ""));
    let steered = control.asked.recv().unwrap();
    let entry = Entry::Listener { protocol: Protocol::Udp, local: to, vlan: None };
    assert_eq!(steered, Request::SteerFeed { feed: 1, entry, verdict: Verdict::Drop });
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"by the kernel", to).unwrap();
    feed.publish(1, &message_v4(b"by the ring", 1, 0));
    assert_eq!(next(&mut flow), b"by the ring");
    (0..2 * LOOKS_PER_TWIN).for_each(|_| assert!(flow.receive().is_none()));
}

/// What a kernel socket has received before rings carry its traffic comes first, not hours later, when control ends.
#[test]
fn what_came_before_the_ring_is_received_before_it() {
    let mut feed = Feed::new(1);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let control = Control::start(&[&feed], move |entry| {
        for text in ["one", "two"] {
            sender.send_to(text.as_bytes(), entry.local()).unwrap();
        }
        carried(Verdict::Drop)
    });
    let mut flow = control.flow();
    let id = port(&mut flow);
    assert!(flow.path(id).is_ring());
    feed.publish(0, &message_v4(b"by the ring", 1, 0));
    for text in ["one", "two", "by the ring"] {
        assert_eq!(flow.receive().expect("it is there").payload(), text.as_bytes());
    }
    assert!(flow.receive().is_none());
    assert_eq!((flow.statistics().by_kernel, flow.statistics().packets()), (2, 3));
}

#[test]
fn a_new_controls_rings_are_read_at_once() {
    let (feed, mut newer) = (Feed::new(1), Feed::new(1));
    let control = Control::start(&[&feed, &newer], |_| carried(Verdict::Drop));
    let mut flow = control.flow();
    let id = port(&mut flow);
    control.order(Order::HangUp);
    until("the loss is noticed", &mut flow, |flow| !flow.path(id).is_ring());
    assert!(flow.receive().is_none(), "the rings are retired");
    until("the feed is open again", &mut flow, |flow| flow.path(id).is_ring());
    newer.publish(0, &message_v4(b"after", 1, 0));
    let found = (0..3).any(|_| flow.receive().is_some_and(|packet| packet.payload() == b"after"));
    assert!(found, "nobody waits until those of the dead control are silent");
}

/// Control keeps one wish for an entry: the first of two would go on as if it were there.
#[test]
fn an_entry_is_in_a_flow_once() {
    let feed = Feed::new(1);
    let control = Control::start(&[&feed], |_| carried(Verdict::Pass));
    let mut flow = control.flow();
    let group = "239.7.7.7:7007".parse().unwrap();
    let tap = Entry::Multicast { group, source: None, vlan: None };
    let id = flow.tap(tap, Verdict::Pass).unwrap();
    assert!(flow.tap(tap, Verdict::Pass).is_err());
    flow.leave(id);
    flow.tap(tap, Verdict::Pass).unwrap();
}

#[test]
fn an_entry_that_was_taken_away_is_asked_for_again() {
    let feed = Feed::new(1);
    let control = Control::start(&[&feed], |_| carried(Verdict::Pass));
    let mut flow = control.flow();
    let id = port(&mut flow);
    let entry = Entry::Listener { protocol: Protocol::Udp, local: flow.local(id).unwrap(), vlan: None };
    let gone =
        FeedVerdict { feed: 1, entry, verdict: None, reason: Some("it is not known who shares the port".into()) };
    control.order(Order::Tell(Box::new(Reply::FeedVerdict(gone))));
    until("the entry is gone", &mut flow, |flow| !flow.path(id).is_ring());
    until("it is there again", &mut flow, |flow| flow.path(id).is_ring());
}

#[test]
fn without_control_kernel_sockets_take_over_and_a_new_control_takes_back() {
    let (mut feed, mut newer) = (Feed::new(1), Feed::new(1));
    let control = Control::start(&[&feed, &newer], |_| carried(Verdict::Pass));
    let mut flow = control.flow();
    let id = port(&mut flow);
    let to = flow.local(id).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    feed.publish(0, &message_v4(b"before", 1, 0));
    control.order(Order::HangUp);
    until("the loss is noticed", &mut flow, |flow| !flow.path(id).is_ring());
    assert_eq!(flow.path(id).reason(), Some(Reason::ControlAbsent));
    sender.send_to(b"meanwhile", to).unwrap();
    assert_eq!((next(&mut flow), next(&mut flow)), (b"before".to_vec(), b"meanwhile".to_vec()));
    assert_eq!(flow.statistics().fallbacks, 1);
    until("the feed is open again", &mut flow, |flow| flow.path(id).is_ring());
    sender.send_to(b"unheard", to).unwrap();
    newer.publish(0, &message_v4(b"after", 1, 0));
    assert_eq!(next(&mut flow), b"after");
    (0..2 * LOOKS_PER_TWIN).for_each(|_| assert!(flow.receive().is_none()));
    assert_eq!(flow.statistics().queues[0].packets, 2);
}

#[test]
fn the_rings_of_a_silent_control_are_read_while_they_may_be_the_only_way() {
    let mut feed = Feed::new(1);
    let control = Control::start(&[&feed], |_| carried(Verdict::Drop));
    let mut flow = control.flow();
    let id = port(&mut flow);
    control.order(Order::HangUp);
    until("the loss is noticed", &mut flow, |flow| !flow.path(id).is_ring());
    assert!(flow.receive().is_none(), "the rings are retired, and empty");
    feed.publish(0, &message_v4(b"dropped by the program", 1, 0));
    assert_eq!(next(&mut flow), b"dropped by the program");
}

#[test]
fn a_revoked_feed_and_a_changed_verdict_are_told() {
    let feed = Feed::new(1);
    let control = Control::start(&[&feed], |_| carried(Verdict::Drop));
    let mut flow = control.flow();
    let id = port(&mut flow);
    let entry = Entry::Listener { protocol: Protocol::Udp, local: flow.local(id).unwrap(), vlan: None };
    let told = |verdict, reason: &str| {
        Order::Tell(Box::new(Reply::FeedVerdict(FeedVerdict { feed: 1, entry, verdict, reason: Some(reason.into()) })))
    };
    control.order(told(Some(Verdict::Pass), "another socket"));
    until(
        "the verdict changes",
        &mut flow,
        |flow| matches!(flow.path(id), EntryPath::Ring { verdict: Verdict::Pass, downgrade: Some(why), .. } if why == "another socket"),
    );
    control.order(told(None, "nobody holds the port"));
    until(
        "the entry is gone",
        &mut flow,
        |flow| matches!(flow.path(id), EntryPath::Kernel { detail, .. } if detail == "nobody holds the port"),
    );
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"by the kernel", flow.local(id).unwrap()).unwrap();
    assert_eq!(next(&mut flow), b"by the kernel");
    let refusal = Refusal::new(Code::Revoked, "the feed on lo", "its interface is gone");
    control.order(Order::Tell(Box::new(Reply::FeedRevoked(FeedRevoked { feed: 1, refusal }))));
    until("the feed is revoked", &mut flow, |flow| flow.refusal().is_some());
    assert_eq!(flow.refusal().map(|(reason, _)| reason), Some(Reason::Revoked));
}

#[test]
fn a_refused_entry_is_read_from_its_kernel_socket_beside_rings() {
    let mut feed = Feed::new(1);
    let refused = Refusal::new(Code::NotAllowed, "cannot feed it", "not this user");
    let control = Control::start(&[&feed], move |_| Reply::Refused(refused.clone()));
    let mut flow = control.flow();
    let id = port(&mut flow);
    assert_eq!(flow.path(id).reason(), Some(Reason::NotAllowed));
    assert_eq!(flow.refusal(), None, "the feed stays");
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"by the kernel", flow.local(id).unwrap()).unwrap();
    assert_eq!(next(&mut flow), b"by the kernel");
    feed.publish(0, &message_v4(b"of another reader", 1, 0));
    assert_eq!(next(&mut flow), b"of another reader");
}

#[test]
fn a_left_entry_is_unsteered() {
    let feed = Feed::new(1);
    let control = Control::start(&[&feed], |_| carried(Verdict::Pass));
    let mut flow = control.flow();
    let id = port(&mut flow);
    let entry = Entry::Listener { protocol: Protocol::Udp, local: flow.local(id).unwrap(), vlan: None };
    flow.leave(id);
    assert!(control.asked.iter().any(|request| request == Request::UnsteerFeed { feed: 1, entry }));
}
