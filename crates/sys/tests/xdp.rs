//! AF_XDP sockets on both ends of a lab's wire, and requests that the kernel refuses.

use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_sys::process::is_root;
use sidestep_sys::xdp::program::{Attachment, Filter, Program};
use sidestep_sys::xdp::{
    Descriptor, Geometry, Mode, RingSizes, Rings, Umem, Unbound, Xsk, XskFacts, XskOptions, device, is_zero_copy, kick,
    statistics, wait_until_up,
};
use sidestep_sys::{Problem, netns};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// A watchdog, not a measurement: a step that takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(20);
const GEOMETRY: Geometry = Geometry { frames: 128, frame_bytes: 2048, headroom: 0 };

fn lab() -> Option<Lab> {
    if !is_root() {
        eprintln!("skipped: needs root");
        return None;
    }
    Some(Lab::up(&Options::default()).expect("root can make a lab"))
}

fn options() -> XskOptions {
    XskOptions { rings: RingSizes::all(64), ..XskOptions::default() }
}

/// A socket, its memory, its rings, and the program that redirects all frames to it.
struct End {
    umem: Umem,
    socket: OwnedFd,
    facts: XskFacts,
    rings: Rings,
    _program: Program,
    _attachment: Attachment,
}

fn end(host: &Host) -> End {
    let opened = host.within(|| {
        let umem = Umem::create(GEOMETRY)?;
        let xsk = Xsk::open(&umem, &host.interface, 0, &options())?;
        let program = Program::load(Filter::Everything, 1)?;
        program.insert(0, xsk.socket())?;
        let attachment = program.attach(&host.interface, Mode::Copy)?;
        wait_until_up(&host.interface, WATCHDOG)?;
        let (socket, facts, rings) = xsk.into_parts();
        Ok(End { umem, socket, facts, rings, _program: program, _attachment: attachment })
    });
    opened.expect("root can open it")
}

fn problem<T>(result: Result<T, Problem>) -> String {
    match result {
        Ok(_) => panic!("it should have been refused"),
        Err(problem) => problem.to_string(),
    }
}

