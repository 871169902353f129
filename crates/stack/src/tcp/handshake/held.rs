//! Listeners that answer nothing for a while: whoever steers segments here has not said yet whether they are ours.

use crate::tcp::demux::ids::ListenerId;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::flow::Flow;
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;
use sidestep_wire::tcp::SequenceNumber;

/// The most SYNs that one listener holds. More are as good as lost: their senders try again a second later.
const HELD_SYNS_MAX: usize = 64;

/// A SYN without its data, which the peer sends again, and the number to answer it with.
#[derive(Clone)]
struct HeldSyn {
    flow: Flow,
    syn: Seg<'static>,
    iss: SequenceNumber,
}

/// SYNs that wait for their answers, in the order of their arrival.
#[derive(Clone, Default)]
pub(crate) struct HeldSyns(Vec<HeldSyn>);

impl HeldSyns {
    /// Keeps a SYN; of a peer that has sent one before the newer. Returns false if there is no room.
    pub(crate) fn keep(&mut self, flow: &Flow, syn: &Seg<'_>, iss: SequenceNumber) -> bool {
        let kept = HeldSyn { flow: *flow, syn: Seg { payload: &[], ..*syn }, iss };
        match self.0.iter().position(|held| held.flow == *flow) {
            Some(place) => self.0[place] = kept,
            None if self.0.len() < HELD_SYNS_MAX => self.0.push(kept),
            None => return false,
        }
        true
    }
}

impl Tcp {
    /// Has a listener answer nothing until [`Tcp::answer`]: SYNs wait, and whatever else belongs to no connection is dropped. Its
    /// connections go on.
    pub fn hold(&mut self, id: ListenerId) -> Result<(), Error> {
        self.listeners.held(id).ok_or(Error::NotFound)?.held.get_or_insert_default();
        Ok(())
    }

    /// Has a listener answer: what waited, and what comes from now on.
    pub fn answer(&mut self, now: Instant, id: ListenerId, output: &mut dyn Output) -> Result<(), Error> {
        let held = self.listeners.held(id).ok_or(Error::NotFound)?.held.take();
        for HeldSyn { flow, syn, iss } in held.into_iter().flat_map(|held| held.0) {
            self.take_syn(now, id.index, &flow, &syn, iss, output);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_wire::Addresses;
    use sidestep_wire::tcp::{Flags, Options};

    #[test]
    fn the_newest_syn_of_a_peer_is_kept_and_no_more_than_there_is_room_for() {
        let mut held = HeldSyns::default();
        let addresses = Addresses::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() };
        let syn = |seq, payload| Seg {
            seq: SequenceNumber(seq),
            ack: SequenceNumber(0),
            flags: Flags::SYN,
            window: 1,
            options: Options::NONE,
            payload,
        };
        for port in 1..=HELD_SYNS_MAX as u16 {
            let flow = Flow { addresses, local_port: 80, remote_port: port };
            assert!(held.keep(&flow, &syn(1, b"data"), SequenceNumber(7)));
            assert!(held.keep(&flow, &syn(2, b"data"), SequenceNumber(8)), "the same peer again");
        }
        let other = Flow { addresses, local_port: 80, remote_port: 9999 };
        assert!(!held.keep(&other, &syn(1, b""), SequenceNumber(7)));
        assert_eq!(held.0.len(), HELD_SYNS_MAX);
        assert!(held.0.iter().all(|held| held.syn.seq.0 == 2 && held.iss.0 == 8 && held.syn.payload.is_empty()));
    }
}
