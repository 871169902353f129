//! Missing messages: asked for once, in chunks if so chosen, and again when they do not come.

use super::application::Application;
use super::counters::End;
use super::early::Next;
use super::inbound::Kind;
use super::text::{NOT_RESENT, Phrase};
use super::{Index, Phase, Session};
use crate::decode::Message;
use crate::store::Store;
use crate::tag;

/// EndSeqNo (16) for "to the last" before FIX 4.2.
pub(super) const END_SEQ_NO_OPEN_40: u64 = 999_999;

/// ResendRequests for one gap without any progress; then the counterparty will not answer the next one either.
const ASKED_MAX: u32 = 3;

/// The messages that were asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    /// The last missing one.
    last: u64,
    /// The last one of this chunk, if it is not the last chunk.
    chunk_last: Option<u64>,
    /// The number expected when the gap was last checked: progress is measured from here.
    expected: u64,
    /// The time of the last progress.
    since_ns: u64,
    /// ResendRequests since then.
    asked: u32,
}

impl<S: Store> Session<S> {
    pub(super) fn forget_gap(&mut self) {
        self.gap = None;
        self.early.clear();
    }

    /// A message beyond the expected one.
    pub(super) fn on_early<A: Application + ?Sized>(&mut self, message: &Message<'_, '_>, seq: u64, app: &mut A) {
        self.note_early(seq, message.raw());
        self.ask_for_gap(seq, app);
    }

    /// Keeps a message beyond the gap; an empty one was answered already.
    pub(super) fn note_early(&mut self, seq: u64, message: &[u8]) {
        self.counters.early += 1;
        let kept = self.early.keep(seq, message);
        *(if kept { &mut self.counters.early_kept } else { &mut self.counters.early_dropped }) += 1;
    }

    /// Asks for everything before `seq`, unless it was asked for.
    pub(super) fn ask_for_gap<A: Application + ?Sized>(&mut self, seq: u64, app: &mut A) {
        if self.gap.is_none() || self.settings.send_redundant_resend_requests {
            self.ask(seq - 1, 1, app);
        }
    }

    /// Awaits everything before `seq` without a request (NextExpectedMsgSeqNum informed the counterparty).
    pub(super) fn await_gap(&mut self, seq: u64) {
        let expected = self.store.next_inbound();
        let since_ns = self.now.mono_ns;
        self.gap = Some(Gap { last: seq - 1, chunk_last: None, expected, since_ns, asked: 1 });
    }

    fn ask<A: Application + ?Sized>(&mut self, last: u64, asked: u32, app: &mut A) {
        let expected = self.store.next_inbound();
        let chunk = self.settings.resend_request_chunk_size;
        let chunk_last = (chunk > 0).then(|| expected.saturating_add(chunk - 1)).filter(|end| *end < last);
        let open = if self.dialect.open_end { 0 } else { END_SEQ_NO_OPEN_40 };
        let end = chunk_last.unwrap_or(if self.settings.closed_resend_interval { last } else { open });
        self.gap = Some(Gap { last, chunk_last, expected, since_ns: self.now.mono_ns, asked });
        self.counters.resend_requests_sent += 1;
        self.send_admin(app, b"2", |request| {
            request.unsigned(tag::BEGIN_SEQ_NO, expected).unsigned(tag::END_SEQ_NO, end);
        });
    }

    /// After each message: is the gap filled, or is it time for the next chunk?
    pub(super) fn follow_gap<A: Application + ?Sized>(&mut self, kind: Kind, message: &Message<'_, '_>, app: &mut A) {
        let Some(mut gap) = self.gap else { return };
        let expected = self.store.next_inbound();
        if expected > gap.last || self.ending.is_some() {
            self.gap = None;
            return;
        }
        if expected == gap.expected {
            return;
        }
        (gap.expected, gap.since_ns, gap.asked) = (expected, self.now.mono_ns, 1);
        self.gap = Some(gap);
        // Some counterparties end a chunk with a gap fill up to its last message instead of beyond it.
        let filled = kind == Kind::SequenceReset && message.get(tag::GAP_FILL_FLAG) == Some(b"Y");
        if gap.chunk_last.is_some_and(|end| expected > end || (filled && expected == end)) {
            self.ask(gap.last, 1, app);
        }
    }

    /// Asks again for what did not come, and gives up at last.
    pub(super) fn retry_gap<A: Application + ?Sized>(&mut self, app: &mut A) {
        let Some(gap) = self.gap else { return };
        if self.phase != Phase::LoggedOn || self.now.mono_ns < self.gap_deadline_ns().unwrap_or(u64::MAX) {
            return;
        }
        if gap.asked >= ASKED_MAX {
            self.logout_and_end(Phrase::new().text(NOT_RESENT), End::NotResent, app);
        } else {
            self.ask(gap.last, gap.asked + 1, app);
        }
    }

    /// The time by which the missing messages should have come.
    pub(super) fn gap_deadline_ns(&self) -> Option<u64> {
        let wait = self.timers.patience_ns()?;
        self.gap.map(|gap| gap.since_ns.saturating_add(wait))
    }

    /// Processes messages that came early and are next in order.
    pub(super) fn process_early<A: Application + ?Sized>(&mut self, app: &mut A) {
        while !self.early.is_empty() && self.ending.is_none() {
            let mut message = std::mem::take(&mut self.early_message);
            let next = self.early.take(self.store.next_inbound(), &mut message);
            match next {
                Next::Missing => {}
                Next::Answered => self.expect(self.store.next_inbound() + 1, app),
                Next::Message => self.process_kept(&message, app),
            }
            self.early_message = message;
            if next == Next::Missing {
                return;
            }
        }
    }

    fn process_kept<A: Application + ?Sized>(&mut self, raw: &[u8], app: &mut A) {
        let mut index =
            self.early_index.take().unwrap_or_else(|| Box::new(Index::new(self.settings.message_fields_max)));
        match self.decode(&mut index, raw) {
            Ok(message) => {
                self.from_early = true;
                self.process(&message, app);
                self.from_early = false;
            }
            // It was decoded before, with an index of another size perhaps.
            Err(_) => self.counters.garbled += 1,
        }
        self.early_index = Some(index);
    }
}
