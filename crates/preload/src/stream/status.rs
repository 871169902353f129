//! The state of a connection as poll(2), getsockopt(2) and ioctl(2) show it.

use super::options::Group;
use super::{Progress, Stream, low_water, of_twin};
use crate::answer::{Answer, Stop};
use crate::handover;
use crate::watchers::Watchers;
use libc::c_int;
use rustix::event::PollFlags;
use rustix::io::Errno;
use sidestep_socket::Engine;
use sidestep_socket::tcp::{Options, Readiness, Shutdown, Tcp, TcpError};
use sidestep_stack::tcp::State;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// A connection that has ended, or that both have closed, waits in neither direction (tcp_poll of net/ipv4/tcp.c).
const ENDED: PollFlags = PollFlags::HUP
    .union(PollFlags::RDHUP)
    .union(PollFlags::IN)
    .union(PollFlags::RDNORM)
    .union(PollFlags::OUT)
    .union(PollFlags::WRNORM);

/// The bits of poll(2).
pub(crate) fn readiness_flags(readiness: Result<Readiness, TcpError>) -> PollFlags {
    let Ok(readiness) = readiness else { return PollFlags::ERR | PollFlags::HUP };
    let bits = [
        (Readiness::READABLE, PollFlags::IN | PollFlags::RDNORM),
        (Readiness::WRITABLE, PollFlags::OUT | PollFlags::WRNORM),
        (Readiness::PEER_CLOSED, PollFlags::IN | PollFlags::RDHUP),
        (Readiness::HANGUP, ENDED),
        (Readiness::ERROR, PollFlags::ERR),
    ];
    let set = bits.into_iter().filter(|(bit, _)| readiness.has(*bit));
    set.fold(PollFlags::empty(), |all, (_, flags)| all | flags)
}

impl Stream {
    /// The error of the connection, as an errno; told once. SO_ERROR
    pub(crate) fn take_error(&self) -> i32 {
        let error = self.engine.with(|engine| engine.tcp().take_error(self.handle));
        error.ok().flatten().map_or(0, TcpError::errno)
    }

    /// Bytes that can be read, and bytes that were not acknowledged. FIONREAD, SIOCOUTQ
    pub(crate) fn queued(&self) -> (usize, usize) {
        self.engine.with(|engine| self.queued_in(&mut engine.tcp()))
    }

    /// The same, with the engine locked.
    pub(super) fn queued_in(&self, tcp: &mut Tcp<'_>) -> (usize, usize) {
        let facts = tcp.facts(self.handle).ok().flatten();
        facts.map_or((0, 0), |facts| (facts.readable, facts.unacknowledged))
    }

    /// A value that is another one after each arrival of data, and after what ends the connection. EPOLLET
    pub(crate) fn mark_of_reading(&self, engine: &mut Engine, now: PollFlags) -> Option<u64> {
        let ends = now & (PollFlags::PRI | PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR);
        let facts = engine.tcp().facts(self.handle).ok().flatten()?;
        Some(facts.bytes_in << u16::BITS | u64::from(ends.bits()))
    }

