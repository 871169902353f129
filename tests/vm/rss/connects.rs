//! Connections from here on such devices, by the public interface: answers come by a queue that is ours, or all of them are.

use super::{INTERFACE, LISTENING, QUEUES, command, is_linux_6_1, plug};
use crate::bypass::wait;
use crate::support::{finish, send_signal, sidestep};
use sidestep::engine::{Engine, EngineOptions, Path, Queues, Reason};
use sidestep::tcp::{Readiness, TcpStream};
use sidestep_control_api::client::Client;
use sidestep_control_api::message::Protocol;
use sidestep_control_api::place;
use sidestep_control_api::rss::{Spread, WhyUnknown};
use sidestep_sys::ethtool::{self, HashFunction};
use sidestep_testkit::vm::{MACHINE, PEER};
use std::net::SocketAddr;
use std::process::Child;

/// Connections of each engine, and how many are begun at a time.
const CONNECTIONS: usize = 250;
const AT_ONCE: usize = 10;

pub(super) struct Control(Option<Child>);

impl Control {
    pub(super) fn start() -> Self {
        let child = sidestep(&["control"]).spawn().unwrap();
        let path = place::socket().unwrap();
        wait("a control plane", || Client::connect_to(&path, "test").and_then(Client::bye).ok());
        Self(Some(child))
    }

    pub(super) fn end(mut self) {
        let child = self.0.take().unwrap();
        send_signal(child.id(), "TERM");
        let ended = finish(child);
        assert_eq!((ended.code, ended.stderr.contains("panic")), (0, false), "{}", ended.stderr);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) fn open(queues: Queues) -> Engine {
    let options = EngineOptions { frames: 512, ring_entries: 256, queues, ..EngineOptions::on(INTERFACE) };
    let engine = Engine::open(&options).unwrap();
    assert_eq!(engine.refusal(), None);
    eprintln!("queues {:?}, {:?}", engine.queues(), engine.link().unwrap().xsks.first().map(|xsk| &xsk.downgrades));
    engine
}

/// Makes connections, some at a time, and closes them; none is refused. How many went past the kernel, and why others did not.
fn connect_all(engine: &mut Engine) -> (usize, Option<Reason>) {
    let (mut past, mut why) = (0, None);
    for turn in 0..CONNECTIONS / AT_ONCE {
        let to = SocketAddr::new(PEER[turn % 2], LISTENING);
        let options = engine.tcp().defaults();
        let streams: Vec<TcpStream> = (0..AT_ONCE).map(|_| engine.tcp().connect(to, None, options).unwrap()).collect();
        for stream in streams {
            wait("a connection", || {
                engine.poll().unwrap();
                let readiness = engine.tcp().readiness(stream).unwrap();
                assert!(!readiness.has(Readiness::ERROR), "{turn}: {:?}", engine.tcp().take_error(stream));
                readiness.has(Readiness::WRITABLE).then_some(())
            });
            match engine.tcp().path(stream).unwrap() {
                Path::Kernel(reason) => why = Some(reason),
                _ => past += 1,
            }
            engine.tcp().close(stream).unwrap();
        }
    }
    (past, why)
}

/// With one queue, with several, with all: every connection is made, and those of ours go past the kernel.
pub(crate) fn connections_of_ours_reach_their_queue() {
    plug(Some(QUEUES));
    let control = Control::start();
    let choices = [Queues::These(vec![1]), Queues::These(vec![0, 2]), Queues::These(vec![0, 1, 2, 3]), Queues::Every];
    for queues in choices {
        let is_every = queues == Queues::Every;
        let mut engine = open(queues);
        if is_every {
            // virtio-net has more of them with a program than without.
            assert_eq!(engine.queues(), (0..ethtool::receive_queues(INTERFACE).unwrap()).collect::<Vec<_>>());
            assert!(engine.queues().len() > QUEUES as usize);
        }
        let told = connect_all(&mut engine);
        // Before 6.12 the driver reports a hash that it does not use: then all queues are ours, or the kernel connects.
        if is_linux_6_1() && !is_every {
            assert_eq!(told.0, 0, "{told:?}");
        } else {
            assert_eq!(told, (CONNECTIONS, None));
        }
        eprintln!("{:?}: {told:?}", engine.queues());
    }
    control.end();
}

/// vmxnet3 reports its table, and neither key nor fields: a stack with one queue of two is told that answers may come by the other, one
/// has both needs to know nothing.
pub(crate) fn where_no_key_is_told_all_queues_are_wanted() {
    plug(None);
    let rss = ethtool::rss(INTERFACE).unwrap();
    assert_eq!((rss.function, rss.key.as_slice()), (HashFunction::Toeplitz, &[][..]));
    if is_linux_6_1() {
        // No XDP in this driver before 6.6; and in generic mode merged segments would be too long.
        command("ethtool", &format!("-K {INTERFACE} gro off"));
    }
    let spread = Spread::read(INTERFACE);
    assert_eq!(spread.receiving(), Ok(vec![0, 1]));
    let (remote, local) = (SocketAddr::new(PEER[0], LISTENING), SocketAddr::new(MACHINE[0], 50_000));
    assert_eq!(spread.queue_of(Protocol::Tcp, remote, local), Err(WhyUnknown::Key(0)));
    let control = Control::start();
    for (queues, expected) in
        [(Queues::These(vec![1]), (0, Some(Reason::QueueElsewhere))), (Queues::Every, (CONNECTIONS, None))]
    {
        assert_eq!(connect_all(&mut open(queues)), expected);
    }
    control.end();
}
