//! A stack past the kernel, built out of what control has handed over.

use crate::control_agent::Reopened;
use crate::engine::bypass::Bypass;
use crate::engine::entries::Entries;
use crate::engine::queues::OurQueues;
use crate::heartbeat_writer::HeartbeatWriter;
use crate::options::{Checksums as Wish, EngineOptions};
use crate::route_cache::RouteCache;
use crate::tcp::handles::Handles;
use crate::tcp::header_cache::HeaderCache;
use crate::tcp::setup;
use crate::udp::room::{Room, Rooms};
use sidestep_control_api::counters::Counters;
use sidestep_control_api::message::OpenStack;
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{XdpLink, XdpOptions, XdpQueue};
use sidestep_stack::{Checksums, Stack};
use sidestep_sys::{Problem, offload};

/// Bytes of a frame: an Ethernet frame of 1500 bytes with two tags, and room to spare.
const FRAME_BYTES: u32 = 2048;

pub(crate) fn wish(options: &EngineOptions) -> OpenStack {
    OpenStack {
        queues: options.queues.clone(),
        frames: options.frames,
        frame_bytes: FRAME_BYTES,
        ring_entries: options.ring_entries,
        mode: options.mode,
        tx_budget: options.tx_budget,
        busy_poll: options.busy_poll,
        multi_buffer: options.jumbo_frames,
        ..OpenStack::on(options.interface.clone())
    }
}

/// Link and stack out of what control has handed over. `before` holds where this thread cannot ask for the driver.
pub(crate) fn build(
    parts: Reopened,
    mut routes: RouteCache,
    options: &EngineOptions,
    before: Checksums,
) -> Result<(Bypass, HeartbeatWriter, Counters), Problem> {
    let Reopened { facts, spread, sockets, frames, heartbeat, counters } = parts;
    let link_options = XdpOptions { kick: options.kick, fill: options.fill };
    let sockets = sockets.into_iter().zip(facts.socket_facts());
    let sockets = sockets.map(|((socket, rings), facts)| XdpQueue { socket, rings, facts }).collect();
    let link = XdpLink::open_all(sockets, frames, &link_options)?;
    let queues = OurQueues::new(&facts, spread);
    let heartbeat = HeartbeatWriter::start(heartbeat);
    let (device, mode) = (facts.index, facts.mode);
    routes.forget_host();
    let checksums = checksums_of(options.checksums, &facts.interface, before);
    // A segment that can be sent and not received must not be asked for: the kernel would reset the connection.
    let frame_bytes_max = link.facts().send_bytes_max.min(link.facts().receive_bytes_max);
    let packet_bytes_max = setup::packet_bytes_max(frame_bytes_max);
    let tcp = setup::open(&options.tcp, routes.mtu_of(device), packet_bytes_max)?;
    let stack = Stack::new(routes.changed_host(device).unwrap_or_default(), tcp);
    let room = Room::of_frames(link.facts().frames, link.fill_most());
    let long_room = Room::of_frames(link.long_frames(), 0);
    let bypass = Bypass {
        link,
        stack,
        routes,
        device,
        queues,
        mode,
        checksums,
        headers: HeaderCache::default(),
        handles: Handles::default(),
        owners: Vec::new(),
        packet_bytes_max,
        rooms: Rooms { short: room, long: long_room },
        entries: Entries::default(),
        lost: None,
    };
    Ok((bypass, heartbeat, counters))
}

pub(crate) fn checksums_of(wish: Wish, interface: &str, before: Checksums) -> Checksums {
    match wish {
        Wish::Verify => Checksums::Verify,
        Wish::Trust => Checksums::Trusted,
        Wish::Auto => match offload::driver(interface) {
            Ok(driver) if driver == "veth" => Checksums::VerifyFinished,
            Ok(_) => Checksums::Verify,
            Err(_) => before,
        },
    }
}
