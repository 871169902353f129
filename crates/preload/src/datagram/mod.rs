//! A UDP socket past the kernel: the engine has what is steered, the program's own socket all else, and both are read.
//!
//! * `begin` decides at bind(2), connect(2) and the first send, `early` remembers what sockets were told before.
//! * `options` reads the program's socket, `groups` follows memberships, `sharing` leaves
//!   groups to the kernel that other programs receive, too.
//! * `receive` and `send` are the calls, `control` writes ancillary data.

mod begin;
mod control;
mod early;
mod groups;
mod options;
mod receive;
mod send;
mod sharing;

pub(crate) use begin::{before_connect, before_send, begin, peer_of};
pub(crate) use early::{is_told_odd, made, remember, renew, why_kernel};
pub(crate) use groups::{Membership, multicast_interface};
pub(crate) use options::{Follow, follow_of, has_length, int};
pub(crate) use receive::Call;

use crate::engine::Shared;
use options::Wanted;
use rustix::event::PollFlags;
use rustix::io::ioctl_fionread;
use sidestep_socket::{Engine, Handle, Path, Reason};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// A UDP socket past the kernel.
#[derive(Debug)]
pub(crate) struct Datagrams {
    engine: Arc<Shared>,
    handle: Handle,
    /// An IPv6 socket of the program shows IPv4 addresses as mapped ones.
    is_ipv6: bool,
    /// The ancillary data that the program has asked for.
    wanted: Wanted,
    /// Receiving calls that the engine has served since the program's own socket was asked.
    turns: AtomicU32,
    /// The [`Side`] of the datagram that was looked at: the next one to be received.
    looked_at: AtomicU8,
    /// The program's own socket may have an error to tell.
    has_error: AtomicBool,
    /// Data was sent with MSG_MORE, which the kernel has.
    is_corked: AtomicBool,
    /// Whether datagrams of IPv4 from an IPv6 socket would have other hop limits or classes than those of IPv6.
    is_mixed: AtomicBool,
    /// The program's own socket has everything from now on, but for what is unread here.
    is_left: AtomicBool,
    /// The interface of IP_MULTICAST_IF, where it was given by its number.
    multicast_interface: AtomicU32,
    /// The path was reported, if the user asked for it.
    is_reported: AtomicBool,
    is_ended: AtomicBool,
}

/// What a datagram comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Side {
    Unknown,
    Engine,
    /// The program's own socket.
    Own,
}

impl Datagrams {
    fn new(
        engine: Arc<Shared>,
        handle: Handle,
        socket: BorrowedFd<'_>,
        is_ipv6: bool,
        multicast_interface: u32,
    ) -> Self {
        let made = Self {
            engine,
            handle,
            is_ipv6,
            wanted: Wanted::default(),
            turns: AtomicU32::new(0),
            looked_at: AtomicU8::new(Side::Unknown as u8),
            has_error: AtomicBool::new(false),
            is_corked: AtomicBool::new(false),
            is_mixed: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            multicast_interface: AtomicU32::new(multicast_interface),
            is_reported: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
        };
        made.read_options(socket);
        made
    }

