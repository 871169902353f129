//! The interface and queues of a stack, and the packets that may come by other queues.

use sidestep_control_api::message::{Code, Entry, Refusal, ranges};
use sidestep_control_api::rss::Spread;
use sidestep_xdp_steering::StackId;

/// The interface and queues of a stack.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) interface: u32,
    pub(super) queues: Vec<u32>,
    /// The number of receive queues of the interface when the stack was opened, and those that are not its own.
    pub(super) receiving: u32,
    pub(super) elsewhere: Vec<u32>,
    pub(super) id: StackId,
}

impl Placed {
    /// Refuses traffic that may come by a queue without a socket of the stack, according to the device's present table
    /// and flow rules. Flows of connections are chosen by the application so that they come by its queues.
    pub(super) fn refuse_elsewhere(
        &self,
        entry: &Entry,
        name: &str,
        spread: impl FnOnce() -> Spread,
    ) -> Result<(), Refusal> {
        if self.elsewhere.is_empty() || matches!(entry, Entry::Flow { .. }) {
            return Ok(());
        }
        let elsewhere = self.missed(&spread()).unwrap_or_else(|| self.elsewhere.clone());
        if elsewhere.is_empty() {
            return Ok(());
        }
        let next = format!(
            "open it with every queue, or keep packets from the others: ethtool -L {name} (fewer queues) or ethtool -X {name} \
            (which of them hashes lead to)"
        );
        Err(Refusal::new(Code::QueueElsewhere, format!("cannot steer {entry}"), reason(name, &elsewhere)).next(next))
    }

    /// The reason why ports and groups steered to the stack cannot stay. A device that does not answer counts as
    /// unchanged.
    pub(super) fn elsewhere(&self, name: &str, spread: impl FnOnce() -> Spread) -> Option<String> {
        let missed = if self.elsewhere.is_empty() { None } else { self.missed(&spread()) };
        missed.filter(|missed| !missed.is_empty()).map(|missed| reason(name, &missed))
    }

    /// The receiving queues that are not the stack's; `None` if that is not reported.
    fn missed(&self, spread: &Spread) -> Option<Vec<u32>> {
        let receiving = spread.receiving().ok().filter(|_| spread.is_answer())?;
        Some(receiving.into_iter().filter(|queue| !self.queues.contains(queue)).collect())
    }
}

fn reason(name: &str, elsewhere: &[u32]) -> String {
    let elsewhere = ranges(elsewhere.iter().copied());
    format!("packets may come by queues of {name} that are not this program's: {elsewhere}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_control_api::message::Protocol;
    use sidestep_sys::ethtool::{HashFunction, Rss};

    /// A device of eight queues whose table has these.
    fn spread(table: &[u32]) -> Spread {
        let table = table.iter().copied().cycle().take(if table.is_empty() { 0 } else { 128 }).collect();
        Spread::of(8, Rss { function: HashFunction::Toeplitz, transform: 0, key: vec![7; 40], table })
    }

    #[test]
    fn a_port_takes_the_queues_that_may_receive_not_all_that_there_are() {
        let of = |queues: &[u32]| Placed {
            interface: 2,
            queues: queues.to_vec(),
            receiving: 8,
            elsewhere: (0..8).filter(|queue| !queues.contains(queue)).collect(),
            id: StackId::from_number(0).unwrap(),
        };
        let at = |text: &str| text.parse().unwrap();
        let port = Entry::Listener { protocol: Protocol::Tcp, local: at("198.18.0.1:7"), vlan: None };
        let group = Entry::Multicast { group: at("239.1.1.1:7"), source: None, vlan: None };
        let flow =
            Entry::Flow { protocol: Protocol::Udp, local: at("198.18.0.1:7"), remote: at("198.18.0.2:8"), vlan: None };
        let refused = |placed: &Placed, entry: &Entry, table: &[u32]| {
            placed.refuse_elsewhere(entry, "eth1", || spread(table)).err().map(|refusal| refusal.reason)
        };
        // ethtool -X eth1 equal 2: the usual way to keep queues apart.
        for entry in [&port, &group] {
            assert_eq!(refused(&of(&[0, 1]), entry, &[0, 1]), None);
            assert_eq!(refused(&of(&[1, 0, 5]), entry, &[0, 1]), None);
            let others = refused(&of(&[2, 3, 4, 5, 6, 7]), entry, &[0, 1]).unwrap();
            assert!(others.ends_with(": 0-1"), "{others}");
            let half = refused(&of(&[0]), entry, &[0, 1]).unwrap();
            assert!(half.ends_with(": 1"), "{half}");
            let untold = refused(&of(&[0, 1]), entry, &[]).unwrap();
            assert!(untold.ends_with(": 2-7"), "{untold}");
        }
        assert_eq!(refused(&of(&[0]), &flow, &[1]), None);
        let every = of(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(every.refuse_elsewhere(&port, "eth1", || unreachable!("nothing depends on it")).is_ok());
        assert_eq!(every.elsewhere("eth1", || unreachable!("nor here")), None);
        // An entry goes when the table changes, not when the device does not answer.
        assert_eq!(of(&[0, 1]).elsewhere("eth1", || spread(&[0, 1])), None);
        assert!(of(&[0, 1]).elsewhere("eth1", || spread(&[0, 1, 2])).unwrap().ends_with(": 2"));
        assert_eq!(of(&[0, 1]).elsewhere("eth1", || Spread::read("none0")), None);
        assert!(of(&[0, 1]).refuse_elsewhere(&port, "eth1", || Spread::read("none0")).is_err());
    }
}
