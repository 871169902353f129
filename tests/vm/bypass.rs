//! The control plane and our stack on the kernels people run: function alone, for the times of an emulated CPU mean nothing.

use crate::support::{Finished, WATCHDOG, finish, send_signal, sidestep};
use sidestep::engine::{Engine, EngineOptions, Kick, Path, Queues, Reason};
use sidestep::tcp::{Readiness, Shutdown, TcpError, TcpListener, TcpStream};
use sidestep::udp::{Handle, UdpOptions};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_sys::xdp::{Geometry, Mode, RingSizes, Umem, Unbound, XskOptions, device};
pub(crate) use sidestep_testkit::drive as wait;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::Child;

pub(crate) const PORT: u16 = 7000;
const MESSAGES: u32 = 100;
/// Bytes of a stream in each direction: more than a window, little for an emulated CPU.
const STREAM_BYTES: usize = 256 << 10;
/// The most frames that one wakeup sends: as set (Linux 6.17), and the fixed number before.
const BUDGET: (u32, u32) = (256, 32);

/// `sidestep control` on a host, where it is by default.
pub(crate) struct Control {
    host: Host,
    child: Option<Child>,
}

impl Control {
    pub(crate) fn start(host: &Host) -> Self {
        // In the mounts of this process: pins must outlive who made them.
        let child = host.within(|| Ok(sidestep(&["control"]).spawn().unwrap())).unwrap();
        let path = host.within(place::socket).unwrap();
        wait("a control plane", || Client::connect_to(&path, "test").and_then(Client::bye).ok());
        Self { host: host.clone(), child: Some(child) }
    }

    /// Ends it; what it has said.
    pub(crate) fn end(mut self, signal: &str) -> Finished {
        let child = self.child.take().unwrap();
        send_signal(child.id(), signal);
        finish(child)
    }

