//! What ends a wait.

use crate::hub::with_hub;
use crate::support::{child, wait as until};
use rustix::event::PollFlags;
use rustix::pipe::pipe;
use sidestep_socket::Error;
use sidestep_socket::shared::{SocketEvent, Wait, Waker, Woken};
use sidestep_socket::tcp::TcpError;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{scope, sleep, spawn};
use std::time::{Duration, Instant};

const SPINS: [Duration; 2] = [Duration::ZERO, Duration::from_secs(3600)];
const LATER: Duration = Duration::from_millis(20);

#[test]
fn a_deadline_a_descriptor_and_a_waker_end_a_wait_that_sleeps_or_spins() {
    for spin in SPINS {
        with_hub(1, spin, |hub, _| {
            let waker = Waker::new().unwrap();
            let deadline = Instant::now() + LATER;
            assert_eq!(hub.wait_once(&waker, Some(deadline), &[], |_| None::<()>), Woken::Deadline);
            assert!(Instant::now() >= deadline);
            assert_eq!(hub.wait_once(&waker, Some(Instant::now()), &[], |_| Some(7)), Woken::Ready(7));
            waker.wake();
            assert_eq!(hub.wait_once(&waker, None, &[], |_| None::<()>), Woken::Woken, "it came before");
            let (read, write) = pipe().unwrap();
            scope(|scope| {
                scope.spawn(|| {
                    sleep(LATER);
                    waker.wake();
                    sleep(LATER);
                    rustix::io::write(&write, b"x").unwrap();
                });
                let also = [(read.as_fd(), PollFlags::IN)];
                assert_eq!(hub.wait_once(&waker, None, &also, |_| None::<()>), Woken::Woken);
                assert_eq!(hub.wait_once(&waker, None, &also, |_| None::<()>), Woken::Kernel);
            });
        });
    }
}

/// A call with no time to wait tells what there is, also while another thread has the engine.
#[test]
fn a_wait_whose_time_is_over_looks_once() {
    for spin in SPINS {
        with_hub(1, spin, |hub, _| {
            let (holds, held) = std::sync::mpsc::channel();
            scope(|scope| {
                scope.spawn(move || {
                    hub.with(|_| {
                        holds.send(()).unwrap();
                        sleep(LATER);
                    });
                });
                held.recv().unwrap();
                let waker = Waker::new().unwrap();
                assert_eq!(hub.wait_once(&waker, Some(Instant::now()), &[], |_| Some(7)), Woken::Ready(7));
            });
        });
    }
}

/// Several sleep, each on a descriptor of its own; one of them leads, whoever that is.
#[test]
fn descriptors_end_the_waits_of_several_threads() {
    with_hub(1, Duration::ZERO, |hub, _| {
        let pipes: Vec<_> = (0..6).map(|_| pipe().unwrap()).collect();
        scope(|scope| {
            for (read, _) in &pipes {
                scope.spawn(move || {
                    let waker = Waker::new().unwrap();
                    let also = [(read.as_fd(), PollFlags::IN)];
                    assert_eq!(hub.wait_once(&waker, None, &also, |_| None::<()>), Woken::Kernel);
                });
            }
            for (_, write) in &pipes {
                sleep(LATER);
                rustix::io::write(write, b"x").unwrap();
            }
        });
    });
}

