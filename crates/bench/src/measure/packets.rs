//! The packets that a device carried during slices: whether they were frames, or super-packets that no cable carries.

use super::Bench;
use super::round_trip::{Target, Work};
use crate::path::Medium;
use sidestep_sys::Problem;
use sidestep_sys::interface::{self, Traffic};

/// The Ethernet header and one VLAN tag, which an MTU does not count.
const ETHERNET_BYTES: u64 = 14 + 4;

/// The packets of a slice, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packets {
    interface: String,
    /// The longest frame.
    frame_bytes_max: u64,
    /// Set if the mean length is told even where every packet was a frame.
    is_told: bool,
    traffic: Traffic,
}

/// A device watched from the beginning of a slice.
pub(super) struct PacketMeter {
    packets: Packets,
    needs_frames: bool,
}

impl Bench {
    /// Begins to count the packets of a kernel path in a lab; nobody else uses its devices.
    pub(super) fn packet_meter(&self, target: Target) -> Option<PacketMeter> {
        if self.ends.place != "lab" || target.path.medium != Medium::Inet {
            return None;
        }
        let interface = self.ends.way(target.path).ok()?.interface;
        let traffic = interface::traffic(&interface)?;
        let needs_frames = target.path.frame_by_frame;
        let is_told = needs_frames || matches!(target.work, Work::Send | Work::Receive);
        let frame_bytes_max = u64::from(self.ends.mtus.least()?) + ETHERNET_BYTES;
        Some(PacketMeter { packets: Packets { interface, frame_bytes_max, is_told, traffic }, needs_frames })
    }
}

impl PacketMeter {
    /// Returns the packets since the start. Err: some were no frames on a path that promises frames.
    pub(super) fn stop(self) -> Result<Packets, Problem> {
        let Self { mut packets, needs_frames } = self;
        let (now, before) = (interface::traffic(&packets.interface).unwrap_or_default(), packets.traffic);
        packets.traffic = Traffic {
            rx_bytes: now.rx_bytes.saturating_sub(before.rx_bytes),
            rx_packets: now.rx_packets.saturating_sub(before.rx_packets),
            tx_bytes: now.tx_bytes.saturating_sub(before.tx_bytes),
            tx_packets: now.tx_packets.saturating_sub(before.tx_packets),
        };
        if needs_frames && packets.are_super() {
            let interface = &packets.interface;
            return Err(Problem::failed(
                format!("cannot measure frame by frame over {interface}"),
                format!("packets were longer than a frame, {}", packets.lengths()),
            )
            .next("see what it segments and merges: ethtool -k, in the lab"));
        }
        Ok(packets)
    }
}

impl Packets {
    /// Adds those of another slice of the same path.
    pub(crate) fn add(&mut self, other: Self) {
        let (mine, more) = (self.traffic, other.traffic);
        let traffic = Traffic {
            rx_bytes: mine.rx_bytes + more.rx_bytes,
            rx_packets: mine.rx_packets + more.rx_packets,
            tx_bytes: mine.tx_bytes + more.tx_bytes,
            tx_packets: mine.tx_packets + more.tx_packets,
        };
        *self = Self { traffic, ..other };
    }

    /// Returns a note for the report, if a reader must know.
    pub(crate) fn note(&self) -> Option<String> {
        if !self.is_told && !self.are_super() {
            return None;
        }
        let kind = if self.are_super() {
            "super-packets of the kernel, which no cable carries (path kernel-spin-frames is without)"
        } else {
            "frames, as a cable carries them"
        };
        Some(format!("packets on {}: {}: {kind}", self.interface, self.lengths()))
    }

    fn lengths(&self) -> String {
        let mean = |bytes: u64, packets: u64| bytes.checked_div(packets).map_or("none".into(), |mean| mean.to_string());
        let Traffic { rx_bytes, rx_packets, tx_bytes, tx_packets } = self.traffic;
        format!("{} bytes on average sent, {} received", mean(tx_bytes, tx_packets), mean(rx_bytes, rx_packets))
    }

    fn are_super(&self) -> bool {
        let Traffic { rx_bytes, rx_packets, tx_bytes, tx_packets } = self.traffic;
        tx_bytes > tx_packets * self.frame_bytes_max || rx_bytes > rx_packets * self.frame_bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(bytes: u64, is_told: bool) -> Packets {
        let traffic = Traffic { rx_bytes: 66, rx_packets: 1, tx_bytes: bytes, tx_packets: 1 };
        Packets { interface: "lab1".into(), frame_bytes_max: 1518, is_told, traffic }
    }

    #[test]
    fn super_packets_are_always_told_and_frames_where_that_matters() {
        assert!(packets(1514, true).note().unwrap().contains("1514 bytes on average sent, 66 received: frames"));
        assert_eq!(packets(1514, false).note(), None);
        assert!(packets(60_000, false).note().unwrap().contains("super-packets"));
        let mut sum = Packets::default();
        sum.add(packets(1000, true));
        sum.add(packets(1400, true));
        assert!(sum.note().unwrap().contains("1200 bytes"));
        assert!(Packets::default().note().is_none());
    }
}
