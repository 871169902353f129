//! RSS changes: the device distributes packets over its queues in another way. Sockets whose packets come by queues of others
//! leave the path past the kernel with that reason; those whose packets come by ours again return to it.

use crate::engine::Engine;
use crate::engine::entries::give_back;
use crate::reason::Reason;
use sidestep_control_api::message::Protocol;
use sidestep_control_api::rss::Spread;

impl Engine {
    /// Learns how the device spreads by now. What control steers to whole ports and groups it takes back itself.
    pub(crate) fn apply_rss_change(&mut self, spread: Box<Spread>) {
        // A stack that was lost is opened again with what is read then.
        let Some(bypass) = self.bypass() else { return };
        bypass.queues.set_spread(spread);
        self.streams.ports.invalidate();
        self.tcp().abort_misdirected();
        self.withdraw_misdirected();
        self.retry_misdirected();
        self.count_sockets();
    }

    /// Connected sockets whose datagrams come by other queues are the kernel's; nothing is waited for.
    fn withdraw_misdirected(&mut self) {
        let Self { sockets, bypass: Some(bypass), agent, .. } = self else { return };
        let mut places = Vec::new();
        for (place, socket) in sockets.iter_mut() {
            let Some(peer) = socket.peer.filter(|_| !socket.entries.is_empty()) else { continue };
            if bypass.queues.receives(Protocol::Udp, peer, socket.local) {
                continue;
            }
            give_back(&mut bypass.entries, agent.as_ref(), socket);
            socket.detour = Some(Reason::QueueElsewhere);
            places.push(place);
        }
        for place in places {
            self.watch(place);
            self.report(place);
        }
    }

    /// Retries sockets that are with the kernel for their queue alone, where that has become ours.
    fn retry_misdirected(&mut self) {
        let Self { sockets, bypass: Some(bypass), .. } = self else { return };
        let (elsewhere, is_all_ours) = (Reason::QueueElsewhere, !bypass.queues.may_miss());
        let (mut whole, mut groups) = (Vec::new(), Vec::new());
        for (place, socket) in sockets.iter_mut() {
            let is_ours = |peer| bypass.queues.receives(Protocol::Udp, peer, socket.local);
            if socket.detour == Some(elsewhere) && socket.peer.map_or(is_all_ours, is_ours) {
                whole.push(place);
            }
            if is_all_ours && socket.groups.iter().any(|joined| joined.steered == Err(elsewhere)) {
                groups.push(place);
            }
        }
        whole.into_iter().for_each(|place| self.accelerate(place));
        groups.into_iter().for_each(|place| self.steer_groups(place));
        if is_all_ours {
            self.tcp().reaccelerate_listeners(|reason| reason == elsewhere);
        }
    }
}
