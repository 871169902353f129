//! The interfaces: one line each. What would need a program on them is said, with the command that tries it.

use crate::check::{Check, Group, INTERFACE, State};
use crate::facts::{Facts, Interface, Ready, Version};
use crate::trials::{Control, Trials};

const THIS: Group = Group::Bypass;
/// Drivers tell what they can.
const FEATURES_TOLD: Version = Version(6, 3);

pub(super) fn checks(facts: &Facts, trials: &Trials) -> Vec<Check> {
    let (useful, others): (Vec<&Interface>, Vec<&Interface>) = facts
        .interfaces
        .iter()
        .partition(|one| one.is_named || (one.is_ethernet && (one.ready == Ready::Up || one.xdp_program.is_some())));
    let mut all: Vec<Check> = useful.iter().map(|one| interface(one, facts, trials)).collect();
    if all.is_empty() {
        let reason = "no Ethernet interface is up: on loopback nothing goes past the kernel";
        all.push(Check::new(THIS, "interfaces", State::Partly, reason).next(facts.as_root("sidestep lab up try")));
    }
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|one| one.name.as_str()).collect();
        let reason = format!("down, or no Ethernet: {}", names.join(", "));
        let next = format!("sidestep doctor --interface {}", names.join(","));
        all.push(Check::new(THIS, "other-interfaces", State::Ok, reason).next(next));
    }
    if facts.more_interfaces > 0 {
        let reason = format!("{} interfaces more were not looked at", facts.more_interfaces);
        all.push(Check::new(THIS, "more-interfaces", State::Ok, reason).next("sidestep doctor --interface NAME"));
    }
    all
}

fn interface(one: &Interface, facts: &Facts, trials: &Trials) -> Check {
    let attach = facts.as_root(&format!("sidestep control --interface {}", one.name));
    let check = |state, reason: &str| {
        Check::new(THIS, format!("{INTERFACE}{}", one.name), state, format!("{}: {reason}", who(one)))
    };
    if !one.is_ethernet {
        return check(State::Partly, "no Ethernet interface: the kernel carries its traffic");
    }
    if let Some(program) = one.xdp_program {
        return match trials.control {
            Control::Serves(_) => {
                check(State::Ok, &format!("XDP program {program} is on it; sidestep ps shows who uses it"))
            }
            _ => check(
                State::Partly,
                &format!("XDP program {program} is on it, and no control plane is known to have put it there"),
            )
            .next(facts.as_root(&format!("bpftool prog show id {program}"))),
        };
    }
    if one.ready == Ready::Down {
        return check(State::Partly, "down, or without a carrier")
            .next(facts.as_root(&format!("ip link set {} up", one.name)));
    }
    let Some(xdp) = one.xdp else {
        let reason = format!("what its driver can is not told before Linux {FEATURES_TOLD}: known when tried");
        return check(State::Partly, &reason).next(attach);
    };
    let large = if one.mtu > 3000 && !xdp.several_buffers {
        format!("; its MTU of {} is more than the driver gives to programs", one.mtu)
    } else {
        String::new()
    };
    match (xdp.native, xdp.zero_copy) {
        (true, true) => check(
            State::Ok,
            &format!("XDP in the driver, zero copy{large}; attaching may take the link down for a moment"),
        )
        .next(attach),
        (true, false) => check(State::Ok, &format!("XDP in the driver, copy mode{large}")).next(attach),
        (false, _) => check(State::Partly, "no XDP in the driver: generic mode works, and gains little").next(attach),
    }
}

/// "eth0 (virtio_net, 4 queues)".
fn who(one: &Interface) -> String {
    let driver = one.driver.as_deref().unwrap_or("driver not told");
    match one.queues {
        Some(1) => format!("{} ({driver}, 1 queue)", one.name),
        Some(queues) => format!("{} ({driver}, {queues} queues)", one.name),
        None => format!("{} ({driver})", one.name),
    }
}
