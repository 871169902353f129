//! How streams end that nobody holds any more, of engines that are dropped and of programs that end; and peers that are gone.

use crate::peer::{OURS, accept, connect, heard, kernel_connect, kernel_listen, listen, poll_until, whole_send_buffer};
use crate::roles::start;
use crate::support::{Control, WATCHDOG, address, ip, lab, reach, seconds, wait};
use sidestep_lab::Side;
use sidestep_lab::{Host, Lab};
use sidestep_socket::tcp::{Counter, Lost, Options, TcpError, TcpStream};
use sidestep_socket::{Engine, EngineOptions};
use sidestep_stack::tcp::{Error, KeepAlive};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream as KernelStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What is handed over before an end: more than the peer's window, less than our buffer.
const HANDED_OVER: usize = 3 << 20;

/// An engine on A, connected to Linux on B.
fn pair(lab: &Lab, is_v6: bool, linger: Duration) -> (Control, Engine, TcpStream, KernelStream) {
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let options = EngineOptions { linger, ring_entries: 512, frames: 1024, ..EngineOptions::on(&a.interface) };
    let mut engine = a.within(|| Engine::open(&options)).unwrap();
    assert_eq!(engine.refusal(), None);
    let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
    // While a neighbour is being asked for, or an address is tentative after the link was down, the kernel connects.
    let (stream, peer) = wait("a connection past the kernel", || {
        let stream = connect(a, &mut engine, server.local_addr().unwrap());
        let peer = server.accept().unwrap().0;
        let is_past = engine.tcp().path(stream).unwrap().is_accelerated();
        if !is_past {
            engine.tcp().close(stream).unwrap();
        }
        is_past.then_some((stream, peer))
    });
    peer.set_read_timeout(Some(WATCHDOG)).unwrap();
    (control, engine, stream, peer)
}

fn count(mut peer: KernelStream) -> std::io::Result<usize> {
    let (mut sum, mut buffer) = (0, [0; 65_536]);
    loop {
        match peer.read(&mut buffer)? {
            0 => return Ok(sum),
            count => sum += count,
        }
    }
}

/// `main` returns: what was handed over arrives, and the end of it, as from a kernel's socket.
#[test]
fn an_engine_that_is_dropped_delivers_what_was_handed_over() {
    let Some(lab) = lab() else { return };
    for is_v6 in [false, true] {
        let (_control, mut engine, stream, peer) = pair(&lab, is_v6, WATCHDOG);
        whole_send_buffer(&mut engine, stream);
        assert_eq!(engine.tcp().send(stream, &vec![7; HANDED_OVER]), Ok(HANDED_OVER));
        let reading = std::thread::spawn(|| {
            // The window is full when the engine ends.
            std::thread::sleep(Duration::from_millis(100));
            count(peer)
        });
        drop(engine);
        assert_eq!(reading.join().unwrap().unwrap(), HANDED_OVER);
    }
}

/// Also what was closed before.
#[test]
fn streams_that_were_closed_before_are_waited_for() {
    let Some(lab) = lab() else { return };
    let (_control, mut engine, stream, peer) = pair(&lab, false, WATCHDOG);
    whole_send_buffer(&mut engine, stream);
    assert_eq!(engine.tcp().send(stream, &vec![7; HANDED_OVER]), Ok(HANDED_OVER));
    engine.tcp().close(stream).unwrap();
    assert_eq!(engine.tcp().orphans().0, 1);
    let reading = std::thread::spawn(|| count(peer));
    assert_eq!(engine.finish(WATCHDOG), Lost::default());
    assert_eq!(reading.join().unwrap().unwrap(), HANDED_OVER);
}

