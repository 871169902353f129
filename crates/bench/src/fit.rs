//! Limits of the two ends of a run: the paths between them, the messages that their interfaces carry.

use crate::bypass::Consent;
use crate::frames;
use crate::measure::Bench;
use crate::path::{Medium, Path};
use crate::place::{Ends, NO_FRAMES_PAIR};
use crate::scenario::Arm;
use crate::transport::Transport;
use sidestep_socket::stream::Waiting;
use sidestep_unmodified::library;

/// Refuses an arm that these two ends cannot measure, and adds notes to the others.
pub(crate) fn fit(arm: Arm, bench: &Bench) -> Arm {
    let (path, transport, size) = (arm.target.path, arm.target.transport, arm.target.size);
    let ends = bench.ends();
    let local_only = matches!(transport, Transport::Uds | Transport::Shm | Transport::Memory);
    if let Some(reason) = refusal(ends, path, transport, size) {
        return arm.refused(reason);
    }
    if local_only && !ends.same_host {
        return arm.refused("both ends must be on one host");
    }
    let arm = match shared_cpu(bench) {
        Some(cpu) if path.waiting == Waiting::Spin || path.medium == Medium::Unmodified => {
            return arm.refused(one_cpu(cpu));
        }
        Some(cpu) if path.pinned => arm.noting(format!(
            "both ends are pinned to CPU {cpu} of one machine: each waits until the scheduler takes the other off it"
        )),
        _ => arm,
    };
    match fragments(ends, transport, size) {
        Some(note) => arm.noting(note),
        None => arm,
    }
}

/// Returns the CPU that the pinned paths of both ends have.
pub(crate) fn shared_cpu(bench: &Bench) -> Option<u32> {
    let ends = bench.ends();
    let is_shared = bench.cpus.server == Some(bench.cpus.client) && (ends.same_host || ends.same_machine);
    is_shared.then_some(bench.cpus.client)
}

/// The reason why ends that spin are not measured on one CPU: a message then waits for the scheduler, milliseconds.
pub(crate) fn one_cpu(cpu: u32) -> String {
    format!(
        "both ends spin, and both are on CPU {cpu} of one machine; give each a CPU of its own (--cpus; bench serve --cpu)"
    )
}

/// Returns the reason why messages of `size` bytes cannot go by `path` between these ends.
pub(crate) fn refusal(ends: &Ends, path: &Path, transport: Transport, size: u32) -> Option<String> {
    if path.frame_by_frame && ends.by_frames.is_none() {
        return Some(NO_FRAMES_PAIR.into());
    }
    if path.frame_by_frame && ends.wire.is_some() {
        return Some("its pair is beside the impaired wire (--impair)".into());
    }
    match path.medium {
        Medium::Frames => frames_refusal(ends, size),
        Medium::Stack => {
            past_kernel_refusal(ends, path.peer.is_none(), false).or_else(|| stack_refusal(ends, transport, size))
        }
        Medium::Unmodified => unmodified_refusal(ends, transport, size),
        Medium::FeedRing => Some("a ring of the kernel carries a feed one way: in bench tick only".into()),
        Medium::Inet if transport.is_datagram() => kernel_refusal(ends, size),
        _ => None,
    }
}

/// Returns the reason why an end does not go past the kernel: this one, or the peer's of a path that has it there, too.
fn past_kernel_refusal(ends: &Ends, both: bool, own_program: bool) -> Option<String> {
    if ends.place == "loopback" {
        let why =
            "it attaches an XDP program, and loopback has no device for one: in the lab only (--place lab, as root)";
        return Some(why.into());
    }
    let here = ends.consent.told().refusal("this end", "add", own_program);
    here.or_else(|| {
        ends.peer_past_kernel.refusal("the peer", "start it with bench serve", own_program).filter(|_| both)
    })
}

/// Returns the reason why a trader, which is the peer, cannot use `path`, or the exchange that trades with it.
pub(crate) fn trader_refusal(ends: &Ends, path: &Path) -> Option<String> {
    if !matches!(path.medium, Medium::Stack | Medium::FeedRing) {
        return None;
    }
    if path.peer.is_none() || ends.place == "loopback" {
        return past_kernel_refusal(ends, true, false);
    }
    ends.peer_past_kernel.refusal("the peer", "start it with bench serve", false)
}

/// Returns the reason why bare frames cannot go between these ends.
fn frames_refusal(ends: &Ends, size: u32) -> Option<String> {
    if let Some(reason) = past_kernel_refusal(ends, true, true) {
        return Some(reason);
    }
    if ends.client.is_ipv6() {
        return Some("its frames are IPv4".into());
    }
    let (most, interface) = (frames::MTU_MAX, &ends.interface);
    if let Some(mtu) = ends.mtus.least().filter(|mtu| *mtu > most) {
        return Some(format!(
            "its program takes frames of one buffer, so an MTU of up to {most}; {interface} has {mtu}"
        ));
    }
    (size > frames::SIZE_MAX).then(|| format!("a frame holds messages of up to {} bytes", frames::SIZE_MAX))
}

/// Returns the reason why our stack cannot work between these ends.
fn stack_refusal(ends: &Ends, transport: Transport, size: u32) -> Option<String> {
    let (mtu, most) = (ends.mtus.least()?, ends.mtus.datagram_max()?);
    (transport.is_datagram() && size > most).then(|| {
        format!(
            "a frame holds messages of up to {most} bytes, as {} has an MTU of {mtu} (--mtu); the kernel fragments larger ones",
            ends.interface
        )
    })
}

/// Returns the reason why programs under the library cannot be measured between these ends.
fn unmodified_refusal(ends: &Ends, transport: Transport, size: u32) -> Option<String> {
    if ends.consent != Consent::Lab {
        return Some("it starts programs at both ends: in the lab only (--place lab, as root)".into());
    }
    if ends.program.is_none() {
        return Some("both ends are programs of their own, which only the command starts".into());
    }
    let missing = library::find(std::env::var_os(library::VARIABLE)).err().map(|problem| problem.to_string());
    missing.or_else(|| stack_refusal(ends, transport, size))
}

/// Returns the reason why the kernel's datagrams would be lost between these ends.
fn kernel_refusal(ends: &Ends, size: u32) -> Option<String> {
    let ((here, peer), most) = (ends.mtus.disagreement(size)?, ends.mtus.datagram_max()?);
    Some(format!(
        "{} has an MTU of {here} and the peer's interface one of {peer}, which drops frames of the larger; give both the same, \
         or send at most {most} bytes",
        ends.interface
    ))
}

/// Returns a note on fragments, if a datagram is longer than a frame.
pub(crate) fn fragments(ends: &Ends, transport: Transport, size: u32) -> Option<String> {
    let (count, mtu) = (ends.mtus.fragments(size)?, ends.mtus.least()?);
    transport.is_datagram().then(|| {
        format!("the kernel cuts each message into {count} fragments, as {} has an MTU of {mtu}", ends.interface)
    })
}
