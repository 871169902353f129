//! An unprivileged process drives a link that it was handed, and makes no system call on the fast path.

use crate::support::{FRAMES, GEOMETRY, KICKS, feed, lab, link, options, receive, send, unbound, wait};
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{Kick, XdpLink, XdpOptions};
use sidestep_lab::Side;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::xdp::{Mode, Pages, RingSizes, Rings, Umem, XskFacts};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

/// The sender that the child must use: an index into `KICKS`. Its descriptors are those below, far from all others.
const VARIABLE: &str = "SIDESTEP_TEST_KICK";
const SOCKET: i32 = 700;
const UMEM: i32 = 701;
const NOBODY: u32 = 65_534;
/// The number of answers of the child before it ends.
const MESSAGES: u64 = 1000;
/// The most messages in flight: with more spinning threads than CPUs, each batch waits for its turn.
const BATCH: usize = 40;
/// The number of a frame that tells the child to make no system call from now on.
const SEAL: u64 = 1 << 32;

fn spawn(socket: BorrowedFd<'_>, umem: BorrowedFd<'_>, kick: usize) -> Child {
    let (socket, umem) = (socket.as_raw_fd(), umem.as_raw_fd());
    let mut command = Command::new("/proc/self/exe");
    command.args(["--ignored", "--exact", "unprivileged::child", "--nocapture"]).env(VARIABLE, kick.to_string());
    let place = move || {
        // SAFETY: dup2 takes no pointer; the numbers are not in use between fork and exec.
        let results = unsafe { [libc::dup2(socket, SOCKET), libc::dup2(umem, UMEM)] };
        if results == [SOCKET, UMEM] { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec the closure makes only the system call dup2.
    unsafe { command.pre_exec(place) };
    command.spawn().expect("this program can be started")
}

#[test]
fn nobody_echoes_without_capability_and_without_system_call() {
    let Some(lab) = lab() else { return };
    // All senders that relieve the caller of system calls, and the caller itself, which may make its own.
    for (index, kick) in KICKS.into_iter().enumerate() {
        eprintln!("{kick:?}");
        let (mut near, _feed) = link(lab.host(Side::A), Kick::Caller);
        let host = lab.host(Side::B);
        let (umem, far) = unbound(host);
        let rings = Rings::map(far.socket(), options().rings).expect("it is not bound");
        let mut child = spawn(far.socket(), umem.memfd(), index);
        let mut ended = None;
        wait("the start of the child", || {
            assert!(child.try_wait().expect("it is ours").is_none(), "the child ended");
            rings.fill.as_ref().filter(|fill| !fill.is_fresh()).map(drop)
        });
        // The child has mapped its rings, and filled one.
        host.within(|| far.bind(&host.interface, 0, &options())).expect("nobody has the queue");
        let _far_feed = feed(host, far.socket());
        let numbers: Vec<u64> = (0..MESSAGES).collect();
        for batch in std::iter::once(&[SEAL][..]).chain(numbers.chunks(BATCH)) {
            assert!(batch.iter().all(|number| send(&mut near, *number, 100)));
            near.flush().expect("the wire is up");
            for number in batch {
                let answer = wait("an answer of the child", || {
                    near.poll().expect("the wire is up");
                    ended = ended.or(child.try_wait().expect("it is ours"));
                    assert!(batch.contains(&(MESSAGES - 1)) || ended.is_none(), "the child ended: {ended:?}");
                    let (frame, answer) = receive(&mut near)?;
                    near.release(frame);
                    Some(answer)
                });
                assert_eq!(answer, *number);
            }
        }
        let status: ExitStatus = child.wait().expect("it is ours");
        assert!(status.success(), "{kick:?}: {status} (SIGSYS: it made a system call)");
        assert_eq!(near.counters().tally.sum(), FRAMES);
    }
}

/// Not a test of its own: the other one starts it as a separate process.
#[test]
#[ignore = "started by nobody_echoes_without_capability_and_without_system_call"]
fn child() {
    let index: usize = std::env::var(VARIABLE).expect("the parent sets it").parse().expect("a number");
    become_nobody();
    // SAFETY: the parent has put them there and nobody else in this process knows them.
    let (socket, umem) = unsafe { (OwnedFd::from_raw_fd(SOCKET), OwnedFd::from_raw_fd(UMEM)) };
    let options = XdpOptions { kick: KICKS[index], fill: None };
    let rings = Rings::map(socket.as_fd(), facts().rings).expect("mapping needs no privilege");
    let umem = Umem::open(umem, GEOMETRY).expect("neither does this");
    let mut link = XdpLink::open(socket, rings, umem, facts(), &options).expect("it is fresh");
    let mut answered = 0;
    while answered < MESSAGES {
        let Some((frame, number)) = receive(&mut link) else {
            link.poll().expect("the wire is up");
            continue;
        };
        let len = frame.len();
        let answer = link.answer(frame);
        link.send(answer, len).expect("there is room");
        link.flush().expect("the wire is up");
        match number {
            // These may make calls: to send, and to wake the sender.
            SEAL if matches!(KICKS[index], Kick::Caller | Kick::Thread { idle: IdleStrategy::SPIN_THEN_PARK, .. }) => {}
            SEAL => {
                drain(&mut link);
                no_more_system_calls();
            }
            _ => answered += 1,
        }
    }
    // The last answer may still be with the sender; only the parent waits for it, so it must be sent before this
    // process ends.
    drain(&mut link);
    // SAFETY: ends the process at once; the destructors would make system calls.
    unsafe { libc::_exit(0) }
}

/// Waits until everything is sent: the sender is then awake, as it had to be woken at first.
fn drain(link: &mut XdpLink) {
    while link.counters().tally.sent != 0 {
        link.poll().expect("the wire is up");
    }
}

/// The facts of the parent's bind; a real parent passes them on.
fn facts() -> XskFacts {
    XskFacts {
        interface: "lab0".into(),
        index: 0,
        queue: 0,
        mode: Mode::Copy,
        downgrades: Vec::new(),
        rings: RingSizes::all(128),
        geometry: GEOMETRY,
        pages: Pages::Small { reason: String::new() },
        tx_budget: 32,
        napi_id: 0,
        multi_buffer: false,
        busy_poll: None,
    }
}

fn become_nobody() {
    // SAFETY: none of the three takes a pointer that is followed.
    let results = unsafe { [libc::setgroups(0, std::ptr::null()), libc::setgid(NOBODY), libc::setuid(NOBODY)] };
    assert_eq!(results, [0; 3]);
    let status = fs::read_to_string("/proc/thread-self/status").expect("/proc is there");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).map(str::trim);
    assert_eq!(effective, Some("0000000000000000"));
}

/// From now on any system call of this thread kills the process with SIGSYS (seccomp(2)), except exit_group(2) and the
/// write(2) of a panic message.
fn no_more_system_calls() {
    let step = |code: u32, jump_true, jump_false, value| libc::sock_filter {
        code: code as u16,
        jt: jump_true,
        jf: jump_false,
        k: value,
    };
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, libc::SYS_write as u32),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_exit_group as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live until after the call; neither call takes another pointer.
    let results = unsafe {
        let private = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        (private, libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program))
    };
    assert_eq!(results, (0, 0));
}
