//! Interrupt moderation of single queues (ETHTOOL_PERQUEUE, linux/ethtool.h). Netlink has no such request; some drivers answer.

use super::abi::{GET_COALESCING, PER_QUEUE, coalescing, per_queue};
use super::request::Buffer;
use std::io;

/// The moderation of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moderation {
    /// The time that a receive interrupt may be late, us.
    pub receive_us: u32,
    /// The same of a transmit interrupt, us.
    pub transmit_us: u32,
}

/// The moderation of the queues 0 to `count` - 1; EOPNOTSUPP if the driver has one for all queues. `count` is bounded by the
/// kernel's MAX_NUM_QUEUE, 4096.
pub fn queue_moderation(interface: &str, count: u32) -> io::Result<Vec<Moderation>> {
    let count = (count as usize).min(per_queue::QUEUES_MAX);
    let mut buffer = Buffer::new(PER_QUEUE, per_queue::BYTES + count * coalescing::BYTES);
    buffer.put_u32(per_queue::COMMAND, GET_COALESCING);
    for queue in 0..count {
        let at = per_queue::MASK + queue / 32 * 4;
        buffer.put_u32(at, buffer.u32(at) | 1 << (queue % 32));
    }
    // SAFETY: ETHTOOL_PERQUEUE reads one ethtool_per_queue_op and, for ETHTOOL_GCOALESCE, writes one ethtool_coalesce
    // behind it for each of the `count` bits of the mask: the length of this buffer.
    unsafe { buffer.call(interface) }?;
    let one = |queue: usize| {
        let at = per_queue::BYTES + queue * coalescing::BYTES;
        Moderation {
            receive_us: buffer.u32(at + coalescing::RECEIVE_US),
            transmit_us: buffer.u32(at + coalescing::TRANSMIT_US),
        }
    };
    Ok((0..count).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_none() {
        assert_eq!(queue_moderation("lo", 1).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(queue_moderation("none0", u32::MAX).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
