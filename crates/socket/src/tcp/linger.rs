//! The end of an engine: what was handed over still gets to the peers, for a bounded time.
//!
//! When a process ends, the kernel goes on with its sockets for minutes. Nobody goes on with connections past the kernel, so the
//! engine stays for a while (SO_LINGER), and says what it could not deliver.

use crate::engine::Engine;
use crate::engine::event_loop::FRAMES_PER_CALL;
use crate::tcp::lost::Lost;
use crate::tcp::streams::StreamState;
use sidestep_frame::FrameLink;
use sidestep_stack::tcp::{ConnectionId, Counter};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two polls in which nothing came: a round trip of a local network.
const PAUSE: Duration = Duration::from_micros(50);

impl Engine {
    /// Ends the engine: streams past the kernel are closed, and for at most `linger` it waits until their peers have
    /// acknowledged all that was handed over, and the end of it. What is left then is reset. With no time at all every
    /// stream is reset at once, as by SO_LINGER with zero seconds. Gives what was lost, of streams that were closed before,
    /// too, if that was not known yet. Streams by the kernel it goes on with by itself.
    pub fn finish(mut self, linger: Duration) -> Lost {
        self.end_streams(linger)
    }

    /// Also for who drops the engine.
    pub(crate) fn end_streams(&mut self, linger: Duration) -> Lost {
        self.take_what_has_come();
        let before = self.lost_after_close();
        let aborted = if linger.is_zero() { self.abort_streams() } else { Lost::default() };
        self.close_streams();
        let deadline = Instant::now() + linger;
        while self.has_unacknowledged() && Instant::now() < deadline {
            // Refused only in another process than the one that opened it, whose it is not to end.
            let unread = self.poll().unwrap_or_default();
            if unread > 0 {
                self.drop_unread();
            }
            sleep(PAUSE);
        }
        if let Some(bypass) = self.bypass.as_mut().filter(|bypass| bypass.lost.is_none()) {
            bypass.with_tcp(&self.counters, |tcp, now, output| tcp.drop_orphans(now, output));
        }
        let after = self.lost_after_close();
        Lost {
            streams: aborted.streams + (after.streams - before.streams.min(after.streams)),
            bytes: aborted.bytes + (after.bytes - before.bytes.min(after.bytes)),
        }
    }

    /// Receives what is in the ring: unread data decides how a stream ends.
    fn take_what_has_come(&mut self) {
        if self.held_streams().is_empty() {
            return;
        }
        let frames = self.bypass.as_ref().map_or(0, |bypass| bypass.link.facts().frames as usize);
        for _ in 0..frames.div_ceil(FRAMES_PER_CALL) {
            if self.poll().is_ok_and(|unread| unread > 0) {
                self.drop_unread();
            }
        }
    }

    /// The stack's counters of data lost after a close.
    pub(crate) fn lost_after_close(&self) -> Lost {
        let Some(bypass) = &self.bypass else { return Lost::default() };
        let counters = bypass.stack.tcp().counters();
        Lost { streams: counters.value(Counter::LostStreams), bytes: counters.value(Counter::LostBytes) }
    }

    fn has_unacknowledged(&self) -> bool {
        self.bypass.as_ref().is_some_and(|bypass| bypass.lost.is_none() && bypass.stack.tcp().orphans().0 > 0)
    }

    /// Nobody is listened for any more; streams are closed in order, or, where something is unread, reset as by the kernel.
    fn close_streams(&mut self) {
        let held = self.held_streams();
        let Self { streams, bypass: Some(bypass), counters, .. } = self else { return };
        if bypass.lost.is_some() {
            return;
        }
        for id in streams.listeners.iter_mut().filter_map(|(_, listener)| listener.id.take()) {
            // Each is there as long as its listener says so.
            let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.close_listener(now, id, output));
        }
        for id in held {
            // One that has ended already is as wanted.
            let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.close(now, id, output));
        }
    }

    /// Resets all open streams past the kernel.
    pub(crate) fn abort_streams(&mut self) -> Lost {
        let held = self.held_streams();
        let mut lost = Lost::default();
        let Self { bypass: Some(bypass), counters, .. } = self else { return lost };
        if bypass.lost.is_some() {
            return lost;
        }
        for id in held {
            let left = bypass.stack.tcp().facts(id).map_or(0, |facts| facts.unacknowledged) as u64;
            lost = Lost { streams: lost.streams + u64::from(left > 0), bytes: lost.bytes + left };
            // One that has ended already has no peer to reset.
            let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.abort(now, id, output));
        }
        lost
    }

    fn held_streams(&mut self) -> Vec<ConnectionId> {
        let streams = self.streams.streams.iter_mut();
        let held = streams.filter_map(|(_, stream)| match stream.state {
            StreamState::Accelerated { id, .. } => Some(id),
            _ => None,
        });
        held.collect()
    }
}
