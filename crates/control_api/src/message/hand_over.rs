//! The record of a live TCP connection that an application hands over to the kernel.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The most bytes of one queue: ten times what a stack's buffer holds where no profile says otherwise, and less than control copies in
/// a tenth of a second.
pub const QUEUE_BYTES_MAX: u32 = 64 << 20;

/// The most bytes of a buffer: the kernel's socket gets what it needs by control's privilege, beyond the limits of the host
/// (net.core.rmem_max, wmem_max).
pub const BUFFER_BYTES_MAX: u32 = QUEUE_BYTES_MAX;

/// The largest scale of windows (RFC 7323 section 2.3).
const SHIFT_MAX: u8 = 14;

/// The least MSS that a segment with options has room for data beside.
const SEGMENT_BYTES_MIN: u16 = 48;

/// A connection at one moment. The bytes of its queues are in a file that is sent with it: those received and not read, those
/// sent and not acknowledged, those never sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    /// This host's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The VLAN; `None` for untagged frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The number of the first byte sent and not acknowledged.
    pub send_start: u32,
    /// The peer has acknowledged bytes, not the SYN alone.
    #[serde(default)]
    pub has_acknowledged: bool,
    /// Bytes sent and not acknowledged.
    pub unacknowledged: u32,
    /// Bytes never sent.
    pub unsent: u32,
    /// The number behind the last byte received, where the peer's FIN stands if it has come.
    pub receive_end: u32,
    /// Bytes received and not read.
    pub received: u32,
    /// This end has finished: a FIN follows the last byte.
    #[serde(default)]
    pub own_fin: bool,
    /// That FIN was sent, and is not acknowledged.
    #[serde(default)]
    pub is_fin_sent: bool,
    /// The peer has finished.
    #[serde(default)]
    pub peer_fin: bool,
    /// The largest segment to send, options included.
    pub segment_bytes: u16,
    /// SACK was agreed on.
    #[serde(default)]
    pub sack: bool,
    /// The scales of the peer's windows and of ours; 0 without scaling.
    #[serde(default)]
    pub send_shift: u8,
    /// See `send_shift`.
    #[serde(default)]
    pub receive_shift: u8,
    /// Our clock and the peer's last one, with timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<(u32, u32)>,
    /// The peer's window and the largest one so far, bytes.
    pub send_window: u32,
    /// See `send_window`.
    pub send_window_max: u32,
    /// The number of the segment that brought the peer's window (SND.WL1).
    pub send_update: u32,
    /// The room behind `receive_end` that the peer was offered.
    pub receive_window: u32,
}

impl HandOver {
    /// Bytes of all queues.
    pub fn bytes(&self) -> u64 {
        u64::from(self.received) + u64::from(self.unacknowledged) + u64::from(self.unsent)
    }

    /// Bytes in front of `send_start` that the kernel gets as sent and not acknowledged: one, if the peer has it already. Its
    /// acknowledgement tells the kernel the round-trip time; without a sample its timeout would be three seconds.
    pub fn sampled(&self) -> u32 {
        u32::from(self.has_acknowledged)
    }

    /// Bytes of the receive buffer: what is unread, and what the peer may send.
    pub fn receive_buffer(&self) -> u64 {
        u64::from(self.received) + u64::from(self.receive_window)
    }

    /// Bytes of the send buffer.
    pub fn send_buffer(&self) -> u64 {
        u64::from(self.unacknowledged) + u64::from(self.unsent)
    }

    /// Returns why a sound record needs more of the kernel's memory than an application may have by control's privilege.
    pub fn excess(&self) -> Option<String> {
        let mebibytes = BUFFER_BYTES_MAX >> 20;
        let is_too_large = |bytes| bytes > u64::from(BUFFER_BYTES_MAX);
        match () {
            () if is_too_large(self.receive_buffer()) => {
                Some(format!("its unread bytes and the window offered are more than {mebibytes} MiB"))
            }
            () if is_too_large(self.send_buffer()) => {
                Some(format!("its bytes to be acknowledged and sent are more than {mebibytes} MiB"))
            }
            () => None,
        }
    }

