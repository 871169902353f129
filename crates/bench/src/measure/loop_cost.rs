//! The cost of the measuring loop itself, which every sample includes.

use super::conversation::Conversation;
use crate::link::Link;
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::io;

/// Round trips for the median.
const ROUND_TRIPS: usize = 10_001;
/// The usual message size.
const SIZE: u32 = 64;

/// A transport that answers at once, from memory.
struct Mirror {
    held: Vec<u8>,
}

impl Link for Mirror {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.clear();
        self.held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.held.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.held[..count]);
        Ok(count)
    }
}

/// Returns the median of a round trip over a transport that answers at once, ns, including the clock's own cost.
pub(crate) fn loop_cost_ns(clock: &Clock) -> Result<f64, Problem> {
    let mirror = Mirror { held: Vec::with_capacity(SIZE as usize) };
    let mut talk = Conversation::new(Box::new(mirror), clock, SIZE, true, true);
    let mut ticks = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        ticks.extend(talk.round_trip()?);
    }
    ticks.sort_unstable();
    Ok(ticks.get(ticks.len() / 2).map_or(0.0, |median| clock.ns(*median) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_sys::clock::Choice;

    #[test]
    fn the_loop_costs_at_least_its_clock() {
        let clock = Clock::calibrate(Choice::Auto);
        let cost = loop_cost_ns(&clock).expect("a mirror always answers");
        assert!(cost > 0.0);
    }
}
