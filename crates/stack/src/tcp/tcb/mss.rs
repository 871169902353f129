//! Segment sizes (RFC 9293 section 3.7.1, RFC 6691).

use crate::tcp::flow::Flow;

/// Options take up to 40 bytes: a peer whose MSS leaves no room for data beside them gets a little more.
const LEAST: u16 = 48;

/// The effective send MSS (Eff.snd.MSS), and all that it follows from.
pub(crate) struct Mss {
    effective: u32,
    /// The MSS option of the peer's SYN (SendMSS).
    peer: u16,
    path_mtu: u16,
    /// The bytes of IP and TCP header without options.
    header_bytes: u16,
    /// The connection's option `segment_bytes_max`; 0: none.
    limit: u16,
}

impl Mss {
    pub(crate) fn new(flow: &Flow, path_mtu: u16, limit: u16) -> Self {
        let (peer, header_bytes) = (flow.default_segment_bytes(), flow.header_bytes());
        let mut mss = Self { effective: 0, peer, path_mtu, header_bytes, limit };
        mss.update();
        mss
    }

    /// The largest segment to send, payload and options (MUST-16).
    #[inline]
    pub(crate) fn effective(&self) -> u32 {
        self.effective
    }

    /// The MSS option of our SYN (MUST-14; RFC 6691: options are not counted).
    pub(crate) fn offered(&self) -> u16 {
        let path = self.path_mtu.saturating_sub(self.header_bytes);
        if self.limit == 0 { path } else { path.min(self.limit) }
    }

    pub(crate) fn path_mtu(&self) -> u16 {
        self.path_mtu
    }

    pub(crate) fn set_path_mtu(&mut self, path_mtu: u16) {
        self.path_mtu = path_mtu;
        self.update();
    }

    pub(crate) fn set_peer(&mut self, peer: u16) {
        self.peer = peer;
        self.update();
    }

    pub(crate) fn set_limit(&mut self, limit: u16) {
        self.limit = limit;
        self.update();
    }

    fn update(&mut self) {
        self.effective = u32::from(self.offered().min(self.peer).max(LEAST));
    }
}
