//! ResendRequests answered: stored messages again, gap fills for runs of what is not sent again.
//!
//! A resend goes on only as fast as the counterparty reads. Meanwhile live messages are numbered and kept, but wait: they leave
//! from the store, as they were, when the resend is done, so that both never mix.

use super::application::Application;
use super::gap::END_SEQ_NO_OPEN_40;
use super::inbound::{Kind, Verdict};
use super::{Phase, Session, checks, patch};
use crate::clock::Now;
use crate::decode::Message;
use crate::encode::Encoder;
use crate::store::Store;
use crate::tag;
use crate::validate::Reason;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// A resend stops while so many bytes wait to be written: one write of the transport.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// The most messages read in one step of a resend. Messages that are not sent again take no room in the output: a history of a
/// million heartbeats must not hold the thread of all sessions for as long as it takes to read.
const VISITS_MAX: u32 = 1024;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// The messages of ours that are requested again.
#[derive(Debug)]
pub(super) struct Replays {
    /// Being answered: from the first number not yet answered to the last.
    active: Option<Range>,
    /// The range to answer after it.
    waiting: Option<Range>,
    /// The first live message that waits.
    held_from: Option<u64>,
    /// Bytes of live messages that have not yet left.
    pub(super) held_bytes: usize,
    /// ResendRequests that may be answered now.
    tokens: u32,
    tokens_max: u32,
    filled_ns: u64,
    /// True if waiting messages were counted as delayed.
    delayed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    next: u64,
    last: u64,
    /// Live messages that waited: sent as they are.
    live: bool,
}

/// The start of a resend, if possible.
enum Start {
    /// There is a range to send.
    Active,
    /// Nothing is asked for.
    Nothing,
    /// Too much was asked for: later. `true` the first time that this is said of a range.
    Later(bool),
}

impl Replays {
    pub(super) fn new(per_second: u32, now: Now) -> Self {
        let tokens_max = per_second.max(1);
        Self {
            active: None,
            waiting: None,
            held_from: None,
            held_bytes: 0,
            tokens: tokens_max,
            tokens_max,
            filled_ns: now.mono_ns,
            delayed: false,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.is_some() || self.held_from.is_some()
    }

    /// Nothing is to be sent again on this connection. Live messages that waited are missing, and will be asked for.
    pub(super) fn forget(&mut self) {
        (self.active, self.waiting, self.held_from, self.held_bytes) = (None, None, None, 0);
    }

    pub(super) fn hold(&mut self, seq: u64, bytes: usize) {
        self.held_from.get_or_insert(seq);
        self.held_bytes += bytes;
    }

    /// The time at which a waiting ResendRequest may be answered.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        (!self.is_active() && self.waiting.is_some()).then_some(self.filled_ns + NS_PER_SECOND)
    }

    /// Queues a range; ranges that wait become one, so that a flood of requests costs no memory.
    fn ask(&mut self, next: u64, last: u64) -> bool {
        let joined = self.waiting.is_some();
        let waiting = self.waiting.get_or_insert(Range { next, last, live: false });
        (waiting.next, waiting.last) = (waiting.next.min(next), waiting.last.max(last));
        joined
    }

    /// The next range to be sent, if there is one and it is allowed now.
    fn start(&mut self, now: Now, next_outbound: u64) -> Start {
        if self.active.is_some() {
            return Start::Active;
        }
        if let Some(from) = self.held_from.take() {
            self.active = Some(Range { next: from, last: next_outbound - 1, live: true });
            return Start::Active;
        }
        if now.mono_ns.saturating_sub(self.filled_ns) >= NS_PER_SECOND {
            (self.tokens, self.filled_ns) = (self.tokens_max, now.mono_ns);
        }
        if self.waiting.is_none() {
            return Start::Nothing;
        }
        if self.tokens == 0 {
            return Start::Later(!std::mem::replace(&mut self.delayed, true));
        }
        self.tokens -= 1;
        self.delayed = false;
        self.active = self.waiting.take();
        Start::Active
    }
}

impl<S: Store> Session<S> {
    /// The counterparty misses messages.
    pub(super) fn on_resend_request(
        &mut self,
        message: &Message<'_, '_>,
        seq: u64,
        order: Ordering,
    ) -> Result<(), Verdict> {
        self.counters.resend_requests += 1;
        if order == Ordering::Greater {
            // It is answered now, whatever is missing before it, and not again when it is next in order.
            self.note_early(seq, b"");
        }
        let begin = message.unsigned(tag::BEGIN_SEQ_NO).map_err(checks::missing_or_bad)?.max(1);
        let end = message.unsigned(tag::END_SEQ_NO).map_err(checks::missing_or_bad)?;
        let sent = self.store.next_outbound() - 1;
        let open = end == 0 || (!self.dialect.open_end && end >= END_SEQ_NO_OPEN_40);
        let last = if open { sent } else { end.min(sent) };
        if (!open && end < begin) || begin > sent {
            let tag = if begin > sent { tag::BEGIN_SEQ_NO } else { tag::END_SEQ_NO };
            return Err(Verdict::Reject(Reason::ValueIncorrect, Some(tag.into())));
        }
        self.resend(begin, last);
        Ok(())
    }

