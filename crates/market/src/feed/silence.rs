//! Lines that bring nothing, not even heartbeats.

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
    /// Live lines that are silent.
    silent: usize,
    is_all_silent: bool,
    next_check: Nanos,
}

impl Silence {
    pub(super) fn new(lines: &[LineKind], now: Nanos, policy: &Policy) -> Self {
        let next_check = now.after(policy.line_silence_ns.min(policy.silence_ns));
        let lines = lines.iter().map(|kind| Heard { kind: *kind, at: now, is_silent: false }).collect();
        Self { lines, silent: 0, is_all_silent: false, next_check }
    }

    #[inline]
    pub(super) fn heard(&mut self, line: LineId, now: Nanos) {
        if let Some(line) = self.lines.get_mut(usize::from(line.0)) {
            line.at = now;
        }
    }

    #[inline]
    pub(super) fn is_any_silent(&self) -> bool {
        self.silent > 0 || self.is_all_silent
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
        if heard.kind != LineKind::Live || !(heard.is_silent || self.is_all_silent) {
            return false;
        }
        let was_silent = std::mem::take(&mut heard.is_silent);
        self.silent -= usize::from(was_silent);
        self.is_all_silent = false;
        self.next_check = self.next_check.min(now.after(policy.line_silence_ns.min(policy.silence_ns)));
        was_silent
    }

    /// Finds the lines that have become silent.
    pub(super) fn check(&mut self, now: Nanos, policy: &Policy, mut tell: impl FnMut(LineId)) {
        if now < self.next_check {
            return;
        }
        let (mut next, mut newest) = (Nanos(u64::MAX), Nanos(0));
        let live = self.lines.iter_mut().enumerate().filter(|(_, heard)| heard.kind == LineKind::Live);
        for (line, heard) in live {
            newest = newest.max(heard.at);
            if heard.is_silent {
                continue;
            }
            let at = heard.at.after(policy.line_silence_ns);
            if at > now {
                next = next.min(at);
                continue;
            }
            heard.is_silent = true;
            self.silent += 1;
            tell(LineId(line as u8));
        }
        let all_at = newest.after(policy.silence_ns);
        self.is_all_silent = all_at <= now;
        self.next_check = if self.is_all_silent { next } else { next.min(all_at) };
    }
}
