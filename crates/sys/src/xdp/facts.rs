//! What is known of a socket and its memory: what a process that is handed the descriptors must be told beside them.

use crate::Problem;
use std::fmt;

/// How the frames of a UMEM lie: `frames` times `frame_bytes`, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// How many frames.
    pub frames: u32,
    /// Size of each, bytes: 2048 or 4096.
    pub frame_bytes: u32,
    /// Bytes kept free before what the kernel writes, beyond its own 256.
    pub headroom: u32,
}

/// The longest frame of several buffers that is taken: jumbo frames have about 9,000 bytes, NICs take up to 16 KiB, and with buffers
/// of 2048 bytes it is ten of them (Linux sends 17 at the most).
pub const MULTI_BUFFER_BYTES_MAX: u32 = 16 << 10;

impl Geometry {
    /// All frames together, bytes.
    pub fn bytes(self) -> usize {
        self.frames as usize * self.frame_bytes as usize
    }

    /// The longest frame that can be received, bytes: what the kernel's 256 bytes and the headroom leave.
    pub fn receive_bytes_max(self) -> u32 {
        self.frame_bytes.saturating_sub(super::PACKET_HEADROOM_BYTES.saturating_add(self.headroom))
    }
}

/// What a UMEM lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved 2 MiB pages.
    Huge,
    /// 4 KiB pages, all present.
    Small {
        /// Why not huge ones.
        reason: String,
    },
}

/// Entries of the four rings: powers of two, or 0 for a ring that the socket does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Frames lent to the kernel for receiving.
    pub fill: u32,
    /// Frames that the kernel has sent.
    pub completion: u32,
    /// Frames that have come.
    pub rx: u32,
    /// Frames to send.
    pub tx: u32,
}

/// The longest ring: the kernel takes more, but a queue of 32,768 frames is half a second at 64 kpps, and late data is
/// worse than lost data here.
const RING_ENTRIES_MAX: u32 = 1 << 15;

impl RingSizes {
    /// The same number of entries for all four.
    pub fn all(entries: u32) -> Self {
        Self { fill: entries, completion: entries, rx: entries, tx: entries }
    }

    /// Refuses what the kernel would, with a reason.
    pub fn check(self) -> Result<(), Problem> {
        for (ring, entries) in [("FILL", self.fill), ("COMPLETION", self.completion), ("RX", self.rx), ("TX", self.tx)]
        {
            if entries != 0 && (!entries.is_power_of_two() || entries > RING_ENTRIES_MAX) {
                return Err(Problem::usage(
                    format!("cannot make a {ring} ring of {entries} entries"),
                    format!("a ring has a power of two of them, at most {RING_ENTRIES_MAX}"),
                )
                .next("ask for 2048"));
            }
        }
        Ok(())
    }
}

impl Default for RingSizes {
    /// 2048: at 1500-byte frames 25 Gbit/s for a millisecond.
    fn default() -> Self {
        Self::all(2048)
    }
}

/// How frames get between device and UMEM, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The device reads and writes the UMEM itself.
    ZeroCopy,
    /// XDP runs in the driver, the kernel copies each frame once.
    Copy,
    /// XDP runs after the kernel has made an skb; works on every device, saves little.
    Generic,
}

impl Mode {
    /// The word for it in messages and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zero-copy",
            Self::Copy => "copy",
            Self::Generic => "generic",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A mode that could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downgrade {
    /// Wanted.
    pub from: Mode,
    /// Had instead.
    pub to: Mode,
    /// Why: the kernel's error by name, and what it means.
    pub reason: String,
}

impl fmt::Display for Downgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instead of {}: {}", self.to, self.from, self.reason)
    }
}

/// The device queue is polled by our own system calls in the place of its interrupts (Linux 5.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// SO_BUSY_POLL, microseconds.
    pub microseconds: u32,
    /// SO_BUSY_POLL_BUDGET, frames per call.
    pub budget: u32,
}

impl Default for BusyPoll {
    /// 20 us and 64 frames, as the kernel's documentation of AF_XDP and the common drivers have it.
    fn default() -> Self {
        Self { microseconds: 20, budget: 64 }
    }
}

/// What is known of a bound socket. The kernel tells none of it to a process that is handed the descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XskFacts {
    /// The interface's name.
    pub interface: String,
    /// Its index in the namespace it was found in.
    pub index: u32,
    /// The queue, from 0.
    pub queue: u32,
    /// How frames get to and from the UMEM.
    pub mode: Mode,
    /// Better modes that were tried, in that order.
    pub downgrades: Vec<Downgrade>,
    /// Entries of the rings.
    pub rings: RingSizes,
    /// The UMEM's.
    pub geometry: Geometry,
    /// The UMEM's.
    pub pages: Pages,
    /// TX descriptors that one kick sends in copy mode; 32 before Linux 6.17.
    pub tx_budget: u32,
    /// The NAPI instance of the queue; 0 where the device has none to poll (veth).
    pub napi_id: u32,
    /// Set where busy polling was asked for and the device can be polled.
    pub busy_poll: Option<BusyPoll>,
    /// A frame may lie in several buffers: a descriptor with XDP_PKT_CONTD goes on in the next one.
    pub multi_buffer: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_sizes_are_powers_of_two_within_the_limit() {
        RingSizes::default().check().unwrap();
        RingSizes { fill: 0, completion: 0, rx: 64, tx: 64 }.check().unwrap();
        for entries in [3, 1000, RING_ENTRIES_MAX * 2, u32::MAX] {
            let problem = RingSizes { tx: entries, ..RingSizes::default() }.check().unwrap_err();
            assert!(problem.to_string().contains(&format!("TX ring of {entries}")), "{problem}");
        }
    }

    #[test]
    fn a_downgrade_reads_as_a_sentence() {
        let downgrade = Downgrade { from: Mode::ZeroCopy, to: Mode::Copy, reason: "the driver has none".into() };
        assert_eq!(downgrade.to_string(), "copy instead of zero-copy: the driver has none");
    }
}
