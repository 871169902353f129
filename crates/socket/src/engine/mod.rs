//! The engine: one frame link, one stack, the mirrored routes, and the sockets upon them, driven by one thread.
//!
//! [`bypass`] is the path past the kernel, [`event_loop`] one turn of receiving, `housekeeping` everything that is done now
//! and then. The calls of the program are in `udp` and `tcp`.

pub(crate) mod build;
pub(crate) mod bypass;
pub(crate) mod entries;
pub(crate) mod event_loop;
mod housekeeping;
mod open;
pub(crate) mod queues;
mod reopen;
mod rss_change;
mod sleep;
mod steer;
#[cfg(test)]
mod tests;

use crate::control_agent::ControlAgent;
use crate::error::Error;
use crate::fallback::released::Released;
use crate::heartbeat_writer::HeartbeatWriter;
use crate::options::EngineOptions;
use crate::reason::{Path, Reason};
use crate::tcp::lost::Lost;
use crate::tcp::streams::Streams;
use crate::udp::buffers::Buffers;
use crate::udp::socket::{Handle, Sockets};
use bypass::{Bypass, LostStack};
use sidestep_control_api::counters::{Counter, Counters};
use sidestep_frame::{FrameFacts, FrameLink, Received};
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::problem::say;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// All sockets of one queue of an interface, or of several, owned and polled by one thread.
///
/// Poll it at least every few hundred milliseconds, by [`Engine::poll`] or [`Engine::receive`]. An owner that is silent for a
/// second counts as stopped: the kernel gets its datagrams until it polls again. Segments of TCP wait in the ring for a minute,
/// because the kernel would reset their connections.
///
/// A stack is lost with its interface, or to a control that came back without it. The engine opens it again as soon as it can:
/// sockets and listeners go past the kernel again, connections of TCP have ended. Frames of the old stack that the program
/// still holds delay that.
///
/// A child of fork(2) may not use the engine: every call is refused, and dropping it there changes nothing for the parent. As
/// with any kernel socket that a child inherits, the twins keep their ports taken until the child ends or calls execve(2).
#[derive(Debug)]
pub struct Engine {
    pub(crate) guard: ForkGuard,
    pub(crate) sockets: Sockets,
    pub(crate) streams: Streams,
    pub(crate) buffers: Buffers,
    /// UDP ports that were released a moment ago.
    pub(crate) released: Released,
    pub(crate) counters: Counters,
    pub(crate) heartbeat: HeartbeatWriter,
    pub(crate) timestamps: bool,
    /// The path past the kernel; `None` where there is none.
    pub(crate) bypass: Option<Bypass>,
    /// The reason why there is none, or none any more; the text is control's.
    pub(crate) refusal: Option<(Reason, String)>,
    /// The options, for opening a lost stack again.
    pub(crate) options: Box<EngineOptions>,
    /// Stacks that were opened in the place of lost ones.
    pub(crate) reopened: u32,
    /// The parts of a lost stack, until there is another one.
    pub(crate) lost_stack: Option<LostStack>,
    /// The frames of a burst; empty between calls, kept for its memory.
    pub(crate) burst: Vec<Received>,
    /// The descriptor by which the control agent ends a sleep, once there has been one.
    pub(crate) told: Option<Arc<OwnedFd>>,
    // Last: it takes leave of control after the link's memory is gone.
    pub(crate) agent: Option<ControlAgent>,
}

/// Frames of an engine, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Received from the device.
    pub received: u64,
    /// Given to the device.
    pub sent: u64,
    /// Received and dropped: malformed, of a wrong checksum, too long, or for a socket whose queue was full.
    pub dropped: u64,
}

impl Engine {
    /// The reason why the kernel carries all traffic, with control's text; `None` while traffic can go past it.
    pub fn refusal(&self) -> Option<(Reason, &str)> {
        self.refusal.as_ref().map(|(reason, text)| (*reason, text.as_str()))
    }

    /// Returns whether sockets of this engine gave the port back in the last seconds: it may be taken a little longer (EADDRINUSE), by nobody
    /// else.
    pub fn was_released(&self, port: u16) -> bool {
        let now = std::time::Instant::now();
        self.released.was_ours(port, now) || self.streams.released.was_ours(port, now)
    }

    /// Facts of the frame link; `None` where there is none.
    pub fn link(&self) -> Option<&FrameFacts> {
        self.bypass.as_ref().map(|bypass| bypass.link.facts())
    }

    /// System calls that this thread has made to send or to be given frames, since the engine was opened.
    pub fn calls(&self) -> u64 {
        self.bypass.as_ref().map_or(0, |bypass| bypass.link.counters().calls)
    }

    /// Frames since the engine was opened.
    pub fn frames(&self) -> Frames {
        let dropped = [Counter::DroppedMalformed, Counter::DroppedChecksum, Counter::DroppedFull, Counter::DroppedLong];
        Frames {
            received: self.counters.value(Counter::ReceivedFrames),
            sent: self.counters.value(Counter::SentFrames),
            dropped: dropped.iter().map(|counter| self.counters.value(*counter)).sum(),
        }
    }

    /// Frames of any socket that the kernel has dropped because the rings of the present link had no room for them; 0 where there is no
    /// link. It makes a system call for each queue.
    pub fn dropped_by_kernel(&self) -> u64 {
        self.bypass.as_ref().map_or(0, |bypass| bypass.link.dropped())
    }

    /// The AF_XDP socket, or an epoll of several, to be slept on (poll(2), epoll(7)); `None` where there is none.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.bypass.as_ref().map(|bypass| bypass.link.socket())
    }

    /// A number of the present link, which no other of this engine has; `None` where there is none.
    pub(crate) fn link_number(&self) -> Option<u32> {
        self.bypass.as_ref().filter(|bypass| bypass.lost.is_none()).map(|_| self.reopened)
    }

    /// Number of the engine's interface; 0 where there is none.
    pub fn interface(&self) -> u32 {
        let lost = self.lost_stack.as_ref().map_or(0, |lost| lost.device);
        self.bypass.as_ref().map_or(lost, |bypass| bypass.device)
    }

    /// The kernel twin of a socket, for options and facts.
    pub fn twin(&self, handle: Handle) -> Result<BorrowedFd<'_>, Error> {
        self.sockets.twin(handle).map(AsFd::as_fd)
    }

    /// The best path that this engine has to offer.
    pub(crate) fn best_path(&self) -> Path {
        match (&self.bypass, &self.refusal) {
            (Some(Bypass { lost: None, mode, .. }), _) => Path::Accelerated { mode: *mode },
            (_, Some((reason, _))) => Path::Kernel(*reason),
            _ => Path::Kernel(Reason::Revoked),
        }
    }

    /// The path past the kernel, as long as it is there.
    #[inline]
    pub(crate) fn bypass(&mut self) -> Option<&mut Bypass> {
        self.bypass.as_mut().filter(|bypass| bypass.lost.is_none())
    }

    /// The index of a socket; the process must be the one that opened the engine.
    #[inline]
    pub(crate) fn place(&self, handle: Handle) -> Result<usize, Error> {
        if !self.guard.is_same_process() {
            return Err(Error::Forked);
        }
        self.sockets.place(handle)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.guard.is_same_process() {
            // Threads, connection and stack are the parent's to end.
            std::mem::forget((self.bypass.take(), self.agent.take()));
            return;
        }
        if std::thread::panicking() {
            // A second panic would end the process: nothing is polled after the first.
            self.abort_streams();
            return;
        }
        let lost = self.end_streams(self.options.linger);
        if lost != Lost::default() {
            say(format!("{}: {lost} when it ended", self.options.name));
        }
    }
}
