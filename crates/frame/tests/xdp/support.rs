//! Helpers for the tests of AF_XDP links.

use sidestep_frame::xdp::{Kick, XdpLink, XdpOptions};
use sidestep_frame::{FrameLink, Received};
use sidestep_lab::{Host, Lab, Options};
use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::process::is_root;
use sidestep_sys::xdp::program::{Attachment, Filter, Program};
use sidestep_sys::xdp::{Geometry, Mode, RingSizes, Umem, Unbound, Xsk, XskOptions, wait_until_up};
pub(crate) use sidestep_testkit::{WATCHDOG, drive as wait};
use std::os::fd::BorrowedFd;

/// The number of frames of each end.
pub(crate) const FRAMES: u32 = 256;
/// The EtherType for local experiments (IEEE 802): no other program sends it.
pub(crate) const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

/// The longest frame of these tests.
const LENGTH_MAX: usize = 16 << 10;

/// All senders. The kernel thread is configured to stay awake, even on a machine that stops for a while: its sleep is
/// another test.
pub(crate) const KICKS: [Kick; 4] = [
    Kick::Caller,
    Kick::Thread { idle: IdleStrategy::SPIN, cpu: None },
    Kick::Thread { idle: IdleStrategy::SPIN_THEN_PARK, cpu: None },
    Kick::Sqpoll { cpu: None, idle_ms: 600_000 },
];

/// A lab, if this process may make one.
pub(crate) fn lab() -> Option<Lab> {
    if !is_root() {
        eprintln!("skipped: needs root");
        return None;
    }
    Some(Lab::up(&Options::default()).expect("root can make a lab"))
}

/// Redirects frames to a socket, as long as it lives.
pub(crate) struct Feed {
    _program: Program,
    _attachment: Attachment,
}

/// The layout of each end's frames.
pub(crate) const GEOMETRY: Geometry = Geometry { frames: FRAMES, frame_bytes: 2048, headroom: 0 };

pub(crate) fn options() -> XskOptions {
    XskOptions { rings: RingSizes::all(128), patience: WATCHDOG, ..XskOptions::default() }
}

/// Makes memory and an unbound socket on a host.
pub(crate) fn unbound(host: &Host) -> (Umem, Unbound) {
    let make = || {
        let umem = Umem::create(GEOMETRY)?;
        let unbound = Unbound::new(&umem, options().rings)?;
        Ok((umem, unbound))
    };
    host.within(make).expect("root can make a socket")
}

/// Redirects the frames of a host to a bound socket.
pub(crate) fn feed(host: &Host, socket: BorrowedFd<'_>) -> Feed {
    let make = || -> Result<Feed, Problem> {
        let program = Program::load(Filter::Everything, 1)?;
        program.insert(0, socket)?;
        let attachment = program.attach(&host.interface, Mode::Copy)?;
        wait_until_up(&host.interface, WATCHDOG)?;
        Ok(Feed { _program: program, _attachment: attachment })
    };
    host.within(make).expect("root can attach a program")
}

/// A link that receives the frames of a host.
pub(crate) fn link(host: &Host, kick: Kick) -> (XdpLink, Feed) {
    link_with(host, kick, &options())
}

/// A link with other options.
pub(crate) fn link_with(host: &Host, kick: Kick, options: &XskOptions) -> (XdpLink, Feed) {
    let open = || {
        let umem = Umem::create(GEOMETRY)?;
        let xsk = Xsk::open(&umem, &host.interface, 0, options)?;
        Ok((umem, xsk))
    };
    let (umem, xsk) = host.within(open).expect("root can make a socket");
    let feed = feed(host, xsk.socket());
    let link = XdpLink::over(xsk, umem, &XdpOptions { kick, fill: None }).expect("it is fresh");
    (link, feed)
}

/// 0, 1, 2 ... 255, 0, 1 ...: a frame's payload begins at its number in it.
static RAMP: [u8; LENGTH_MAX + 256] = {
    let mut ramp = [0; LENGTH_MAX + 256];
    let mut index = 0;
    while index < ramp.len() {
        ramp[index] = index as u8;
        index += 1;
    }
    ramp
};

/// Writes a frame with a number, and a payload that depends on it.
pub(crate) fn write(frame: &mut [u8], number: u64) {
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&ETHER_TYPE);
    frame[14..22].copy_from_slice(&number.to_be_bytes());
    let filling = frame.len() - 22;
    frame[22..].copy_from_slice(&RAMP[usize::from(number as u8)..][..filling]);
}

/// The number of a test frame; its bytes must be those that were written.
pub(crate) fn number(frame: &[u8]) -> Option<u64> {
    if frame.get(12..14)? != ETHER_TYPE {
        return None;
    }
    let number = u64::from_be_bytes(frame.get(14..22)?.try_into().ok()?);
    assert!(frame[22..] == RAMP[usize::from(number as u8)..][..frame.len() - 22], "frame {number} is damaged");
    Some(number)
}

/// Sends one numbered frame; false if the queue is full now.
pub(crate) fn send(link: &mut XdpLink, number: u64, len: usize) -> bool {
    let Some(frame) = link.allocate_for(len) else { return false };
    write(&mut link.buffer(&frame)[..len], number);
    match link.send(frame, len) {
        Ok(()) => true,
        Err(unsent) => {
            link.discard(unsent.frame);
            false
        }
    }
}

/// The next test frame. Frames of the kernel (neighbour discovery and the like) are released.
pub(crate) fn receive(link: &mut XdpLink) -> Option<(Received, u64)> {
    while let Some(frame) = link.receive() {
        match number(link.bytes(&frame)) {
            Some(number) => return Some((frame, number)),
            None => link.release(frame),
        }
    }
    None
}

/// Checks that every frame is in its initial state, long ones included.
pub(crate) fn check_accounts(link: &mut XdpLink) {
    let tally = wait("the return of every frame", || {
        link.poll().expect("the wire is up");
        // Frames that the kernel sends by itself may still arrive.
        while let Some(frame) = link.receive() {
            link.release(frame);
        }
        Some(link.counters().tally).filter(|tally| tally.sent == 0)
    });
    assert_eq!((tally.sum(), tally.lent, tally.held), (FRAMES + link.long_frames(), 0, 0));
    assert!(tally.fill <= link.fill_most(), "none is being gathered any more: {tally:?}");
    assert_eq!(link.counters().faults, 0);
}
