//! The CPUs of the two ends.

use crate::measure::Cpus;
use sidestep_sys::proc::Roots;
use sidestep_sys::{Problem, cpu};

/// The CPUs asked for, or two of those allowed that do not share a core, from the end of the list: the first CPUs are
/// where kernels and drivers put their own work.
pub(crate) fn choose_cpus(client: Option<u32>, server: Option<u32>, same_host: bool) -> Result<Cpus, Problem> {
    let allowed = cpu::allowed();
    client.map_or(Ok(()), cpu::check)?;
    server.filter(|_| same_host).map_or(Ok(()), cpu::check)?;
    let siblings =
        |cpu: u32| Roots::default().sys(&format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    let last = allowed.last().copied().unwrap_or_default();
    if !same_host {
        return Ok(Cpus { client: client.unwrap_or(last), server });
    }
    let server =
        server.unwrap_or_else(|| allowed.iter().rev().copied().find(|cpu| Some(*cpu) != client).unwrap_or(last));
    let apart = |cpu: &&u32| **cpu != server && siblings(**cpu) != siblings(server);
    let beside = |cpu: &&u32| **cpu != server;
    let client = client.unwrap_or_else(|| {
        let free = allowed.iter().rev().find(apart).or_else(|| allowed.iter().rev().find(beside));
        free.copied().unwrap_or(server)
    });
    Ok(Cpus { client, server: Some(server) })
}

/// Chooses the CPUs beside a peer that serves: on another machine it chooses its own; on this one it has the CPU that it says,
/// and this end another one, if it may use another.
pub(crate) fn cpus_beside(
    (client, server): (Option<u32>, Option<u32>),
    same_machine: bool,
    peer_cpu: Option<u32>,
) -> Result<Cpus, Problem> {
    let theirs = server.or(peer_cpu).filter(|cpu| same_machine && cpu::allowed().contains(cpu));
    match theirs {
        Some(_) => choose_cpus(client, theirs, true),
        None => choose_cpus(client, server, false),
    }
}

/// Returns the note on a served peer that is no other machine.
pub(crate) fn note_same_machine(same_machine: bool) -> Option<String> {
    same_machine.then(|| {
        "both ends are on this machine, under one kernel: they share its CPUs, and no cable is between them".into()
    })
}

/// Returns the measured CPUs of this machine.
pub(crate) fn both(cpus: Cpus, same_machine: bool) -> Vec<u32> {
    let mut both: Vec<u32> = std::iter::once(cpus.client).chain(cpus.server.filter(|_| same_machine)).collect();
    // Another process on this machine may use CPUs that this one may not.
    both.retain(|cpu| *cpu == cpus.client || cpu::allowed().contains(cpu));
    both.dedup();
    both
}
