//! A frame past the kernel, between two ends of a veth pair; the steering program, loaded and not attached.

use super::Outcome;
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{XdpLink, XdpOptions};
use sidestep_sys::packet::PacketSocket;
use sidestep_sys::xdp::program::{Filter, Program};
use sidestep_sys::xdp::{Geometry, Mode, RingSizes, Umem, Xsk, XskOptions, wait_until_up};
use sidestep_sys::{Problem, xdp};
use sidestep_xdp_steering::Rehearsal;
use std::time::{Duration, Instant};

/// A small memory: 512 KiB, for one frame.
const GEOMETRY: Geometry = Geometry { frames: 256, frame_bytes: 2048, headroom: 0 };
const RINGS: u32 = 64;
/// The longest wait for the frame; a veth pair takes microseconds.
const WAIT: Duration = Duration::from_secs(2);
/// The time for an interface to carry frames again after the program was attached.
const UP_MAX: Duration = Duration::from_secs(3);
/// The kind of the frame: for local experiments (IEEE 802), which nobody answers.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Sends a frame from `there`, and receives it at `here` by an AF_XDP socket.
pub(super) fn frame(here: &str, there: &str) -> Outcome {
    let program = Program::load(Filter::Everything, 1)?;
    let _attached = program.attach(here, Mode::Copy)?;
    let device = wait_until_up(here, UP_MAX)?;
    let umem = Umem::create(GEOMETRY)?;
    let options =
        XskOptions { rings: RingSizes::all(RINGS), best: Mode::Copy, least: Mode::Copy, ..XskOptions::default() };
    let xsk = Xsk::open(&umem, here, 0, &options)?;
    program.insert(0, xsk.socket())?;
    let pages = match umem.pages() {
        xdp::Pages::Huge => "huge pages",
        xdp::Pages::Small { .. } => "small pages",
    };
    let mut link = XdpLink::over(xsk, umem, &XdpOptions::default())?;
    let sender = PacketSocket::open(there)?;
    let mut sent = vec![0; 64];
    sent[..6].copy_from_slice(&device.mac.unwrap_or([0xff; 6]));
    sent[12..14].copy_from_slice(&ETHERTYPE);
    let failed = |why: String| {
        Problem::failed("no frame came past the kernel", why).next("see what the kernel says about it: dmesg | tail")
    };
    let deadline = Instant::now() + WAIT;
    // The first frames may be dropped while the pair comes up again.
    while Instant::now() < deadline {
        sender.send(&sent).map_err(|error| failed(error.to_string()))?;
        let again = Instant::now() + Duration::from_millis(20);
        while Instant::now() < again {
            link.poll().map_err(|error| failed(error.to_string()))?;
            let Some(frame) = link.receive() else { continue };
            let is_ours = link.bytes(&frame).get(12..14) == Some(&ETHERTYPE);
            link.release(frame);
            if is_ours {
                return Ok(format!("a frame went past the kernel on a veth pair, in copy mode, {pages}"));
            }
        }
    }
    Err(failed(format!("none within {} s", WAIT.as_secs())))
}

/// Loads the program that `sidestep control` attaches, with its tables.
pub(super) fn steering() -> Outcome {
    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    if Rehearsal::new(MAC).is_ok() {
        return Ok("the kernel accepts the steering program".into());
    }
    Rehearsal::for_older_kernels(MAC)
        .map(|_| "the kernel accepts the steering program for kernels before 5.18: frames within a page".into())
}
