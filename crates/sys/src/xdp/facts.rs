//! Facts about a socket and its memory, which a process that receives the descriptors must be given with them.

use crate::Problem;
use std::fmt;

/// The layout of the frames in a UMEM: `frames` times `frame_bytes`, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The number of frames.
    pub frames: u32,
    /// The size of each, bytes: 2048 or 4096.
    pub frame_bytes: u32,
    /// Bytes reserved in front of a received frame, beyond the kernel's own 256.
    pub headroom: u32,
}

/// The longest frame of several buffers that is accepted. Jumbo frames have about 9,000 bytes and NICs support up to 16
/// KiB, which is ten buffers of 2048 bytes (Linux sends 17 at the most).
pub const MULTI_BUFFER_BYTES_MAX: u32 = 16 << 10;

impl Geometry {
    /// The size of all frames together, bytes.
    pub fn bytes(self) -> usize {
        self.frames as usize * self.frame_bytes as usize
    }

    /// The longest frame that can be received, bytes: a buffer less the kernel's 256 bytes and the headroom.
    pub fn receive_bytes_max(self) -> u32 {
        self.frame_bytes.saturating_sub(super::PACKET_HEADROOM_BYTES.saturating_add(self.headroom))
    }
}

/// The pages of a UMEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved 2 MiB pages.
    Huge,
    /// 4 KiB pages, all present.
    Small {
        /// The reason why they are not huge.
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
    /// Received frames.
    pub rx: u32,
    /// Frames to send.
    pub tx: u32,
}

/// The longest ring. The kernel allows more, but a queue of 32,768 frames is half a second at 64 kpps, and late data is
/// worse than lost data here.
const RING_ENTRIES_MAX: u32 = 1 << 15;

impl RingSizes {
    /// The same number of entries for all four.
    pub fn all(entries: u32) -> Self {
        Self { fill: entries, completion: entries, rx: entries, tx: entries }
    }

    /// Refuses sizes that the kernel would refuse, with a reason.
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

/// The mode in which frames pass between device and UMEM, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The device reads and writes the UMEM itself.
    ZeroCopy,
    /// XDP runs in the driver, the kernel copies each frame once.
    Copy,
    /// XDP runs after the kernel has built an skb: works on every device, saves little.
    Generic,
}

impl Mode {
    /// The name in messages and results.
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

/// A mode that was not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downgrade {
    /// The mode that was wanted.
    pub from: Mode,
    /// The mode in use.
    pub to: Mode,
    /// The reason: the kernel's error by name, and its meaning.
    pub reason: String,
}

impl fmt::Display for Downgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instead of {}: {}", self.to, self.from, self.reason)
    }
}

/// Busy polling: our own system calls poll the device queue instead of its interrupts (Linux 5.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// SO_BUSY_POLL, microseconds.
    pub microseconds: u32,
    /// SO_BUSY_POLL_BUDGET, frames per call.
    pub budget: u32,
}

impl Default for BusyPoll {
    /// 20 us and 64 frames, as in the kernel's documentation of AF_XDP and common drivers.
    fn default() -> Self {
        Self { microseconds: 20, budget: 64 }
    }
}

/// Facts about a bound socket. The kernel reports none of them to a process that receives the descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XskFacts {
    /// The interface's name.
    pub interface: String,
    /// Its index in the namespace it was found in.
    pub index: u32,
    /// The queue, from 0.
    pub queue: u32,
    /// The mode in which frames pass to and from the UMEM.
    pub mode: Mode,
    /// Better modes that were tried, in this order.
    pub downgrades: Vec<Downgrade>,
    /// Entries of the rings.
    pub rings: RingSizes,
    /// The UMEM's frames.
    pub geometry: Geometry,
    /// The UMEM's pages.
    pub pages: Pages,
    /// TX descriptors that one kick sends in copy mode; 32 before Linux 6.17.
    pub tx_budget: u32,
    /// The NAPI instance of the queue; 0 if the device has none to poll (veth).
    pub napi_id: u32,
    /// Set if busy polling was asked for and the device can be polled.
    pub busy_poll: Option<BusyPoll>,
    /// True if a frame may lie in several buffers: a descriptor with XDP_PKT_CONTD continues in the next one.
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
