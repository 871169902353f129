//! Teardown of a lab, complete or half built, by its owner or by a process that found it.

use std::thread;
use std::time::{Duration, Instant};

use sidestep_sys::Problem;
use sidestep_sys::process::Process;

use super::directory::Directory;
use super::holders::{holders, list};
use super::ip::Ip;
use super::name::{FRAMES_INTERFACE, INTERFACE, LabName, WIRE_TO_A, WIRE_TO_B, namespace_path};

/// The time for the relay to end. It checks its stop flag many times a second; a slower one hangs and is killed.
const RELAY_END_TIMEOUT: Duration = Duration::from_secs(2);

const RELAY_END_POLL: Duration = Duration::from_millis(5);

/// Removes the namespaces and then the record; returns remarks for the user. Processes of the user are left alone: they
/// keep a namespace without a name, and without a wire, until they end.
pub(crate) fn remove(
    ip: &Ip,
    directory: &Directory,
    name: &LabName,
    wire: Option<Process>,
    namespaces: &[String],
) -> Result<Option<String>, Problem> {
    if let Some(wire) = wire {
        end_relay(wire)?;
    }
    let holders = holders(namespaces, &[]);
    for namespace in namespaces {
        // Deleting a namespace returns before its interfaces are gone; deleting an interface does not. A namespace that
        // has no interface any more is fine.
        for interface in [INTERFACE, FRAMES_INTERFACE, WIRE_TO_A, WIRE_TO_B] {
            let _ = ip.run(&["-n", namespace, "link", "delete", "dev", interface]);
        }
        let deleted = ip.run(&["netns", "delete", namespace]);
        // A process with another record directory, which does not share our lock, may have removed it first.
        if namespace_path(namespace).exists() {
            deleted?;
        }
    }
    directory.forget(name)?;
    Ok((!holders.is_empty()).then(|| format!("lab {name}: still in a namespace of it: {}", list(&holders))))
}

/// Ends the relay named by the record, and no other process with the same pid.
pub(crate) fn end_relay(relay: Process) -> Result<(), Problem> {
    let problem = |error: std::io::Error| {
        Problem::failed(format!("cannot stop the wire (process {})", relay.pid), error)
            .next("run as root, as the process that made the lab did")
    };
    relay.signal(libc::SIGTERM).map_err(problem)?;
    if has_ended(relay) {
        return Ok(());
    }
    relay.signal(libc::SIGKILL).map_err(problem)?;
    if has_ended(relay) {
        return Ok(());
    }
    Err(problem(std::io::Error::other("SIGKILL did not end it")))
}

fn has_ended(relay: Process) -> bool {
    let deadline = Instant::now() + RELAY_END_TIMEOUT;
    while relay.is_alive() && Instant::now() < deadline {
        thread::sleep(RELAY_END_POLL);
    }
    !relay.is_alive()
}
