//! The record of a connection: everything that another TCP needs to go on with it.

use crate::tcp::flow::Flow;
use crate::tcp::tcb::connection::Connection;
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::{SequenceNumber, Timestamps};
use std::fmt;

/// A connection at one moment. SYN and FIN take numbers, and are not among the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The two ends.
    pub flow: Flow,
    /// A synchronized state other than TIME-WAIT.
    pub state: State,
    /// The number of the first byte of `unacknowledged`; without bytes, of the next one or of our FIN.
    pub send_start: SequenceNumber,
    /// The peer has acknowledged bytes, not the SYN alone.
    pub has_acknowledged: bool,
    /// Bytes sent and not acknowledged.
    pub unacknowledged: Vec<u8>,
    /// Bytes that follow them and were never sent.
    pub unsent: Vec<u8>,
    /// Our FIN.
    pub own_fin: OwnFin,
    /// The number behind the last byte of `received`, where the peer's FIN stands if it has come.
    pub receive_end: SequenceNumber,
    /// Bytes received in order, acknowledged or not, and not read.
    pub received: Vec<u8>,
    /// The peer's FIN has come, in order.
    pub has_peer_fin: bool,
    /// The application reads no more.
    pub is_read_shut: bool,
    /// The largest segment to send, options included: of the peer's MSS and the path's MTU.
    pub segment_bytes: u16,
    /// SACK was agreed on (RFC 2018).
    pub sack: bool,
    /// Snd.Wind.Shift and Rcv.Wind.Shift of RFC 7323; 0 without scaling.
    pub send_shift: u8,
    /// See `send_shift`.
    pub receive_shift: u8,
    /// Our clock at the moment of the record, and TS.Recent; `None` without timestamps. A tick of our clock is a millisecond.
    pub timestamps: Option<Timestamps>,
    /// The windows.
    pub windows: Windows,
}

/// The windows of both directions, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// SND.WND
    pub send: u32,
    /// The largest SND.WND so far.
    pub send_max: u32,
    /// SND.WL1
    pub send_update: SequenceNumber,
    /// The room behind `receive_end` that the peer was offered.
    pub receive: u32,
}

/// The progress of our FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFin {
    /// The application has not finished.
    None,
    /// It follows the last byte, and was not sent.
    Queued,
    /// It was sent behind the last byte, and is not acknowledged.
    Sent,
    /// The peer has acknowledged it.
    Acknowledged,
}

/// The reason why a connection cannot be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// There is no such connection, or it is being handed over already.
    NotFound,
    /// The handshake is not over.
    NotSynchronized,
    /// Both ends have finished.
    TimeWait,
    /// It has ended.
    Ended,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "there is no such connection",
            Self::NotSynchronized => "its handshake is not over",
            Self::TimeWait => "both ends have finished",
            Self::Ended => "the connection has ended",
        })
    }
}

impl std::error::Error for Unfit {}

impl Unfit {
    pub(crate) fn of(connection: &Connection) -> Option<Self> {
        match connection.state {
            State::Closed => Some(Self::Ended),
            State::SynSent | State::SynReceived => Some(Self::NotSynchronized),
            State::TimeWait => Some(Self::TimeWait),
            // RFC 9293 section 3.10.4: a CLOSE in SYN-RECEIVED leads to FIN-WAIT-1.
            _ if !connection.snd.is_syn_acknowledged() => Some(Self::NotSynchronized),
            _ => None,
        }
    }
}

impl Handover {
    pub(crate) fn of(connection: &Connection, now: Instant) -> Self {
        let (snd, rcv, negotiated) = (&connection.snd, &connection.rcv, &connection.negotiated);
        let own_fin = OwnFin::of(connection);
        let send_start = match snd.finish() {
            Some(finish) if own_fin == OwnFin::Acknowledged => finish,
            _ => snd.una(),
        };
        let sent_end = snd.finish().unwrap_or(snd.nxt());
        let [unacknowledged, unsent] =
            [(0, sent_end.since(send_start)), (sent_end.since(send_start), u32::MAX)].map(|(offset, count)| {
                let pieces = snd.buffer().slices(offset as usize, count as usize);
                pieces.concat()
            });
        let receive_end = if rcv.is_finished() { rcv.nxt() - 1 } else { rcv.nxt() };
        Self {
            flow: connection.flow,
            state: connection.state,
            send_start,
            has_acknowledged: send_start != snd.iss() + 1,
            unacknowledged,
            unsent,
            own_fin,
            receive_end,
            received: rcv.buffer().slices(0, usize::MAX).concat(),
            has_peer_fin: rcv.is_finished(),
            is_read_shut: rcv.is_shut(),
            segment_bytes: connection.mss.effective() as u16,
            sack: negotiated.sack(),
            send_shift: snd.shift(),
            receive_shift: rcv.shift(),
            timestamps: negotiated.timestamps_option(now),
            windows: Windows {
                send: snd.wnd(),
                send_max: snd.wnd_max(),
                send_update: snd.wl1(),
                receive: (rcv.nxt() + rcv.window()).since(receive_end),
            },
        }
    }

    /// The number behind the last byte sent, where our FIN stands if it was sent.
    pub fn sent_end(&self) -> SequenceNumber {
        self.send_start + self.unacknowledged.len() as u32
    }

    /// RCV.NXT
    pub fn receive_next(&self) -> SequenceNumber {
        self.receive_end + u32::from(self.has_peer_fin)
    }

    /// Bytes of all queues.
    pub fn bytes(&self) -> usize {
        self.received.len() + self.unacknowledged.len() + self.unsent.len()
    }
}

impl OwnFin {
    fn of(connection: &Connection) -> Self {
        let snd = &connection.snd;
        match (snd.is_fin_queued(), snd.finish()) {
            (false, _) => Self::None,
            (true, None) => Self::Queued,
            (true, Some(_)) if snd.is_fin_acknowledged() => Self::Acknowledged,
            (true, Some(_)) => Self::Sent,
        }
    }
}
