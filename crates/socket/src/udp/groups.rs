//! Groups: joined by the kernel's socket, so that the kernel speaks IGMP and MLD, and steered here.

use crate::engine::Engine;
use crate::error::Error;
use crate::reason::{Path, Reason};
use crate::udp::accelerate::join;
use crate::udp::socket::{Handle, Joined};
use sidestep_control_api::message::Entry;
use sidestep_stack::udp::{SocketId, TableError, Udp};
use sidestep_sys::Problem;
use std::net::{IpAddr, SocketAddr};

impl Engine {
    /// Joins a group on an interface (0: the engine's), from everyone or from one `source`; returns the path by which its datagrams
    /// come. Each packet goes to one program: others on this host no longer see a group that is steered here. Control is
    /// waited for as in [`Engine::bind`]. A program's own socket ([`Engine::bind_beside`]) has joined it already, and leaves it itself.
    pub fn join(
        &mut self,
        handle: Handle,
        group: IpAddr,
        interface: u32,
        source: Option<IpAddr>,
    ) -> Result<Path, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot join {group}"), why);
        let place = self.place(handle).map_err(|error| failed(&error))?;
        let interface = if interface == 0 { self.interface() } else { interface };
        let socket = self.sockets.at(place).ok_or_else(|| failed(&Error::NotOpen))?;
        if !socket.is_beside {
            socket.twin.join(group, interface, source).map_err(|error| {
                let next = "give a group of 224.0.0.0/4 or ff00::/8 and an interface that is up";
                failed(&error).next(next).errno(error.raw_os_error())
            })?;
        }
        let shares_groups = socket.shares_groups;
        let steered = match self.best_path() {
            _ if shares_groups => Err(Reason::GroupShared),
            Path::Accelerated { .. } => self.join_past_kernel(place, group, interface, source),
            Path::Kernel(reason) => Err(reason),
        };
        if let Some(socket) = self.sockets.at(place) {
            socket.groups.push(Joined { group, interface, source, steered });
            if let (Err(reason), Some(agent)) = (steered, &self.agent) {
                agent.report(format!("udp {group}:{}", socket.local.port()), reason.code());
            }
        }
        self.watch(place);
        self.await_control(place);
        Ok(self.path_of_last_group(place))
    }

    fn path_of_last_group(&mut self, place: usize) -> Path {
        let best = self.best_path();
        let steered = self.sockets.at(place).and_then(|socket| socket.groups.last()).map(|joined| joined.steered);
        match (steered, &self.bypass) {
            (Some(Err(reason)), _) => Path::Kernel(reason),
            (Some(Ok(entry)), Some(bypass)) if bypass.entries.is_asked(entry) => Path::Kernel(Reason::Opening),
            _ => best,
        }
    }

    /// Leaves a group that was joined with the same interface and source.
    pub fn leave(
        &mut self,
        handle: Handle,
        group: IpAddr,
        interface: u32,
        source: Option<IpAddr>,
    ) -> Result<(), Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot leave {group}"), why);
        let place = self.place(handle).map_err(|error| failed(&error))?;
        let interface = if interface == 0 { self.interface() } else { interface };
        let socket = self.sockets.at(place).ok_or_else(|| failed(&Error::NotOpen))?;
        let is_it = |joined: &Joined| (joined.group, joined.interface, joined.source) == (group, interface, source);
        let number = socket.groups.iter().position(is_it).ok_or_else(|| failed(&"it has not been joined"))?;
        let joined = socket.groups.swap_remove(number);
        self.leave_one(place, joined).map_err(|error| failed(&error).errno(error.raw_os_error()))?;
        self.watch(place);
        Ok(())
    }

    /// Leaves the groups of a socket to the kernel, for good: other programs have its port, too.
    pub fn share_groups(&mut self, handle: Handle) -> Result<(), Error> {
        let place = self.place(handle)?;
        let socket = self.sockets.at(place).ok_or(Error::NotOpen)?;
        socket.shares_groups = true;
        let mut entries = Vec::new();
        for joined in &mut socket.groups {
            entries.extend(joined.steered.ok());
            joined.steered = Err(Reason::GroupShared);
        }
        entries.into_iter().for_each(|entry| self.unsteer(entry));
        self.count_sockets();
        Ok(())
    }

    /// The number of a socket's groups that are steered, or asked to be.
    pub fn steered_groups(&mut self, handle: Handle) -> Result<usize, Error> {
        let place = self.place(handle)?;
        let socket = self.sockets.at(place).ok_or(Error::NotOpen)?;
        Ok(socket.groups.iter().filter(|joined| joined.steered.is_ok()).count())
    }

    /// Receives nothing from a source of a group that was joined from everyone. The twin is the caller's to tell.
    pub fn block(&mut self, handle: Handle, group: IpAddr, interface: u32, source: IpAddr) -> Result<(), Error> {
        self.with_member(handle, |stack, id| stack.block_source(id, group, interface, source))
    }

    /// Receives from a source again.
    pub fn unblock(&mut self, handle: Handle, group: IpAddr, interface: u32, source: IpAddr) -> Result<(), Error> {
        self.with_member(handle, |stack, id| stack.unblock_source(id, group, interface, source))
    }

    fn with_member(
        &mut self,
        handle: Handle,
        change: impl FnOnce(&mut Udp, SocketId) -> Result<(), TableError>,
    ) -> Result<(), Error> {
        let place = self.place(handle)?;
        let Self { sockets, bypass, .. } = self;
        if let (Some(bypass), Some(id)) = (bypass, sockets.at(place).and_then(|socket| socket.id)) {
            // Of a group that is not in the stack nothing comes past the kernel.
            let _ = change(bypass.stack.udp(), id);
        }
        Ok(())
    }

    pub(crate) fn leave_all(&mut self, place: usize) {
        let groups = self.sockets.at(place).map(|socket| std::mem::take(&mut socket.groups)).unwrap_or_default();
        for joined in groups {
            // The socket is closed next, which leaves what could not be left here.
            let _ = self.leave_one(place, joined);
        }
    }

    fn leave_one(&mut self, place: usize, joined: Joined) -> std::io::Result<()> {
        let Joined { group, interface, source, steered } = joined;
        if let Ok(entry) = steered {
            self.unsteer(entry);
        }
        let Self { sockets, bypass, .. } = self;
        let Some(socket) = sockets.at(place) else { return Ok(()) };
        if let (Some(id), Some(bypass)) = (socket.id, bypass) {
            // Joined with the same words.
            let _ = match source {
                Some(source) => bypass.stack.udp().leave_source(id, group, interface, source),
                None => bypass.stack.udp().leave(id, group, interface),
            };
        }
        if socket.is_beside { Ok(()) } else { socket.twin.leave(group, interface, source) }
    }

    /// Steers groups that a socket has joined in the stack already, and that are not steered.
    pub(crate) fn steer_groups(&mut self, place: usize) {
        let groups = self.sockets.at(place).map(|socket| socket.groups.len()).unwrap_or_default();
        for number in 0..groups {
            let Self { sockets, bypass: Some(bypass), .. } = self else { return };
            let Some(socket) = sockets.at(place).filter(|socket| !socket.shares_groups) else { return };
            let Joined { group, interface, source, steered } = socket.groups[number];
            let vlan = match (steered, socket.id) {
                (Ok(_), _) => continue,
                (_, None) => Err(socket.detour.unwrap_or(Reason::Refused)),
                _ => bypass.routes.vlan_of_interface(interface, bypass.device).ok_or(Reason::GroupElsewhere),
            };
            let steered = vlan.and_then(|vlan| self.steer_group(place, group, source, vlan));
            self.sockets.at(place).into_iter().for_each(|socket| socket.groups[number].steered = steered);
        }
        self.watch(place);
    }

    fn join_past_kernel(
        &mut self,
        place: usize,
        group: IpAddr,
        interface: u32,
        source: Option<IpAddr>,
    ) -> Result<Entry, Reason> {
        let Self { sockets, bypass, .. } = self;
        let (Some(bypass), Some(socket)) = (bypass.as_mut(), sockets.at(place)) else { return Err(Reason::Revoked) };
        let vlan = bypass.routes.vlan_of_interface(interface, bypass.device).ok_or(Reason::GroupElsewhere)?;
        let id = socket.id.ok_or_else(|| socket.detour.unwrap_or(Reason::Refused))?;
        join(bypass, id, group, interface, source).map_err(|_| Reason::TooManyEntries)?;
        self.steer_group(place, group, source, vlan)
    }

    fn steer_group(
        &mut self,
        place: usize,
        group: IpAddr,
        source: Option<IpAddr>,
        vlan: Option<u16>,
    ) -> Result<Entry, Reason> {
        let port = self.sockets.at(place).ok_or(Reason::Revoked)?.local.port();
        let entry = Entry::Multicast { group: SocketAddr::new(group, port), source, vlan };
        self.steer(place, entry).map(|()| entry)
    }
}