/// A peer that does not read ends the wait by its time: it is reset, and what it has not got is told.
#[test]
fn what_is_lost_at_the_end_is_counted_and_told() {
    let Some(lab) = lab() else { return };
    for linger in [Duration::from_millis(300), Duration::ZERO] {
        let (_control, mut engine, stream, peer) = pair(&lab, true, Duration::ZERO);
        whole_send_buffer(&mut engine, stream);
        let handed_over = engine.tcp().send(stream, &vec![7; 4 << 20]).unwrap() as u64;
        wait("a closed window", || {
            engine.poll().unwrap();
            (engine.tcp().facts(stream).unwrap().unwrap().send_window == 0).then_some(())
        });
        let left = engine.tcp().facts(stream).unwrap().unwrap().unacknowledged as u64;
        assert!(left > 0 && left < handed_over, "{left}");
        let lost = engine.finish(linger);
        assert_eq!((lost.streams, lost.bytes), (1, left), "{linger:?}");
        assert_eq!(count(peer).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

/// SO_LINGER with zero seconds.
#[test]
fn without_lingering_what_is_open_is_reset() {
    let Some(lab) = lab() else { return };
    let (_control, engine, _, mut peer) = pair(&lab, false, Duration::ZERO);
    drop(engine);
    assert_eq!(peer.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// A process that says its last words and returns from main.
#[test]
fn a_program_that_returns_from_main_has_said_everything() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    for is_v6 in [false, true] {
        reach(a, address(b, is_v6));
        let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
        let mut program = start(a, "last_words", Some(server.local_addr().unwrap()), None);
        let peer = server.accept().unwrap().0;
        peer.set_read_timeout(Some(WATCHDOG)).unwrap();
        assert_eq!(count(peer).unwrap(), HANDED_OVER);
        assert!(program.0.wait().unwrap().success());
    }
}

/// An outage after close that is longer than eight retransmissions from 5 ms on: nothing is lost.
#[test]
fn close_and_an_outage_of_three_seconds_lose_nothing() {
    let Some(lab) = lab() else { return };
    let b = lab.host(Side::B);
    let keep = "/proc/sys/net/ipv6/conf/all/keep_addr_on_down";
    b.within(|| Ok(std::fs::write(keep, "1"))).unwrap().unwrap();
    for is_v6 in [false, true] {
        let (_control, mut engine, stream, peer) = pair(&lab, is_v6, WATCHDOG);
        ip(b, &format!("link set {} down", b.interface));
        assert_eq!(engine.tcp().send(stream, &[7; 100_000]), Ok(100_000));
        engine.tcp().close(stream).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(3);
        while std::time::Instant::now() < until {
            engine.poll().unwrap();
        }
        ip(b, &format!("link set {} up", b.interface));
        let reading = std::thread::spawn(|| count(peer));
        assert_eq!(poll_until(&mut engine, reading).unwrap(), 100_000);
        assert_eq!(engine.tcp().count(Counter::LostStreams), 0);
    }
}

/// The peer's kernel forgets the connection without a word.
fn forget(peer: KernelStream) {
    const ON: libc::c_int = 1;
    let (value, size) = (std::ptr::from_ref(&ON).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the option's value is an int that outlives the call.
    let done = unsafe { libc::setsockopt(peer.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_REPAIR, value, size) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    drop(peer);
}

fn fate(engine: &mut Engine, stream: TcpStream) -> TcpError {
    wait("the end", || {
        engine.poll().unwrap();
        engine.tcp().read(stream, &mut [0; 8]).err().filter(|error| !error.is_would_block())
    })
}

/// A half whose other half is gone is found: at the next segment, or, where nothing is said, by keep-alive.
#[test]
fn a_half_that_is_left_is_found() {
    let Some(lab) = lab() else { return };
    for is_v6 in [false, true] {
        let (_control, mut engine, stream, peer) = pair(&lab, is_v6, Duration::ZERO);
        forget(peer);
        assert_eq!(engine.tcp().send(stream, b"still there?"), Ok(12));
        assert_eq!(fate(&mut engine, stream), TcpError::Stack(Error::Reset));
    }
    for is_v6 in [false, true] {
        let (_control, mut engine, stream, peer) = pair(&lab, is_v6, Duration::ZERO);
        let options = engine.tcp().options(stream).unwrap().unwrap();
        assert!(options.keepalive.is_some(), "on, where nobody has said otherwise");
        let soon = KeepAlive { idle_ns: 50_000_000, interval_ns: 50_000_000, probes_max: 100 };
        engine.tcp().set_options(stream, Options { keepalive: Some(soon), ..options }).unwrap();
        forget(peer);
        assert_eq!(fate(&mut engine, stream), TcpError::Stack(Error::Reset));
    }
}

/// The wire goes with the peer's namespace: the stream has ended and says so, and the engine goes on.
#[test]
fn a_peer_whose_namespace_is_deleted_in_mid_stream() {
    let Some(lab) = lab() else { return };
    let a = lab.host(Side::A);
    let _control = Control::start(a);
    for (is_v6, place) in [(false, Place::new(a)), (true, Place::new(a))] {
        place.wire(a);
        let options = EngineOptions { ring_entries: 512, frames: 1024, ..EngineOptions::on("near0") };
        // Linux reports the carrier of a new link after a while (linkwatch).
        let mut engine = wait("a carrier", || {
            let engine = a.within(|| Engine::open(&options)).unwrap();
            engine.refusal().is_none().then_some(engine)
        });
        let at: SocketAddr = if is_v6 { "[2001:2:0:10::1]:7000" } else { "198.19.10.1:7000" }.parse().unwrap();
        let listener = listen(a, &mut engine, at);
        let mut peer = place.send_without_end(at);
        let stream = accept(&mut engine, listener);
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        // Nobody reads: what the peer still has to say, and its FIN, wait there when it goes.
        wait("a closed window", || {
            engine.poll().unwrap();
            (engine.tcp().facts(stream).unwrap().unwrap().receive_window < 2000).then_some(())
        });
        drop(place);
        peer.kill().unwrap();
        peer.wait().unwrap();
        let mut buffer = vec![0; 100_000];
        let error = wait("the end", || {
            engine.poll().unwrap();
            // What came before is read first.
            engine.tcp().read(stream, &mut buffer).err().filter(|error| !error.is_would_block())
        });
        assert!(matches!(error, TcpError::Lost(_)), "{error}");
        engine.tcp().close(stream).unwrap();
    }
}

/// A namespace with a wire to another one.
struct Place(String);

impl Place {
    fn new(beside: &Host) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", beside.namespace, NUMBER.fetch_add(1, Ordering::Relaxed));
        assert!(Command::new("ip").args(["netns", "add", &name]).status().unwrap().success());
        Self(name)
    }

    fn wire(&self, to: &Host) {
        ip(to, &format!("link add near0 type veth peer name far0 netns {}", self.0));
        for (number, device) in [(1, "near0"), (2, "far0")] {
            for words in [
                format!("address add 198.19.10.{number}/24 dev {device}"),
                format!("address add 2001:2:0:10::{number}/64 dev {device} nodad"),
                format!("link set {device} up"),
            ] {
                let command = &mut Command::new("ip");
                let words = words.split(' ');
                match number {
                    1 => assert!(to.spawn(command.args(words)).unwrap().wait().unwrap().success()),
                    _ => assert!(command.args(["-n", &self.0]).args(words).status().unwrap().success()),
                }
            }
        }
    }

    /// A process that connects from there, and sends.
    fn send_without_end(&self, to: SocketAddr) -> Child {
        let mut command = Command::new("ip");
        let script = format!("exec 3<>/dev/tcp/{}/{}; exec cat /dev/zero >&3", to.ip(), to.port());
        command.args(["netns", "exec", &self.0, "bash", "-c", &script]);
        sidestep_sys::process::die_with_parent(&mut command);
        command.spawn().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The namespace goes with the last process in it.
        let done = Command::new("ip").args(["netns", "del", &self.0]).status();
        assert!(done.is_ok_and(|done| done.success()) || std::thread::panicking());
    }
}

/// Longer than the second after which an owner counts as stopped, in the middle of transfers in both directions.
#[test]
fn a_program_that_does_not_poll_for_a_while_comes_back() {
    let Some(lab) = lab() else { return };
    for is_v6 in [false, true] {
        let (_control, mut engine, stream, peer) = pair(&lab, is_v6, WATCHDOG);
        let mut theirs = peer.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            theirs.write_all(&vec![OURS as u8; 1 << 20]).and_then(|()| theirs.shutdown(std::net::Shutdown::Write))
        });
        whole_send_buffer(&mut engine, stream);
        assert_eq!(engine.tcp().send(stream, &vec![7; HANDED_OVER]), Ok(HANDED_OVER));
        std::thread::sleep(Duration::from_millis(2500));
        let reading = std::thread::spawn(|| count(peer));
        let (mut got, mut buffer) = (0, vec![0; 100_000]);
        wait("all of the peer's", || {
            engine.poll().unwrap();
            match engine.tcp().read(stream, &mut buffer) {
                Ok(0) => Some(()),
                Ok(count) => {
                    got += count;
                    None
                }
                Err(error) if error.is_would_block() => None,
                Err(error) => panic!("{error}"),
            }
        });
        assert_eq!(got, 1 << 20);
        writing.join().unwrap().unwrap();
        engine.tcp().close(stream).unwrap();
        assert_eq!(poll_until(&mut engine, reading).unwrap(), HANDED_OVER);
    }
}

/// RFC 9293 section 3.6, figure 13, the other end being Linux.
#[test]
fn a_simultaneous_close_with_linux() {
    let Some(lab) = lab() else { return };
    for is_v6 in [false, true] {
        let (_control, mut engine, stream, mut peer) = pair(&lab, is_v6, WATCHDOG);
        engine.tcp().send(stream, b"bye").unwrap();
        engine.tcp().shutdown(stream, sidestep_stack::tcp::Shutdown::Write).unwrap();
        // Before we hear anything, Linux has finished, too.
        peer.write_all(b"bye").unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        let mut theirs = [0; 3];
        heard(&mut engine, &mut peer, &mut theirs).unwrap();
        let mut buffer = [0; 8];
        let ours = wait("the peer's words", || {
            engine.poll().unwrap();
            engine.tcp().read(stream, &mut buffer).ok()
        });
        assert_eq!((&theirs, &buffer[..ours]), (b"bye", &b"bye"[..]));
        assert_eq!(engine.tcp().read(stream, &mut buffer), Ok(0));
        engine.tcp().close(stream).unwrap();
        assert_eq!(engine.finish(WATCHDOG), Lost::default());
    }
}

/// Strangers of Linux's that connect, ask, and never read what they get, while this end closes: what they hold is bounded.
fn strangers(lab: &Lab, is_v6: bool, number: usize, seconds: u64) {
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut options = EngineOptions { linger: Duration::ZERO, ..EngineOptions::on(&b.interface) };
    options.tcp.orphan_bytes_max = 32 << 20;
    options.tcp.send_buffer_initial_bytes = options.tcp.send_buffer_bytes;
    let mut engine = b.within(|| Engine::open(&options)).unwrap();
    let at = SocketAddr::new(address(b, is_v6), 7000);
    let listener = listen(b, &mut engine, at);
    let (mut held, begun) = (Vec::new(), std::time::Instant::now());
    let mut attacks = 0;
    while attacks < number || begun.elapsed().as_secs() < seconds {
        let joining = kernel_connect(a, at);
        let stream = accept(&mut engine, listener);
        held.push(poll_until(&mut engine, joining));
        if held.len() > number {
            held.remove(0);
        }
        let taken = engine.tcp().send(stream, &vec![7; 4 << 20]).unwrap();
        engine.tcp().close(stream).unwrap();
        attacks += 1;
        let (orphans, bytes) = engine.tcp().orphans();
        assert!(bytes <= 32 << 20 && taken > 0, "{orphans} orphans hold {bytes} bytes");
        if seconds != 0 && attacks % 50 == 0 {
            let (dropped, lost) = (engine.tcp().count(Counter::OrphansDropped), engine.tcp().count(Counter::LostBytes));
            let memory = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = memory.split(' ').nth(1).unwrap().parse().unwrap();
            println!(
                "{:>4} s {attacks} strangers: {orphans} orphans hold {} KiB, {dropped} dropped, {} KiB lost, {} MiB resident",
                begun.elapsed().as_secs(),
                bytes >> 10,
                lost >> 10,
                pages >> 8,
            );
        }
    }
    assert!(engine.tcp().count(Counter::OrphansDropped) > 0);
    // Who is honest is served meanwhile.
    let joining = kernel_connect(a, at);
    let stream = accept(&mut engine, listener);
    let mut peer = poll_until(&mut engine, joining);
    crate::peer::ask(&mut engine, stream, &mut peer, b"hello");
    drop(held);
}

#[test]
fn strangers_that_never_read_do_not_fill_the_memory() {
    let Some(lab) = lab() else { return };
    for is_v6 in [false, true] {
        strangers(&lab, is_v6, 40, 0);
    }
}

/// By hand: `SIDESTEP_SECONDS=600 cargo test -p sidestep-socket --test tcp strangers_for_minutes -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn strangers_for_minutes() {
    let Some(lab) = lab() else { return };
    for is_v6 in [false, true] {
        strangers(&lab, is_v6, 400, seconds() / 2);
    }
}