    /// The events that poll(2) would report of our side; the program's own socket has all others.
    pub(crate) fn readiness(&self, engine: &mut Engine) -> PollFlags {
        match engine.unread(self.handle) {
            Ok(1..) => PollFlags::IN | PollFlags::RDNORM,
            _ => PollFlags::empty(),
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    pub(crate) fn engine(&self) -> &Arc<Shared> {
        &self.engine
    }

    /// The length of the next datagram, if it is one past the kernel. FIONREAD
    pub(crate) fn next_length(&self, socket: BorrowedFd<'_>) -> Option<usize> {
        if self.looked_at() == Side::Own && ioctl_fionread(socket).is_ok_and(|length| length != 0) {
            return None;
        }
        let next = |engine: &mut Engine| engine.peek(self.handle).ok().flatten().map(|(datagram, _)| datagram.len());
        let length = self.engine.with(next);
        self.look_at(if length.is_some() { Side::Engine } else { Side::Own });
        length
    }

    fn looked_at(&self) -> Side {
        match self.looked_at.load(Ordering::Relaxed) {
            side if side == Side::Engine as u8 => Side::Engine,
            side if side == Side::Own as u8 => Side::Own,
            _ => Side::Unknown,
        }
    }

    fn look_at(&self, side: Side) {
        self.looked_at.store(side as u8, Ordering::Relaxed);
    }

    /// The program's own socket has an error, which the next call tells.
    pub(crate) fn note_error(&self) {
        self.has_error.store(true, Ordering::Release);
    }

    /// The program has bound, connected or dissolved its socket, or given it other options.
    pub(crate) fn follow(&self, socket: BorrowedFd<'_>) {
        self.read_options(socket);
        let options = options::of(socket, self.is_ipv6, self.multicast_interface.load(Ordering::Relaxed));
        // It fails for one that was closed meanwhile.
        let _ = self.engine.with(|engine| engine.follow_beside(self.handle, &options));
    }

    fn read_options(&self, socket: BorrowedFd<'_>) {
        self.wanted.read(socket, self.is_ipv6);
        if self.wanted.has_time() {
            self.engine.with(Engine::keep_timestamps);
        }
        self.is_mixed.store(self.is_ipv6 && options::is_mixed(socket), Ordering::Relaxed);
    }

    /// Reports the path, once, if the user asked for it, as soon as it is known.
    #[inline]
    fn report(&self, engine: &mut Engine) {
        if !self.is_reported.load(Ordering::Relaxed) {
            self.report_known(engine, false);
        }
    }

    #[cold]
    fn report_known(&self, engine: &mut Engine, is_last: bool) {
        let (Ok(path), Ok(local)) = (engine.path(self.handle), engine.local(self.handle)) else { return };
        // A group may be joined later.
        let is_open = [Path::Kernel(Reason::Opening), Path::Kernel(Reason::PortShared)].contains(&path);
        let is_known = is_last || !is_open;
        if is_known && !self.is_reported.swap(true, Ordering::Relaxed) {
            let peer = engine.twin(self.handle).ok().and_then(peer_of);
            self.engine.report_path(|| begin::named(local, peer), path);
        }
    }

    /// Follows IP_MULTICAST_IF.
    pub(crate) fn follow_multicast_interface(&self, socket: BorrowedFd<'_>, interface: u32) {
        self.multicast_interface.store(interface, Ordering::Relaxed);
        self.follow(socket);
    }

    /// Follows a change of membership that the kernel has made for the program's socket.
    pub(crate) fn follow_membership(&self, socket: BorrowedFd<'_>, change: Membership) {
        let Some(port) = self.port() else { return };
        if sharing::is_shared(port, socket) {
            self.share_groups();
        }
        self.engine.with(|engine| change.apply(engine, self.handle));
        sharing::watch();
    }

    /// Leaves groups to the kernel, for other programs have the port, too.
    fn share_groups(&self) {
        let shared = self.engine.with(|engine| {
            let was_steered = engine.steered_groups(self.handle) != Ok(0);
            engine.share_groups(self.handle).map(|()| was_steered)
        });
        if shared == Ok(true)
            && let Some(port) = self.port()
        {
            self.engine.report_change(|| format!("UDP groups at port {port}: {}", Path::Kernel(Reason::GroupShared)));
        }
    }

    /// The port, if groups are steered to it.
    fn group_port(&self) -> Option<u16> {
        let has_groups = self.engine.with(|engine| engine.steered_groups(self.handle)).is_ok_and(|count| count != 0);
        if has_groups { self.port() } else { None }
    }

    fn port(&self) -> Option<u16> {
        self.engine.with(|engine| engine.local(self.handle)).ok().map(|local| local.port())
    }

    /// Leaves everything but what is unread here to the program's own socket, for good.
    pub(crate) fn leave(&self) {
        if !self.is_left.swap(true, Ordering::AcqRel) {
            // It fails for one that was closed meanwhile.
            let _ = self.engine.with(|engine| engine.leave_beside(self.handle));
        }
    }

    fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }

    /// Ends our side, with the engine locked.
    pub(crate) fn end_in(&self, engine: &mut Engine) {
        if !self.is_ended.swap(true, Ordering::AcqRel) {
            self.report_known(engine, true);
            self.engine.forget_datagrams(engine, self.handle);
            // One that has ended already is as wanted.
            let _ = engine.close(self.handle);
        }
    }

    /// An address as a socket of the program's family shows it.
    fn shown(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.is_ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            _ => address,
        }
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        if !*self.is_ended.get_mut() {
            let engine = Arc::clone(&self.engine);
            engine.with(|engine| self.end_in(engine));
        }
    }
}
