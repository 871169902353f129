//! Opening: everything that needs control, and what is left without it.

use crate::control_agent::{ControlAgent, Held, Reopened, Start, spread_of};
use crate::engine::Engine;
use crate::engine::build::{build, wish};
use crate::engine::bypass::Bypass;
use crate::fallback::released::Released;
use crate::heartbeat_writer::HeartbeatWriter;
use crate::options::EngineOptions;
use crate::reason::Reason;
use crate::route_cache::RouteCache;
use crate::tcp::streams::Streams;
use crate::udp::buffers::Buffers;
use crate::udp::socket::Sockets;
use sidestep_control_api::client::{Client, Stack as Opened};
use sidestep_control_api::counters::Counters;
use sidestep_control_api::place;
use sidestep_control_api::rss::Spread;
use sidestep_stack::Checksums;
use sidestep_sys::Problem;
use sidestep_sys::fork::ForkGuard;

/// The outcome of opening.
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
            sockets: Sockets::default(),
            streams: Streams::default(),
            buffers: Buffers::new(),
            released: Released::default(),
            counters,
            heartbeat,
            timestamps: options.timestamps,
            bypass,
            refusal,
            options: Box::new(options.clone()),
            reopened: 0,
            lost_stack: None,
            burst: Vec::new(),
            told: None,
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
        Err(problem) => return without(Reason::ControlAbsent, problem.line()),
    };
    let mut client = match Client::connect_to(&path, &options.name) {
        Ok(client) => client,
        Err(error) => return without(Reason::of_error(&error), Problem::from(error).line()),
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
                    refusal = Some((Reason::Refused, problem.line()));
                }
            }
        }
        Err(error) => refusal = Some((Reason::of_error(&error), Problem::from(error).line())),
    }
    let start = Start { client, held, path, name: options.name.clone(), cpu: options.control_agent_cpu };
    match ControlAgent::start(start) {
        Ok(agent) => Found { bypass, agent: Some(agent), refusal },
        Err(problem) => without(Reason::Refused, problem.line()),
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
