//! Building of a lab: namespaces, their settings, the veth pairs between them, addresses.

use std::fs;
use std::io;
use std::path::Path;

use sidestep_sys::Problem;
use sidestep_sys::netns;
use sidestep_sys::offload::{self, Offload};

use super::host::Host;
use super::ip::Ip;
use super::mark::Mark;
use super::name::{FRAMES_INTERFACE, INTERFACE, Place, WIRE_TO_A, WIRE_TO_B, namespace_path};
use super::options::Checksums;
use super::ready;
use super::state::State;

/// Settings that keep the kernel quiet on a host: no address detection, no router solicitation, no filter by source.
/// Otherwise IPv4 copies them from the machine (net.core.devconf_inherit_init_net).
const HOST_SETTINGS: [(&str, &str); 8] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/arp_ignore", "0"),
    ("ipv6/conf/default/disable_ipv6", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/dad_transmits", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
];

/// Settings that keep the kernel's stack silent on the wire.
const WIRE_SETTINGS: [(&str, &str); 2] = [("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];

/// Returns whether this kernel supports IPv6 (it may be built or booted without).
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Builds the lab of `state`. Each namespace is added to `created` as soon as it exists, so that a failure can be
/// undone without touching namespaces of others.
pub(crate) fn build(ip: &Ip, state: &State, mark: Mark, created: &mut Vec<String>) -> Result<(), Problem> {
    for place in places(state) {
        let namespace = state.name.namespace(place);
        ip.run(&["netns", "add", &namespace])?;
        created.push(namespace.clone());
        mark.put(ip, &namespace)?;
        netns::within(namespace_path(&namespace), || settle(place))?;
    }
    join(ip, state)?;
    for place in places(state) {
        let namespace = state.name.namespace(place);
        if state.checksums == Checksums::True {
            netns::within(namespace_path(&namespace), || finish_frames(interfaces(place)))?;
        }
        if has_frames_pair(state, place) {
            netns::within(namespace_path(&namespace), || offload::frame_by_frame(FRAMES_INTERFACE))?;
        }
        let lines = match place {
            Place::A => host_lines(state, 0),
            Place::B => host_lines(state, 1),
            Place::Wire => wire_lines(),
        };
        ip.batch(&namespace, &lines)?;
    }
    ready::wait(ip, &state.hosts, &links(state))?;
    let frames_links = [Place::A, Place::B].map(|place| (state.name.namespace(place), FRAMES_INTERFACE));
    state.frames_hosts().map_or(Ok(()), |hosts| ready::wait(ip, &hosts, &frames_links))
}

fn has_frames_pair(state: &State, place: Place) -> bool {
    state.frames_pair && place != Place::Wire
}

/// Every interface of the lab, with its namespace.
fn links(state: &State) -> Vec<(String, &'static str)> {
    let links_at = |place| interfaces(place).iter().map(move |&interface| (state.name.namespace(place), interface));
    places(state).into_iter().flat_map(links_at).collect()
}

fn places(state: &State) -> Vec<Place> {
    let mut places = vec![Place::A, Place::B];
    places.extend(state.impairment.is_some().then_some(Place::Wire));
    places
}

fn interfaces(place: Place) -> &'static [&'static str] {
    match place {
        Place::A | Place::B => &[INTERFACE],
        Place::Wire => &[WIRE_TO_A, WIRE_TO_B],
    }
}

/// Applies the settings before the interfaces are made, which copy them.
fn settle(place: Place) -> Result<(), Problem> {
    let settings = if place == Place::Wire { &WIRE_SETTINGS[..] } else { &HOST_SETTINGS[..] };
    for (setting, value) in settings {
        let path = Path::new("/proc/sys/net").join(setting);
        match fs::write(&path, value) {
            // A kernel without IPv6 does not have the setting.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Problem::failed(format!("cannot set {} to {value}", path.display()), error)
                    .next("mount /proc/sys writable (a container has it read-only unless it is privileged)"));
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Joins the hosts by one veth pair, or by two with the wire between.
fn join(ip: &Ip, state: &State) -> Result<(), Problem> {
    if let Some([a, b]) = state.frames_hosts() {
        veth(ip, state, (&a.namespace, &a.interface), (&b.namespace, &b.interface))?;
    }
    let [a, b] = &state.hosts;
    if state.impairment.is_none() {
        return veth(ip, state, (&a.namespace, &a.interface), (&b.namespace, &b.interface));
    }
    let wire = state.name.namespace(Place::Wire);
    veth(ip, state, (&a.namespace, &a.interface), (&wire, WIRE_TO_A))?;
    veth(ip, state, (&b.namespace, &b.interface), (&wire, WIRE_TO_B))
}

/// Makes both ends directly in their namespaces: neither ever appears among the machine's interfaces.
fn veth(ip: &Ip, state: &State, near: (&str, &str), far: (&str, &str)) -> Result<(), Problem> {
    let (queues, mtu) = (state.queues.to_string(), state.mtu.to_string());
    let end = |interface| ["name", interface, "mtu", &mtu, "numtxqueues", &queues, "numrxqueues", &queues];
    let mut arguments = vec!["-n", near.0, "link", "add"];
    arguments.extend(end(near.1));
    arguments.extend(["type", "veth", "peer"]);
    arguments.extend(end(far.1));
    arguments.extend(["netns", far.0]);
    ip.run(&arguments).map(drop)
}

/// Makes every frame look as on a cable: complete checksums, no segment longer than the MTU, VLAN tags inside.
fn finish_frames(interfaces: &[&str]) -> Result<(), Problem> {
    for interface in interfaces {
        for offload in Offload::ALL {
            offload::set(interface, offload, false)?;
        }
        offload::put_tags_in(interface, false)?;
        offload::take_tags_out(interface, false)?;
    }
    Ok(())
}

fn host_lines(state: &State, number: usize) -> Vec<String> {
    let host = &state.hosts[number];
    let mut lines = vec!["link set dev lo up".to_owned()];
    lines.extend(link_lines(host));
    // Without a default route, joining a group or sending to one needs its own route. IPv6 has one per interface.
    lines.push(format!("route add 224.0.0.0/4 dev {}", host.interface));
    lines.extend(state.frames_hosts().iter().flat_map(|hosts| link_lines(&hosts[number])));
    lines
}

fn link_lines(host: &Host) -> Vec<String> {
    let Host { interface, ipv4, .. } = host;
    let mac = host.mac.map(|byte| format!("{byte:02x}")).join(":");
    let mut lines =
        vec![format!("link set dev {interface} address {mac}"), format!("address add {ipv4}/24 dev {interface}")];
    lines.extend(host.ipv6.map(|ipv6| format!("address add {ipv6}/64 dev {interface} nodad")));
    lines.push(format!("link set dev {interface} up"));
    lines
}

fn wire_lines() -> Vec<String> {
    [WIRE_TO_A, WIRE_TO_B].map(|interface| format!("link set dev {interface} arp off up")).to_vec()
}

/// Marks the namespaces as not owned by a process any more.
pub(crate) fn mark_persistent(ip: &Ip, state: &State) -> Result<(), Problem> {
    places(state).into_iter().try_for_each(|place| Mark::Persistent.put(ip, &state.name.namespace(place)))
}
