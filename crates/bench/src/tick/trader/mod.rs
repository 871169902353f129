//! The trader: the peer's end of a slice. It joins the lines of the feed, connects its order stream to the exchange, and trades.
//!
//! ```text
//!  sockets ── datagram ──> work (reflex | decode | book) ── order ──> orders (fix | ouch | raw) ── TCP
//! ```
//!
//! One thread does all of it, past the kernel with one socket engine for groups and connection.

mod orders;
mod ring;
mod sockets;
mod soup;
mod work;

pub(crate) use orders::{OrderStream, Orders};
pub(crate) use sockets::Sockets;
pub(crate) use work::Desk;

use super::text;
use crate::cpu_time::SpentSince;
use crate::peer::protocol::{Done, Trade};
use crate::peer::watch::Watch;
use sidestep_sys::{Problem, cpu};
use std::time::{Duration, Instant};

/// Datagrams of one line that are taken before the next line is looked at: the lines of a burst stay abreast.
const BURST: u32 = 8;
/// The time of a delayed acknowledgement: 40 ms on Linux.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(60);
/// MoldUDP64's message count of the end of a session.
const END_OF_SESSION: u16 = 0xffff;
/// Bytes of MoldUDP64's header.
const HEADER_BYTES: usize = 20;

/// Trades for one slice, until the exchange ends its session.
pub(crate) fn run(
    request: &Trade,
    sockets: &mut Sockets,
    desk: &mut Desk,
    orders: &mut Orders,
    watch: &mut Watch<'_>,
) -> Result<Done, Problem> {
    let (switches, spent) = (cpu::involuntary_switches(), SpentSince::now());
    let mut received = 0;
    let mut idle = 0;
    'slice: loop {
        let mut came = 0;
        for line in 0..request.lines {
            for _ in 0..BURST {
                let Some((line, datagram)) = sockets.receive(line, orders)? else { break };
                if is_end(datagram) {
                    received += came;
                    break 'slice;
                }
                desk.take(line, datagram, orders)?;
                came += 1;
            }
        }
        if came > 0 {
            received += came;
            idle = 0;
            watch.heard()?;
            continue;
        }
        idle += 1;
        if idle % sockets.idle_turns() == 0 || !sockets.spins() {
            orders.poll()?;
            desk.poll(orders)?;
        }
        if !sockets.wait()? {
            watch.waited()?;
        }
    }
    let (involuntary_switches, spent) = (cpu::involuntary_switches() - switches, spent.on(received));
    await_acknowledgements(orders)?;
    sockets.check_way()?;
    let feed = desk.counts(sockets.dropped(orders));
    Ok(Done { received, involuntary_switches, cpu: spent, feed: Some(feed), ..Done::default() })
}

/// Lets the exchange acknowledge the last orders: an engine that ends before would say that they were lost.
fn await_acknowledgements(orders: &mut Orders) -> Result<(), Problem> {
    if !orders.io_mut().has_engine() {
        return Ok(());
    }
    let end = Instant::now() + ACKNOWLEDGED_WITHIN;
    while Instant::now() < end {
        orders.poll()?;
    }
    Ok(())
}

/// Returns whether a datagram ends the session.
#[inline]
fn is_end(datagram: &[u8]) -> bool {
    datagram.len() == HEADER_BYTES && datagram[18..] == END_OF_SESSION.to_be_bytes()
}
