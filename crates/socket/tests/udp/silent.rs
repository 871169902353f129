//! The hot loop makes no system call: a filter (seccomp(2)) kills the process at the first one of the owner's thread.

use crate::roles::{AT, Process, ROLE, start_test};
use crate::support::{Control, address, kernel, lab, settled};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::{Engine, EngineOptions, Handle, Kick, UdpOptions};
use sidestep_sys::idle::IdleStrategy;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

/// Datagrams and answers without a call.
const ROUNDS: usize = 500;

/// How the program says that it came through: the only call that it may make.
const CAME_THROUGH: i32 = 42;

#[test]
fn receiving_makes_no_system_call() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let at = SocketAddr::new(address(b, false), 7500);
    let mut program = start(b, "listen", at);
    assert!(program.line("path ").contains("Accelerated"));
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    let status = loop {
        client.send_to(b"tick", at).unwrap();
        if let Some(status) = program.0.try_wait().unwrap() {
            break status;
        }
        // No faster than a program that shares its CPU with everybody else reads.
        std::thread::sleep(Duration::from_micros(200));
    };
    assert_eq!((status.signal(), status.code()), (None, Some(CAME_THROUGH)), "{status}: SIGSYS is a system call");
}

#[test]
fn sending_makes_none_with_a_sender_beside_it() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let server = kernel(a, SocketAddr::new(address(a, false), 7501));
    let mut program = start(b, "ask", server.local_addr().unwrap());
    server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut buffer = [0; 64];
    let status = loop {
        if let Ok((count, from)) = server.recv_from(&mut buffer) {
            server.send_to(&buffer[..count], from).unwrap();
        } else if let Some(status) = program.0.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!((status.signal(), status.code()), (None, Some(CAME_THROUGH)), "{status}: SIGSYS is a system call");
}

fn start(host: &Host, role: &str, at: SocketAddr) -> Process {
    start_test(host, "silent::a_program_of_these_tests", role, Some(at), None)
}

/// No test of its own: what [`start`] runs.
#[test]
fn a_program_of_these_tests() {
    let at = || std::env::var(AT).unwrap().parse().unwrap();
    match std::env::var(ROLE).as_deref() {
        Ok("listen") => listen(at()),
        Ok("ask") => ask(at()),
        _ => {}
    }
}

/// The program of the first test.
fn listen(at: SocketAddr) {
    let options = EngineOptions { frames: 1024, ring_entries: 512, ..EngineOptions::on("lab0") };
    let mut engine = Engine::open(&options).unwrap();
    let socket = engine.bind(at, &UdpOptions::default()).unwrap();
    println!("path {:?}", settled(&mut engine, socket));
    // The first look at the kernel's socket is over, and memory has been touched.
    (0..100).for_each(|_| drop_next(&mut engine, socket));
    allow_nothing();
    (0..ROUNDS).for_each(|_| drop_next(&mut engine, socket));
    leave();
}

/// The program of the second one.
fn ask(at: SocketAddr) {
    let kick = Kick::Thread { idle: IdleStrategy::SPIN, cpu: None };
    let options = EngineOptions { frames: 1024, ring_entries: 512, kick, ..EngineOptions::on("lab0") };
    let mut engine = Engine::open(&options).unwrap();
    let socket = engine.bind("0.0.0.0:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    engine.connect(socket, at).unwrap();
    // Until the neighbour is known, the kernel sends, and answers may come twice.
    while !engine.path(socket).unwrap().is_accelerated() {
        engine.send(socket, b"warm-up").unwrap();
        drop_next(&mut engine, socket);
    }
    for _ in 0..100 {
        engine.send(socket, b"warm-up").unwrap();
        drop_next(&mut engine, socket);
    }
    allow_nothing();
    for _ in 0..ROUNDS {
        let _ = engine.send(socket, b"ask");
        drop_next(&mut engine, socket);
    }
    leave();
}

fn drop_next(engine: &mut Engine, socket: Handle) {
    loop {
        if let Some(datagram) = engine.receive(socket).unwrap() {
            return engine.release(datagram);
        }
        std::hint::spin_loop();
    }
}

/// From here on every system call of this thread but exit_group(2) kills the process. Reading the clock is none
/// (vdso(7)).
fn allow_nothing() {
    // linux/bpf_common.h: load a word, jump if equal, return a constant; linux/seccomp.h.
    let filter = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        // The number of the call stands first in struct seccomp_data.
        filter(0x20, 0, 0, 0),
        filter(0x15, 0, 1, libc::SYS_exit_group as u32),
        filter(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
        filter(0x06, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: prctl reads the program, which lives until after the call.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn leave() {
    // SAFETY: _exit runs no handler of this process.
    unsafe { libc::_exit(CAME_THROUGH) };
}
