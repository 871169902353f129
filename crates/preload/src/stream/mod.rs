//! A connection of TCP past the kernel: the calls on it.

mod congestion;
mod connect;
mod data;
mod info;
mod options;
mod status;
pub(crate) mod unfollowed;

pub(crate) use congestion::{follow_hosts_congestion, note_congestion};
pub(crate) use connect::Progress;
pub(crate) use data::{Receive, Send};
pub(crate) use info::info;
pub(crate) use options::{low_water, of_twin};
pub(crate) use status::readiness_flags;

use crate::engine::Shared;
use rustix::event::PollFlags;
use sidestep_socket::Engine;
use sidestep_socket::tcp::{Readiness, TcpStream};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Not an event: the connection is the kernel's, which has to begin it ([`crate::accelerate::settle`]).
pub(crate) const UNSETTLED: PollFlags = PollFlags::from_bits_retain(0x4000);

/// A connection of TCP past the kernel, or on its way there.
#[derive(Debug)]
pub(crate) struct Stream {
    engine: Arc<Shared>,
    handle: TcpStream,
    /// An IPv6 socket of the program shows IPv4 addresses as mapped ones.
    is_ipv6: bool,
    /// The connection was made: until then connect(2) has something to tell.
    is_connected: AtomicBool,
    /// The last data was sent with MSG_MORE.
    has_more: AtomicBool,
    /// TCP_CORK, as the program has set it.
    is_corked: AtomicBool,
    /// SO_RCVLOWAT
    low_water: AtomicUsize,
    /// Held while an option is taken over: of two threads that set it at once, the later one has the last look.
    following: Mutex<()>,
    /// Urgent data is taken in line, because control has refused the hand-over.
    is_urgent_inline: AtomicBool,
    /// connect(2) was called.
    was_asked: AtomicBool,
    /// connect(2) has told that the connection is made.
    was_told: AtomicBool,
    /// Nothing of it is ours any more.
    is_ended: AtomicBool,
}

impl Stream {
    pub(crate) fn new(engine: Arc<Shared>, handle: TcpStream, is_ipv6: bool, is_connected: bool) -> Self {
        Self {
            engine,
            handle,
            is_ipv6,
            is_connected: AtomicBool::new(is_connected),
            has_more: AtomicBool::new(false),
            is_corked: AtomicBool::new(false),
            is_urgent_inline: AtomicBool::new(false),
            low_water: AtomicUsize::new(1),
            following: Mutex::default(),
            was_asked: AtomicBool::new(is_connected),
            was_told: AtomicBool::new(is_connected),
            is_ended: AtomicBool::new(false),
        }
    }

    /// Reports the path, if the user asked for it.
    pub(crate) fn report_path(&self, engine: &mut Engine) {
        let mut tcp = engine.tcp();
        if let (Ok(path), Ok((local, remote))) = (tcp.path(self.handle), tcp.ends(self.handle)) {
            self.engine.report_path(|| format!("TCP from {local} to {remote}"), path);
        }
    }

    pub(crate) fn handle(&self) -> TcpStream {
        self.handle
    }

    /// Returns whether urgent data has come, which the kernel knows how to read.
    pub(crate) fn is_urgent(&self, engine: &mut Engine) -> bool {
        engine.tcp().readiness(self.handle).is_ok_and(|readiness| readiness.has(Readiness::URGENT))
    }

    /// Takes urgent data in line, where the kernel cannot get the connection.
    pub(crate) fn take_urgent_inline(&self) {
        self.is_urgent_inline.store(true, Ordering::Relaxed);
        self.engine.with(|engine| {
            let mut tcp = engine.tcp();
            if let Ok(Some(mut options)) = tcp.options(self.handle) {
                options.urgent_held = false;
                // One that has ended takes none.
                let _ = tcp.set_options(self.handle, options);
            }
        });
    }

    /// Returns whether the engine has handed the connection over: the program's descriptor is the connection.
    pub(crate) fn is_kernels(&self, engine: &mut Engine) -> bool {
        engine.tcp().is_handed_over(self.handle)
    }

    pub(crate) fn engine(&self) -> &Arc<Shared> {
        &self.engine
    }

    /// Ends our side: a connection is closed, one that has not begun is forgotten. Returns false if that was done before.
    pub(crate) fn end(&self) -> bool {
        !self.is_ended.load(Ordering::Acquire) && self.engine.with(|engine| self.end_in(engine))
    }

    /// The same, with the engine locked.
    pub(crate) fn end_in(&self, engine: &mut Engine) -> bool {
        if self.is_ended.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.engine.forget_stream(engine, self.handle);
        // One that has ended already is as wanted.
        let _ = engine.tcp().close(self.handle);
        true
    }

    /// Resets the connection, or forgets one that is being made.
    pub(crate) fn abort(&self) {
        self.engine.with(|engine| {
            if !self.is_ended.swap(true, Ordering::AcqRel) {
                self.engine.forget_stream(engine, self.handle);
                // One that has ended already is as wanted.
                let _ = engine.tcp().abort(self.handle);
            }
        });
    }

    /// Notes a call of connect(2); returns whether it is the first.
    pub(crate) fn note_connect(&self) -> bool {
        !self.was_asked.swap(true, Ordering::AcqRel)
    }

    /// Returns whether connect(2) has told that the connection is made.
    pub(crate) fn was_told(&self) -> bool {
        self.was_told.load(Ordering::Acquire)
    }

    pub(crate) fn note_told(&self) {
        self.was_told.store(true, Ordering::Release);
    }

    pub(crate) fn readiness(&self, engine: &mut Engine) -> PollFlags {
        if matches!(self.progress(engine), Progress::Detour(_)) || self.is_kernels(engine) {
            return UNSETTLED;
        }
        let mut tcp = engine.tcp();
        let readiness = tcp.readiness(self.handle);
        if readiness.is_ok_and(|readiness| readiness.has(Readiness::URGENT)) {
            return UNSETTLED;
        }
        let flags = readiness_flags(readiness);
        if self.is_below_low_water(&mut tcp, flags) { flags - (PollFlags::IN | PollFlags::RDNORM) } else { flags }
    }

    /// This end and the other, as a socket of the program's family shows them.
    pub(crate) fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        let (local, remote) = self.engine.with(|engine| engine.tcp().ends(self.handle)).ok()?;
        Some((self.shown(local), self.shown(remote)))
    }

    /// An address as a socket of the program's family shows it.
    pub(crate) fn shown(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.is_ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            _ => address,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end();
    }
}
