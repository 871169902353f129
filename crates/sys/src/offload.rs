//! Offloads of a network interface in the calling thread's namespace (SIOCETHTOOL, ethtool -k).

use std::io;
use std::os::fd::AsRawFd;

use crate::Problem;
use crate::ethtool::{any_socket, request_for};

/// One offload, by its name in `ethtool -k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// `rx`: the device verifies checksums.
    RxChecksum,
    /// `tx`: the device fills checksums in, so that frames captured before it carry incomplete ones.
    TxChecksum,
    /// `sg`: a frame may consist of several buffers.
    ScatterGather,
    /// `tso`: the device segments TCP, so that frames captured before it may have up to 64 KiB.
    Tso,
    /// `gso`: the kernel segments as late as possible, or not at all on a virtual device.
    Gso,
    /// `gro`: received segments are merged before the stack sees them.
    Gro,
}

impl Offload {
    /// All of them, in the order in which they can be switched off: checksums last, as others depend on them.
    pub const ALL: [Self; 6] =
        [Self::Gro, Self::Tso, Self::Gso, Self::ScatterGather, Self::TxChecksum, Self::RxChecksum];

    /// The name in `ethtool -K`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RxChecksum => "rx",
            Self::TxChecksum => "tx",
            Self::ScatterGather => "sg",
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
        }
    }

    /// The two commands of linux/ethtool.h: get, set.
    fn commands(self) -> (u32, u32) {
        match self {
            Self::RxChecksum => (0x14, 0x15),
            Self::TxChecksum => (0x16, 0x17),
            Self::ScatterGather => (0x18, 0x19),
            Self::Tso => (0x1e, 0x1f),
            Self::Gso => (0x23, 0x24),
            Self::Gro => (0x2b, 0x2c),
        }
    }
}

/// Returns whether the offload is on.
pub fn read(interface: &str, offload: Offload) -> Result<bool, Problem> {
    let problem = |error: io::Error| {
        Problem::failed(format!("cannot read offload {} of {interface}", offload.name()), error)
            .next(format!("check that the interface exists in this namespace: ip link show {interface}"))
    };
    ethtool(interface, offload.commands().0, 0).map(|value| value != 0).map_err(problem)
}

/// Switches the offload and reads it back: a device that has it fixed ignores the request without an error.
pub fn set(interface: &str, offload: Offload, on: bool) -> Result<(), Problem> {
    let what = format!("cannot set offload {} of {interface} {}", offload.name(), if on { "on" } else { "off" });
    ethtool(interface, offload.commands().1, u32::from(on)).map_err(|error| {
        Problem::failed(what.clone(), error).next("run as root: changing a device needs CAP_NET_ADMIN")
    })?;
    if read(interface, offload)? == on {
        return Ok(());
    }
    Err(Problem::failed(what, "the device has it fixed").next(format!("see what it can do: ethtool -k {interface}")))
}

/// Has the kernel send and receive on this interface frame by frame, as a cable carries them: no segmentation by the
/// device or on its behalf (`tso`, `gso`), no merging of received segments (`gro`, `lro`). Checksums stay as they are.
pub fn frame_by_frame(interface: &str) -> Result<(), Problem> {
    for offload in [Offload::Gro, Offload::Tso, Offload::Gso] {
        set(interface, offload, false)?;
    }
    set_flag(interface, LRO, false)
}

/// ETHTOOL_GFLAGS, ETHTOOL_SFLAGS, ETH_FLAG_LRO, ETH_FLAG_TXVLAN and ETH_FLAG_RXVLAN of linux/ethtool.h.
const FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const LRO: (u32, &str) = (1 << 15, "lro");
const TX_VLAN: (u32, &str) = (1 << 7, "txvlan");
const RX_VLAN: (u32, &str) = (1 << 8, "rxvlan");

/// Returns whether the device strips VLAN tags from received frames (`rxvlan`): XDP programs and captures then do not
/// see them.
pub fn takes_tags_out(interface: &str) -> Result<bool, Problem> {
    flag(interface, RX_VLAN)
}

/// Switches the stripping of VLAN tags on receive, and reads it back.
pub fn take_tags_out(interface: &str, on: bool) -> Result<(), Problem> {
    set_flag(interface, RX_VLAN, on)
}

/// Switches the insertion of VLAN tags on transmit by the device (`txvlan`), else by the kernel, and reads it back. A
/// veth inserts and strips none: it carries them beside the frame, where its other end sees no tag.
pub fn put_tags_in(interface: &str, on: bool) -> Result<(), Problem> {
    set_flag(interface, TX_VLAN, on)
}

fn flag(interface: &str, (bit, name): (u32, &str)) -> Result<bool, Problem> {
    ethtool(interface, FLAGS, 0).map(|flags| flags & bit != 0).map_err(|error| {
        Problem::failed(format!("cannot read offload {name} of {interface}"), error)
            .next(format!("check that the interface exists in this namespace: ip link show {interface}"))
    })
}

fn set_flag(interface: &str, (bit, name): (u32, &str), on: bool) -> Result<(), Problem> {
    let what = format!("cannot set offload {name} of {interface} {}", if on { "on" } else { "off" });
    let failed = |error: io::Error| {
        Problem::failed(what.clone(), error).next("run as root: changing a device needs CAP_NET_ADMIN")
    };
    let flags = ethtool(interface, FLAGS, 0).map_err(failed)?;
    let wanted = if on { flags | bit } else { flags & !bit };
    ethtool(interface, SET_FLAGS, wanted).map_err(failed)?;
    if flag(interface, (bit, name))? == on {
        return Ok(());
    }
    Err(Problem::failed(what, "the device has it fixed").next(format!("see what it can do: ethtool -k {interface}")))
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// The used part of `struct ethtool_drvinfo` of linux/ethtool.h.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

/// ETHTOOL_GDRVINFO.
const DRIVER_INFO: u32 = 3;

/// The name of the interface's driver ("veth", "ice"). Needs no privilege.
pub fn driver(interface: &str) -> Result<String, Problem> {
    let problem = |error: io::Error| {
        Problem::failed(format!("cannot read the driver of {interface}"), error)
            .next(format!("check that the interface exists in this namespace: ip link show {interface}"))
    };
    let mut info = DriverInfo { command: DRIVER_INFO, driver: [0; 32], rest: [0; 160] };
    let mut request = request_for(interface).map_err(problem)?;
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    let socket = any_socket().map_err(problem)?;
    // SAFETY: the request and the structure it points to live until after the call, and the command fills one
    // ethtool_drvinfo of 196 bytes.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0 {
        return Err(problem(io::Error::last_os_error()));
    }
    let end = info.driver.iter().position(|byte| *byte == 0).unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

fn ethtool(interface: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data };
    let mut request = request_for(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    let socket = any_socket()?;
    // SAFETY: the request and the value it points to live until after the call, and each of the commands above reads
    // and writes exactly one ethtool_value.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_every_offload_in_some_state() {
        for offload in Offload::ALL {
            read("lo", offload).unwrap();
        }
    }

    #[test]
    fn a_missing_or_overlong_interface_is_named() {
        for interface in ["none0", "an-interface-name-longer-than-the-kernel-allows"] {
            let problem = read(interface, Offload::Tso).unwrap_err();
            assert!(problem.to_string().contains(interface), "{problem}");
        }
    }
}
