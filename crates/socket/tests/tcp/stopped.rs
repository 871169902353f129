//! Datagram sockets that are set up while control is stopped or dead: nothing else of the engine waits with them.

use crate::peer::{ask, join, listen};
use crate::roles::start;
use crate::support::{address, bind, engine, kernel, lab, settled, wait, wait_for_control};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::{Engine, Handle, Path, Reason, UdpOptions};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

const OPENING: Path = Path::Kernel(Reason::Opening);
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(232, 7, 7, 7));
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Messages there and back between two calls.
const ROUNDS: usize = 20;

/// Numbered datagrams for one socket.
struct Feed {
    socket: Handle,
    sender: UdpSocket,
    to: SocketAddr,
    sent: u32,
    came: BTreeSet<u32>,
    is_past: bool,
}

impl Feed {
    fn new(socket: Handle, sender: UdpSocket, to: SocketAddr) -> Self {
        Self { socket, sender, to, sent: 0, came: BTreeSet::new(), is_past: false }
    }

    fn send(&mut self) {
        self.sender.send_to(&self.sent.to_le_bytes(), self.to).unwrap();
        self.sent += 1;
    }

    /// Takes what has come, each once; whether all has.
    fn take(&mut self, engine: &mut Engine) -> bool {
        while let Some(datagram) = engine.receive(self.socket).unwrap() {
            let number = u32::from_le_bytes(engine.payload(&datagram).try_into().unwrap());
            assert!(number < self.sent && self.came.insert(number), "{number} came twice to {}", self.to);
            self.is_past = !datagram.by_kernel();
            engine.release(datagram);
        }
        self.came.len() == self.sent as usize
    }
}

/// As [`bind`], but settled later.
fn begin_to_bind(host: &Host, engine: &mut Engine, address: SocketAddr) -> Handle {
    host.within(|| engine.bind(address, &UdpOptions::default())).expect("the port is free")
}

#[test]
fn sockets_are_set_up_while_control_is_stopped() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut control = start(b, "control", None, None);
    wait_for_control(b);
    let mut engine = engine(b);
    let here = |port| SocketAddr::new(address(b, false), port);
    let listener = listen(b, &mut engine, here(7000));
    let (stream, mut peer) = join(a, &mut engine, listener, here(7000));
    let live = bind(b, &mut engine, here(7000));
    let mut live = Feed::new(live, kernel(a, SocketAddr::new(address(a, false), 0)), here(7000));
    // What goes past the kernel already goes on.
    let mut talk = |engine: &mut Engine| {
        for _ in 0..ROUNDS {
            ask(engine, stream, &mut peer, b"meanwhile");
            live.send();
            wait("a datagram", || live.take(engine).then_some(()));
        }
        assert!(engine.path(live.socket).unwrap().is_accelerated());
    };
    talk(&mut engine);
    control.signal(libc::SIGSTOP);
    let bound = begin_to_bind(b, &mut engine, here(7001));
    talk(&mut engine);
    let member = begin_to_bind(b, &mut engine, SocketAddr::new(ANY, 7002));
    assert_eq!(b.within(|| engine.join(member, GROUP, 0, None)).unwrap(), OPENING);
    talk(&mut engine);
    let pair = begin_to_bind(b, &mut engine, here(7003));
    let [one, two, three] = [(); 3].map(|()| kernel(a, SocketAddr::new(address(a, false), 0)));
    b.within(|| engine.connect(pair, three.local_addr().unwrap())).unwrap();
    talk(&mut engine);
    let toward = b.within(|| engine.bind_toward(two.local_addr().unwrap(), &UdpOptions::default())).unwrap();
    assert_eq!(engine.path(toward), Ok(OPENING));
    engine.close(toward).unwrap();
    talk(&mut engine);
    let mut feeds = [
        Feed::new(bound, one, here(7001)),
        Feed::new(member, two, SocketAddr::new(GROUP, 7002)),
        Feed::new(pair, three, here(7003)),
    ];
    for feed in &mut feeds {
        (0..8).for_each(|_| feed.send());
        wait("what the kernel has", || feed.take(&mut engine).then_some(()));
        assert_eq!((engine.path(feed.socket), feed.is_past), (Ok(OPENING), false));
        // They wait with the kernel while it changes.
        (0..8).for_each(|_| feed.send());
    }
    control.signal(libc::SIGCONT);
    for feed in &mut feeds {
        wait("datagrams past the kernel", || {
            feed.send();
            feed.take(&mut engine);
            (feed.is_past && engine.path(feed.socket).unwrap().is_accelerated()).then_some(())
        });
        wait("the rest", || feed.take(&mut engine).then_some(()));
    }
    talk(&mut engine);
    for feed in &mut feeds {
        assert!(feed.take(&mut engine), "nothing came twice");
    }
    drop(engine);
    control.kill();
    b.within(sidestep_control::cleanup).unwrap();
}

/// They were refused for that alone.
#[test]
fn sockets_that_were_set_up_without_control_go_past_the_kernel_with_the_next() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut control = start(b, "control", None, None);
    wait_for_control(b);
    let mut engine = engine(b);
    let here = |port| SocketAddr::new(address(b, false), port);
    let before = bind(b, &mut engine, here(7000));
    assert!(engine.path(before).unwrap().is_accelerated());
    control.kill();
    let silent = Ok(Path::Kernel(Reason::ControlSilent));
    // Until the thread beside the owner has seen the end, it is asked in vain.
    let mut ports = 7001..;
    let bound = wait("the news", || {
        let socket = begin_to_bind(b, &mut engine, here(ports.next().unwrap()));
        (engine.path(socket) == silent).then_some(socket)
    });
    let member = begin_to_bind(b, &mut engine, SocketAddr::new(ANY, 6999));
    assert_eq!(b.within(|| engine.join(member, GROUP, 0, None)).unwrap(), Path::Kernel(Reason::ControlSilent));
    let at = engine.local(bound).unwrap();
    let mut feed = Feed::new(bound, kernel(a, SocketAddr::new(address(a, false), 0)), at);
    feed.send();
    wait("what the kernel has", || feed.take(&mut engine).then_some(()));
    let mut control = start(b, "control", None, None);
    for socket in [bound, member] {
        wait("the way past the kernel", || {
            engine.poll().unwrap();
            settled(&mut engine, socket).is_accelerated().then_some(())
        });
    }
    wait("datagrams past the kernel", || {
        feed.send();
        feed.take(&mut engine);
        feed.is_past.then_some(())
    });
    drop(engine);
    control.kill();
    b.within(sidestep_control::cleanup).unwrap();
}
