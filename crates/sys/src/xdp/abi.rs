//! Definitions of linux/if_xdp.h that the libc crate lacks, and checks of their sizes.

use libc::c_int;

/// TX descriptors per call in copy mode; the kernel's default is 32 (Linux 6.17).
pub(super) const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
/// asm-generic/socket.h, Linux 5.11.
pub(super) const SO_PREFER_BUSY_POLL: c_int = 69;
/// asm-generic/socket.h, Linux 5.11.
pub(super) const SO_BUSY_POLL_BUDGET: c_int = 70;

/// One frame, or a part of one, in RX and TX rings (`struct xdp_desc`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// The place of the bytes: an offset into the UMEM.
    pub address: u64,
    /// The number of bytes.
    pub len: u32,
    /// XDP_PKT_CONTD and XDP_TX_METADATA; 0 for a whole frame without metadata.
    pub options: u32,
}

impl Descriptor {
    /// Returns whether the frame continues in the next descriptor's buffer.
    #[inline]
    pub fn is_continued(self) -> bool {
        self.options & libc::XDP_PKT_CONTD != 0
    }

    /// The descriptor with XDP_PKT_CONTD set or cleared.
    #[must_use]
    pub fn continued(self, is_continued: bool) -> Self {
        let others = self.options & !libc::XDP_PKT_CONTD;
        Self { options: if is_continued { others | libc::XDP_PKT_CONTD } else { others }, ..self }
    }
}

const _: () = {
    assert!(size_of::<Descriptor>() == 16 && size_of::<libc::xdp_desc>() == 16);
    assert!(size_of::<libc::sockaddr_xdp>() == 16);
    assert!(size_of::<libc::xdp_umem_reg>() == 32);
    assert!(size_of::<libc::xdp_mmap_offsets>() == 128);
    assert!(size_of::<libc::xdp_statistics>() == 48);
};
