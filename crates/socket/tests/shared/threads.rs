//! Many threads on many connections: every byte is compared, and every thread progresses.

use crate::hub::{Hub, with_hub, with_hub_over};
use crate::support::{address, message};
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Host, Options};
use sidestep_socket::shared::{SocketEvent, Waker};
use sidestep_socket::tcp::TcpListener;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener as KernelListener, TcpStream as KernelStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, scope, spawn};
use std::time::Duration;

const THREADS: u32 = 8;
const BYTES: usize = 1 << 20;
const PIECE: usize = 30_000;

const SLEEPING: Duration = Duration::ZERO;
const SPINNING: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_micros(50);

/// Linux echoes so many connections, each on a thread.
fn echo_server(b: &Host, connections: u32) -> (SocketAddr, JoinHandle<()>) {
    let server = b.within(|| Ok(KernelListener::bind((b.ipv4, 0)).unwrap())).unwrap();
    let at = server.local_addr().unwrap();
    let serve = move || {
        let echoes: Vec<_> = (0..connections)
            .map(|_| {
                let (mut stream, _) = server.accept().unwrap();
                spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap())
            })
            .collect();
        echoes.into_iter().for_each(|echo| _ = echo.join().unwrap());
    };
    (at, spawn(serve))
}

/// One thread writes, another reads what comes back.
fn echoed(hub: &Hub, at: SocketAddr, number: u32, bytes: usize) {
    let (reader, writer) = (Waker::new().unwrap(), Waker::new().unwrap());
    let (stream, _twin) = hub.connect(&reader, at);
    assert!(hub.with(|engine| engine.tcp().path(stream)).unwrap().is_accelerated());
    hub.watched.add(SocketEvent::Stream(stream), &writer);
    let sent = message(number, bytes);
    scope(|scope| {
        scope.spawn(|| {
            sent.chunks(PIECE).for_each(|piece| hub.write_all(&writer, stream, piece));
            hub.shutdown(stream);
        });
        let (mut got, mut buffer) = (0, vec![0; PIECE]);
        loop {
            let count = hub.read(&reader, stream, &mut buffer);
            if count == 0 {
                break;
            }
            assert!(buffer[..count] == sent[got..got + count], "number {number}, after {got} bytes");
            got += count;
        }
        assert_eq!(got, bytes);
    });
    hub.close(stream);
}

fn carry(hub: &Arc<Hub>, b: &Host, threads: u32, bytes: usize) {
    let (at, server) = echo_server(b, threads);
    scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || echoed(hub, at, number, bytes));
        }
    });
    server.join().unwrap();
}

#[test]
fn threads_that_sleep_carry_every_byte() {
    with_hub(1, SLEEPING, |hub, b| carry(hub, b, THREADS, BYTES));
}

#[test]
fn threads_that_spin_carry_every_byte() {
    with_hub(2, SPINNING, |hub, b| carry(hub, b, 4, BYTES));
}

#[test]
fn threads_that_spin_a_while_carry_every_byte_by_four_queues() {
    with_hub(4, SHORT, |hub, b| carry(hub, b, THREADS, BYTES));
}

#[test]
fn threads_carry_every_byte_over_a_bad_wire() {
    let wire = |seed| Impairment::parse(&format!("loss=1%,duplicate=1%,reorder=1%,gap=300us,seed={seed}")).unwrap();
    let impairment = Some(Directions { a_to_b: wire(1), b_to_a: wire(2) });
    with_hub_over(&Options { impairment, ..Options::default() }, SHORT, |hub, b| carry(hub, b, 4, BYTES / 4));
}

#[test]
fn connections_begin_and_end_on_many_threads_at_once() {
    const ROUNDS: u32 = 25;
    with_hub(2, SHORT, |hub, b| {
        let (at, server) = echo_server(b, THREADS * ROUNDS);
        scope(|scope| {
            for number in 0..THREADS {
                scope.spawn(move || (0..ROUNDS).for_each(|round| echoed(hub, at, number * ROUNDS + round, 3_000)));
            }
        });
        server.join().unwrap();
    });
}

fn serve_one(hub: &Hub, waker: &Waker, listener: TcpListener) {
    let stream = hub.accept(waker, listener);
    let mut buffer = [0; 100];
    loop {
        let count = hub.read(waker, stream, &mut buffer);
        if count == 0 {
            return hub.close(stream);
        }
        hub.write_all(waker, stream, &buffer[..count]);
    }
}

#[test]
fn several_threads_accept_from_one_listener() {
    const CONNECTIONS: u32 = 64;
    for spin in [SLEEPING, SHORT] {
        with_hub(2, spin, |hub, b| {
            let (listener, _twin) = hub.listen(7000);
            let at = SocketAddr::new(address(&hub.host, false), 7000);
            let (left, served) = (AtomicU64::new(CONNECTIONS.into()), AtomicU64::new(0));
            scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let waker = Waker::new().unwrap();
                        hub.watched.add(SocketEvent::Listener(listener), &waker);
                        while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
                        {
                            serve_one(hub, &waker, listener);
                            served.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
                for number in 0..CONNECTIONS {
                    let mut peer = b.within(|| Ok(KernelStream::connect(at).unwrap())).unwrap();
                    let sent = message(number, 80);
                    peer.write_all(&sent).unwrap();
                    let mut got = vec![0; sent.len()];
                    peer.read_exact(&mut got).unwrap();
                    assert_eq!(got, sent);
                }
            });
            assert_eq!(served.load(Ordering::SeqCst), u64::from(CONNECTIONS));
        });
    }
}

/// Half of the threads spin for ever on what does not come, the others ask and wait for answers.
#[test]
fn threads_that_spin_let_others_have_the_lock() {
    with_hub(1, SPINNING, |hub, b| {
        let (at, server) = echo_server(b, 4);
        let is_over = AtomicBool::new(false);
        scope(|scope| {
            let is_over = &is_over;
            for _ in 0..4 {
                scope.spawn(move || {
                    let waker = Waker::new().unwrap();
                    hub.wait(&waker, |_| is_over.load(Ordering::Relaxed).then_some(()));
                });
            }
            let working: Vec<_> = (0..4)
                .map(|number| {
                    scope.spawn(move || {
                        let waker = Waker::new().unwrap();
                        let (stream, _twin) = hub.connect(&waker, at);
                        let (sent, mut buffer) = (message(number, 100), [0; 100]);
                        for _ in 0..100 {
                            hub.with(|engine| assert_eq!(engine.tcp().send(stream, &sent), Ok(100)));
                            let mut got = 0;
                            while got < 100 {
                                got += hub.read(&waker, stream, &mut buffer[got..]);
                            }
                            assert_eq!(buffer[..], sent[..]);
                        }
                        hub.close(stream);
                    })
                })
                .collect();
            let ended: Vec<_> = working.into_iter().map(|thread| thread.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(ended.iter().all(Result::is_ok));
        });
        server.join().unwrap();
    });
}
