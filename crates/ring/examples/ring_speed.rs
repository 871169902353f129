//! Measures the SPSC ring beside the bare bounce of one cache line between the same two CPUs.
//!
//! `cargo run --release -p sidestep-ring --example ring_speed [ring KiB]`. Needs two idle CPUs.

use sidestep_ring::layout::CELL_BYTES;
use sidestep_ring::spsc::{Consumer, Producer, pair, pair_of};
use sidestep_ring::{Cell, Waking};
use sidestep_sys::clock::{Choice, Clock};
use sidestep_sys::cpu;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};

const ROUND_TRIPS: usize = 200_000;
/// Round trips per sample: the clock of a virtual machine may step by 10 ns.
const PER_SAMPLE: usize = 10;
const WARM_UP: usize = 20_000;
const ROUNDS: usize = 11;
const MESSAGES: u64 = 10_000_000;
const SIZES: [usize; 6] = [8, 16, 48, 64, 256, 1024];

fn main() {
    let cpus = cpu::allowed();
    let [first, second, ..] = cpus[..] else { return eprintln!("two CPUs are needed, {} is allowed", cpus.len()) };
    let ring_bytes = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(64_usize) << 10;
    let clock = Clock::calibrate(Choice::Auto);
    show_round_trips(first, second, &clock, ring_bytes);
    println!("throughput, ring of {} KiB, median of {ROUNDS} runs", ring_bytes >> 10);
    for (cell, size) in [(Cell::Quarter, 8), (Cell::Quarter, 16), (Cell::Quarter, 24)]
        .into_iter()
        .chain([8, 16, 24, 64, 256, 1024].map(|size| (Cell::Line, size)))
    {
        // The same number of messages fits, whatever the cells.
        let room = ring_bytes / CELL_BYTES * cell.bytes();
        for (name, batch) in [("single", 1), ("batches of 16", 16)] {
            let rate =
                median((0..ROUNDS).map(|_| throughput((first, second), &clock, cell, size, room, batch)).collect());
            let cell = cell.bytes();
            println!("{size:5} B  cells of {cell}  {name:14} {rate:6.1} M/s {:6.2} GB/s", rate * size as f64 / 1e3);
        }
    }
}

/// Measures the bare line anew in each round: the hypervisor may move the two CPUs at any time.
fn show_round_trips(first: u32, second: u32, clock: &Clock, ring_bytes: usize) {
    let mut rows = vec![Vec::new(); SIZES.len() + 2];
    for _ in 0..ROUNDS {
        rows[0].push(percentiles(bounce(first, second, clock), clock));
        rows[1].push(percentiles(exchange(first, second, clock), clock));
        for (row, size) in rows[2..].iter_mut().zip(SIZES) {
            row.push(percentiles(round_trips(first, second, clock, size, ring_bytes), clock));
        }
    }
    println!("round trips, mean of {PER_SAMPLE}, of {ROUND_TRIPS}; medians of {ROUNDS} rounds, ns");
    println!("   size     p50     p90     p99   p99.9   p50 / one line / one line each way, of the same round");
    for (index, row) in rows.iter().enumerate() {
        let name = match index {
            0 => "line".into(),
            1 => "2 lines".into(),
            _ => SIZES[index - 2].to_string(),
        };
        let of = |part: usize| median(row.iter().map(|run| run[part]).collect());
        let ratio = |floor: usize| median(row.iter().zip(&rows[floor]).map(|(run, bare)| run[0] / bare[0]).collect());
        println!("{name:>7} {:7.1} {:7.1} {:7.1} {:7.1}   {:.2} {:.2}", of(0), of(1), of(2), of(3), ratio(0), ratio(1));
    }
}