    /// Returns whether there is less to read than the program wants to be told of, and the window has room for more
    /// (tcp_stream_is_readable, linux/net/ipv4/tcp.c). SO_RCVLOWAT
    pub(super) fn is_below_low_water(&self, tcp: &mut Tcp<'_>, flags: PollFlags) -> bool {
        let least = self.low_water.load(Ordering::Relaxed);
        if least <= 1 || flags.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) {
            return false;
        }
        let facts = tcp.facts(self.handle).ok().flatten();
        facts.is_some_and(|facts| facts.readable < least && facts.receive_window > facts.segment_bytes)
    }

    /// The largest segment to send. TCP_MAXSEG
    pub(crate) fn segment_bytes(&self) -> Option<i32> {
        let facts = self.engine.with(|engine| engine.tcp().facts(self.handle));
        facts.ok().flatten().and_then(|facts| facts.segment_bytes.try_into().ok())
    }

    /// The MTU of the path to the peer, where there is one. IP_MTU, IPV6_MTU
    pub(crate) fn path_mtu(&self) -> Option<i32> {
        let facts = self.engine.with(|engine| engine.tcp().facts(self.handle));
        facts.ok().flatten().filter(|_| self.has_peer()).map(|facts| facts.path_mtu.into())
    }

    /// Ends one direction or both.
    pub(crate) fn shutdown(&self, how: Shutdown) -> Answer<()> {
        if self.is_opening() {
            return Err(Errno::NOTCONN.into());
        }
        let shut = |engine: &mut Engine| match self.is_kernels(engine) {
            true => Err(Stop::Kernel),
            false => Ok(engine.tcp().shutdown(self.handle, how)),
        };
        let mut done = self.engine.with(shut)?;
        while done.is_err_and(TcpError::is_would_block) && handover::await_decision(self) {
            done = self.engine.with(shut)?;
        }
        Ok(done?)
    }

    /// Returns whether there is a peer: the connection is made, and neither reset nor closed by both.
    pub(crate) fn has_peer(&self) -> bool {
        self.engine.with(|engine| self.progress(engine) == Progress::Made && !self.is_over(engine))
    }

    /// Returns whether the connection was reset, was closed by both, or has failed.
    pub(crate) fn has_ended(&self) -> bool {
        self.engine.with(|engine| self.progress(engine) != Progress::Opening && self.is_over(engine))
    }

    fn is_over(&self, engine: &mut Engine) -> bool {
        let facts = engine.tcp().facts(self.handle);
        facts.map_or(true, |facts| facts.is_none_or(|facts| matches!(facts.state, State::Closed | State::TimeWait)))
    }

    /// Takes over what the program has set on the twin.
    pub(crate) fn follow(&self, twin: BorrowedFd<'_>) {
        self.low_water.store(low_water(twin), Ordering::Relaxed);
        let (profile, is_ipv6) = self.profile();
        let options = of_twin(twin, is_ipv6, profile);
        self.is_corked.store(options.cork, Ordering::Relaxed);
        self.apply(|present| *present = options);
    }

    /// Takes over one option that the program has set on the twin.
    pub(crate) fn follow_one(&self, twin: BorrowedFd<'_>, option: (c_int, c_int)) {
        if option == (libc::SOL_SOCKET, libc::SO_RCVLOWAT) {
            self.low_water.store(low_water(twin), Ordering::Relaxed);
        }
        let Some(group) = Group::of(option) else { return };
        let _following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut options, is_ipv6) = self.profile();
        group.read(twin, is_ipv6, &mut options);
        if group == Group::Cork {
            self.is_corked.store(options.cork, Ordering::Relaxed);
        }
        self.apply(|present| group.copy(&options, present));
    }

    /// The options of the profile, and whether the connection is one of IPv6.
    fn profile(&self) -> (Options, bool) {
        self.engine.with(|engine| {
            let mut tcp = engine.tcp();
            let is_ipv6 = tcp.ends(self.handle).is_ok_and(|(_, remote)| remote.is_ipv6());
            (tcp.defaults(), is_ipv6)
        })
    }

    fn apply(&self, change: impl FnOnce(&mut Options)) {
        self.engine.with(|engine| {
            let mut tcp = engine.tcp();
            let Ok(Some(mut options)) = tcp.options(self.handle) else { return };
            change(&mut options);
            options.cork = self.is_corked.load(Ordering::Relaxed) || self.has_more.load(Ordering::Relaxed);
            options.urgent_held = !self.is_urgent_inline.load(Ordering::Relaxed);
            // The kernel has accepted the values; what our stack cannot do with them stays as it was.
            let _ = tcp.set_options(self.handle, options);
        });
    }

    /// Waits until the peer has all that was sent, or the time is over. SO_LINGER
    pub(crate) fn linger(&self, time: Duration, watchers: &Arc<Watchers>) {
        if time.is_zero() || self.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let deadline = Instant::now().checked_add(time);
        let is_sent = |engine: &mut Engine| {
            let facts = engine.tcp().facts(self.handle).ok().flatten();
            facts.is_none_or(|facts| facts.unacknowledged == 0).then_some(())
        };
        // Time, or a signal, ends it as well.
        let _ = self.engine.wait(&[watchers], &[], deadline, is_sent);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Acquire)
    }
}
