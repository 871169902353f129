//! The engine's own marks on a connection.

pub(crate) struct Marks {
    /// It is on the list of the next poll: the sink had no room, or an ACK waits for that poll.
    is_due: bool,
    /// Segments of its flow find it.
    in_demux: bool,
    /// The fast path may be taken (`fast_path/`): `Connection::allows_fast_path` at the end of the last step. It may be late to say
    /// yes, after accept for one, but never to say no.
    fast_path: bool,
}

impl Marks {
    pub(crate) fn new() -> Self {
        Self { is_due: false, in_demux: true, fast_path: false }
    }

    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Marks it, and returns whether it was not yet on the list.
    #[inline]
    pub(crate) fn set_due(&mut self) -> bool {
        !std::mem::replace(&mut self.is_due, true)
    }

    #[inline]
    pub(crate) fn clear_due(&mut self) {
        self.is_due = false;
    }

    #[cfg(feature = "audit")]
    pub(crate) fn in_demux(&self) -> bool {
        self.in_demux
    }

    /// Returns whether the flow is still to be removed from the demultiplexer.
    pub(crate) fn leave_demux(&mut self) -> bool {
        std::mem::replace(&mut self.in_demux, false)
    }

    #[inline]
    pub(crate) fn fast_path(&self) -> bool {
        self.fast_path
    }

    #[inline]
    pub(crate) fn set_fast_path(&mut self, fast_path: bool) {
        self.fast_path = fast_path;
    }
}