fn percentiles(mut samples: Vec<u64>, clock: &Clock) -> [f64; 4] {
    samples.sort_unstable();
    [0.5, 0.9, 0.99, 0.999]
        .map(|part| clock.ns(samples[(samples.len() as f64 * part) as usize]) as f64 / PER_SAMPLE as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn pinned<T: Send>(first: u32, second: u32, echo: impl FnOnce() + Send, measure: impl FnOnce() -> T) -> T {
    std::thread::scope(|threads| {
        threads.spawn(move || {
            cpu::restrict(&[second]).expect("an allowed CPU");
            echo();
        });
        cpu::restrict(&[first]).expect("an allowed CPU");
        measure()
    })
}

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// One word in one cache line, written by both in turn. On a CPU that transfers a line together with its ownership,
/// this is cheaper than any pair of one-way channels can be.
fn bounce(first: u32, second: u32, clock: &Clock) -> Vec<u64> {
    let line = Line::default();
    floor(first, second, clock, &line, &line)
}

/// One word in one cache line each way: the limit for two rings.
fn exchange(first: u32, second: u32, clock: &Clock) -> Vec<u64> {
    floor(first, second, clock, &Line::default(), &Line::default())
}

fn floor(first: u32, second: u32, clock: &Clock, there: &Line, back: &Line) -> Vec<u64> {
    let pass = |line: &Line, from: u64| line.0.store(from + 1, Ordering::Release);
    let catch = |line: &Line, value: u64| {
        while line.0.load(Ordering::Acquire) != value {
            spin_loop();
        }
    };
    let echo = || {
        for turn in 0..(ROUND_TRIPS + WARM_UP) as u64 {
            catch(there, 2 * turn + 1);
            pass(back, 2 * turn + 1);
        }
    };
    pinned(first, second, echo, || {
        timed(clock, |turn| {
            pass(there, 2 * turn);
            catch(back, 2 * turn + 2);
        })
    })
}

fn timed(clock: &Clock, mut turn: impl FnMut(u64)) -> Vec<u64> {
    let mut samples = vec![0; ROUND_TRIPS / PER_SAMPLE];
    for number in 0..WARM_UP {
        turn(number as u64);
    }
    let mut next = WARM_UP as u64;
    for sample in &mut samples {
        let begin = clock.start();
        for _ in 0..PER_SAMPLE {
            turn(next);
            next += 1;
        }
        *sample = clock.stop() - begin;
    }
    samples
}

fn round_trips(first: u32, second: u32, clock: &Clock, size: usize, ring_bytes: usize) -> Vec<u64> {
    let (mut there, mut far_in) = pair(ring_bytes, Waking::default()).expect("memory for a ring");
    let (mut far_out, mut back) = pair(ring_bytes, Waking::default()).expect("memory for a ring");
    // Offset against each other: a store and a later load 4096 bytes apart alias in the CPU (4K aliasing), and the two
    // rings would be used at the same offset of a page.
    for _ in 0..7 {
        send(&mut far_out, &[0]);
        receive(&mut back, |_| ());
    }
    let echo = move || {
        for _ in 0..ROUND_TRIPS + WARM_UP {
            receive(&mut far_in, |message| send(&mut far_out, message));
        }
    };
    let mut message = vec![0_u8; size];
    pinned(first, second, echo, || {
        timed(clock, |turn| {
            message[..8].copy_from_slice(&turn.to_le_bytes());
            send(&mut there, &message);
            receive(&mut back, |echo| assert_eq!(echo[..8], turn.to_le_bytes()));
        })
    })
}

#[inline(always)]
fn send(producer: &mut Producer, message: &[u8]) {
    while producer.try_send(message).is_err() {
        spin_loop();
    }
}

#[inline(always)]
fn receive(consumer: &mut Consumer, each: impl FnOnce(&[u8])) {
    loop {
        if let Ok(message) = consumer.try_read() {
            return each(&message);
        }
        spin_loop();
    }
}

/// Millions of messages per second, each one written and checked whole.
fn throughput(
    (first, second): (u32, u32),
    clock: &Clock,
    cell: Cell,
    size: usize,
    ring_bytes: usize,
    batch: usize,
) -> f64 {
    let (mut producer, mut consumer) = pair_of(cell, ring_bytes, Waking::default()).expect("memory for a ring");
    let produce = move || {
        let message = vec![7_u8; size];
        let mut sent = 0;
        while sent < MESSAGES {
            if batch == 1 {
                match producer.try_claim(size) {
                    Ok(mut claim) => {
                        claim.copy_from_slice(&message);
                        claim[..8].copy_from_slice(&sent.to_le_bytes());
                        claim.commit();
                        sent += 1;
                    }
                    Err(_) => spin_loop(),
                }
                continue;
            }
            let mut open = producer.batch();
            for _ in 0..batch {
                let number = sent.to_le_bytes();
                let fill = |bytes: &mut [u8]| {
                    bytes.copy_from_slice(&message);
                    bytes[..8].copy_from_slice(&number);
                };
                if open.try_fill(size, fill).is_err() {
                    spin_loop();
                    break;
                }
                sent += 1;
            }
            open.commit();
        }
    };
    pinned(second, first, produce, || {
        let begin = clock.start();
        let mut received = 0_u64;
        let mut copy = vec![0_u8; size];
        while received < MESSAGES {
            let each = |message: &[u8]| {
                assert_eq!(message[..8], received.to_le_bytes());
                copy.copy_from_slice(message);
                black_box(&copy);
                received += 1;
            };
            if batch == 1 {
                receive(&mut consumer, each);
            } else if consumer.drain(batch, each).is_err() {
                spin_loop();
            }
        }
        MESSAGES as f64 * 1e3 / clock.ns(clock.stop() - begin) as f64
    })
}
