//! `sidestep watch`.

use super::measured::{consent, streams};
use crate::args::Watch as Args;
use crate::{exit, output, signal};
use sidestep_bench::place::PeerProgram;
use sidestep_bench::probe::{Circumstances, Probe};
use sidestep_bench::run::this_program;
use sidestep_control_api::place;
use sidestep_sys::Problem;
use sidestep_sys::clock::Choice;
use sidestep_tune::profile::Profile;
use sidestep_tune::scope::Request;
use sidestep_watch::{HiccupCpus, Options, Tuning, once, watch};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The port beside that of `fix exchange --metrics` in our examples.
const PORT: u16 = 9465;

pub(super) fn run(args: Args) -> Result<u8, Problem> {
    let stop = signal::stop_flag()?;
    let is_once = args.once;
    let options = options(args, stop)?;
    if is_once {
        let (text, problem) = once(&options).map_err(signal::named)?;
        output::print(&text)?;
        return problem.map_or(Ok(exit::GOOD), Err);
    }
    let wire = signal::stop_wire()?;
    watch(&options, wire.as_fd())?;
    // As it was asked to: a service that is stopped has not failed.
    Ok(exit::GOOD)
}

fn options(args: Args, stop: Arc<AtomicBool>) -> Result<Options, Problem> {
    let usual = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT);
    let listen = args.listen.or((args.file.is_none() && !args.once).then_some(usual));
    Ok(Options {
        every: args.every,
        probes: probes(&args),
        hiccups: args.hiccup_cpus.as_ref().map_or(HiccupCpus::Allowed, |cpus| HiccupCpus::These(cpus.0.clone())),
        tuning: tuning(&args)?,
        control: args.socket.clone().map_or_else(place::socket, Ok)?,
        listen,
        around: Circumstances {
            peer: args.to.map(|target| target.0),
            consent: consent(args.interface.as_ref(), false)?,
            program: PeerProgram::Process(this_program()),
            client_cpu: args.cpus.map(|cpus| cpus.client),
            server_cpu: args.cpus.and_then(|cpus| cpus.peer),
            size: args.size,
            slice: args.slice,
            clock: Choice::Auto,
            stop,
        },
        file: args.file,
    })
}

/// Every path over every transport. One that has its own transport is there once.
fn probes(args: &Args) -> Vec<Probe> {
    let mut probes = Vec::new();
    for transport in streams(&args.transport) {
        for path in &args.paths.0 {
            let probe = Probe { path, transport: path.transport(transport) };
            if !probes.contains(&probe) {
                probes.push(probe);
            }
        }
    }
    probes
}

fn tuning(args: &Args) -> Result<Option<Tuning>, Problem> {
    let profile = match &args.policy {
        Some(path) => Profile::read(path)?,
        None => Profile::built_in(&args.profile)?,
    };
    let request = Request { interfaces: args.audit_interface.clone(), hot: args.hot_cpus.clone() };
    Ok(args.tune_every.0.map(|every| Tuning { every, profile, request }))
}
