//! Opening: everything that needs control, and what is left without it.

use super::queues::OurQueues;
use super::rules::Rules;
use super::share::{Room, Rooms};
use super::{Bypass, Engine};
use crate::buffers::Buffers;
use crate::control_agent::{ControlAgent, Held, Reopened, Start, spread_of};
use crate::heartbeat_writer::HeartbeatWriter;
use crate::options::{Checksums as Wish, EngineOptions};
use crate::reason::Reason;
use crate::released::Released;
use crate::route_cache::RouteCache;
use crate::tcp::handles::Handles;
use crate::tcp::header_cache::HeaderCache;
use crate::tcp::{Streams, setup};
use sidestep_control_api::client::{Client, Stack as Opened};
use sidestep_control_api::counters::Counters;
use sidestep_control_api::message::OpenStack;
use sidestep_control_api::place;
use sidestep_control_api::rss::Spread;
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{XdpLink, XdpOptions, XdpQueue};
use sidestep_stack::{Checksums, Stack};
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::{Problem, offload};

/// Bytes of a frame: an Ethernet frame of 1500 bytes with two tags, and room to spare.
const FRAME_BYTES: u32 = 2048;

/// What opening has found.
struct Found {
    bypass: Option<(Bypass, HeartbeatWriter, Counters)>,
    agent: Option<ControlAgent>,
    refusal: Option<(Reason, String)>,
}

impl Engine {
    /// Opens an engine. Without control, or where it or the interface refuses, the engine opens all the same:
    /// [`Engine::refusal`] says why, and its sockets are the kernel's. Fails only where this process cannot even have a page
    /// of memory.
    pub fn open(options: &EngineOptions) -> Result<Self, Problem> {
        let guard = ForkGuard::new().map_err(|error| Problem::failed("cannot open an engine", error))?;
        let Found { bypass, agent, refusal } = find(options);
        let (bypass, heartbeat, counters) = match bypass {
            Some((bypass, heartbeat, counters)) => (Some(bypass), heartbeat, counters),
            None => (None, HeartbeatWriter::without(), Counters::private()?),
        };
        Ok(Self {
            guard,
            sockets: super::Sockets::default(),
            streams: Streams::default(),
            buffers: Buffers::new(),
            released: Released::default(),
            counters,
            heartbeat,
            timestamps: options.timestamps,
            bypass,
            refusal,
            options: Box::new(options.clone()),
            remains: None,
            agent,
        })
    }
}

fn find(options: &EngineOptions) -> Found {
    let without = |reason: Reason, text: String| Found { bypass: None, agent: None, refusal: Some((reason, text)) };
    if !options.accelerate {
        return without(Reason::NotWanted, Reason::NotWanted.description().into());
    }
    let path = match options.control.clone().map_or_else(place::socket, Ok) {
        Ok(path) => path,
        Err(problem) => return without(Reason::ControlAbsent, problem.brief()),
    };
    let mut client = match Client::connect_to(&path, &options.name) {
        Ok(client) => client,
        Err(error) => return without(Reason::of_error(&error), error.to_string()),
    };
    let opened = client.open_stack(wish(options));
    let (mut held, mut bypass, mut refusal) = (None, None, None);
    match opened {
        Ok(stack) => {
            let (number, interface) = (stack.facts.id, stack.facts.index);
            let spread = (!stack.facts.elsewhere.is_empty()).then(|| spread_of(interface));
            match accelerate(&mut client, stack, spread.clone(), options) {
                Ok((built, counters_page)) => {
                    bypass = Some(built);
                    held = Some(Held { stack: number, interface, counters_page, spread });
                }
                Err(problem) => {
                    let _ = client.close_stack(number);
                    refusal = Some((Reason::Refused, problem.brief()));
                }
            }
        }
        Err(error) => refusal = Some((Reason::of_error(&error), error.to_string())),
    }
    let start = Start { client, held, path, name: options.name.clone(), cpu: options.control_agent_cpu };
    match ControlAgent::start(start) {
        Ok(agent) => Found { bypass, agent: Some(agent), refusal },
        Err(problem) => without(Reason::Refused, problem.brief()),
    }
}

pub(super) fn wish(options: &EngineOptions) -> OpenStack {
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

type Built = ((Bypass, HeartbeatWriter, Counters), std::os::fd::OwnedFd);

fn accelerate(
    client: &mut Client,
    opened: Opened,
    spread: Option<Spread>,
    options: &EngineOptions,
) -> Result<Built, Problem> {
    let Opened { facts, sockets, frames, heartbeat, counters, counters_page } = opened;
    let table = client.take_table();
    let table = table.ok_or_else(|| Problem::failed("cannot open an engine", "the control plane gave no tables"))?;
    let parts = Reopened { facts, spread, sockets, frames, heartbeat, counters };
    Ok((build(parts, RouteCache::new(table), options, Checksums::Verify)?, counters_page))
}

/// Link and stack out of what control has handed over. `before` holds where this thread cannot ask for the driver.
pub(super) fn build(
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
    routes.tell_anew();
    let checksums = checksums(options.checksums, &facts.interface, before);
    // A segment that can be sent and not received must not be asked for: the kernel would reset the connection.
    let frame_bytes_max = link.facts().send_bytes_max.min(link.facts().receive_bytes_max);
    let packet_bytes_max = setup::packet_bytes_max(frame_bytes_max);
    let tcp = setup::open(&options.tcp, routes.mtu_of(device), packet_bytes_max)?;
    let stack = Stack::new(routes.changed_host(device).unwrap_or_default(), tcp);
    let room = Room::of_frames(link.facts().frames, link.fill_target());
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
        rules: Rules::default(),
        lost: None,
    };
    Ok((bypass, heartbeat, counters))
}

fn checksums(wish: Wish, interface: &str, before: Checksums) -> Checksums {
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
