//! `sidestep bench`.

use super::measured::{consent, measure, stream, streams};
use super::{bench_fix, bench_ring, bench_tick};
use crate::args::{ArrivalKind, Bench, Bulk, CastKind, Connect, Peer, Rates, Rr, Serve, Sizes, StreamKind, Unmodified};
use crate::output::Outputs;
use crate::values::{PathList, RateList};
use crate::{exit, signal};
use sidestep_bench::Consent;
use sidestep_bench::peer::serve::{self, serve};
use sidestep_bench::peer::{self, Allowed, Control, Keeper, Origin};
use sidestep_bench::run::{RoundTrips, Scenario};
use sidestep_bench::scenario::{self, Arrival, OpenLoops};
use sidestep_bench::stages::Stamping;
use sidestep_bench::transport::Transport;
use sidestep_bench::unmodified;
use sidestep_sys::cpu;
use sidestep_sys::problem::{Problem, say};
use std::os::fd::AsFd;
use std::time::Duration;

pub(super) fn run(args: Bench) -> Result<u8, Problem> {
    match args {
        Bench::Rr(args) => rr(args),
        Bench::Sizes(args) => sizes(args),
        Bench::Rates(args) => rates(args),
        Bench::Bulk(args) => bulk(args),
        Bench::Connect(args) => connect(args),
        Bench::Ring(args) => bench_ring::run(args),
        Bench::Fix(args) => bench_fix::run(*args),
        Bench::Tick(args) => bench_tick::run(*args),
        Bench::Unmodified(role) => unmodified_end(role).map(|()| exit::GOOD),
        Bench::FixBare { listen, cpu } => bench_fix::bare(&listen, cpu),
        Bench::RingPeer { job } => bench_ring::far(&job),
        Bench::Serve(args) => serve_others(&args),
        Bench::Peer(args) => peer_of_parent(&args),
    }
}

/// Paths of an open loop, if none are chosen.
const LOAD_PATHS: &str = "kernel-default,kernel-pinned,kernel-epoll,kernel-spin,uring-spin,xdp";

fn unknown(why: String) -> Problem {
    Problem::failed("cannot choose the usual paths", why).next("give --paths")
}

fn rr(args: Rr) -> Result<u8, Problem> {
    if args.timestamps && !args.transport.contains(&StreamKind::Udp) {
        return Err(Problem::usage("cannot take timestamps", "they are of datagrams").next("add --transport udp"));
    }
    let stamping = args.timestamps.then_some(match args.hardware_timestamps {
        true => Stamping::SwitchHardware,
        false => Stamping::AsItIs,
    });
    let outputs = Outputs::prepare(args.output)?;
    let transports = streams(&args.transport);
    let scenarios = if args.ladder {
        let [size] = args.size[..] else {
            return Err(Problem::usage("cannot measure the ladder", "it takes one --size")
                .next("give one --size, or leave it out"));
        };
        let rungs = |transport| Scenario::Ladder { transport, size, duration: args.duration, pin_irq: args.pin_irq };
        transports.into_iter().map(rungs).collect()
    } else {
        let (sizes, duration) = (args.size, args.duration);
        let chosen = |usual: &str| args.paths.map_or_else(|| usual.parse().map_err(unknown), Ok);
        match args.rate {
            Some(rate) => {
                let arrival = match args.arrival {
                    ArrivalKind::Constant => Arrival::Constant,
                    ArrivalKind::Poisson => Arrival::Poisson { seed: args.seed },
                };
                let (PathList(paths), rates) = (chosen(LOAD_PATHS)?, rate.0);
                vec![Scenario::OpenLoop(OpenLoops { transports, paths, sizes, rates, arrival, duration })]
            }
            None => {
                let PathList(paths) = chosen("all")?;
                let trips = RoundTrips::of(transports, paths, sizes, duration);
                vec![Scenario::RoundTrips(RoundTrips { causes: args.causes, stamping, ..trips })]
            }
        }
    };
    measure(&args.place, &scenarios, &outputs)
}

fn sizes(args: Sizes) -> Result<u8, Problem> {
    let outputs = Outputs::prepare(args.output)?;
    let transports = streams(&args.transport);
    let trips = RoundTrips::of(transports, args.paths.0, args.sizes, args.duration);
    let trips = RoundTrips { half: true, causes: args.causes, ..trips };
    measure(&args.place, &[Scenario::RoundTrips(trips)], &outputs)
}

