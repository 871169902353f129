//! Network interfaces, as the kernel and their drivers tell of them. Nothing is attached or changed.

use sidestep_sys::timestamping::{Capabilities, capabilities};
use sidestep_sys::{ethtool, interface, offload, xdp};
use sidestep_tune::{XdpFeatures, xdp_features};

/// The most interfaces that are looked at without being named.
const INTERFACES_MAX: usize = 64;

/// Whether an interface carries frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// It does.
    #[default]
    Up,
    /// It is down, or has no carrier.
    Down,
}

/// One interface.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// True if the user has named it.
    pub is_named: bool,
    /// Its driver; none where it does not tell.
    pub driver: Option<String>,
    /// Receive queues; none where it does not tell.
    pub queues: Option<u32>,
    /// Whether it carries frames.
    pub ready: Ready,
    /// True if it has an Ethernet address.
    pub is_ethernet: bool,
    /// Bytes of IP packet per frame.
    pub mtu: u32,
    /// The XDP program on it.
    pub xdp_program: Option<u32>,
    /// What the driver says of XDP; none before Linux 6.3.
    pub xdp: Option<XdpFeatures>,
    /// What it can stamp; none where it does not tell.
    pub timestamps: Option<Capabilities>,
}

/// Reads the named interfaces, else all but loopback, and how many there are beyond the limit.
pub(super) fn read(named: &[String]) -> (Vec<Interface>, usize) {
    let all: Vec<String> = if named.is_empty() {
        interface::names().into_iter().filter(|name| name != "lo").collect()
    } else {
        named.to_vec()
    };
    let of = |name: &String| of(name).map(|found| Interface { is_named: !named.is_empty(), ..found });
    let found = all.iter().take(INTERFACES_MAX).filter_map(of).collect();
    (found, all.len().saturating_sub(INTERFACES_MAX))
}

/// None for one that has gone meanwhile.
fn of(name: &str) -> Option<Interface> {
    let device = xdp::device(name).ok()?;
    let driver = offload::driver(name).ok().filter(|driver| !driver.is_empty());
    Some(Interface {
        name: name.to_owned(),
        is_named: false,
        driver,
        queues: ethtool::receive_queues(name).ok(),
        ready: if device.is_up { Ready::Up } else { Ready::Down },
        is_ethernet: interface::ethernet_address(name).is_ok_and(|address| address != [0; 6]),
        mtu: device.mtu,
        xdp_program: device.xdp_program,
        xdp: xdp_features(device.index).ok(),
        timestamps: capabilities(name).ok(),
    })
}
