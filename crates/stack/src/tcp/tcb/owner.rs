//! The holder of a connection: a listener until it is accepted, the application until it closes, then nobody (an orphan).

use crate::tcp::demux::ids::ListenerId;
use crate::tcp::time::Instant;

pub(crate) struct Owner {
    /// The listener at which it waits to be accepted.
    listener: Option<ListenerId>,
    /// The listener has been told.
    announced: bool,
    /// The application has a handle.
    is_held: bool,
    /// The time at which the application closed it; the clock's beginning before.
    orphaned_at: Instant,
    /// The memory that it counts for as a closed connection whose data is not all acknowledged; 0: it is none, or not yet.
    orphan_bytes: u32,
    /// The bytes that were not acknowledged when it ended.
    lost_bytes: u32,
}

impl Owner {
    /// The application, where no listener is given.
    pub(crate) fn new(listener: Option<ListenerId>) -> Self {
        let is_held = listener.is_none();
        Self { listener, announced: false, is_held, orphaned_at: Instant::default(), orphan_bytes: 0, lost_bytes: 0 }
    }

    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    #[inline]
    pub(crate) fn listener(&self) -> Option<ListenerId> {
        self.listener
    }

    /// Returns whether nobody will read from the connection or write to it any more.
    #[inline]
    pub(crate) fn is_orphan(&self) -> bool {
        !self.is_held && self.listener.is_none()
    }

    /// Returns the listener that has not been told of the connection yet.
    #[inline]
    pub(crate) fn unannounced(&self) -> Option<ListenerId> {
        self.listener.filter(|_| !self.announced)
    }

    pub(crate) fn announce(&mut self) {
        self.announced = true;
    }

    /// The application has accepted the connection.
    pub(crate) fn accept(&mut self) {
        (self.is_held, self.listener) = (true, None);
    }

    /// The application has closed it.
    pub(crate) fn close(&mut self, now: Instant) {
        (self.is_held, self.orphaned_at) = (false, now);
    }

    /// The application has aborted it.
    pub(crate) fn abort(&mut self) {
        self.is_held = false;
    }

    /// The listener is closed.
    pub(crate) fn forget_listener(&mut self) {
        self.listener = None;
    }

    /// Returns whether no handle leads to the connection: once it has ended, its slot can be freed.
    pub(crate) fn is_nobody(&self) -> bool {
        !self.is_held && (self.listener.is_none() || !self.announced)
    }

    pub(crate) fn orphaned_at(&self) -> Instant {
        self.orphaned_at
    }

    #[inline]
    pub(crate) fn orphan_bytes(&self) -> u32 {
        self.orphan_bytes
    }

    pub(crate) fn set_orphan_bytes(&mut self, bytes: u32) {
        self.orphan_bytes = bytes;
    }

    pub(crate) fn take_orphan_bytes(&mut self) -> u32 {
        std::mem::take(&mut self.orphan_bytes)
    }

    pub(crate) fn set_lost_bytes(&mut self, bytes: u32) {
        self.lost_bytes = bytes;
    }

    pub(crate) fn take_lost_bytes(&mut self) -> u32 {
        std::mem::take(&mut self.lost_bytes)
    }
}
