//! The rows of the scenario `tick`.

use super::arms::Request;
use super::exchange::Target;
use super::slice::TickSlice;
use crate::peer::protocol::{FeedCounts, LineCounts};
use crate::scenario::record::Record;
use crate::stats::{Accumulator, Statistic};
use sidestep_report::schema::{LineDetail, RateDetail, Row, TickDetail};

/// What the slices of an arm have found besides the samples of its record.
#[derive(Default)]
pub(super) struct Found {
    from_left: Accumulator,
    from_handed_over: Accumulator,
    lateness: Accumulator,
    detail: TickDetail,
    sent: u64,
    received: u64,
    elapsed_s: f64,
    note: Option<String>,
}

impl Found {
    /// Adds a slice.
    pub(super) fn take(&mut self, slice: TickSlice) {
        self.from_left.push(slice.from_left);
        self.from_handed_over.push(slice.from_handed_over);
        self.lateness.push(slice.lateness);
        let (detail, judged) = (&mut self.detail, &slice.judgement);
        // All of a slice are judged, those of its first moments, too.
        detail.answered += judged.answered.len() as u64;
        detail.missed += judged.missed;
        detail.late += judged.late;
        detail.counted += slice.counted;
        detail.left_out += slice.left_out;
        if let Some(feed) = slice.done.feed {
            add_feed(detail, feed);
        }
        self.sent += slice.sent;
        self.received += slice.done.received;
        self.elapsed_s += slice.elapsed_s;
        self.note = slice.note.or(self.note.take());
    }

    /// Keeps the note of the floor.
    pub(super) fn floor_note(&mut self, note: Option<String>) {
        self.note = note.or(self.note.take());
    }

    /// The row; none without samples.
    pub(super) fn row(&self, record: &Record, target: Option<&Target>, request: &Request) -> Option<Row> {
        let mut row = record.row(1.0)?;
        row.notes.extend(self.note.clone());
        let Some(target) = target else {
            row.loop_kind = Some("closed".into());
            row.notes.push(
                "the floor: a datagram of the same length goes to the other end and back over bare AF_XDP; no group, no TCP, no trader"
                    .into(),
            );
            return Some(row);
        };
        let whole = |samples: &Accumulator| samples.distribution(1.0, Statistic::Mean);
        row.loop_kind = Some("open".into());
        row.rate = Some(RateDetail {
            sent: self.sent,
            received: self.received,
            rate_sent: self.sent as f64 / self.elapsed_s.max(1e-9),
            from_actual_send: whole(&self.from_left),
            send_lateness: whole(&self.lateness),
            ..RateDetail::default()
        });
        row.tick = Some(Box::new(TickDetail {
            work: target.work.name().into(),
            order: target.form.name().into(),
            lines: target.lines.into(),
            speed: target.speed,
            gap_on_a: target.gap_on_a,
            profile: request.profile.name().into(),
            rate: request.rate,
            trigger_every: request.trigger_every,
            trigger_at: request.place.name().into(),
            messages_per_packet: request.messages_per_packet.into(),
            symbols: request.symbols,
            seed: request.seed,
            from_handed_over: whole(&self.from_handed_over),
            ..self.detail.clone()
        }));
        Some(row)
    }
}

fn add_feed(detail: &mut TickDetail, feed: FeedCounts) {
    detail.delivered += feed.delivered;
    detail.recovered += feed.recovered;
    detail.never += feed.never;
    detail.dropped += feed.dropped;
    detail.line.resize(detail.line.len().max(feed.lines.len()), LineDetail::default());
    for (name, (sum, line)) in ["A", "B"].iter().zip(detail.line.iter_mut().zip(feed.lines)) {
        let LineCounts { received, first, duplicates, lost } = line;
        sum.name = (*name).into();
        sum.received += received;
        sum.first += first;
        sum.duplicates += duplicates;
        sum.lost += lost;
    }
}
