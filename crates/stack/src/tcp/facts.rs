//! The facts of a connection, as `TCP_INFO` gives them.

use super::congestion::CongestionControl;
use super::flow::Flow;
use super::loss_recovery::Phase;
use super::tcb::connection::Connection;
use super::tcb::state::State;
use super::time::Instant;

/// The facts of one connection at one moment. Times in ns, windows and sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The two ends.
    pub flow: Flow,
    /// The state.
    pub state: State,
    /// The smoothed round trip; `None` before the first.
    pub rtt_ns: Option<u64>,
    /// Its mean deviation.
    pub rtt_variance_ns: u64,
    /// The least of the last minutes; 0 before the first.
    pub rtt_min_ns: u64,
    /// The last one measured; 0 before the first.
    pub rtt_latest_ns: u64,
    /// The retransmission timeout, backed off.
    pub rto_ns: u64,
    /// The congestion window.
    pub congestion_window: u32,
    /// The slow start threshold.
    pub slow_start_threshold: u32,
    /// The name of the congestion control.
    pub congestion: &'static str,
    /// The rate at which segments leave, bytes/s; `None`: as the windows allow.
    pub pacing_rate: Option<u64>,
    /// A loss is being recovered from.
    pub is_recovering: bool,
    /// Bytes sent and not known to have arrived or to be lost.
    pub in_flight: u32,
    /// Segments believed lost and not sent again yet.
    pub lost_segments: u32,
    /// Segments that the peer has sacked.
    pub sacked_segments: u32,
    /// Bytes given by the application and not acknowledged.
    pub unacknowledged: usize,
    /// Bytes given by the application and never sent.
    pub unsent: u32,
    /// Bytes that can be read.
    pub readable: usize,
    /// Bytes beyond holes.
    pub out_of_order: u32,
    /// The peer's window.
    pub send_window: u32,
    /// The window that the peer has.
    pub receive_window: u32,
    /// The largest segment to send, options included.
    pub segment_bytes: u32,
    /// The path MTU.
    pub path_mtu: u16,
    /// Timestamps are used.
    pub timestamps: bool,
    /// Selective acknowledgements are used.
    pub sack: bool,
    /// Window shifts: the peer's, ours.
    pub window_shifts: (u8, u8),
    /// Segments that arrived.
    pub segments_in: u64,
    /// Segments sent, retransmissions included.
    pub segments_out: u64,
    /// Payload bytes taken.
    pub bytes_in: u64,
    /// Payload bytes sent for the first time.
    pub bytes_out: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Segments with data that were dropped: outside the window, old, there already, or beyond too many holes.
    pub dropped: u64,
    /// The time at which the last segment was sent.
    pub last_sent_at: Instant,
    /// The time at which the last acceptable segment arrived.
    pub last_heard_at: Instant,
}

impl Facts {
    pub(crate) fn of(connection: &Connection, rto_ns: u64) -> Self {
        let Connection { snd: send, rcv: receive, recovery, congestion, rtt, statistics, .. } = connection;
        Self {
            flow: connection.flow,
            state: connection.state,
            rtt_ns: rtt.srtt_ns(),
            rtt_variance_ns: rtt.rttvar_ns(),
            rtt_min_ns: rtt.minimum_ns(),
            rtt_latest_ns: rtt.latest_ns(),
            rto_ns,
            congestion_window: congestion.window_bytes(),
            slow_start_threshold: congestion.threshold_bytes(),
            congestion: congestion.kind().name(),
            pacing_rate: congestion.pacing_rate(),
            is_recovering: recovery.phase != Phase::Open,
            in_flight: recovery.pipe(connection.payload_bytes()),
            lost_segments: recovery.board.lost(),
            sacked_segments: recovery.board.sacked(),
            unacknowledged: send.buffer().len(),
            unsent: send.unsent(),
            readable: receive.buffer().len(),
            out_of_order: receive.assembler().bytes(),
            send_window: send.wnd(),
            receive_window: receive.window(),
            segment_bytes: connection.mss.effective(),
            path_mtu: connection.mss.path_mtu(),
            timestamps: connection.negotiated.timestamps().is_some(),
            sack: connection.negotiated.sack(),
            window_shifts: (send.shift(), receive.shift()),
            segments_in: statistics.segments_in,
            segments_out: statistics.segments_out,
            bytes_in: statistics.bytes_in,
            bytes_out: statistics.bytes_out,
            retransmitted: statistics.retransmitted,
            timeouts: statistics.timeouts,
            dropped: statistics.dropped,
            last_sent_at: connection.liveness.last_sent_at(),
            last_heard_at: connection.liveness.last_heard_at(),
        }
    }
}