fn bulk(args: Bulk) -> Result<u8, Problem> {
    let outputs = Outputs::prepare(args.output)?;
    let streams = RoundTrips::of(vec![Transport::Tcp], args.paths.0, args.size, args.duration);
    measure(&args.place, &[Scenario::Bulk { streams, congestion: args.congestion }], &outputs)
}

fn connect(args: Connect) -> Result<u8, Problem> {
    let outputs = Outputs::prepare(args.output)?;
    let calls = RoundTrips::of(vec![Transport::Tcp], args.paths.0, args.size, args.duration);
    measure(&args.place, &[Scenario::Connections(calls)], &outputs)
}

/// Rates of a sweep that was told none: a path is measured until it falls behind.
const USUAL_RATES: [f64; 11] = [10e3, 25e3, 50e3, 100e3, 150e3, 200e3, 300e3, 400e3, 600e3, 800e3, 1e6];

fn rates(args: Rates) -> Result<u8, Problem> {
    if !args.group.is_multicast() {
        return Err(Problem::usage(format!("cannot send to group {}", args.group), "it is not in 224.0.0.0/4")
            .next("give --group an address like 239.192.74.11"));
    }
    let outputs = Outputs::prepare(args.output)?;
    let until_behind = args.rates.is_none();
    let rates = args.rates.map_or_else(|| USUAL_RATES.into(), |RateList(rates)| rates);
    let sweep = scenario::Rates {
        transports: args.transport.iter().map(|kind| cast(*kind)).collect(),
        paths: args.paths.0,
        size: args.size,
        rates,
        until_behind,
        duration: args.duration,
        reflect_every: args.reflect_every,
        batch: args.batch,
        group: args.group,
    };
    measure(&args.place, &[Scenario::Rates(sweep)], &outputs)
}

fn cast(kind: CastKind) -> Transport {
    match kind {
        CastKind::Udp => Transport::Udp,
        CastKind::Multicast => Transport::Multicast,
    }
}

fn serve_others(args: &Serve) -> Result<u8, Problem> {
    let last = cpu::allowed().last().copied().unwrap_or_default();
    let cpu = args.cpu.unwrap_or(last);
    cpu::check(cpu)?;
    let stop = signal::stop_flag()?;
    let Serve { allow_cpu: cpus, stream_bytes, facts, any_group, fix, .. } = *args;
    let allowed = Allowed { cpu: cpus, stream_bytes, facts, any_group, fix };
    let consent = consent(args.interface.as_ref(), args.start_control)?;
    let options = serve::Serve { listen: args.listen, cpu, sessions: args.sessions as usize, allowed, consent };
    serve(&options, &stop, say)?;
    Ok(exit::GOOD)
}

fn unmodified_end(role: Unmodified) -> Result<(), Problem> {
    match role {
        Unmodified::Client { transport, remote, size, cpu, settle, duration, clock, ns_per_tick } => {
            let transport = stream(transport);
            unmodified::Client { transport, remote, size, cpu, settle, duration, clock: (clock, ns_per_tick) }.run()
        }
        Unmodified::Server { transport, local, remote, size, cpu } => {
            unmodified::Server { transport: stream(transport), local, remote, size, cpu }.run()
        }
    }
}

/// The control connection is standard input, which the parent made a socket.
fn peer_of_parent(args: &Peer) -> Result<u8, Problem> {
    let refused = |error| Problem::failed("cannot be a peer", error).next("use: sidestep bench serve");
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(refused)?;
    let control = Control::over(socket.into()).map_err(refused)?;
    if control.has_word(Duration::from_secs(5)) {
        let Peer { local, remote, cpu, in_lab, .. } = *args;
        let by_frames = match args.by_frames[..] {
            [local, remote] => Some((local, remote)),
            _ => None,
        };
        let (allowed, keeper) = (Allowed::EVERYTHING, Keeper::default());
        let consent = if in_lab { Consent::Lab } else { Consent::Nothing };
        peer::run(control, Origin { local, remote, same_host: true, consent, keeper, by_frames, cpu, allowed })?;
    }
    Ok(exit::GOOD)
}
