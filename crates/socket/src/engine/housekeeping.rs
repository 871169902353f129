//! What has to be done now and then: the sign of life, news of control and of the kernel's sockets, changed tables.

use super::{Engine, Fast};
use crate::control_agent::Event;
use crate::reason::Reason;
use crate::route_cache::believed_mtu;
use sidestep_control_api::counters::Counter;
use sidestep_control_api::message::{IcmpError, IcmpErrorKind, Protocol};
use sidestep_frame::FrameLink;

impl Engine {
    /// One turn of the owner: a decrement, and seldom more; true when the clock was read.
    #[inline]
    pub(super) fn turn(&mut self) -> bool {
        let has_time = self.heartbeat.turn();
        if has_time {
            self.look_around();
        }
        has_time
    }

    /// What could not leave before, and, when the clock has just been read, TCP's timers.
    #[inline]
    pub(super) fn drive_streams(&mut self, has_time: bool) {
        let Self { fast: Some(fast @ Fast { lost: None, .. }), counters, .. } = self else { return };
        if fast.segments.has_work(has_time) {
            fast.poll_tcp(counters);
        }
    }

    /// When nothing has come: frames that were sent come back, free ones are lent.
    #[inline]
    pub(super) fn idle(&mut self) {
        if let Some(Fast { link, lost: None, .. }) = &mut self.fast {
            // An interface that is down or gone is told by control's tables; here it only fails.
            if link.poll().is_err() {
                self.counters.add(Counter::LinkFaults, 1);
            }
        }
    }

    /// With the clock just read: some twenty times a millisecond in a loop that spins, each turn in one that does not.
    #[cold]
    fn look_around(&mut self) {
        self.counters.add(Counter::Heartbeats, 1);
        self.counters.add(Counter::Polls, u64::from(self.heartbeat.stride()));
        let (now_ns, mut has_moved, mut has_events) = (self.heartbeat.now_ns(), false, false);
        let mut is_up_again = false;
        if let Some(fast) = &mut self.fast {
            fast.routes.judge(now_ns);
            if let Some(host) = fast.routes.changed_host(fast.device) {
                has_events = fast.lost.is_none();
                is_up_again = fast.routes.has_come_up(fast.device);
                if let Some(mtu) = fast.routes.mtu_of(fast.device) {
                    fast.segments.follow_mtu(mtu);
                }
                if host != *fast.stack.host() {
                    fast.stack.set_host(host);
                    has_moved = has_events;
                }
            }
            let counters = fast.link.counters();
            self.counters.set(Counter::Kicks, counters.calls);
            fast.count_ends(&self.counters);
            self.counters.set(Counter::DroppedLong, counters.long_dropped);
        }
        if has_moved {
            self.try_again(|reason| reason == Reason::LoopbackOrLocal);
        }
        if has_events {
            self.try_again(|reason| matches!(reason, Reason::RouteUnknown | Reason::ControlSilent));
        }
        if let Some(fast) = self.fast.as_mut().filter(|fast| fast.lost.is_none()) {
            fast.fit_paths(&self.counters);
            if is_up_again {
                fast.with_tcp(&self.counters, |tcp, now, sink| tcp.hasten(now, sink));
            }
            self.agent.iter().for_each(|agent| fast.ask_for_neighbours(agent, now_ns));
        }
        self.tidy_rules();
        self.tidy_streams();
        self.tidy_listeners(now_ns);
        self.tidy_openings(now_ns);
        if self.agent.as_ref().is_some_and(crate::control_agent::ControlAgent::has_events) {
            self.hear();
        }
        if self.fast.as_ref().is_some_and(|fast| fast.lost.is_some()) {
            self.retire();
        }
    }

    fn hear(&mut self) {
        let events = self.agent.as_ref().map(crate::control_agent::ControlAgent::take_events).unwrap_or_default();
        for event in events {
            match event {
                Event::Twin(number) if crate::tcp::is_token(number) => self.streams.twin_is_ready(number),
                Event::Twin(number) => {
                    if let Ok(place) = self.sockets.place(super::Handle::of_number(number)) {
                        self.sockets.at(place).into_iter().for_each(|socket| socket.is_twin_ready = true);
                    }
                }
                Event::Revoked(reason, text) => self.lose(reason, text),
                Event::Tables(reader) => {
                    self.settle_all();
                    let routes = self.fast.as_mut().map(|fast| &mut fast.routes);
                    let routes = routes.or(self.remains.as_mut().map(|remains| &mut remains.routes));
                    if let Some(routes) = routes {
                        routes.replace(reader);
                    }
                }
                Event::Opened(parts) => self.revive(*parts),
                Event::IcmpError(error) => self.hear_of_icmp_error(&error),
                Event::GivenBack(entry, reason) => self.go_without(entry, reason),
                Event::Ports(answer) => self.streams.ports.answered(answer, self.heartbeat.now_ns()),
                Event::Spread(spread) => {
                    self.settle_all();
                    self.respread(spread);
                }
            }
        }
    }

    /// ICMP: connections of TCP, and the path's MTU for datagrams. Errors of datagrams are told by the kernel's socket.
    fn hear_of_icmp_error(&mut self, error: &IcmpError) {
        let Self { sockets, fast: Some(fast), counters, .. } = self else { return };
        match (error.protocol, error.kind) {
            (Protocol::Tcp, _) if fast.lost.is_none() => fast.tell_of_icmp_error(error, counters),
            (Protocol::Udp, IcmpErrorKind::TooBig { mtu }) => {
                // Anybody can say so; it is believed of whom we have sent something to.
                let mut sockets = sockets.iter_mut().map(|(_, socket)| socket);
                if sockets.any(|socket| socket.local.port() == error.local.port() && socket.flows.has(&error.remote)) {
                    fast.routes.lower_mtu(error.remote.ip(), believed_mtu(mtu, error.remote.ip()));
                }
            }
            _ => {}
        }
    }

    /// The stack is no more: every socket goes on by the kernel.
    fn lose(&mut self, reason: Reason, text: String) {
        let Some(fast) = &mut self.fast else { return };
        fast.lost = Some(reason);
        fast.rules.clear();
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