    pub(crate) fn ps(&self) -> String {
        let told = on(&self.host, &["ps"]);
        assert_eq!(told.code, 0, "{}", told.stderr);
        told.stdout
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the binary on a host.
fn on(host: &Host, arguments: &[&str]) -> Finished {
    finish(host.within(|| Ok(sidestep(arguments).spawn().unwrap())).unwrap())
}

fn program_on(host: &Host) -> Option<u32> {
    host.within(|| device(&host.interface)).unwrap().xdp_program
}

pub(crate) fn options(host: &Host) -> EngineOptions {
    EngineOptions { frames: 512, ring_entries: 256, ..EngineOptions::on(&host.interface) }
}

pub(crate) fn engine(host: &Host) -> Engine {
    let engine = host.within(|| Engine::open(&options(host))).unwrap();
    assert_eq!(engine.refusal(), None);
    engine
}

pub(crate) fn bind(host: &Host, engine: &mut Engine, address: IpAddr, port: u16) -> (Handle, SocketAddr) {
    let at = SocketAddr::new(address, port);
    let socket = host.within(|| engine.bind(at, &UdpOptions::default())).unwrap();
    let path = settled(engine, socket);
    assert!(path.is_accelerated(), "{path}");
    (socket, engine.local(socket).unwrap())
}

/// Which way a socket goes once control has answered: in an emulated machine it may take longer than set-up waits.
pub(crate) fn settled(engine: &mut Engine, socket: Handle) -> Path {
    wait("control's answer", || {
        let path = engine.path(socket).unwrap();
        if path != Path::Kernel(Reason::Opening) {
            return Some(path);
        }
        engine.poll().unwrap();
        None
    })
}

pub(crate) fn addresses(host: &Host) -> [IpAddr; 2] {
    [host.ipv4.into(), host.ipv6.expect("stock kernels have IPv6").into()]
}

/// Nothing of a control plane is left on a host.
pub(crate) fn assert_clean(host: &Host) {
    assert_eq!(program_on(host), None);
    let directory = host.within(place::directory).unwrap();
    assert!(!directory.exists(), "{} is left", directory.display());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.lines().any(|line| line.starts_with("sidestep ")), "{mounts}");
}

/// Both ends past the kernel, both families; every byte compared.
pub(crate) fn datagrams_go_past_the_kernel() {
    let lab = Lab::up(&Options::default()).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let controls = [Control::start(a), Control::start(b)];
    let (mut client, mut server) = (engine(a), engine(b));
    for (here, there) in addresses(a).into_iter().zip(addresses(b)) {
        let (asking, from) = bind(a, &mut client, here, 0);
        let (serving, at) = bind(b, &mut server, there, PORT);
        a.within(|| client.connect(asking, at)).unwrap();
        // Until the kernels have found their neighbours.
        wait("the fast path", || {
            client.poll().unwrap();
            server.poll().unwrap();
            let ways = [client.path_to(asking, at).unwrap(), server.path_to(serving, from).unwrap()];
            ways.iter().all(|path| path.is_accelerated()).then_some(())
        });
        // An emulated CPU can stall so long that an owner counts as stopped, and the kernel takes over: that is no fault, but
        // no message past it either.
        let mut past = 0;
        for number in 0..u32::MAX {
            let sent: Vec<u8> = (0..number % 100 * 14).map(|index| (index * 31 + number) as u8).collect();
            client.send(asking, &sent).unwrap();
            let question = wait("a question", || server.receive(serving).unwrap());
            assert_eq!(server.payload(&question), sent, "{number}");
            let came_past = !question.by_kernel();
            server.reply(serving, question).unwrap();
            let answer = wait("an answer", || client.receive(asking).unwrap());
            assert_eq!(client.payload(&answer), sent, "{number}");
            past += u32::from(came_past && !answer.by_kernel());
            client.release(answer);
            if past == MESSAGES {
                break;
            }
        }
        let told = controls[1].ps();
        assert!(told.contains("accelerated  udp") && told.contains("lab0 queue 0, copy"), "{told}");
        client.close(asking).unwrap();
        server.close(serving).unwrap();
    }
    drop((client, server));
    for control in controls {
        let ended = control.end("TERM");
        assert_eq!((ended.code, ended.stderr.contains("panic")), (0, false), "{}", ended.stderr);
    }
    [a, b].into_iter().for_each(assert_clean);
}

/// The same with four queues of one engine: by which of them a stream comes is Linux's choice.
pub(crate) fn streams_come_by_any_of_several_queues() {
    let lab = Lab::up(&Options { queues: 4, ..Options::default() }).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let wish = EngineOptions { queues: Queues::Every, ..options(a) };
    let mut engine = a.within(|| Engine::open(&wish)).unwrap();
    assert_eq!((engine.refusal(), engine.queues()), (None, &[0, 1, 2, 3][..]));
    for (here, there) in addresses(a).into_iter().zip(addresses(b)) {
        for _ in 0..8 {
            connects(&mut engine, a, b, there);
            listens(&mut engine, a, b, here);
        }
    }
    let told = control.ps();
    assert!(told.contains("lab0 queues 0-3, copy") && !told.contains("drop-queue"), "{told}");
    drop(engine);
    assert_eq!(control.end("TERM").code, 0);
    assert_clean(a);
}

/// A stream to Linux and back, connected and accepted by us; every byte compared.
pub(crate) fn streams_go_past_the_kernel() {
    let lab = Lab::up(&Options::default()).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let mut engine = engine(a);
    for (here, there) in addresses(a).into_iter().zip(addresses(b)) {
        connects(&mut engine, a, b, there);
        listens(&mut engine, a, b, here);
    }
    assert!(control.ps().contains("accelerated  tcp"), "{}", control.ps());
    drop(engine);
    assert_eq!(control.end("TERM").code, 0);
    assert_clean(a);
}

/// A connection of ours to `there` on `b`, until one is past the kernel: an emulated kernel may take longer to find a neighbour
/// than a connection waits for it.
pub(crate) fn connects(engine: &mut Engine, a: &Host, b: &Host, there: IpAddr) {
    let options = engine.tcp().defaults();
    let echo = b.within(|| Ok(std::net::TcpListener::bind((there, 0)).unwrap())).unwrap();
    let to = echo.local_addr().unwrap();
    wait("a connection past the kernel", || {
        let echo = echo.try_clone().unwrap();
        let stream = a.within(|| engine.tcp().connect(to, None, options)).unwrap();
        let peer = std::thread::spawn(move || serve(echo.accept().unwrap().0));
        let path = there_and_back(engine, stream);
        assert_eq!(wait_polling(engine, peer), STREAM_BYTES);
        assert!(path.is_accelerated() || path == Path::Kernel(Reason::NeighbourPending), "{path}");
        path.is_accelerated().then_some(())
    });
}

/// A connection from `b` to a listener of ours at `here`. As with datagrams: a stall gives one to the kernel, which carries it as
/// well.
pub(crate) fn listens(engine: &mut Engine, a: &Host, b: &Host, here: IpAddr) {
    let options = engine.tcp().defaults();
    let at = SocketAddr::new(here, PORT);
    let listener = a.within(|| engine.tcp().listen(at, 16, options)).unwrap();
    assert!(engine.tcp().listener_path(listener).unwrap().is_accelerated());
    wait("a connection past the kernel", || {
        let there = b.clone();
        let connect = move || Ok(std::net::TcpStream::connect(at).unwrap());
        let peer = std::thread::spawn(move || serve(there.within(connect).unwrap()));
        let stream = accept(engine, listener);
        let path = there_and_back(engine, stream);
        assert_eq!(wait_polling(engine, peer), STREAM_BYTES);
        assert!(path.is_accelerated() || path == Path::Kernel(Reason::CameByKernel), "{path}");
        path.is_accelerated().then_some(())
    });
    engine.tcp().close_listener(listener).unwrap();
}

/// The peer: sends back what comes, until it ends.
fn serve(mut stream: std::net::TcpStream) -> usize {
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let (mut buffer, mut all) = ([0; 16 << 10], 0);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            return all;
        }
        stream.write_all(&buffer[..count]).unwrap();
        all += count;
    }
}

