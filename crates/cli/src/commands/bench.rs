//! `sidestep bench`.

use super::measured::{measure, stream, streams};
use super::{bench_fix, bench_ring};
use crate::args::{Bench, Bulk, CastKind, Connect, Peer, Rates, Rr, Serve, Sizes, StreamKind, Unmodified};
use crate::output::Outputs;
use crate::{exit, signal};
use sidestep_bench::peer::serve::{self, serve};
use sidestep_bench::peer::{self, Allowed, Control, Origin};
use sidestep_bench::run::{RoundTrips, Scenario};
use sidestep_bench::scenario;
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
        Bench::Unmodified(role) => unmodified_end(role).map(|()| exit::GOOD),
        Bench::FixBare { listen, cpu } => bench_fix::bare(&listen, cpu),
        Bench::RingPeer { job } => bench_ring::far(&job),
        Bench::Serve(args) => serve_others(&args),
        Bench::Peer(args) => peer_of_parent(&args),
    }
}

fn rr(args: Rr) -> Result<u8, Problem> {
    if args.timestamps && !args.transport.contains(&StreamKind::Udp) {
        return Err(Problem::usage("cannot take timestamps", "they are of datagrams").next("add --transport udp"));
    }
    let stamping = args.timestamps.then_some(match args.hardware_timestamps {
        true => Stamping::SwitchHardware,
        false => Stamping::AsItIs,
    });
    let outputs = Outputs::prepare(args.output.json, args.output.html)?;
    let transports = streams(&args.transport);
    let scenarios = if args.ladder {
        let [size] = args.size[..] else {
            return Err(Problem::usage("cannot measure the ladder", "it takes one --size")
                .next("give one --size, or leave it out"));
        };
        let rungs = |transport| Scenario::Ladder { transport, size, duration: args.duration, pin_irq: args.pin_irq };
        transports.into_iter().map(rungs).collect()
    } else {
        let (paths, sizes, duration) = (args.paths.0, args.size, args.duration);
        vec![Scenario::RoundTrips(RoundTrips {
            transports,
            paths,
            sizes,
            duration,
            half: false,
            causes: args.causes,
            stamping,
        })]
    };
    measure(&args.place, &scenarios, &outputs)
}

fn sizes(args: Sizes) -> Result<u8, Problem> {
    let outputs = Outputs::prepare(args.output.json, args.output.html)?;
    let transports = streams(&args.transport);
    let (paths, sizes, duration) = (args.paths.0, args.sizes, args.duration);
    let trips = RoundTrips { transports, paths, sizes, duration, half: true, causes: args.causes, stamping: None };
    measure(&args.place, &[Scenario::RoundTrips(trips)], &outputs)
}

fn bulk(args: Bulk) -> Result<u8, Problem> {
    let outputs = Outputs::prepare(args.output.json, args.output.html)?;
    let (paths, sizes, duration) = (args.paths.0, args.size, args.duration);
    let streams = RoundTrips {
        transports: vec![Transport::Tcp],
        paths,
        sizes,
        duration,
        half: false,
        causes: false,
        stamping: None,
    };
    measure(&args.place, &[Scenario::Bulk { streams, congestion: args.congestion }], &outputs)
}

fn connect(args: Connect) -> Result<u8, Problem> {
    let outputs = Outputs::prepare(args.output.json, args.output.html)?;
    let (paths, sizes, duration) = (args.paths.0, args.size, args.duration);
    let calls = RoundTrips {
        transports: vec![Transport::Tcp],
        paths,
        sizes,
        duration,
        half: false,
        causes: false,
        stamping: None,
    };
    measure(&args.place, &[Scenario::Connections(calls)], &outputs)
}

fn rates(args: Rates) -> Result<u8, Problem> {
    if !args.group.is_multicast() {
        return Err(Problem::usage(format!("cannot send to group {}", args.group), "it is not in 224.0.0.0/4")
            .next("give --group an address like 239.192.74.11"));
    }
    let outputs = Outputs::prepare(args.output.json, args.output.html)?;
    let sweep = scenario::Rates {
        transports: args.transport.iter().map(|kind| cast(*kind)).collect(),
        paths: args.paths.0,
        size: args.size,
        rates: args.rates.0,
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
    let allowed =
        Allowed { cpu: args.allow_cpu, stream_bytes: args.stream_bytes, facts: args.facts, any_group: args.any_group };
    let options = serve::Serve { listen: args.listen, cpu, sessions: args.sessions as usize, allowed };
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
        let allowed = Allowed::EVERYTHING;
        peer::run(control, Origin { local, remote, same_host: true, in_lab, by_frames, cpu, allowed })?;
    }
    Ok(exit::GOOD)
}
