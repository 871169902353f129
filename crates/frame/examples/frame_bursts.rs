//! Measures what a frame costs in a burst: handed over by one flush, and taken from the ring, by frame length and burst.
//!
//! `cargo run --release -p sidestep-frame --example frame_bursts`, as root. One thread on the first CPU drives both ends of a
//! lab's wire, so that in copy mode a burst has arrived when the flush returns.

use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{XdpLink, XdpOptions};
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_sys::clock::{Choice, Clock};
use sidestep_sys::xdp::program::{Attachment, Filter, Program};
use sidestep_sys::xdp::{Geometry, Mode, RingSizes, Umem, Xsk, XskOptions, wait_until_up};
use sidestep_sys::{Problem, cpu};
use std::time::Duration;

const FRAMES_IN_ALL: usize = 100_000;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cpus = cpu::allowed();
    let lab = Lab::up(&Options::default())?;
    let clock = Clock::calibrate(Choice::Auto);
    cpu::restrict(&cpus[..1])?;
    let (mut near, _near_feed) = open(lab.host(Side::A))?;
    let (mut far, _far_feed) = open(lab.host(Side::B))?;
    println!("p50, ns a frame, over {FRAMES_IN_ALL} frames in each of {ROUNDS} rounds");
    println!(
        "{:>8} {:>6} {:>12} {:>12} {:>14} {:>12}",
        "frame B", "burst", "handing over", "flush", "flush a burst", "receiving"
    );
    for _ in 0..ROUNDS {
        for bytes in [106, 1514] {
            for burst in [1, 2, 4, 12, 32, 64] {
                let [send, flush, receive] = measure(&mut near, &mut far, &clock, bytes, burst)?;
                let of = |ns: u64| ns / burst as u64;
                println!("{bytes:8} {burst:6} {:12} {:12} {flush:14} {:12}", of(send), of(flush), of(receive));
            }
        }
    }
    Ok(())
}

type Feed = (Program, Attachment);

fn open(host: &Host) -> Result<(XdpLink, Feed), Problem> {
    let (umem, xsk, feed) = host.within(|| {
        let umem = Umem::create(Geometry { frames: 1024, frame_bytes: 2048, headroom: 0 })?;
        let options = XskOptions { rings: RingSizes::all(256), ..XskOptions::default() };
        let xsk = Xsk::open(&umem, &host.interface, 0, &options)?;
        let program = Program::load(Filter::Everything, 1)?;
        program.insert(0, xsk.socket())?;
        let attachment = program.attach(&host.interface, Mode::Copy)?;
        wait_until_up(&host.interface, Duration::from_secs(5))?;
        Ok((umem, xsk, (program, attachment)))
    })?;
    XdpLink::over(xsk, umem, &XdpOptions { fill: Some(128), ..XdpOptions::default() }).map(|link| (link, feed))
}

/// Ticks at p50 of a burst: writing and handing over, the flush, receiving.
fn measure(
    near: &mut XdpLink,
    far: &mut XdpLink,
    clock: &Clock,
    bytes: usize,
    burst: usize,
) -> Result<[u64; 3], Box<dyn std::error::Error>> {
    let mut ticks = [const { Vec::new() }; 3];
    for _ in 0..FRAMES_IN_ALL / burst {
        let begin = clock.start();
        for _ in 0..burst {
            let frame = near.allocate().ok_or("no frame is free")?;
            near.buffer(&frame)[..14].copy_from_slice(b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x88\xb5");
            near.send(frame, bytes)?;
        }
        let sent = clock.stop();
        near.flush()?;
        let flushed = clock.stop();
        let mut received = 0;
        while received < burst {
            match far.receive() {
                Some(frame) => {
                    // Frames that the hosts' kernels send are not counted.
                    received += usize::from(far.bytes(&frame)[12..14] == [0x88, 0xb5]);
                    far.release(frame);
                }
                None => {
                    near.poll()?;
                    far.poll()?;
                }
            }
        }
        let end = clock.stop();
        ticks.iter_mut().zip([sent - begin, flushed - sent, end - flushed]).for_each(|(all, one)| all.push(one));
    }
    Ok(ticks.map(|mut all| {
        all.sort_unstable();
        clock.ns(all[all.len() / 2])
    }))
}
