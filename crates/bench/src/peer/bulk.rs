//! The peer of `bench bulk`: receives a stream, or sends one.

use super::protocol::{Bulk, Done};
use super::watch::Watch;
use crate::cpu_time::SpentSince;
use crate::link::Link;
use crate::message::filled;
use sidestep_socket::stream::is_retry;
use sidestep_sys::{Problem, cpu};
use std::time::{Duration, Instant};

/// Serves one slice over a connected stream, until its end or until `budget` bytes were sent; returns the number sent, too.
pub(super) fn run(
    link: &mut dyn Link,
    request: &Bulk,
    budget: u64,
    mut watch: Watch<'_>,
) -> Result<(Done, u64), Problem> {
    let (switches, spent) = (cpu::involuntary_switches(), SpentSince::now());
    let (received, sent) = match request.send_for_ns {
        None => (drain(link, request.size, &mut watch)?, 0),
        Some(ns) => (0, pour(link, request.size, Duration::from_nanos(ns), budget, &mut watch)?),
    };
    let involuntary_switches = cpu::involuntary_switches() - switches;
    let cpu = spent.on(received + sent / u64::from(request.size));
    Ok((Done { received, involuntary_switches, cpu, ..Done::default() }, sent))
}

/// Reads to the end; returns the number of whole messages.
fn drain(link: &mut dyn Link, size: u32, watch: &mut Watch<'_>) -> Result<u64, Problem> {
    let (mut buffer, mut bytes) = (vec![0; size as usize], 0);
    loop {
        match link.receive(&mut buffer) {
            Ok(0) => return Ok(bytes / u64::from(size)),
            Ok(count) => {
                bytes += count as u64;
                watch.heard()?;
            }
            Err(error) if is_retry(&error) => watch.waited()?,
            Err(error) => return Err(Problem::failed("cannot receive", error)),
        }
    }
}

/// Sends for a while, closes, and waits until the other end has closed, too: our stack sends the rest while it is polled to
/// receive.
fn pour(link: &mut dyn Link, size: u32, length: Duration, budget: u64, watch: &mut Watch<'_>) -> Result<u64, Problem> {
    let mut all = 0;
    let failed = |error| Problem::failed("cannot send", error);
    let (message, end) = (filled(size), Instant::now() + length);
    while all + u64::from(size) <= budget && Instant::now() < end {
        let mut sent = 0;
        while sent < message.len() {
            match link.send(&message[sent..]) {
                Ok(count) => {
                    sent += count;
                    watch.heard()?;
                }
                Err(error) if is_retry(&error) => watch.waited()?,
                Err(error) => return Err(failed(error)),
            }
        }
        all += u64::from(size);
    }
    link.flush().and_then(|()| link.shutdown()).map_err(failed)?;
    Ok(all)
}
