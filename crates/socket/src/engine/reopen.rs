//! A stack in the place of one that was lost: everything that is open goes past the kernel again.
//!
//! Connections past the kernel do not come back: their sequence numbers went with the stack, and their peers were reset.

use crate::control_agent::Reopened;
use crate::engine::Engine;
use crate::engine::build::{build, wish};
use crate::engine::bypass::{Bypass, LostStack};
use crate::options::MulticastOut;
use crate::reason::Reason;
use crate::udp::buffers::COPIES_MAX;
use crate::udp::datagram::{Datagram, OVERHEAD_BYTES, Storage};
use crate::udp::socket::Socket;
use sidestep_control_api::counters::Counter;
use sidestep_frame::FrameLink;

impl Engine {
    /// Lets go of a lost stack, which frees its queue, and asks for another one: as soon as the program holds no frame of it,
    /// whose bytes would go with it.
    pub(crate) fn release_lost_stack(&mut self) {
        self.copy_unread();
        let is_unused = |bypass: &mut Bypass| {
            let tally = bypass.link.counters().tally;
            bypass.lost.is_some() && tally.lent + tally.held == 0
        };
        let Some(Bypass { routes, device, checksums, link, .. }) = self.bypass.take_if(is_unused) else { return };
        drop(link);
        self.sockets.iter_mut().for_each(|(_, socket)| socket.id = None);
        self.lost_stack = Some(LostStack { routes, device, checksums });
        if let Some(agent) = self.agent.as_ref().filter(|_| self.options.accelerate) {
            agent.reopen(wish(&self.options));
        }
    }

    /// Goes on with the stack that control has opened.
    pub(crate) fn resume_with(&mut self, parts: Reopened) {
        let Some(LostStack { routes, device, checksums }) = self.lost_stack.take() else { return };
        match build(parts, routes, &self.options, checksums) {
            Ok((bypass, heartbeat, counters)) => {
                (self.bypass, self.heartbeat, self.counters, self.refusal) = (Some(bypass), heartbeat, counters, None);
                self.reopened = self.reopened.wrapping_add(1);
                self.accelerate_all(device);
            }
            Err(problem) => {
                self.refusal = Some((Reason::Refused, problem.brief()));
                // What came of it cannot be used.
                self.agent.iter().for_each(|agent| drop(agent.begin_to_close()));
            }
        }
    }

    /// Retries sockets that are with the kernel for a reason that `is_over`: addresses have changed, or control is back.
    pub(crate) fn retry_acceleration(&mut self, is_over: impl Fn(Reason) -> bool) {
        let (mut whole, mut groups) = (Vec::new(), Vec::new());
        for (place, socket) in self.sockets.iter_mut() {
            if socket.detour.is_some_and(&is_over) {
                whole.push(place);
            }
            if socket.groups.iter().any(|joined| joined.steered.is_err_and(&is_over)) {
                groups.push(place);
            }
        }
        whole.into_iter().for_each(|place| self.accelerate(place));
        groups.into_iter().for_each(|place| self.steer_groups(place));
        self.tcp().reaccelerate_listeners(is_over);
        self.count_sockets();
    }

    /// Unread datagrams leave the frames of the lost link, as far as there is room for them.
    fn copy_unread(&mut self) {
        let Self { sockets, bypass: Some(bypass), buffers, counters, .. } = self else { return };
        let mut dropped = 0;
        for (_, socket) in sockets.iter_mut() {
            for _ in 0..socket.queue.len() {
                let Some(datagram) = socket.queue.pop_front() else { break };
                let Storage::Frame(frame) = datagram.storage else {
                    socket.queue.push_back(datagram);
                    continue;
                };
                let is_left = buffers.held() < COPIES_MAX;
                if socket.is_beside {
                    let (start, end) = (datagram.start as usize, (datagram.start + datagram.len) as usize);
                    let storage = Storage::Copy(bypass.link.bytes(&frame).get(start..end).unwrap_or_default().into());
                    socket.queue.push_back(Datagram { storage, start: 0, ..datagram });
                } else if let Some(number) = is_left.then(|| buffers.take()).flatten() {
                    let (start, end) = (datagram.start as usize, (datagram.start + datagram.len) as usize);
                    let payload = bypass.link.bytes(&frame).get(start..end).unwrap_or_default();
                    buffers.bytes_mut(number)[..payload.len()].copy_from_slice(payload);
                    let len = payload.len() as u32;
                    socket.queue.push_back(Datagram { storage: Storage::Buffer(number), start: 0, len, ..datagram });
                } else {
                    socket.queued_bytes -= datagram.len as usize + OVERHEAD_BYTES;
                    (socket.statistics.dropped, dropped) = (socket.statistics.dropped + 1, dropped + 1);
                }
                bypass.link.release(frame);
            }
        }
        sockets.queued -= dropped;
        counters.add(Counter::DroppedFull, dropped as u64);
    }

    /// Gives every open socket its place in the new stack, and its steering entries. `before` was the index of the interface.
    fn accelerate_all(&mut self, before: u32) {
        let places: Vec<usize> = self.sockets.iter_mut().map(|(place, _)| place).collect();
        for place in places {
            self.move_groups(place, before);
            self.accelerate(place);
            self.steer_groups(place);
        }
        self.tcp().reaccelerate_listeners(|_| true);
        self.count_sockets();
    }

    /// An interface that was removed and made again has another number, and no members of any group.
    fn move_groups(&mut self, place: usize, before: u32) {
        let Self { sockets, bypass: Some(bypass), .. } = self else { return };
        // A program's own socket joins by itself.
        let is_moved = |socket: &&mut Socket| bypass.device != before && !socket.is_beside;
        let Some(socket) = sockets.at(place).filter(is_moved) else { return };
        for joined in socket.groups.iter_mut().filter(|joined| joined.interface == before) {
            joined.interface = bypass.device;
            // A failure shows as missing datagrams, as with any group whose membership was lost.
            let _ = socket.twin.join(joined.group, bypass.device, joined.source);
        }
        if socket.options.multicast_out == MulticastOut::Engine {
            // Without an address on the interface the kernel chooses the interface for what it sends.
            let _ = socket.twin.set_multicast_out(bypass.device, bypass.routes.first_v4(bypass.device));
        }
    }
}
