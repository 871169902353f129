//! Opening: everything that needs control, and what is left without it.

use super::{Engine, Fast};
use crate::buffers::Buffers;
use crate::heart::Heart;
use crate::keeper::{Held, Keeper, Start};
use crate::options::{Checksums as Wish, EngineOptions};
use crate::reason::Reason;
use crate::released::Released;
use crate::routes::Ways;
use crate::tcp::{Segments, Streams};
use sidestep_link::frame::FrameLink;
use sidestep_link::frame::xdp::{XdpLink, XdpOptions};
use sidestep_plane::client::{Client, Stack as Opened};
use sidestep_plane::counters::Counters;
use sidestep_plane::message::OpenStack;
use sidestep_plane::place;
use sidestep_stack::{Checksums, Stack};
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::{Problem, offload};
use std::collections::BTreeMap;

/// Bytes of a frame: an Ethernet frame of 1500 bytes with two tags, and room to spare.
const FRAME_BYTES: u32 = 2048;

/// What opening has found.
struct Found {
    fast: Option<(Fast, Heart, Counters)>,
    keeper: Option<Keeper>,
    refusal: Option<(Reason, String)>,
}

impl Engine {
    /// Opens an engine. Without control, or where it or the interface refuses, the engine opens all the same:
    /// [`Engine::refusal`] says why, and its sockets are the kernel's. Fails only where this process cannot even have a page
    /// of memory.
    pub fn open(options: &EngineOptions) -> Result<Self, Problem> {
        let guard = ForkGuard::new().map_err(|error| Problem::failed("cannot open an engine", error))?;
        let Found { fast, keeper, refusal } = find(options);
        let (fast, heart, counters) = match fast {
            Some((fast, heart, counters)) => (Some(fast), heart, counters),
            None => (None, Heart::without(), Counters::private()?),
        };
        let (timestamps, buffers) = (options.timestamps, Buffers::new());
        let sockets = super::Sockets::default();
        let (streams, released) = (Streams::default(), Released::default());
        Ok(Self { guard, sockets, streams, buffers, released, counters, heart, timestamps, fast, refusal, keeper })
    }
}

fn find(options: &EngineOptions) -> Found {
    let without = |reason: Reason, text: String| Found { fast: None, keeper: None, refusal: Some((reason, text)) };
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
    let (mut held, mut fast, mut refusal) = (None, None, None);
    match opened {
        Ok(stack) => {
            let number = stack.facts.id;
            match accelerate(&mut client, stack, options) {
                Ok((built, counters_page)) => {
                    fast = Some(built);
                    held = Some(Held { stack: number, counters_page });
                }
                Err(problem) => {
                    let _ = client.close_stack(number);
                    refusal = Some((Reason::Refused, problem.brief()));
                }
            }
        }
        Err(error) => refusal = Some((Reason::of_error(&error), error.to_string())),
    }
    let start = Start { client, held, path, name: options.name.clone(), cpu: options.keeper_cpu };
    match Keeper::start(start) {
        Ok(keeper) => Found { fast, keeper: Some(keeper), refusal },
        Err(problem) => without(Reason::Refused, problem.brief()),
    }
}

fn wish(options: &EngineOptions) -> OpenStack {
    OpenStack {
        queue: options.queue,
        frames: options.frames,
        frame_bytes: FRAME_BYTES,
        ring_entries: options.ring_entries,
        mode: options.mode,
        tx_budget: options.tx_budget,
        busy_poll: options.busy_poll,
        ..OpenStack::on(options.interface.clone())
    }
}

type Built = ((Fast, Heart, Counters), std::os::fd::OwnedFd);

fn accelerate(client: &mut Client, opened: Opened, options: &EngineOptions) -> Result<Built, Problem> {
    let Opened { facts, socket, frames, heartbeat, counters, counters_page } = opened;
    let link_options = XdpOptions { kick: options.kick, fill: options.fill };
    let link = XdpLink::open(socket, frames, facts.socket_facts(), &link_options)?;
    let heart = Heart::start(heartbeat);
    let table = client.take_table();
    let table = table.ok_or_else(|| Problem::failed("cannot open an engine", "the control plane gave no tables"))?;
    let mut ways = Ways::new(table);
    let (device, mode) = (facts.index, facts.mode);
    let stack = Stack::new(ways.changed_host(device).unwrap_or_default());
    let checksums = checksums(options.checksums, &facts.interface);
    let (owners, entries) = (Vec::new(), BTreeMap::new());
    let segments = Segments::new(&options.tcp, ways.mtu_of(device), link.facts().send_bytes_max)?;
    let fast = Fast { link, stack, segments, ways, device, mode, checksums, owners, entries, lost: None };
    Ok(((fast, heart, counters), counters_page))
}

fn checksums(wish: Wish, interface: &str) -> Checksums {
    match wish {
        Wish::Verify => Checksums::Verify,
        Wish::Trust => Checksums::Trusted,
        Wish::Auto if offload::driver(interface).is_ok_and(|driver| driver == "veth") => Checksums::Trusted,
        Wish::Auto => Checksums::Verify,
    }
}
