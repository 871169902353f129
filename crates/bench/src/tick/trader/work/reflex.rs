//! No work: orders that were written before the slice leave by the sequence numbers of datagrams.

use crate::peer::protocol::{FeedCounts, LineCounts};
use crate::tick::OrderForm;
use crate::tick::play::asked;
use crate::tick::text::write;
use crate::tick::trader::{HEADER_BYTES, Orders};
use sidestep_sys::Problem;
use sidestep_venue::tape::Tape;
use std::ops::Range;

/// The desk without work.
pub(crate) struct Reflex {
    /// The sequence number of each tick, and its order in `bytes`.
    ticks: Vec<(u64, Range<usize>)>,
    bytes: Vec<u8>,
    /// The first tick that has no order.
    next: usize,
    lines: Vec<LineCounts>,
}

impl Reflex {
    /// Writes the orders that a tape asks for.
    pub(super) fn new(tape: &Tape, form: OrderForm, lines: u8) -> Self {
        let (mut bytes, mut ticks) = (Vec::new(), Vec::new());
        for (number, trigger) in (1..).zip(&tape.triggers) {
            let begin = bytes.len();
            write(&mut bytes, form, &asked(trigger), number);
            ticks.push((trigger.sequence, begin..bytes.len()));
        }
        Self { ticks, bytes, next: 0, lines: vec![LineCounts::default(); lines.into()] }
    }

    #[inline]
    pub(super) fn take(&mut self, line: u8, datagram: &[u8], orders: &mut Orders) -> Result<(), Problem> {
        let Some(header) = datagram.first_chunk::<HEADER_BYTES>() else { return Ok(()) };
        let [.., h, g, f, e, d, c, b, a, high, low] = *header;
        let first = u64::from_be_bytes([h, g, f, e, d, c, b, a]);
        let count = u64::from(u16::from_be_bytes([high, low]));
        self.lines[usize::from(line)].received += count;
        // Of several lines the first copy decides: the other one finds the next tick ahead of it.
        while let Some((sequence, place)) = self.ticks.get(self.next) {
            if *sequence >= first + count {
                break;
            }
            self.next += 1;
            if *sequence >= first {
                orders.send_bytes(&self.bytes[place.clone()])?;
            }
        }
        Ok(())
    }

    /// Messages of each line. It arbitrates nothing.
    pub(super) fn counts(&self) -> FeedCounts {
        FeedCounts { lines: self.lines.clone(), ..FeedCounts::default() }
    }
}
