//! The event loop: frames out of the ring, and one turn of everything that has to be done.

use crate::engine::Engine;
use crate::engine::bypass::{Bypass, Deliver};
use crate::error::Error;
use crate::heartbeat_writer::realtime_ns;
use crate::udp::datagram::Datagram;
use crate::udp::inbox::Inbox;
use sidestep_control_api::counters::Counter;
use sidestep_frame::{FrameLink, Received};

/// Frames taken from the ring in one call: about as many microseconds, so that a flood for one socket does not keep the
/// program from its other work.
pub(crate) const FRAMES_PER_CALL: usize = 64;

/// So many connections stay in a CPU's cache, and nothing of them need be fetched ahead.
const CONNECTIONS_CACHED: u32 = 256;

impl Engine {
    /// Takes what has come, for all sockets, into their queues; returns how many datagrams are unread. Everything else that
    /// has to be done now and then is done here, too.
    pub fn poll(&mut self) -> Result<usize, Error> {
        self.poll_with(&mut |_, _| 0)
    }

    /// The same; payload of TCP in order is shown to `deliver` first, as [`crate::tcp::Tcp::poll_with`] says.
    pub(crate) fn poll_with(&mut self, deliver: Deliver<'_>) -> Result<usize, Error> {
        if !self.guard.is_same_process() {
            return Err(Error::Forked);
        }
        let has_time = self.turn();
        // Before anything is received: what the program has answered to the last burst has taken its ACKs along.
        self.poll_stack(has_time);
        let frames = if self.has_many_connections() { self.receive_burst(deliver) } else { self.receive_each(deliver) };
        // What has come is answered first.
        if frames == 0 || has_time {
            self.poll_link();
        }
        Ok(self.sockets.queued)
    }

    #[inline]
    fn has_many_connections(&self) -> bool {
        self.bypass.as_ref().is_some_and(|bypass| bypass.stack.tcp().connections().0 > CONNECTIONS_CACHED)
    }

    /// Handles frames as they are taken from the ring; returns how many.
    #[inline]
    fn receive_each(&mut self, deliver: Deliver<'_>) -> usize {
        let mut frames = 0;
        while frames < FRAMES_PER_CALL {
            let Some(datagram) = self.next_frame(deliver) else { break };
            datagram.into_iter().for_each(|(owner, datagram)| self.queue(owner, datagram));
            frames += 1;
        }
        frames
    }

    /// The same in two passes: takes all that has come, fetches what its connections have in memory for all of them together, and then
    /// handles one after the other.
    fn receive_burst(&mut self, deliver: Deliver<'_>) -> usize {
        let mut burst = std::mem::take(&mut self.burst);
        if let Some(Bypass { link, stack, lost: None, .. }) = &mut self.bypass {
            burst.extend(std::iter::from_fn(|| link.receive()).take(FRAMES_PER_CALL));
            if burst.len() > 1 {
                stack.look_ahead(burst.iter().map(|frame| link.bytes(frame)));
            }
        }
        let frames = burst.len();
        for frame in burst.drain(..) {
            let datagram = self.receive_frame(frame, deliver);
            datagram.into_iter().for_each(|(owner, datagram)| self.queue(owner, datagram));
        }
        self.burst = burst;
        frames
    }

    /// Receives the next frame, if there is one; returns the datagram in it, if it is one, and its socket.
    #[inline]
    pub(crate) fn next_frame(&mut self, deliver: Deliver<'_>) -> Option<Option<(usize, Datagram)>> {
        let bypass = self.bypass.as_mut().filter(|bypass| bypass.lost.is_none())?;
        let frame = bypass.link.receive()?;
        Some(self.receive_frame(frame, deliver))
    }

    /// Hands a frame of the link to the stack.
    #[inline]
    fn receive_frame(&mut self, frame: Received, deliver: Deliver<'_>) -> Option<(usize, Datagram)> {
        let Self { bypass, sockets, buffers, counters, timestamps, .. } = self;
        let bypass = bypass.as_mut()?;
        counters.add(Counter::ReceivedFrames, 1);
        counters.add(Counter::ReceivedBytes, frame.len() as u64);
        let software_ns = if *timestamps { realtime_ns() } else { 0 };
        Inbox { sockets, buffers, counters, software_ns }.receive(bypass, frame, deliver)
    }
}
