//! A network namespace without a name: it ends with this process, whatever happens, and the veth pair in it with it.

use super::{Outcome, bypass};
use crate::facts::{Capability, Facts};
use sidestep_sys::netns::Namespace;
use sidestep_sys::process::die_with_parent;
use sidestep_sys::thread::apart;
use sidestep_sys::{Problem, xdp};
use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The ends of the veth pair.
pub(super) const HERE: &str = "lab0";
pub(super) const THERE: &str = "lab1";
/// A setting that `lab up` writes in each namespace.
const SETTING: &str = "/proc/sys/net/ipv4/conf/all/rp_filter";
/// The time for a veth pair to carry frames.
const UP_MAX: Duration = Duration::from_secs(3);

/// What was tried in it.
pub(super) struct InNamespace {
    pub(super) lab: Outcome,
    pub(super) af_xdp: Outcome,
}

/// Makes a namespace, a veth pair in it, and lets a frame go past the kernel there.
pub(super) fn run(facts: &Facts) -> InNamespace {
    let both = |problem: Problem| InNamespace { lab: Err(problem.clone()), af_xdp: Err(problem) };
    let namespace = match Namespace::unnamed() {
        Ok(namespace) => namespace,
        Err(problem) => return both(problem),
    };
    let inside = || {
        namespace.enter().and_then(|()| pair(facts)).map_or_else(both, |()| InNamespace {
            lab: writable().map(|()| "labs can be made: network namespaces, veth pairs".into()),
            af_xdp: bypass::frame(HERE, THERE),
        })
    };
    apart(inside).unwrap_or_else(both)
}

fn pair(facts: &Facts) -> Result<(), Problem> {
    if !facts.has("ip") {
        return Err(
            Problem::failed("cannot make a veth pair", "the program ip is missing").next(facts.install("iproute2"))
        );
    }
    if !facts.user.has(Capability::NetAdmin) {
        return Err(Problem::failed("cannot make a veth pair", "this process has no CAP_NET_ADMIN")
            .next(facts.more_rights("sidestep lab up", "NET_ADMIN SYS_ADMIN")));
    }
    ip(&["link", "add", HERE, "type", "veth", "peer", "name", THERE])?;
    ip(&["link", "set", HERE, "up"])?;
    ip(&["link", "set", THERE, "up"])?;
    xdp::wait_until_up(HERE, UP_MAX).map(drop)
}

/// Runs `ip` in the namespace of this thread.
fn ip(arguments: &[&str]) -> Result<(), Problem> {
    let what = || format!("cannot run ip {}", arguments.join(" "));
    let mut command = Command::new("ip");
    command.args(arguments).stdin(Stdio::null());
    die_with_parent(&mut command);
    let output = command.output().map_err(|error| Problem::failed(what(), error).next("install iproute2"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Problem::failed(what(), said.trim()).next("load the module of veth pairs: modprobe veth"))
}

/// Asks whether the settings of a namespace can be written; nothing is.
fn writable() -> Result<(), Problem> {
    OpenOptions::new().write(true).open(SETTING).map(drop).map_err(|error| {
        Problem::failed(format!("cannot write {SETTING}"), error)
            .next("mount /proc/sys writable: mount -o remount,rw /proc/sys, or run the container with --privileged")
    })
}
