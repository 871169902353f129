//! `sidestep bench ring`.

use super::measured::{clock, command_line, write_outcome};
use crate::args::{BenchRing, ClockKind};
use crate::output::Outputs;
use crate::progress::Bar;
use crate::values::Cpus;
use crate::{exit, signal};
use sidestep_bench::path;
use sidestep_bench::ring::{self, Contestant, Load, Request, Setting, channels, events, far_process};
use sidestep_bench::run::this_program;
use sidestep_sys::Problem;
use std::time::Duration;

/// Time for each path, unless given.
const DURATION: Duration = Duration::from_secs(1);

/// Events for each path, unless given: enough for p99.
const SAMPLES: u32 = 20_000;

pub(super) fn run(args: BenchRing) -> Result<u8, Problem> {
    if args.source.is_some() {
        return of_events(args);
    }
    let contestants = chosen(&args.paths)?;
    let mut loads = args.pace.0;
    if !args.no_throughput {
        loads.push(Load::Stream);
    }
    if loads.is_empty() {
        return Err(Problem::usage("nothing to measure", "--pace is none and --no-throughput is given")
            .next("leave one of the two out"));
    }
    let outputs = Outputs::prepare(args.output)?;
    let request = Request {
        sizes: args.sizes,
        loads,
        duration: args.duration.unwrap_or(DURATION),
        ring_bytes: args.room.saturating_mul(1024),
    };
    let setting = setting(args.clock, args.cpus)?;
    write_outcome(ring::run(&setting, &request, &contestants, &mut Bar::new())?, &outputs)
}

fn setting(kind: ClockKind, cpus: Option<Cpus>) -> Result<Setting, Problem> {
    Ok(Setting {
        clock: clock(kind),
        client_cpu: cpus.map(|cpus| cpus.client),
        server_cpu: cpus.and_then(|cpus| cpus.peer),
        stop: signal::stop_flag()?,
        command: command_line(),
    })
}

/// Measures the events of a source in the kernel.
fn of_events(args: BenchRing) -> Result<u8, Problem> {
    let origin = args.source.as_deref().unwrap_or_default().parse()?;
    // A twentieth more: an event that is late is not made up for.
    let of_samples = |samples: u32| args.interval.saturating_mul(samples).saturating_mul(21) / 20;
    let duration = args.samples.map(of_samples).or(args.duration).unwrap_or_else(|| of_samples(SAMPLES));
    let request = events::Request { origin, paths: args.paths, interval: args.interval, duration };
    let outputs = Outputs::prepare(args.output)?;
    write_outcome(events::run(&setting(args.clock, args.cpus)?, &request, &mut Bar::new())?, &outputs)
}

/// Returns the contestants of these names; all of them if there is no name.
fn chosen(names: &[String]) -> Result<Vec<Box<dyn Contestant>>, Problem> {
    let mut all = channels::all(this_program());
    if names.is_empty() || names == ["all"] {
        return Ok(all);
    }
    if let Some(name) = names.iter().find(|name| !all.iter().any(|one| one.name() == name.trim())) {
        let known: Vec<&str> = all.iter().map(|one| one.name()).collect();
        return Err(path::unknown(name, "this build does not know it", &known));
    }
    all.retain(|one| names.iter().any(|name| name.trim() == one.name()));
    Ok(all)
}

/// Runs as the far end of a ring.
pub(super) fn far(job: &[String]) -> Result<u8, Problem> {
    far_process(job)?;
    Ok(exit::GOOD)
}