    /// The fault of the record itself, independent of the host.
    pub fn fault(&self) -> Option<&'static str> {
        let queues = [self.received, self.unacknowledged, self.unsent];
        // What a window of any scale can hold.
        let windows = [self.send_window, self.send_window_max, self.receive_window];
        let half = 1_u32 << 31;
        // SND.WL1 is a number of the peer's that was acceptable once.
        let is_update_known = self.receive_end.wrapping_add(self.receive_window).wrapping_sub(self.send_update) < half;
        match () {
            () if queues.iter().any(|bytes| *bytes > QUEUE_BYTES_MAX) => Some("a queue is longer than any buffer"),
            () if self.send_shift > SHIFT_MAX || self.receive_shift > SHIFT_MAX => Some("a window scale is at most 14"),
            () if windows.iter().any(|bytes| *bytes > u32::from(u16::MAX) << SHIFT_MAX) => {
                Some("a window is larger than any scale allows")
            }
            () if self.send_window > self.send_window_max => Some("the window is larger than the largest one"),
            () if !is_update_known => Some("the window came with a number that was never received"),
            () if self.segment_bytes < SEGMENT_BYTES_MIN => Some("the segment size leaves no room for data"),
            () if self.is_fin_sent && (!self.own_fin || self.unsent > 0) => Some("a FIN was sent before its bytes"),
            () => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::message::{Numbered, PACKET_BYTES_MAX, Request};

    pub(crate) fn sound() -> HandOver {
        HandOver {
            local: "[2001:db8::1]:65535".parse().unwrap(),
            remote: "[2001:db8::2]:65535".parse().unwrap(),
            vlan: Some(4094),
            send_start: u32::MAX,
            has_acknowledged: true,
            unacknowledged: 1,
            unsent: 2,
            receive_end: 5,
            received: 3,
            own_fin: true,
            is_fin_sent: false,
            peer_fin: true,
            segment_bytes: 1460,
            sack: true,
            send_shift: 14,
            receive_shift: 14,
            timestamps: Some((u32::MAX, u32::MAX)),
            send_window: 1 << 20,
            send_window_max: 1 << 20,
            send_update: u32::MAX,
            receive_window: 1 << 20,
        }
    }

    #[test]
    fn a_record_survives_the_journey_and_fits_a_packet() {
        let request = Numbered { number: u32::MAX, body: Request::HandOver { stack: u32::MAX, connection: sound() } };
        let text = serde_json::to_vec(&request).unwrap();
        assert!(text.len() < PACKET_BYTES_MAX / 4);
        assert_eq!(serde_json::from_slice::<Numbered<Request>>(&text).unwrap(), request);
    }

    #[test]
    fn what_needs_too_large_buffers_is_said() {
        let most = HandOver { received: 1, receive_window: BUFFER_BYTES_MAX - 1, ..sound() };
        assert_eq!((most.fault(), most.excess()), (None, None));
        let more = [
            HandOver { received: 2, ..most.clone() },
            HandOver { receive_window: u32::from(u16::MAX) << SHIFT_MAX, ..sound() },
            HandOver { unacknowledged: BUFFER_BYTES_MAX, unsent: 1, ..sound() },
        ];
        for record in more {
            assert!(record.fault().is_none() && record.excess().is_some(), "{record:?}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(sound().fault(), None);
        let lies: [fn(&mut HandOver); 9] = [
            |it| it.received = QUEUE_BYTES_MAX + 1,
            |it| it.unsent = u32::MAX,
            |it| it.send_shift = 15,
            |it| it.receive_shift = 255,
            |it| it.receive_window = u32::MAX,
            |it| it.send_window_max = 0,
            |it| it.send_update = 1 << 30,
            |it| it.segment_bytes = 0,
            |it| it.is_fin_sent = true,
        ];
        for (number, lie) in lies.into_iter().enumerate() {
            let mut record = sound();
            lie(&mut record);
            assert!(record.fault().is_some(), "lie {number}");
        }
    }
}
