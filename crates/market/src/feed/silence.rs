//! Lines that bring nothing, not even heartbeats; and feeds whose lines bring nothing but what is older than what was delivered.

use super::Policy;
use crate::arbiter::LineKind;
use crate::units::{LineId, Nanos};

#[derive(Clone, Debug)]
struct Heard {
    kind: LineKind,
    at: Nanos,
    is_silent: bool,
}

/// When each line was heard. A datagram costs one store; deadlines are found by the check.
#[derive(Debug)]
pub(super) struct Silence {
    lines: Box<[Heard]>,
    /// When a line, but one of answers, has last shown that the feed goes on.
    news_at: Nanos,
    /// None has for too long.
    is_all_silent: bool,
    next_check: Nanos,
}

impl Silence {
    pub(super) fn new(lines: &[LineKind], now: Nanos, policy: &Policy) -> Self {
        let next_check = now.after(policy.line_silence_ns.min(policy.silence_ns));
        let lines = lines.iter().map(|kind| Heard { kind: *kind, at: now, is_silent: false }).collect();
        Self { lines, news_at: now, is_all_silent: false, next_check }
    }

    /// A line was heard, with news or without: whether that ends a silence ([`ends`](Self::ends)).
    #[inline]
    pub(super) fn heard(&mut self, line: LineId, now: Nanos, is_news: bool) -> bool {
        let Some(heard) = self.lines.get_mut(usize::from(line.0)) else { return false };
        heard.at = now;
        if is_news && heard.kind != LineKind::Recovery {
            self.news_at = now;
        }
        heard.is_silent || self.is_all_silent
    }

    pub(super) fn is_all_silent(&self) -> bool {
        self.is_all_silent
    }

    pub(super) fn kind(&self, line: LineId) -> Option<LineKind> {
        self.lines.get(usize::from(line.0)).map(|line| line.kind)
    }

    pub(super) fn next_check(&self) -> Nanos {
        self.next_check
    }

    /// A line was heard: whether it had been silent.
    pub(super) fn ends(&mut self, line: LineId, now: Nanos, policy: &Policy) -> bool {
        let Some(heard) = self.lines.get_mut(usize::from(line.0)) else { return false };
        if heard.kind == LineKind::Recovery || !(heard.is_silent || self.is_all_silent) {
            return false;
        }
        let was_silent = std::mem::take(&mut heard.is_silent);
        self.is_all_silent = self.is_without_news(now, policy);
        self.next_check = self.next_check.min(now.after(policy.line_silence_ns.min(policy.silence_ns)));
        was_silent
    }

    /// Finds the lines that have become silent.
    pub(super) fn check(&mut self, now: Nanos, policy: &Policy, mut tell: impl FnMut(LineId)) {
        if now < self.next_check {
            return;
        }
        let mut next = Nanos(u64::MAX);
        let live = self.lines.iter_mut().enumerate().filter(|(_, heard)| heard.kind != LineKind::Recovery);
        for (line, heard) in live {
            if heard.is_silent || heard.kind == LineKind::Twin {
                continue;
            }
            let at = heard.at.after(policy.line_silence_ns);
            if at > now {
                next = next.min(at);
                continue;
            }
            heard.is_silent = true;
            tell(LineId(line as u8));
        }
        self.is_all_silent = self.is_without_news(now, policy);
        self.next_check = if self.is_all_silent { next } else { next.min(self.news_at.after(policy.silence_ns)) };
    }

    fn is_without_news(&self, now: Nanos, policy: &Policy) -> bool {
        self.news_at.after(policy.silence_ns) <= now
    }
}
