//! An attacker who is not on the path but knows addresses, ports and about where the numbers are (RFC 5961 section 1). What it
//! sends must change nothing.

use super::world::{World, address};
use sidestep_stack::tcp::State;
use sidestep_wire::Addresses;
use sidestep_wire::tcp::{self, Flags, Options, Segment, SequenceNumber, Timestamps};

/// A window this large cannot be full of data that only waits for its ACK.
const WIDE_BYTES: u32 = 200_000;

/// Sends something to `side` in the name of its peer.
pub fn disturb(world: &mut World<'_>, side: usize) -> Result<(), String> {
    let number = world.dice.below(world.pairs.len() as u64) as usize;
    let pair = &world.pairs[number];
    let Some(id) = pair.apps[side].id else { return Ok(()) };
    let Ok(facts) = world.tcps[side].facts(id) else { return Ok(()) };
    if matches!(facts.state, State::Closed | State::TimeWait) {
        // There a SYN may begin something new, and that is right.
        return Ok(());
    }
    let [own, peer] = [&pair.watches[side], &pair.watches[1 - side]];
    let (Some(ack), Some(edge), Some(sent_end)) = (own.ack, own.edge, own.sent_end) else { return Ok(()) };
    let peer_end = peer.sent_end.unwrap_or(ack);
    let anywhere = world.dice.number() % 30_000;
    let is_wide = edge.since(ack) > WIDE_BYTES;
    let (sequence, acknowledgement, flags) = match world.dice.below(5) {
        // A RST behind the window, before it, and in it, but not at its left edge.
        0 => (ack - 1 - anywhere, sent_end, Flags::RST),
        1 => (edge + 1 + anywhere, sent_end, Flags::RST),
        2 if is_wide => (edge - 1 - anywhere, sent_end, Flags::RST | Flags::ACK),
        // A SYN anywhere.
        3 => (peer_end + anywhere, SequenceNumber(0), Flags::SYN),
        // An ACK of what was never sent.
        _ => (ack, sent_end + 1 + anywhere, Flags::ACK),
    };
    let clock = Timestamps { value: world.dice.number(), echo: world.dice.number() };
    let timestamps = world.dice.percent(50).then_some(clock);
    let header = Segment {
        source_port: facts.flow.remote_port,
        destination_port: facts.flow.local_port,
        sequence,
        acknowledgement: if flags.has(Flags::ACK) { acknowledgement } else { SequenceNumber(0) },
        flags,
        window: world.dice.number() as u16,
        urgent_pointer: 0,
        options: Options { timestamps, ..Options::NONE },
    };
    let is_v6 = world.plan.is_v6;
    let addresses = Addresses::new(address(is_v6, 1 - side), address(is_v6, side)).ok_or("two families")?;
    let mut bytes = vec![0; header.header_bytes()];
    tcp::build(&header, &addresses, 0, &mut bytes).map_err(|error| format!("build: {error:?}"))?;
    if world.is_traced {
        eprintln!("{:>14.3} us a stranger to host {side}: {header:?}", world.now_ns as f64 / 1000.0);
    }
    world.receive(side, &addresses, &bytes, false)
}