fn accept(engine: &mut Engine, listener: TcpListener) -> TcpStream {
    wait("a connection", || {
        engine.poll().unwrap();
        engine.tcp().accept(listener).unwrap()
    })
}

fn wait_polling<T>(engine: &mut Engine, thread: std::thread::JoinHandle<T>) -> T {
    wait("the peer", || {
        engine.poll().unwrap();
        thread.is_finished().then_some(())
    });
    thread.join().unwrap()
}

/// Sends all and reads it back, the end of the stream last; which way it went.
fn there_and_back(engine: &mut Engine, stream: TcpStream) -> Path {
    wait("a connection", || {
        engine.poll().unwrap();
        engine.tcp().readiness(stream).unwrap().has(Readiness::WRITABLE).then_some(())
    });
    let path = engine.tcp().path(stream).unwrap();
    let byte = |place: usize| (place * 31 + place / 251) as u8;
    let content: Vec<u8> = (0..STREAM_BYTES).map(byte).collect();
    let (mut sent, mut got, mut buffer) = (0, Vec::new(), [0; 16 << 10]);
    wait("the end of the stream", || {
        engine.poll().unwrap();
        if sent < content.len() {
            sent += would_block_is_none(engine.tcp().send(stream, &content[sent..])).unwrap_or(0);
            if sent == content.len() {
                engine.tcp().shutdown(stream, Shutdown::Write).unwrap();
            }
        }
        let count = would_block_is_none(engine.tcp().read(stream, &mut buffer))?;
        got.extend_from_slice(&buffer[..count]);
        (count == 0).then_some(())
    });
    assert!(got == content, "{} bytes came back", got.len());
    engine.tcp().close(stream).unwrap();
    path
}

fn would_block_is_none(result: Result<usize, TcpError>) -> Option<usize> {
    match result {
        Ok(count) => Some(count),
        Err(error) if error.is_would_block() => None,
        Err(error) => panic!("{error}"),
    }
}

