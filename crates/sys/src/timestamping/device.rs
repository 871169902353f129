//! The stamps that a device can set, and whether it does (ETHTOOL_GET_TS_INFO, SIOC[GS]HWTSTAMP; linux/net_tstamp.h).

use super::flag;
use crate::Problem;
use crate::ethtool::{any_socket, request_for, timestamps};
use std::io;
use std::os::fd::AsRawFd;

const SIOCSHWTSTAMP: libc::c_ulong = 0x89b0;
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;
/// HWTSTAMP_TX_ON; HWTSTAMP_FILTER_ALL.
const TX_ON: u32 = 1;
const FILTER_ALL: u32 = 1;

/// What a device can stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Sent packets in the driver, by the system's clock.
    pub send_software: bool,
    /// Sent packets on the wire, by the device's clock.
    pub send_hardware: bool,
    /// Received packets on the wire, by the device's clock, all of them and not those of PTP alone.
    pub receive_hardware: bool,
    /// The number of the device's clock, /dev/ptpN.
    pub phc: Option<u32>,
}

/// Asks the driver of an interface.
///
/// # Errors
/// Fails if there is no such interface, or it does not answer (EOPNOTSUPP).
pub fn capabilities(interface: &str) -> io::Result<Capabilities> {
    timestamps(interface).map(Capabilities::of)
}

impl Capabilities {
    /// From the words of `struct ethtool_ts_info` after the command.
    fn of(info: crate::ethtool::Timestamps) -> Self {
        let has = |flag: u32| info.flags & flag != 0;
        let both = |types: u32, kind: u32| types & (1 << kind) != 0;
        Self {
            send_software: has(flag::TX_SOFTWARE),
            send_hardware: has(flag::TX_HARDWARE) && both(info.send_types, TX_ON),
            receive_hardware: has(flag::RX_HARDWARE) && both(info.receive_filters, FILTER_ALL),
            phc: u32::try_from(info.phc).ok(),
        }
    }

    /// Returns whether the device stamps both ways on the wire.
    pub fn has_hardware(&self) -> bool {
        self.send_hardware && self.receive_hardware
    }
}

/// `struct hwtstamp_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Config {
    flags: u32,
    send_type: u32,
    receive_filter: u32,
}

/// Hardware stamps of a device, switched on. Dropping it puts back what was set before.
#[derive(Debug)]
pub struct HardwareStamps {
    interface: String,
    before: Config,
}

impl HardwareStamps {
    /// Makes the device of an interface stamp all packets both ways. It is set for the device as a whole: others that use its
    /// stamps (ptp4l) see the change until it is put back.
    ///
    /// # Errors
    /// Fails without CAP_NET_ADMIN, or if the driver refuses it or does not tell what was set before.
    pub fn switch_on(interface: &str) -> Result<Self, Problem> {
        let failed = |error: io::Error| {
            Problem::failed(format!("cannot switch on hardware timestamps of {interface}"), error)
                .next("run as root; ethtool -T shows what the device can do")
        };
        let before = exchange(interface, SIOCGHWTSTAMP, Config::default()).map_err(failed)?;
        let wanted = Config { flags: 0, send_type: TX_ON, receive_filter: FILTER_ALL };
        exchange(interface, SIOCSHWTSTAMP, wanted).map_err(failed)?;
        Ok(Self { interface: interface.to_owned(), before })
    }
}

impl Drop for HardwareStamps {
    fn drop(&mut self) {
        // It fails only if the interface is gone, and its setting with it.
        let _ = exchange(&self.interface, SIOCSHWTSTAMP, self.before);
    }
}

fn exchange(interface: &str, command: libc::c_ulong, mut config: Config) -> io::Result<Config> {
    let mut request = request_for(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut config).cast();
    let socket = any_socket()?;
    // SAFETY: the request and the structure it points to live until after the call; both commands read and write one hwtstamp_config.
    if unsafe { libc::ioctl(socket.as_raw_fd(), command as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::Timestamps;

    #[test]
    fn loopback_has_software_stamps_only() {
        let found = capabilities("lo").unwrap();
        assert!(found.send_software && !found.has_hardware() && found.phc.is_none());
        assert!(capabilities("none0").is_err());
        assert!(HardwareStamps::switch_on("lo").unwrap_err().to_string().contains("ethtool -T"));
    }

    #[test]
    fn hardware_counts_only_if_it_stamps_every_packet() {
        let all = Timestamps { flags: 0x5f, phc: 3, send_types: 0b11, receive_filters: 0b11 };
        let found = Capabilities::of(all);
        assert!(found.has_hardware() && found.phc == Some(3));
        // Filters of PTP alone (HWTSTAMP_FILTER_PTP_V2_EVENT and others) leave our datagrams out.
        assert!(!Capabilities::of(Timestamps { receive_filters: 1 << 12, ..all }).receive_hardware);
        assert!(!Capabilities::of(Timestamps { send_types: 0b01, ..all }).send_hardware);
        assert_eq!(Capabilities::of(Timestamps { phc: -1, ..all }).phc, None);
    }
}
