//! SYNs beyond the SYN queue: answered without remembering them.

use crate::tcp::counters::Counter;
use crate::tcp::engine::Tcp;
use crate::tcp::flow::Flow;
use crate::tcp::handshake::cookie::{offered, stamp};
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::receive::ReceiveSpace;
use crate::tcp::tcb::timestamps::TimestampClock;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;
use sidestep_wire::tcp::{Flags, Options, Segment, Timestamps};

impl Tcp {
    /// Answers a SYN with a cookie.
    pub(crate) fn send_cookie(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        syn: &Seg<'_>,
        output: &mut dyn Output,
    ) {
        let Some(listener) = self.listeners.at_mut(index) else { return };
        let limit = listener.options.receive_buffer_bytes;
        let config = &self.config;
        let asked = syn.options.maximum_segment_size.unwrap_or(flow.default_segment_bytes());
        let scale = syn.options.window_scale.filter(|_| config.window_scaling);
        let sack = syn.options.sack_permitted && config.sack;
        // Without timestamps there is no place for the options, so they are not agreed on.
        let theirs = syn.options.timestamps.filter(|_| config.timestamps);
        let clock = TimestampClock::new(self.isn.timestamp_offset(flow)).value(now);
        let ours = ReceiveSpace::new(config.receive_window_initial_bytes, limit, config.window_scaling);
        let header = Segment {
            source_port: flow.local_port,
            destination_port: flow.remote_port,
            sequence: self.cookies.make(flow, syn.seq, asked, now),
            acknowledgement: syn.seq + 1,
            flags: Flags::SYN | Flags::ACK,
            window: config.receive_window_initial_bytes.min(limit).min(u32::from(u16::MAX)) as u16,
            urgent_pointer: 0,
            options: Options {
                maximum_segment_size: Some((config.mtu_bytes as u16).saturating_sub(flow.header_bytes())),
                window_scale: scale.and(theirs).map(|_| ours.shift()),
                sack_permitted: sack && theirs.is_some(),
                timestamps: theirs.map(|theirs| Timestamps { value: stamp(clock, scale, sack), echo: theirs.value }),
                ..Options::NONE
            },
        };
        self.counters.count(Counter::CookiesSent);
        self.send_stateless(flow, header, output);
    }

    /// Makes a connection out of a cookie that has come back; false if it is none.
    pub(crate) fn take_cookie(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        seg: &Seg<'_>,
        output: &mut dyn Output,
    ) -> bool {
        let (cookie, theirs) = (seg.ack - 1, seg.seq - 1);
        let Some(segment_bytes) = self.cookies.check(flow, theirs, cookie, now) else { return false };
        self.counters.count(Counter::CookiesGood);
        let mut options = Options { timestamps: None, ..Options::NONE };
        if let Some(timestamps) = seg.options.timestamps {
            options = Options { timestamps: Some(timestamps), ..offered(timestamps.echo) };
        }
        options.maximum_segment_size = Some(segment_bytes);
        let syn = Seg { seq: theirs, flags: Flags::SYN, options, payload: &[], ..*seg };
        self.take_syn_of(now, index, flow, &syn, cookie, true, output);
        true
    }
}
