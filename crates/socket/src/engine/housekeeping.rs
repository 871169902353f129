//! Housekeeping: heartbeat, events of control and of the kernel twins, changed tables.

use crate::control_agent::Event;
use crate::engine::Engine;
use crate::engine::bypass::Bypass;
use crate::reason::Reason;
use crate::route_cache::believed_mtu;
use crate::tcp::table::is_token;
use crate::udp::socket::Handle;
use sidestep_control_api::counters::Counter;
use sidestep_control_api::heartbeat::monotonic_ns;
use sidestep_control_api::message::{IcmpError, IcmpErrorKind, Protocol};
use sidestep_frame::FrameLink;
use std::time::Duration;

/// The longest sleep: an owner that is silent for longer counts as stopped soon after.
const HEARTBEAT_WAIT: Duration = Duration::from_millis(200);

/// The shortest: a shorter one lasts longer than it should (a timer has 50 us of slack, prctl(2) PR_SET_TIMERSLACK), so it is none.
const LEAST_WAIT: Duration = Duration::from_micros(50);

/// The longest sleep while connections wait for a route or a neighbour.
const OPENING_WAIT: Duration = Duration::from_millis(1);

impl Engine {
    /// Counts one iteration of the event loop, and does housekeeping when it is due; returns whether the clock was read.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        let has_time = self.heartbeat.turn();
        if has_time {
            self.housekeep();
        }
        has_time
    }

    /// The time until which an owner that sleeps on [`Engine::socket`] and on the control agent has nothing to do.
    pub(crate) fn idle_time(&self) -> Duration {
        if !self.streams.opening.is_empty() {
            // Routes and neighbours appear in a table, without an event.
            return OPENING_WAIT;
        }
        let due =
            self.bypass.as_ref().filter(|bypass| bypass.lost.is_none()).and_then(|bypass| bypass.stack.next_poll());
        let due = due.map(|due| Duration::from_nanos(due.as_nanos().saturating_sub(monotonic_ns())));
        let wait = due.unwrap_or(HEARTBEAT_WAIT).min(HEARTBEAT_WAIT);
        if wait < LEAST_WAIT { Duration::ZERO } else { wait }
    }

    /// Has the next poll read the clock: its thread has slept.
    pub(crate) fn wake(&mut self) {
        self.heartbeat.wake();
    }

    /// Sends segments that had no room before, and drives the timers of TCP if the clock was just read.
    #[inline]
    pub(crate) fn poll_stack(&mut self, has_time: bool) {
        let Self { bypass: Some(bypass @ Bypass { lost: None, .. }), counters, .. } = self else { return };
        bypass.poll(has_time, counters);
    }

    /// Reclaims sent frames and lends free ones; called when no frame has come.
    #[inline]
    pub(crate) fn poll_link(&mut self) {
        if let Some(Bypass { link, lost: None, .. }) = &mut self.bypass {
            // Control's tables report an interface that is down or gone; the call only fails.
            if link.poll().is_err() {
                self.counters.add(Counter::LinkFaults, 1);
            }
        }
    }

    /// Does what is not needed for each frame, with the clock just read: some twenty times a millisecond in a loop that spins, and
    /// in each iteration of one that does not.
    #[cold]
    fn housekeep(&mut self) {
        self.counters.add(Counter::Heartbeats, 1);
        self.counters.add(Counter::Polls, u64::from(self.heartbeat.stride()));
        let now_ns = self.heartbeat.now_ns();
        let has_come_up = self.follow_host(now_ns);
        if let Some(bypass) = self.bypass.as_mut().filter(|bypass| bypass.lost.is_none()) {
            bypass.update_path_mtus(&self.counters);
            if has_come_up {
                bypass.with_tcp(&self.counters, |tcp, now, output| tcp.hasten(now, output));
            }
            self.agent.iter().for_each(|agent| bypass.resolve_neighbours(agent, now_ns));
        }
        self.poll_entries();
        self.reap_closed();
        self.poll_listeners(now_ns);
        self.advance_opens(now_ns);
        if self.agent.as_ref().is_some_and(crate::control_agent::ControlAgent::has_events) {
            self.take_agent_events();
        }
        self.poll_hand_overs();
        if self.bypass.as_ref().is_some_and(|bypass| bypass.lost.is_some()) {
            self.release_lost_stack();
        }
    }

    /// Follows changes of the host's addresses and links; returns whether the device has come up again.
    fn follow_host(&mut self, now_ns: u64) -> bool {
        let Some(bypass) = &mut self.bypass else { return false };
        let (mut has_moved, mut has_changed, mut has_come_up) = (false, false, false);
        bypass.routes.update_trust(now_ns);
        if let Some(host) = bypass.routes.changed_host(bypass.device) {
            has_changed = bypass.lost.is_none();
            has_come_up = bypass.routes.has_come_up(bypass.device);
            if let Some(mtu) = bypass.routes.mtu_of(bypass.device) {
                bypass.set_interface_mtu(mtu);
            }
            if host != *bypass.stack.host() {
                bypass.stack.set_host(host);
                has_moved = has_changed;
            }
        }
        bypass.publish_counters(&self.counters);
        if has_moved {
            self.retry_acceleration(|reason| reason == Reason::LoopbackOrLocal);
        }
        if has_changed {
            self.retry_acceleration(|reason| matches!(reason, Reason::RouteUnknown | Reason::ControlSilent));
        }
        has_come_up
    }

    fn take_agent_events(&mut self) {
        let events = self.agent.as_ref().map(crate::control_agent::ControlAgent::take_events).unwrap_or_default();
        for event in events {
            match event {
                Event::Twin(number) if is_token(number) => self.streams.note_twin_ready(number),
                Event::Twin(number) => {
                    if let Ok(place) = self.sockets.place(Handle::of_number(number)) {
                        self.sockets.at(place).into_iter().for_each(|socket| socket.is_twin_ready = true);
                    }
                }
                Event::Revoked(reason, text) => self.lose_stack(reason, text),
                Event::Tables(reader) => {
                    self.apply_all_answers();
                    let routes = self.bypass.as_mut().map(|bypass| &mut bypass.routes);
                    let routes = routes.or(self.lost_stack.as_mut().map(|remains| &mut remains.routes));
                    if let Some(routes) = routes {
                        routes.replace(reader);
                    }
                }
                Event::Opened(parts) => self.resume_with(*parts),
                Event::IcmpError(error) => self.receive_icmp_error(&error),
                Event::GivenBack(entry, reason) => self.fall_back(entry, reason),
                Event::Ports(answer) => self.streams.ports.answered(answer, self.heartbeat.now_ns()),
                Event::Ended(local, remote) => {
                    // The answer to its hand-over came before, and may not have been looked at.
                    self.poll_hand_overs();
                    self.end_handed_over(local, remote);
                }
                Event::HandOverTwin(cookie) => self.hand_over_twin(cookie),
                Event::HandOverAll(for_good) => self.begin_release(for_good),
                Event::Spread(spread) => {
                    self.apply_all_answers();
                    self.apply_rss_change(spread);
                }
            }
        }
    }

    /// ICMP: connections of TCP, and the path's MTU for datagrams. Errors of datagrams come by the kernel twin.
    fn receive_icmp_error(&mut self, error: &IcmpError) {
        let Self { sockets, bypass: Some(bypass), counters, .. } = self else { return };
        match (error.protocol, error.kind) {
            (Protocol::Tcp, _) if bypass.lost.is_none() => bypass.apply_icmp_error(error, counters),
            (Protocol::Udp, IcmpErrorKind::TooBig { mtu }) => {
                // Anybody can say so; it is believed of whom we have sent something to.
                let mut sockets = sockets.iter_mut().map(|(_, socket)| socket);
                if sockets.any(|socket| socket.local.port() == error.local.port() && socket.flows.has(&error.remote)) {
                    bypass.routes.lower_mtu(error.remote.ip(), believed_mtu(mtu, error.remote.ip()));
                }
            }
            _ => {}
        }
    }

    /// The stack is no more: every socket goes on by the kernel.
    pub(crate) fn lose_stack(&mut self, reason: Reason, text: String) {
        let Some(bypass) = &mut self.bypass else { return };
        bypass.lost = Some(reason);
        bypass.entries.clear();
        self.streams.lose(reason);
        self.refusal = Some((reason, text));
        for (_, socket) in self.sockets.iter_mut() {
            socket.detour = Some(reason);
            socket.is_twin_watched = false;
            socket.is_twin_ready = true;
            socket.entries.clear();
            socket.flows.clear();
            socket.groups.iter_mut().for_each(|joined| joined.steered = Err(reason));
        }
        self.count_sockets();
    }
}