#[test]
fn a_signal_ends_a_wait() {
    static CAUGHT: AtomicU32 = AtomicU32::new(0);
    extern "C" fn note(_: i32) {
        CAUGHT.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the handler touches an atomic alone, and nothing else in this process uses the signal.
    unsafe { libc::signal(libc::SIGUSR2, note as *const () as libc::sighandler_t) };
    for spin in SPINS {
        with_hub(1, spin, |hub, _| {
            let waker = Waker::new().unwrap();
            let before = CAUGHT.load(Ordering::SeqCst);
            let is_waiting = Arc::new(AtomicBool::new(false));
            let (theirs, hub) = (Arc::clone(&is_waiting), Arc::clone(hub));
            let waiting = spawn(move || {
                let is_interrupted = || CAUGHT.load(Ordering::SeqCst) != before;
                let mut wait = Wait { waker: &waker, deadline: None, spin, also: &[], interrupted: &is_interrupted };
                let ready = |_: &mut sidestep_socket::Engine| {
                    theirs.store(true, Ordering::SeqCst);
                    None::<()>
                };
                hub.engine.wait(&mut wait, ready).unwrap()
            });
            until("the wait", || is_waiting.load(Ordering::SeqCst).then_some(()));
            // Without a waker a signal between the last look and the sleep waits for the next wake-up: 200 ms.
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(waiting.as_pthread_t(), libc::SIGUSR2) };
            assert_eq!(waiting.join().unwrap(), Woken::Interrupted);
        });
    }
}

#[test]
fn a_stream_that_is_closed_ends_the_wait_of_another_thread() {
    for spin in SPINS {
        with_hub(1, spin, |hub, b| {
            let server = b.within(|| Ok(TcpListener::bind((b.ipv4, 0)).unwrap())).unwrap();
            let waker = Waker::new().unwrap();
            let (stream, _twin) = hub.connect(&waker, server.local_addr().unwrap());
            let _peer = server.accept().unwrap();
            scope(|scope| {
                scope.spawn(|| {
                    sleep(LATER);
                    hub.with(|engine| engine.tcp().close(stream)).unwrap();
                    hub.watched.wake(SocketEvent::Stream(stream));
                });
                let error = hub.wait(&waker, |engine| match engine.tcp().read(stream, &mut [0; 8]) {
                    Err(error) if error.is_would_block() => None,
                    read => Some(read.unwrap_err()),
                });
                assert_eq!(error, TcpError::Refused(Error::NotOpen));
            });
        });
    }
}

#[test]
fn a_panic_with_the_lock_held_does_not_keep_others_from_it() {
    with_hub(1, Duration::ZERO, |hub, _| {
        for _ in 0..2 {
            let theirs = Arc::clone(hub);
            let panicking = spawn(move || theirs.with(|_| panic!("with the lock held")));
            assert!(panicking.join().is_err());
            let theirs = Arc::clone(hub);
            // It leads when it panics: it has slept once.
            let leading = spawn(move || {
                let (waker, mut turns) = (Waker::new().unwrap(), 0);
                theirs.wait_once(&waker, None, &[], |_| {
                    turns += 1;
                    assert!(turns < 4, "in its condition");
                    None::<()>
                })
            });
            assert!(leading.join().is_err());
        }
        // Not at once: the helper may be at it.
        until("a poll", || hub.engine.poll().unwrap().then_some(()));
        let waker = Waker::new().unwrap();
        let deadline = Instant::now() + LATER;
        assert_eq!(hub.wait_once(&waker, Some(deadline), &[], |_| None::<()>), Woken::Deadline);
    });
}

#[test]
fn a_forked_child_is_refused_without_a_look_at_the_lock() {
    with_hub(1, Duration::ZERO, |hub, _| {
        let held = hub.engine.lock().unwrap();
        // Any engine will do for the child's sake; that of the test is locked meanwhile.
        let other = sidestep_socket::Engine::open(&sidestep_socket::EngineOptions {
            accelerate: false,
            ..sidestep_socket::EngineOptions::on("lo")
        });
        let refused = |_| {
            let waker = Waker::new();
            hub.engine.lock().is_err_and(|error| error == Error::Forked)
                && hub.engine.poll() == Err(Error::Forked)
                && waker.is_ok_and(|waker| {
                    let interrupted = || false;
                    let spin = Duration::ZERO;
                    let mut wait = Wait { waker: &waker, deadline: None, spin, also: &[], interrupted: &interrupted };
                    hub.engine.wait(&mut wait, |_| Some(())).is_err()
                })
                && {
                    hub.engine.stop();
                    true
                }
        };
        child(other.unwrap(), refused);
        drop(held);
        assert!(hub.engine.poll().is_ok());
    });
}