    /// Queues our messages `begin..=last` for being sent again.
    pub(super) fn resend(&mut self, begin: u64, last: u64) {
        if self.replays.ask(begin, last) {
            self.counters.resend_requests_joined += 1;
        }
    }

    /// Sends as much of what is asked for as there is room for.
    pub(super) fn pump_replay<A: Application + ?Sized>(&mut self, app: &mut A) {
        while self.ending.is_none() && self.phase != Phase::Disconnected {
            match self.replays.start(self.now, self.store.next_outbound()) {
                Start::Active => {}
                Start::Nothing => return,
                Start::Later(first) => {
                    self.counters.resend_requests_delayed += u64::from(first);
                    return;
                }
            }
            let Some(range) = self.replays.active else { return };
            if self.encoder.output().len() >= OUTPUT_BYTES_MAX {
                return;
            }
            let rest = if range.live { self.send_live(range, app) } else { self.send_again(range, app) };
            self.replays.active = rest;
            if rest.is_some() {
                return;
            }
        }
    }

    /// One step over the store; returns what is left of the range. Two gap fills may follow each other where a step ends.
    fn send_again<A: Application + ?Sized>(&mut self, range: Range, app: &mut A) -> Option<Range> {
        let Self { store, encoder, scratch, gap_fill, now, settings, .. } = self;
        let mut walk = Walk { encoder, gap_fill, now: *now, next: range.next, full: false, resent: 0, gap_fills: 0 };
        let (mut visits, mut end) = (0, range.last.saturating_add(1));
        let visited = store.outbound(range.next, range.last, &mut |seq, raw| {
            let again = !Kind::of(patch::msg_type(raw)).is_admin() && app.may_resend(&settings.id, seq, raw);
            // What is left out is part of the next gap fill.
            if again && patch::resend(raw, now.utc(), walk.encoder.precision(), scratch).is_some() {
                walk.fill_up_to(seq);
                walk.send(seq, scratch);
            }
            visits += 1;
            if visits == VISITS_MAX {
                end = seq.saturating_add(1);
            }
            if walk.full || visits == VISITS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Err(problem) = visited {
            self.fail(&problem, app);
            return None;
        }
        walk.fill_up_to(end);
        let Walk { next, resent, gap_fills, .. } = walk;
        self.counters.resent += resent;
        self.counters.gap_fills_sent += gap_fills;
        self.counters.sent += resent + gap_fills;
        self.timers.sent(self.now.mono_ns);
        (next <= range.last).then_some(Range { next, ..range })
    }

    /// Live messages that waited leave as they were kept.
    fn send_live<A: Application + ?Sized>(&mut self, range: Range, app: &mut A) -> Option<Range> {
        let (mut next, mut full) = (range.next, false);
        let Self { store, encoder, counters, replays, .. } = self;
        let visited = store.outbound(range.next, range.last, &mut |seq, raw| {
            if encoder.output().len() >= OUTPUT_BYTES_MAX || !encoder.append(raw) {
                full = true;
                return ControlFlow::Break(());
            }
            counters.sent += 1;
            replays.held_bytes = replays.held_bytes.saturating_sub(raw.len());
            next = seq + 1;
            ControlFlow::Continue(())
        });
        if let Err(problem) = visited {
            self.fail(&problem, app);
            return None;
        }
        self.timers.sent(self.now.mono_ns);
        full.then_some(Range { next, ..range })
    }
}

/// The progress of one walk over the store.
struct Walk<'a> {
    encoder: &'a mut Encoder,
    gap_fill: &'a mut Vec<u8>,
    now: Now,
    /// The first number that is not yet answered.
    next: u64,
    /// There is no more room.
    full: bool,
    resent: u64,
    gap_fills: u64,
}

impl Walk<'_> {
    fn send(&mut self, seq: u64, message: &[u8]) {
        if self.put(message) {
            self.resent += 1;
            self.next = seq + 1;
        }
    }

    /// A gap fill for everything before `seq` that is not yet answered. Its OrigSendingTime is its SendingTime: the messages
    /// that it stands for have many.
    fn fill_up_to(&mut self, seq: u64) {
        if self.next >= seq || self.full {
            return;
        }
        let precision = self.encoder.precision();
        let mut builder = self.encoder.message(b"4");
        builder.unsigned(tag::NEW_SEQ_NO, seq).bool(tag::GAP_FILL_FLAG, true);
        let Ok(message) = builder.finish(self.next, self.now) else {
            self.full = true;
            return;
        };
        let bytes = message.len();
        let patched = patch::resend(message, self.now.utc(), precision, self.gap_fill).is_some();
        self.encoder.retract(bytes);
        let gap_fill = std::mem::take(self.gap_fill);
        if patched && self.put(&gap_fill) {
            self.gap_fills += 1;
            self.next = seq;
        }
        *self.gap_fill = gap_fill;
    }

    fn put(&mut self, message: &[u8]) -> bool {
        let has_room = !self.full && self.encoder.output().len() < OUTPUT_BYTES_MAX && self.encoder.append(message);
        self.full |= !has_room;
        has_room
    }
}
