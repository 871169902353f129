//! R2 and the user timeout: the silence after which a connection is given up (RFC 9293 section 3.8.3, RFC 5482).
//!
//! The limits are set as a number of retransmissions, as in Linux, and mean the time that so many take from Linux's least
//! timeout on (tcp_model_timeout): 15 are 924.6 s, 8 are 102.2 s. A least timeout of 5 ms would use the same number up in
//! seconds, and make a short outage the end of a connection.

use crate::tcp::config::{Config, us};
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::time::{Instant, MILLISECOND_NS, SECOND_NS};
use crate::tcp::timers::deadlines::Timer;

/// TCP_RTO_MIN of Linux.
const TIMEOUT_MIN_NS: u64 = 200 * MILLISECOND_NS;
/// TCP_TIMEOUT_INIT of Linux: the first timeout of a SYN (RFC 6298 section 2.1).
const TIMEOUT_SYN_NS: u64 = SECOND_NS;
/// TCP_RTO_MAX of Linux.
const TIMEOUT_MAX_NS: u64 = 120 * SECOND_NS;

/// A timeout doubled so often is longer than any silence.
const SILENCE_DOUBLINGS_MAX: u32 = 20;

/// The time of `retries` retransmissions and the wait behind the last one, for a timeout of `first_ns` at first that doubles.
fn r2_time_ns(retries: u32, first_ns: u64) -> u64 {
    let doublings = (TIMEOUT_MAX_NS / first_ns).ilog2();
    let doubled = retries.min(doublings);
    ((2 << doubled) - 1) * first_ns + u64::from(retries - doubled) * TIMEOUT_MAX_NS
}

impl Connection {
    /// R2 for what the peer leaves unanswered.
    fn r2_ns(&self, config: &Config) -> u64 {
        match self.state {
            _ if self.owner.is_orphan() => r2_time_ns(config.orphan_retries_max, TIMEOUT_MIN_NS),
            State::SynSent => r2_time_ns(config.syn_retries_max, TIMEOUT_SYN_NS),
            State::SynReceived => r2_time_ns(config.syn_ack_retries_max, TIMEOUT_SYN_NS),
            _ => r2_time_ns(config.retries_max, TIMEOUT_MIN_NS),
        }
    }

    /// The time at which the connection is given up: after the user's timeout (RFC 5482 section 4), or R2 where there is none,
    /// or nobody holds the connection any more.
    pub(crate) fn gives_up_at(&self, config: &Config) -> Instant {
        let waiting_since = self.liveness.waiting_since();
        let at_user_timeout = match self.user_timeout_ns() {
            0 => Instant::NEVER,
            timeout_ns => waiting_since.after_ns(timeout_ns),
        };
        if at_user_timeout != Instant::NEVER && !self.owner.is_orphan() {
            return at_user_timeout;
        }
        // Who closes begins to count anew: until then a closed window was no silence.
        waiting_since.max(self.owner.orphaned_at()).after_ns(self.r2_ns(config)).min(at_user_timeout)
    }

    /// Returns whether what is in flight waits longer because it was not answered.
    pub(crate) fn is_backed_off(&self) -> bool {
        self.liveness.timeouts() > 0 && !self.recovery.board.is_empty()
    }

    /// Ends the backoff: the peer, or the route to it, is back while retransmissions are backed off. The silence was that of an
    /// outage, and need not be waited out. What is in flight is sent again one timeout behind the last time, or at once if
    /// that is over (RFC 6298 section 5 leaves it open when to begin anew; RFC 6069 does the same for what routers say).
    pub(crate) fn hasten(&mut self, cx: &Context<'_>) {
        let Some(first) = self.recovery.board.first().filter(|_| self.liveness.timeouts() > 0) else { return };
        self.rtt.reset_backoff();
        self.retransmit_at(cx, first.sent_at.after_ns(self.rtt.rto_ns(cx.config)));
    }

    /// Undoes one backoff for an ICMP error about a retransmission (RFC 6069 section 4). As in Linux the timeout does not
    /// fall below 200 ms by that, so that a router that answers each one does not make a flood.
    pub(crate) fn undo_backoff_on_icmp(&mut self, cx: &Context<'_>) {
        let Some(first) = self.recovery.board.first().filter(|_| self.liveness.timeouts() > 0) else { return };
        self.rtt.undo_one_backoff();
        let after_ns = self.rtt.rto_ns(cx.config).max(TIMEOUT_MIN_NS.min(us(cx.config.rto_max_us)));
        self.retransmit_at(cx, first.sent_at.after_ns(after_ns));
    }

    /// Retransmits at `at`, but no later than the timer would.
    fn retransmit_at(&mut self, cx: &Context<'_>, at: Instant) {
        let deadline = at.max(cx.now).min(self.deadlines.at(Timer::Retransmit));
        self.deadlines.arm(Timer::Retransmit, deadline);
    }

    /// Ends an outage: the peer was heard after `silent_ns`. A silence counts as an outage if it was longer than the timeout
    /// without backoff: a peer that sends and acknowledges nothing must not stop the backoff. The segment may answer the last
    /// retransmission: as long as nothing is acknowledged, each outage must be twice as long as the one before.
    pub(crate) fn note_outage_end(&mut self, cx: &Context<'_>, silent_ns: u64) {
        if self.liveness.timeouts() == 0 || self.snd.wnd() == 0 {
            return;
        }
        let longest = SILENCE_DOUBLINGS_MAX.min(self.liveness.outages());
        if silent_ns > self.rtt.rto_without_backoff_ns(cx.config) << longest {
            self.liveness.note_outage();
            self.hasten(cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ip-sysctl: tcp_retries2 "default value of 15 yields a hypothetical timeout of 924.6 seconds"; tcp_syn_retries 127 s;
    /// tcp_synack_retries 63 s; tcp_orphan_retries: 8 correspond to more than 100 s.
    #[test]
    fn times_are_those_of_linux() {
        let ms = |retries, first_ns| r2_time_ns(retries, first_ns) / MILLISECOND_NS;
        assert_eq!(ms(15, TIMEOUT_MIN_NS), 924_600);
        assert_eq!(ms(8, TIMEOUT_MIN_NS), 102_200);
        assert_eq!(ms(6, TIMEOUT_SYN_NS), 127_000);
        assert_eq!(ms(5, TIMEOUT_SYN_NS), 63_000);
        assert_eq!(ms(0, TIMEOUT_MIN_NS), 200);
        assert_eq!(ms(255, TIMEOUT_MIN_NS), 204_600 + 246 * 120_000);
    }
}
