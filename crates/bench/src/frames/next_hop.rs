//! The next hop of a destination, by the kernel's routes and neighbours: the peer itself, or a gateway.

use sidestep_control::mirror::Mirror;
use sidestep_control_api::place;
use sidestep_control_api::routes::MirrorRoutes;
use sidestep_control_api::table::Reader;
use sidestep_stack::route::{Query, Unreachable};
use sidestep_sys::{Problem, xdp};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Time for the kernel to resolve a neighbour: three requests of ARP, a second apart.
const RESOLVE_MAX: Duration = Duration::from_secs(4);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Returns the MAC address of the next hop from `local` to `remote` out of `interface`. The kernel resolves it, if it is
/// not known.
pub(super) fn mac_toward(interface: &str, local: Ipv4Addr, remote: Ipv4Addr) -> Result<[u8; 6], Problem> {
    let failed = |why: &dyn std::fmt::Display| {
        Problem::failed(format!("cannot send bare frames to {remote} by {interface}"), why)
            .next(format!("see the way there: ip route get {remote} from {local}"))
    };
    let index = xdp::device(interface)?.index;
    let mut mirror = Mirror::open(place::namespace_inode()?, None)?;
    let routes = MirrorRoutes::new(Reader::open(mirror.file())?);
    let query = Query { destination: remote.into(), source: Some(local.into()), interface: Some(index), tos: 0 };
    let deadline = Instant::now() + RESOLVE_MAX;
    loop {
        match routes.find(&query) {
            Ok(resolved) if resolved.device != index || resolved.vlan.is_some() => {
                return Err(failed(&"the way there is by a VLAN or another device, and its frames carry no tag"));
            }
            Ok(resolved) => return Ok(resolved.next_hop_mac.0),
            Err(
                Unreachable::NeighbourPending { next_hop, interface }
                | Unreachable::NeighbourFailed { next_hop, interface },
            ) if Instant::now() < deadline => {
                // An interface that is gone takes its neighbours along, which the next look shows.
                let _ = mirror.use_neighbour(interface, next_hop);
            }
            Err(why) => return Err(failed(&why)),
        }
        std::thread::sleep(LOOK);
        mirror.drain()?;
        mirror.refresh(Instant::now())?;
    }
}
