//! What has to be done now and then: the sign of life, news of control and of the kernel's sockets, changed tables.

use super::{Engine, Fast};
use crate::keeper::Event;
use crate::reason::Reason;
use sidestep_link::frame::FrameLink;
use sidestep_plane::counters::Counter;

impl Engine {
    /// One turn of the owner: a decrement, and seldom more; true when the clock was read.
    #[inline]
    pub(super) fn turn(&mut self) -> bool {
        let has_time = self.heart.turn();
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
        self.counters.add(Counter::Polls, u64::from(self.heart.stride()));
        let now_ns = self.heart.now_ns();
        if let Some(fast) = &mut self.fast {
            fast.ways.judge(now_ns);
            if let Some(host) = fast.ways.changed_host(fast.device) {
                fast.stack.set_host(host);
            }
            let counters = fast.link.counters();
            self.counters.set(Counter::Kicks, counters.calls);
        }
        self.tidy_streams();
        if self.keeper.as_ref().is_some_and(crate::keeper::Keeper::has_news) {
            self.hear();
        }
    }

    fn hear(&mut self) {
        let news = self.keeper.as_ref().map(crate::keeper::Keeper::take_news).unwrap_or_default();
        for event in news {
            match event {
                Event::Twin(number) if crate::tcp::is_token(number) => self.streams.twin_is_ready(number),
                Event::Twin(number) => {
                    if let Ok(place) = self.sockets.place(super::Handle::of_number(number)) {
                        self.sockets.at(place).into_iter().for_each(|socket| socket.is_twin_ready = true);
                    }
                }
                Event::Revoked(reason, text) => self.lose(reason, text),
                Event::Tables(reader) => {
                    if let Some(fast) = &mut self.fast {
                        fast.ways.replace(reader);
                    }
                }
            }
        }
    }

    /// The stack is no more: every socket goes on by the kernel.
    fn lose(&mut self, reason: Reason, text: String) {
        let Some(fast) = &mut self.fast else { return };
        fast.lost = Some(reason);
        fast.entries.clear();
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