/// Killed in the midst of it, started again, killed again: what it has attached outlives it, is taken over, and is cleaned up.
pub(crate) fn control_comes_and_goes_and_leaves_nothing() {
    let lab = Lab::up(&Options::default()).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let mut server = engine(a);
    let (serving, at) = bind(a, &mut server, a.ipv4.into(), PORT);
    let peer = b.within(|| Ok(std::net::UdpSocket::bind((b.ipv4, 0)).unwrap())).unwrap();
    let mut by_kernel = || {
        peer.send_to(b"tick", at).unwrap();
        let tick = wait("a datagram", || server.receive(serving).unwrap());
        let by_kernel = tick.by_kernel();
        server.release(tick);
        by_kernel
    };
    // A stalled owner gets its traffic by the kernel, until it calls again.
    let mut goes_past = || wait("traffic past the kernel", || (!by_kernel()).then_some(()));
    goes_past();
    let program = program_on(a);
    assert!(program.is_some());
    assert_ne!(control.end("KILL").code, 0);
    assert_eq!(program_on(a), program, "it needs no control to run");
    goes_past();
    let control = Control::start(a);
    assert_eq!(program_on(a), program, "taken over, not attached anew");
    goes_past();
    control.end("KILL");
    let cleaned = on(a, &["control", "--cleanup"]);
    assert_eq!((cleaned.code, cleaned.stdout.as_str()), (0, "detached from 1 interface\n"), "{}", cleaned.stderr);
    assert!(by_kernel(), "the kernel has it back");
    assert_clean(a);
    assert_eq!(on(a, &["control", "--cleanup"]).stdout, "nothing was attached\n");
}

/// What came later than this kernel, or is switched off in it, is asked for and missed by name, and the rest works.
pub(crate) fn what_this_kernel_lacks_is_told() {
    const SWITCH: &str = "/proc/sys/kernel/io_uring_disabled";
    let lab = Lab::up(&Options::default()).unwrap();
    let a = lab.host(Side::A);
    let _control = Control::start(a);
    let wish =
        EngineOptions { tx_budget: Some(BUDGET.0), kick: Kick::Sqpoll { cpu: None, idle_ms: 1000 }, ..options(a) };
    let engine = a.within(|| Engine::open(&wish)).unwrap();
    assert_eq!(engine.refusal(), None);
    let facts = engine.link().unwrap();
    assert_eq!(facts.sender.name(), "sqpoll");
    let xsk = &facts.xsks[0];
    assert_eq!(xsk.tx_budget, BUDGET.1);
    let told: Vec<String> = xsk.downgrades.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|line| line.contains("zero-copy")), "{told:?}");
    drop(engine);
    a_socket_stays_on_its_interface(a);
    // Linux 6.6 can switch io_uring off; before, there is no such file.
    if std::path::Path::new(SWITCH).exists() {
        std::fs::write(SWITCH, "2").unwrap();
        let engine = a.within(|| Engine::open(&wish)).unwrap();
        let (_, why) = engine.refusal().expect("there is no io_uring");
        assert!(why.contains("io_uring_disabled"), "{why}");
        std::fs::write(SWITCH, "0").unwrap();
    }
}

/// A socket that is handed over unbound cannot be taken elsewhere: bind(2) of AF_XDP asks for no capability.
fn a_socket_stays_on_its_interface(host: &Host) {
    let work = || {
        let umem = Umem::create(Geometry { frames: 64, frame_bytes: 2048, headroom: 0 })?;
        let options = XskOptions { rings: RingSizes::all(64), best: Mode::Copy, ..XskOptions::default() };
        let unbound = Unbound::new(&umem, options.rings)?;
        unbound.confine(&host.interface)?;
        let refusal = unbound.bind("lo", 0, &options).unwrap_err().to_string();
        assert!(refusal.contains("EINVAL"), "{refusal}");
        unbound.bind(&host.interface, 0, &options).map(drop)
    };
    host.within(work).unwrap();
}
