//! Measures the cost of each way of sending frames over AF_XDP for the caller, and the latency of a frame.
//!
//! `cargo run --release -p sidestep-frame --example frame_senders`, as root. One thread on the first CPU drives both
//! ends of a lab's wire; the near end's sender, if it is another thread, has the second CPU. The far end always answers
//! by its own call, so that rows differ only in the near end's sender.

use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{Kick, XdpLink, XdpOptions};
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_sys::clock::{Choice, Clock};
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::xdp::program::{Attachment, Filter, Program};
use sidestep_sys::xdp::{Geometry, Mode, RingSizes, Umem, Xsk, XskOptions, wait_until_up};
use sidestep_sys::{Problem, cpu};
use std::time::Duration;

const ROUND_TRIPS: usize = 100_000;
const WARM_UP: usize = 5_000;
const ROUNDS: usize = 5;
const FRAME_BYTES: usize = 106; // 64 bytes of UDP.
/// The number of polls after which a frame counts as lost.
const LOOKS_MAX: u32 = 100_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cpus = cpu::allowed();
    let [first, second, ..] = cpus[..] else { return Err("two CPUs are needed".into()) };
    let lab = Lab::up(&Options::default())?;
    let clock = Clock::calibrate(Choice::Auto);
    cpu::restrict(&[first])?;
    let kicks = [
        ("caller", Kick::Caller),
        ("spinning thread", Kick::Thread { idle: IdleStrategy::SPIN, cpu: Some(second) }),
        ("parking thread", Kick::Thread { idle: IdleStrategy::SPIN_THEN_PARK, cpu: Some(second) }),
        ("sqpoll", Kick::Sqpoll { cpu: Some(second), idle_ms: 1000 }),
    ];
    println!("{FRAME_BYTES} B frames, {ROUND_TRIPS} round trips in each of {ROUNDS} rounds, senders in turn; ns");
    println!(
        "{:16} {:>9} {:>9} {:>9} {:>9} {:>12}",
        "sender", "send p50", "send p99", "rtt p50", "rtt p99", "calls/1000"
    );
    for round in 0..ROUNDS {
        for (name, kick) in kicks {
            let (mut near, _feed) = open(lab.host(Side::A), kick)?;
            let (mut far, _far_feed) = open(lab.host(Side::B), Kick::Caller)?;
            measure(&mut near, &mut far, &clock, WARM_UP)?;
            let before = near.counters().calls;
            let [sends, trips] = measure(&mut near, &mut far, &clock, ROUND_TRIPS)?;
            let calls = (near.counters().calls - before) as f64 * 1000.0 / ROUND_TRIPS as f64;
            let [send_50, send_99] = percentiles(sends, &clock);
            let [rtt_50, rtt_99] = percentiles(trips, &clock);
            println!("{name:16} {send_50:9} {send_99:9} {rtt_50:9} {rtt_99:9} {calls:12.1}   round {round}");
        }
    }
    Ok(())
}

type Feed = (Program, Attachment);

fn open(host: &Host, kick: Kick) -> Result<(XdpLink, Feed), Problem> {
    let (umem, xsk, feed) = host.within(|| {
        let umem = Umem::create(Geometry { frames: 128, frame_bytes: 2048, headroom: 0 })?;
        let options = XskOptions { rings: RingSizes::all(64), ..XskOptions::default() };
        let xsk = Xsk::open(&umem, &host.interface, 0, &options)?;
        let program = Program::load(Filter::Everything, 1)?;
        program.insert(0, xsk.socket())?;
        let attachment = program.attach(&host.interface, Mode::Copy)?;
        wait_until_up(&host.interface, Duration::from_secs(5))?;
        Ok((umem, xsk, (program, attachment)))
    })?;
    XdpLink::over(xsk, umem, &XdpOptions { kick, fill: Some(16) }).map(|link| (link, feed))
}

/// The ticks of handing a frame over, and of its round trip.
fn measure(
    near: &mut XdpLink,
    far: &mut XdpLink,
    clock: &Clock,
    count: usize,
) -> Result<[Vec<u64>; 2], Box<dyn std::error::Error>> {
    let (mut sends, mut trips) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let frame = near.allocate().ok_or("no frame is free")?;
        near.buffer(&frame)[..14].copy_from_slice(b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x88\xb5");
        let begin = clock.start();
        near.send(frame, FRAME_BYTES)?;
        near.flush()?;
        sends.push(clock.stop() - begin);
        let frame = receive(far)?;
        let answer = far.answer(frame);
        far.send(answer, FRAME_BYTES)?;
        far.flush()?;
        let frame = receive(near)?;
        trips.push(clock.stop() - begin);
        near.release(frame);
    }
    Ok([sends, trips])
}

fn receive(link: &mut XdpLink) -> Result<sidestep_frame::Received, Box<dyn std::error::Error>> {
    for _ in 0..LOOKS_MAX {
        match link.receive() {
            // Frames that the hosts' kernels send are ignored.
            Some(frame) if link.bytes(&frame)[12..14] != [0x88, 0xb5] => link.release(frame),
            Some(frame) => return Ok(frame),
            None => link.poll()?,
        }
    }
    Err("a frame was lost".into())
}

/// p50 and p99, ns.
fn percentiles(mut ticks: Vec<u64>, clock: &Clock) -> [u64; 2] {
    ticks.sort_unstable();
    [ticks.len() / 2, ticks.len() * 99 / 100].map(|index| clock.ns(ticks[index]))
}
