//! While messages come and go, a link that spins calls the kernel for nothing. The kernel itself holds this: behind a
//! seccomp filter any system call but the last two of the test ends the process.

use crate::support::{WATCHDOG, pattern, spawn_saying, streams};
use sidestep_socket::stream::{Waiting, is_retry};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

const ROUNDS: usize = 100_000;
const DONE: &[u8] = b"no system call\n";

/// Both ends in one thread, so that no pause of another makes one look after the other.
pub(crate) fn exchange_without_system_calls() {
    let (mut client, mut server) = streams(4096, Waiting::Spin);
    let (message, mut buffer) = (pattern(64), [0; 64]);
    // The first message wakes whoever might sleep there; from then on it is known that nobody does.
    for round in 0..ROUNDS {
        if round == 100 {
            allow_only_write_and_exit();
        }
        for _ in 0..2 {
            assert!(server.recv(&mut buffer).is_err_and(|error| is_retry(&error)));
            assert_eq!(client.send(&message).ok(), Some(64));
            assert_eq!(server.recv(&mut buffer).ok(), Some(64));
            std::mem::swap(&mut client, &mut server);
        }
    }
    leave();
}

/// From here on any other system call ends the process.
fn allow_only_write_and_exit() {
    let jump_if = |number: i64, skip| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: skip,
        jf: 0,
        k: number as u32,
    };
    let end = |verdict| libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: verdict };
    let mut filter = [
        // The number of the system call, the first word of struct seccomp_data.
        libc::sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: 0 },
        jump_if(libc::SYS_write, 2),
        jump_if(libc::SYS_exit_group, 1),
        end(libc::SECCOMP_RET_KILL_PROCESS),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter outlive the calls, which copy them.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Says so and ends the process, which may do nothing else any more.
fn leave() -> ! {
    // SAFETY: the bytes live for ever, and their length is given; the process ends without any clearing up.
    unsafe {
        libc::write(1, DONE.as_ptr().cast(), DONE.len());
        libc::_exit(0)
    }
}

#[test]
fn messages_come_and_go_without_a_system_call() {
    let clock = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let clock = clock.unwrap_or_default();
    if !["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"].contains(&clock.trim()) {
        eprintln!("skipped: reading the clock {clock:?} is a system call");
        return;
    }
    let mut child = spawn_saying("no system calls", Path::new("/"), Stdio::piped());
    let mut stdout = child.stdout.take().expect("piped");
    let (report, reported) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stdout.read_to_end(&mut said);
        let _ = report.send(said);
    });
    let said = reported.recv_timeout(WATCHDOG).unwrap_or_default();
    let _ = child.kill();
    let status = child.wait().expect("it was ours");
    assert!(said.ends_with(DONE), "{status}: SIGSYS means that it made a system call");
}
