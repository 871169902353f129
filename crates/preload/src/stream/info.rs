//! TCP_INFO of a connection past the kernel.

use super::Stream;
use rustix::time::{ClockId, clock_gettime};
use sidestep_socket::tcp::Options;
use sidestep_stack::tcp::{Facts, Instant, State};

/// struct tcp_info of linux/tcp.h (Linux 6.7): that of the C library ends with `total_retrans`. A program gets as much as it has room for.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Info {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    /// Ours in the upper half, the peer's in the lower one.
    window_shifts: u8,
    flags: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}

/// Bits of `options` (TCPI_OPT_*).
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALE: u8 = 4;

/// TCP_CA_Recovery
const RECOVERY: u8 = 3;

/// Segments that may come in another order before one counts as lost (TCP_FASTRETRANS_THRESH).
const REORDERING: u32 = 3;

/// The slow start threshold before the first loss (TCP_INFINITE_SSTHRESH).
const THRESHOLD_NONE: u32 = 0x7fff_ffff;

/// TCP_INFO: what our stack knows of a connection; the rest is 0.
pub(crate) fn info(stream: &Stream) -> Option<Info> {
    let (facts, options) = stream.engine.with(|engine| {
        let mut tcp = engine.tcp();
        Some((tcp.facts(stream.handle).ok()??, tcp.options(stream.handle).ok()??))
    })?;
    let mut info = Info::default();
    info.state_of(&facts);
    info.sending_of(&facts);
    info.receiving_of(&facts, &options);
    info.counts_of(&facts);
    Some(info)
}

impl Info {
    fn state_of(&mut self, facts: &Facts) {
        let (theirs, ours) = facts.window_shifts;
        self.state = number_of(facts.state);
        self.ca_state = if facts.is_recovering { RECOVERY } else { 0 };
        let used = [(facts.timestamps, TIMESTAMPS), (facts.sack, SACK), (theirs != 0 || ours != 0, WINDOW_SCALE)];
        self.options = used.into_iter().filter(|(is_used, _)| *is_used).fold(0, |all, (_, bit)| all | bit);
        self.window_shifts = ours << 4 | theirs & 0x0f;
        self.rto = micros(facts.rto_ns);
        self.rtt = micros(facts.rtt_ns.unwrap_or(0));
        self.rttvar = micros(facts.rtt_variance_ns);
        self.min_rtt = micros(facts.rtt_min_ns);
        let (sent, heard) = (milliseconds_since(facts.last_sent_at), milliseconds_since(facts.last_heard_at));
        (self.last_data_sent, self.last_data_recv, self.last_ack_recv) = (sent, heard, heard);
    }

    fn sending_of(&mut self, facts: &Facts) {
        let mss = facts.segment_bytes.max(1);
        self.snd_mss = mss;
        self.unacked = facts.in_flight.div_ceil(mss);
        self.sacked = facts.sacked_segments;
        self.lost = facts.lost_segments;
        self.pmtu = facts.path_mtu.into();
        self.snd_ssthresh = match facts.slow_start_threshold {
            u32::MAX => THRESHOLD_NONE,
            bytes => bytes / mss,
        };
        self.snd_cwnd = facts.congestion_window / mss;
        self.reordering = REORDERING;
        // Without pacing Linux tells "no limit", too.
        (self.pacing_rate, self.max_pacing_rate) = (facts.pacing_rate.unwrap_or(u64::MAX), u64::MAX);
        self.notsent_bytes = facts.unsent;
        self.snd_wnd = facts.send_window;
    }

    fn receiving_of(&mut self, facts: &Facts, options: &Options) {
        let mss = facts.segment_bytes.max(1);
        (self.rcv_mss, self.advmss) = (mss, mss);
        self.rcv_ssthresh = facts.receive_window;
        self.rcv_space = options.receive_buffer_bytes;
        self.rcv_wnd = facts.receive_window;
    }

    /// As the kernel's, numbers of 32 bits begin anew.
    fn counts_of(&mut self, facts: &Facts) {
        let unacknowledged = (facts.unacknowledged as u64).saturating_sub(facts.unsent.into());
        self.total_retrans = facts.retransmitted as u32;
        self.bytes_acked = facts.bytes_out.saturating_sub(unacknowledged);
        self.bytes_received = facts.bytes_in;
        self.bytes_sent = facts.bytes_out;
        self.segs_out = facts.segments_out as u32;
        self.segs_in = facts.segments_in as u32;
        self.total_rto = facts.timeouts as u16;
    }
}

fn milliseconds_since(then: Instant) -> u32 {
    // The stack's clock is CLOCK_MONOTONIC.
    let now = clock_gettime(ClockId::Monotonic);
    let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    u32::try_from(now_ns.saturating_sub(then.as_nanos()) / 1_000_000).unwrap_or(u32::MAX)
}

fn micros(ns: u64) -> u32 {
    u32::try_from(ns / 1000).unwrap_or(u32::MAX)
}

/// A state by its number in TCP_INFO (net/tcp_states.h).
fn number_of(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_layout_is_that_of_linux() {
        assert_eq!(offset_of!(Info, rcv_rtt), offset_of!(libc::tcp_info, tcpi_rcv_rtt));
        assert_eq!(offset_of!(Info, rtt), offset_of!(libc::tcp_info, tcpi_rtt));
        // By pahole, of Linux 6.7 and later.
        let offsets = [offset_of!(Info, pacing_rate), offset_of!(Info, delivery_rate), offset_of!(Info, total_rto)];
        assert_eq!((offsets, size_of::<Info>()), ([104, 160, 240], 248));
    }
}
