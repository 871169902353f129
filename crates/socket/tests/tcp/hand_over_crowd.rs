//! Thousands of connections with messages under way become the kernel's at once: `sidestep ps --release`. The peer is Linux, which must
//! not notice.

use crate::peer::{established, poll_until};
use crate::support::{Control, WATCHDOG, address, engine_with, lab, reach, wait_at_most};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_lab::Side;
use sidestep_socket::tcp::{Shutdown, TcpStream};
use sidestep_socket::{Engine, EngineOptions, Path, Reason};
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener as KernelListener, TcpStream as KernelStream};
use std::thread::JoinHandle;

/// `SIDESTEP_CROWD` has another number.
const CONNECTIONS: usize = 2000;

/// Bytes of each connection, there and back.
const BYTES: usize = 16 << 10;

/// Bytes that each has under way.
const UNDER_WAY: usize = 256;

/// Two ends each in this process, the one past the kernel twice while it is handed over.
const DESCRIPTORS: u64 = 5;

/// Of a thread that sends back.
const STACK_BYTES: usize = 64 << 10;

fn connections() -> usize {
    std::env::var("SIDESTEP_CROWD").ok().and_then(|text| text.parse().ok()).unwrap_or(CONNECTIONS)
}

fn allow_descriptors(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        let maximum = limit.maximum.map(|maximum| maximum.max(count));
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum }).expect("root may");
    }
}

/// A listener of Linux, with places for all.
fn listen_with_room(local: SocketAddr, room: usize) -> std::io::Result<KernelListener> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, None)?;
    socket.bind(&local.into())?;
    socket.listen(room as i32)?;
    Ok(socket.into())
}

/// Sends back what comes, until it ends.
fn send_back(mut stream: KernelStream) -> usize {
    let (mut buffer, mut all) = ([0; 4 * UNDER_WAY], 0);
    loop {
        match stream.read(&mut buffer).expect("nobody resets it") {
            0 => return all,
            count => {
                stream.write_all(&buffer[..count]).expect("nobody resets it");
                all += count;
            }
        }
    }
}

/// One connection: its bytes are its own.
struct Member {
    stream: TcpStream,
    number: usize,
    sent: usize,
    got: usize,
    is_shut: bool,
    has_end: bool,
}

impl Member {
    fn byte(&self, place: usize) -> u8 {
        (self.number * 7 + place * 31 + place / 251) as u8
    }

    /// Sends and reads, up to `limit` bytes.
    fn go_on(&mut self, engine: &mut Engine, limit: usize, buffer: &mut [u8]) {
        let end = limit.min(self.got + UNDER_WAY);
        if self.sent < end {
            let piece: Vec<u8> = (self.sent..end).map(|place| self.byte(place)).collect();
            match engine.tcp().send(self.stream, &piece) {
                Ok(count) => self.sent += count,
                Err(error) => assert!(error.is_would_block(), "connection {}: {error}", self.number),
            }
        } else if self.got == BYTES && !self.is_shut {
            match engine.tcp().shutdown(self.stream, Shutdown::Write) {
                Ok(()) => self.is_shut = true,
                // It is on its way to the kernel.
                Err(error) => assert!(error.is_would_block(), "connection {}: {error}", self.number),
            }
        }
        match engine.tcp().read(self.stream, buffer) {
            Ok(0) => self.has_end = true,
            Ok(count) => {
                let is_it = |(index, byte): (usize, &u8)| *byte == self.byte(self.got + index);
                assert!(buffer[..count].iter().enumerate().all(is_it), "connection {}: {}", self.number, self.got);
                self.got += count;
            }
            Err(error) => assert!(error.is_would_block(), "connection {} at {}: {error}", self.number, self.got),
        }
    }
}

fn all_go_on(engine: &mut Engine, all: &mut [Member], limit: usize) {
    let mut buffer = [0; 4 * UNDER_WAY];
    engine.poll().unwrap();
    all.iter_mut().filter(|member| !member.has_end).for_each(|member| member.go_on(engine, limit, &mut buffer));
}

#[test]
fn thousands_of_connections_with_traffic_are_released_at_once() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let count = connections();
    allow_descriptors(DESCRIPTORS * count as u64 + 1000);
    let _control = Control::start(a);
    let mut engine = engine_with(a, |options| EngineOptions { ring_entries: 2048, frames: 8192, ..options });
    let mut all = Vec::new();
    let mut serving: Vec<JoinHandle<usize>> = Vec::new();
    for is_v6 in [false, true] {
        reach(a, address(b, is_v6));
        let local = SocketAddr::new(address(b, is_v6), 0);
        let server = b.within(|| Ok(listen_with_room(local, count).unwrap())).unwrap();
        let at = server.local_addr().unwrap();
        let options = engine.tcp().defaults();
        let begin = |_| a.within(|| engine.tcp().connect(at, None, options)).expect("it can begin");
        let streams: Vec<TcpStream> = (0..count / 2).map(begin).collect();
        for stream in streams {
            established(&mut engine, stream);
            assert!(engine.tcp().path(stream).unwrap().is_accelerated());
            all.push(Member { stream, number: all.len(), sent: 0, got: 0, is_shut: false, has_end: false });
        }
        for _ in 0..count / 2 {
            let peer = server.accept().unwrap().0;
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            serving.push(thread.spawn(move || send_back(peer)).unwrap());
        }
    }
    let watchdog = 4 * WATCHDOG;
    wait_at_most(watchdog, "messages under way on all", || {
        all_go_on(&mut engine, &mut all, BYTES / 2);
        all.iter().all(|member| member.got > 0).then_some(())
    });
    let path = a.within(place::socket).unwrap();
    let releasing = std::thread::spawn(move || {
        let mut control = Client::connect_to(&path, "test").expect("it runs");
        // On a busy machine the answer comes before the end: it is asked for again, until there is nothing to release.
        let mut is_late = false;
        loop {
            match control.release_process(std::process::id()) {
                Err(error) if format!("{error:?}").contains("in time") => is_late = true,
                Err(error) if is_late && format!("{error:?}").contains("it has no stack") => return Ok(()),
                released => return released,
            }
        }
    });
    // On the engine's host, where the sockets of the connections are made.
    let released = a.within(|| {
        wait_at_most(watchdog, "the end of the stack", || {
            // None comes to its end past the kernel.
            all_go_on(&mut engine, &mut all, BYTES - 1);
            engine.refusal().is_some().then_some(())
        });
        Ok(poll_until(&mut engine, releasing))
    });
    released.unwrap().expect("all were handed over in time");
    let mut paths: BTreeMap<String, usize> = BTreeMap::new();
    for member in &all {
        *paths.entry(engine.tcp().path(member.stream).unwrap().to_string()).or_default() += 1;
    }
    assert_eq!(paths, BTreeMap::from([(Path::Kernel(Reason::HandedOver).to_string(), count)]));
    wait_at_most(watchdog, "the end of all streams", || {
        all_go_on(&mut engine, &mut all, BYTES);
        all.iter().all(|member| member.has_end).then_some(())
    });
    assert!(all.iter().all(|member| member.got == BYTES));
    all.iter().for_each(|member| engine.tcp().close(member.stream).unwrap());
    for served in serving {
        assert_eq!(poll_until(&mut engine, served), BYTES);
    }
}
