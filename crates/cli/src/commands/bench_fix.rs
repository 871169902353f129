//! `sidestep bench fix`.

use super::measured::{clock, command_line, consent, write_outcome};
use crate::args::{BenchFix, WaitingKind, WorkloadKind};
use crate::output::{self, Outputs};
use crate::progress::Bar;
use crate::values::Named;
use crate::{exit, signal};
use sidestep_bench::fix::{self, Acceptor, Bare, Endpoint, Identity, Own, Reach, Request, Setting, Waiting, Workload};
use sidestep_bench::run::this_program;
use sidestep_sys::{Problem, cpu};

pub(super) fn run(args: BenchFix) -> Result<u8, Problem> {
    let outputs = Outputs::prepare(args.output.clone())?;
    let setting = Setting {
        clock: clock(args.clock),
        client_cpu: args.cpus.map(|cpus| cpus.client),
        server_cpu: args.cpus.and_then(|cpus| cpus.peer),
        program: this_program(),
        to: args.to.map(|target| target.0),
        consent: consent(args.interface.as_ref(), args.start_control)?,
        stop: signal::stop_flag()?,
        command: command_line(),
    };
    write_outcome(fix::run(&setting, &request(args)?, &mut Bar::new())?, &outputs)
}

/// Serves as the bare acceptor at `listen` until it is ended.
pub(super) fn bare(listen: &str, cpu: u32) -> Result<u8, Problem> {
    let stop = signal::stop_flag()?;
    // Threads started from here on would share the CPU.
    cpu::restrict(&[cpu])?;
    let mut acceptor = Bare::listen(&Endpoint::parse(listen)?)?;
    output::print(&format!("listening on {}\n", acceptor.endpoint()))?;
    acceptor.run(&stop)?;
    Ok(exit::GOOD)
}

fn request(args: BenchFix) -> Result<Request, Problem> {
    let strays = args.pid.iter().map(|pid| &pid.name).chain(args.about.iter().map(|about| &about.name));
    for name in strays {
        if !args.acceptor.iter().any(|acceptor| acceptor.name == *name) {
            return Err(Problem::usage(
                format!("no acceptor is named {name}"),
                "--pid and --about belong to an --acceptor",
            )
            .next(format!("add --acceptor {name}=ADDRESS, or leave them out")));
        }
    }
    let acceptor = |Named { name, value: reach }: &Named<Reach>| Acceptor {
        name: name.clone(),
        reach: reach.clone(),
        pid: args.pid.iter().find(|pid| pid.name == *name).map(|pid| pid.value),
        description: match args.about.iter().find(|about| about.name == *name) {
            Some(about) => about.value.clone(),
            None => format!("The acceptor at {reach}."),
        },
        beside: Vec::new(),
    };
    let is_alone = args.own == ["none"];
    if is_alone && args.acceptor.is_empty() {
        return Err(Problem::usage("there is nothing to measure", "--own is none, and there is no --acceptor")
            .next("give --acceptor NAME=ADDRESS, or leave --own none out"));
    }
    let own = Own {
        transports: if is_alone { Vec::new() } else { args.own },
        stores: if is_alone { Vec::new() } else { args.store },
        spin: args.own_waiting == WaitingKind::Spin,
        bare: args.bare,
    };
    Ok(Request {
        own,
        acceptors: args.acceptor.iter().map(acceptor).collect(),
        against: args.against,
        identity: Identity { begin_string: args.begin_string, sender: args.sender, target: args.target },
        workloads: args.workload.iter().map(|kind| workload(*kind)).collect(),
        loads: args.pace.0,
        sessions: args.sessions,
        waiting: match args.waiting {
            WaitingKind::Spin => Waiting::Spin,
            WaitingKind::Block => Waiting::Block,
        },
        duration: args.duration,
        warmup: args.warmup,
    })
}

fn workload(kind: WorkloadKind) -> Workload {
    match kind {
        WorkloadKind::Orders => Workload::Orders,
        WorkloadKind::Heartbeats => Workload::TestRequests,
    }
}