/// A frame of the EtherType for local experiments (IEEE 802).
fn write(end: &End, address: u64, mark: u8) {
    let mut frame = [mark; 60];
    frame[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    let place = end.umem.locate(address, 60).expect("inside");
    // SAFETY: the place lies inside of a live mapping, and the frame is in no ring.
    unsafe { place.as_ptr().copy_from_nonoverlapping(frame.as_ptr(), 60) };
}

#[test]
fn frames_cross_and_come_back_to_their_owner() {
    let Some(lab) = lab() else { return };
    let (mut a, mut b) = (end(lab.host(Side::A)), end(lab.host(Side::B)));
    let facts = &a.facts;
    assert_eq!((facts.mode, facts.napi_id, facts.busy_poll), (Mode::Copy, 0, None));
    assert!(facts.downgrades[0].reason.contains("EOPNOTSUPP"), "{:?}", facts.downgrades);
    assert!(!is_zero_copy(a.socket.as_fd()).expect("a bound socket tells"));

    let fill = b.rings.fill.as_mut().expect("it has one");
    assert!((0..32).all(|frame| fill.push(frame * 2048)));
    fill.publish();
    for mark in 0..10_u64 {
        write(&a, mark * 2048, mark as u8);
        let tx = a.rings.tx.as_mut().expect("it has one");
        assert!(tx.push(Descriptor { address: mark * 2048, len: 60, options: 0 }));
        tx.publish();
        assert_eq!((tx.pending(), tx.needs_wakeup()), (1, true), "in copy mode nothing leaves without a call");
        kick::transmit(a.socket.as_fd()).expect("the wire is up");
        let begin = Instant::now();
        let done = loop {
            // On a busy machine a kernel thread frees the frame a little later.
            match a.rings.completion.as_mut().expect("it has one").pop() {
                None if begin.elapsed() < WATCHDOG => std::thread::yield_now(),
                done => break done,
            }
        };
        assert_eq!(done, Some(mark * 2048));
    }
    let mut marks = Vec::new();
    let begin = Instant::now();
    while marks.len() < 10 && begin.elapsed() < WATCHDOG {
        while let Some(descriptor) = b.rings.rx.as_mut().expect("it has one").pop() {
            let place = b.umem.locate(descriptor.address, descriptor.len as usize).expect("the kernel stays inside");
            // SAFETY: the bytes lie inside of a live mapping; the kernel has given the frame back.
            let bytes = unsafe { std::slice::from_raw_parts(place.as_ptr(), descriptor.len as usize) };
            if bytes[12..14] == [0x88, 0xb5] {
                assert_eq!((descriptor.len, descriptor.address % 2048), (60, 256));
                marks.push(bytes[14]);
            }
        }
    }
    assert_eq!(marks, (0..10).collect::<Vec<u8>>());
    let counted = statistics(b.socket.as_fd()).expect("a socket counts");
    assert_eq!((counted.rx_ring_full, counted.rx_invalid_descriptors), (0, 0));
}

#[test]
fn a_taken_queue_names_its_holder_and_is_free_after_it() {
    let Some(lab) = lab() else { return };
    let host = lab.host(Side::A);
    let open = |patience| {
        host.within(|| {
            let umem = Umem::create(GEOMETRY)?;
            Xsk::open(&umem, &host.interface, 0, &XskOptions { patience, ..options() }).map(|xsk| (umem, xsk))
        })
    };
    let first = open(Duration::ZERO).expect("nobody has it");
    let refusal = problem(open(Duration::ZERO));
    assert!(refusal.contains("EBUSY") && refusal.contains(&std::process::id().to_string()), "{refusal}");
    drop(first);
    // The kernel releases the queue some time after close: `patience` covers that time.
    open(WATCHDOG).expect("it is free again");
}

/// The steps of control for an application: it binds a socket whose rings the application has mapped, retries a failed
/// bind, and cannot be bypassed.
#[test]
fn a_socket_whose_rings_are_mapped_is_bound_by_another() {
    let Some(lab) = lab() else { return };
    let (host, peer) = (lab.host(Side::A), lab.host(Side::B));
    let opened = host.within(|| {
        let umem = Umem::create(GEOMETRY)?;
        let unbound = Unbound::new(&umem, options().rings)?;
        unbound.confine(&host.interface)?;
        let socket = unbound.socket().try_clone_to_owned().expect("descriptors are free");
        let rings = Rings::map(socket.as_fd(), options().rings)?;
        let wrong = problem(unbound.bind("lo", 0, &XskOptions { best: Mode::Generic, ..options() }));
        assert!(wrong.contains("EINVAL"), "confined to another interface: {wrong}");
        let wrong = problem(unbound.bind(&host.interface, 9, &options()));
        assert!(wrong.contains("EINVAL"), "no such queue: {wrong}");
        let facts = unbound.bind(&host.interface, 0, &options())?;
        drop(unbound);
        let program = Program::load(Filter::Everything, 1)?;
        program.insert(0, socket.as_fd())?;
        let attachment = program.attach(&host.interface, Mode::Copy)?;
        wait_until_up(&host.interface, WATCHDOG)?;
        Ok(End { umem, socket, facts, rings, _program: program, _attachment: attachment })
    });
    let mut near = opened.expect("it is bound at the third try");
    let mut far = end(peer);
    let fill = near.rings.fill.as_mut().expect("it has one");
    assert!(fill.is_fresh() && (0..32).all(|frame| fill.push(frame * 2048)));
    fill.publish();
    write(&far, 0, 7);
    let tx = far.rings.tx.as_mut().expect("it has one");
    assert!(tx.push(Descriptor { address: 0, len: 60, options: 0 }));
    tx.publish();
    let rx = near.rings.rx.as_mut().expect("it has one");
    let deadline = Instant::now() + WATCHDOG;
    loop {
        assert!(Instant::now() < deadline, "nothing comes");
        let _ = kick::transmit(far.socket.as_fd());
        let Some(came) = rx.pop() else { continue };
        let place = near.umem.locate(came.address, came.len as usize).expect("inside");
        // SAFETY: the place lies inside of a live mapping, and the kernel has given the frame back.
        if unsafe { place.add(14).read() } == 7 {
            break;
        }
    }
}

#[test]
fn a_umem_is_shared_on_a_queue_and_across_queues() {
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let lab = Lab::up(&Options { queues: 2, ..Options::default() }).expect("root can make a lab");
    let host = lab.host(Side::A);
    let result = host.within(|| {
        let umem = Umem::create(GEOMETRY)?;
        let owner = Xsk::open(&umem, &host.interface, 0, &options())?;
        let none = RingSizes { fill: 0, completion: 0, ..RingSizes::all(64) };
        let beside = Xsk::share(&umem, &owner, &host.interface, 0, &XskOptions { rings: none, ..options() })?;
        assert!(beside.into_parts().2.fill.is_none());
        let other = Xsk::share(&umem, &owner, &host.interface, 1, &options())?;
        assert!(other.into_parts().2.fill.is_some());
        let wrong = problem(Xsk::share(&umem, &owner, &host.interface, 1, &XskOptions { rings: none, ..options() }));
        assert!(wrong.contains("EINVAL"), "{wrong}");
        Ok(())
    });
    result.expect("the kernel shares it");
}

#[test]
fn a_second_program_is_told_of_the_first() {
    let Some(lab) = lab() else { return };
    let host = lab.host(Side::A);
    let result = host.within(|| {
        let (first, second) = (Program::load(Filter::UdpPort(7), 1)?, Program::load(Filter::Everything, 1)?);
        let attachment = first.attach(&host.interface, Mode::Copy)?;
        assert_eq!(attachment.downgrade(), None);
        let id = device(&host.interface)?.xdp_program.expect("one is attached");
        let refusal = problem(second.attach(&host.interface, Mode::Generic));
        assert!(refusal.contains("EBUSY") && refusal.contains(&format!("program {id} ")), "{refusal}");
        drop(attachment);
        // A process that another test forks has the descriptor until its exec.
        let end = Instant::now() + Duration::from_secs(60);
        while device(&host.interface)?.xdp_program.is_some() {
            assert!(Instant::now() < end, "closing detaches");
            std::thread::sleep(Duration::from_millis(1));
        }
        second.attach(&host.interface, Mode::Copy).map(drop)
    });
    result.expect("the first program can be attached");
}

#[test]
fn loopback_takes_generic_mode_only_and_says_so() {
    let Some(lab) = lab() else { return };
    let host = lab.host(Side::A);
    let result = host.within(|| {
        let program = Program::load(Filter::UdpPort(7), 1)?;
        let refusal = problem(program.attach("lo", Mode::Copy));
        assert!(refusal.contains("EOPNOTSUPP"), "{refusal}");
        let attachment = program.attach("lo", Mode::Generic)?;
        let downgrade = attachment.downgrade().expect("it is one");
        assert_eq!((downgrade.from, downgrade.to), (Mode::Copy, Mode::Generic));
        let umem = Umem::create(GEOMETRY)?;
        let xsk = Xsk::open(&umem, "lo", 0, &XskOptions { best: Mode::Generic, ..options() })?;
        assert_eq!(xsk.facts().mode, Mode::Generic);
        Ok(())
    });
    result.expect("generic mode works everywhere");
}

#[test]
fn refusals_name_what_is_missing() {
    let Some(lab) = lab() else { return };
    let host = lab.host(Side::A);
    let open = |queue: u32, options: &XskOptions| {
        host.within(|| Xsk::open(&Umem::create(GEOMETRY)?, &host.interface, queue, options))
    };
    let refusal = problem(open(7, &options()));
    assert!(refusal.contains("queue 7") && refusal.contains("ethtool -l"), "{refusal}");
    let refusal = problem(open(0, &XskOptions { least: Mode::ZeroCopy, ..options() }));
    assert!(refusal.contains("EOPNOTSUPP") && refusal.contains("zero-copy"), "{refusal}");
    let refusal = problem(netns::within(&host.namespace_path, || {
        without_capability(14);
        limit_locked_memory(64 << 10);
        Xsk::open(&Umem::create(GEOMETRY)?, &host.interface, 0, &options())
    }));
    assert!(refusal.contains("ENOBUFS") && refusal.contains("RLIMIT_MEMLOCK is 64 KiB"), "{refusal}");
    let refusal = problem(netns::within(&host.namespace_path, || {
        without_capability(13);
        Xsk::open(&Umem::create(GEOMETRY)?, &host.interface, 0, &options())
    }));
    assert!(refusal.contains("EPERM") && refusal.contains("CAP_NET_RAW"), "{refusal}");
}

/// Drops a capability of the calling thread alone.
fn without_capability(bit: u32) {
    let mut header = [0x2008_0522_u32, 0]; // _LINUX_CAPABILITY_VERSION_3, this thread.
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: header and sets have the layout and size of version 3, and live until after the calls.
    let results = unsafe {
        let get = libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr());
        sets[0][0] &= !(1 << bit);
        (get, libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()))
    };
    assert_eq!(results, (0, 0));
}

/// Applies to the whole process; processes with CAP_IPC_LOCK are not affected.
fn limit_locked_memory(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is a valid rlimit that lives until after the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) }, 0);
}
