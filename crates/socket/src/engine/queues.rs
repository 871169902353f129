//! The device's receive queues: those of this engine, and traffic that may come by others.

use crate::engine::Engine;
use crate::reason::Reason;
use sidestep_control_api::message::{Missing, Protocol, StackFacts};
use sidestep_control_api::rss::{Spread, Toward, WhyUnknown};
use std::net::{IpAddr, SocketAddr};

/// The queues of a stack, as control has granted them.
#[derive(Clone, Debug)]
pub(crate) struct OurQueues {
    ours: Box<[u32]>,
    missing: Box<[Missing]>,
    /// The device's distribution over its queues (RSS); `None` where all queues that it has in use are ours.
    spread: Option<Box<Spread>>,
    may_miss: bool,
}

impl OurQueues {
    /// `spread` is that of a device that has others.
    pub(crate) fn new(facts: &StackFacts, spread: Option<Spread>) -> Self {
        let mut queues = Self {
            ours: facts.queues.iter().map(|queue| queue.queue).collect(),
            missing: facts.missing.clone().into(),
            spread: None,
            may_miss: !facts.elsewhere.is_empty(),
        };
        spread.into_iter().for_each(|spread| queues.set_spread(Box::new(spread)));
        queues
    }

    /// Takes over the device's distribution, as it was just read.
    pub(crate) fn set_spread(&mut self, spread: Box<Spread>) {
        let is_ours = |receiving: Vec<u32>| receiving.into_iter().all(|queue| self.has(queue));
        self.may_miss = !spread.receiving().is_ok_and(is_ours);
        self.spread = Some(spread);
    }

    /// Returns whether a queue is ours.
    pub(crate) fn has(&self, queue: u32) -> bool {
        self.ours.contains(&queue)
    }

    /// Returns whether the device may bring something by a queue that is not ours.
    pub(crate) fn may_miss(&self) -> bool {
        self.may_miss
    }

    /// By which queues packets come from `remote` for `local`, by its port; `None` where all that may come is ours.
    pub(crate) fn toward(
        &self,
        protocol: Protocol,
        remote: SocketAddr,
        local: IpAddr,
    ) -> Result<Option<Toward<'_>>, Reason> {
        if !self.may_miss {
            return Ok(None);
        }
        let spread = self.spread.as_ref().ok_or(Reason::QueueElsewhere)?;
        spread.toward(protocol, remote, local).map(Some).map_err(|_| Reason::QueueElsewhere)
    }

    /// Returns whether packets from `remote` to `local` come by a queue of ours, as far as can be known.
    pub(crate) fn receives(&self, protocol: Protocol, remote: SocketAddr, local: SocketAddr) -> bool {
        let toward = self.toward(protocol, remote, local.ip());
        toward.is_ok_and(|toward| self.has_port(toward.as_ref(), local.port()))
    }

    /// Returns the same for one of many ports.
    pub(crate) fn has_port(&self, toward: Option<&Toward<'_>>, port: u16) -> bool {
        toward.is_none_or(|toward| toward.queue_of(port).is_ok_and(|queue| self.has(queue)))
    }

    /// Returns whether what comes to a connection that is open is lost to it by now: it comes by a queue that is not ours, or by one
    /// that is not known any more. That a flow rule may be about it is not enough to end it.
    pub(crate) fn misses(&self, protocol: Protocol, remote: SocketAddr, local: SocketAddr) -> bool {
        let Some(spread) = self.spread.as_ref().filter(|_| self.may_miss) else { return false };
        match spread.queue_of(protocol, remote, local) {
            Ok(queue) => !self.has(queue),
            Err(why) => !matches!(why, WhyUnknown::Rule(_) | WhyUnknown::NoRules(_)),
        }
    }
}

impl Engine {
    /// The receive queues of the interface that are this engine's; none where nothing goes past the kernel.
    pub fn queues(&self) -> &[u32] {
        self.bypass.as_ref().map_or(&[], |bypass| &bypass.queues.ours)
    }

    /// Queues that were asked for and could not be had, with the reasons.
    pub fn queues_missing(&self) -> &[Missing] {
        self.bypass.as_ref().map_or(&[], |bypass| &bypass.queues.missing)
    }

    /// Returns whether all that the interface receives comes by queues of this engine: it has every one that is in use, or every one that
    /// the device's table (`ethtool -x`) and flow rules name. Else ports and groups stay with the kernel, as their packets may
    /// come by others ([`Reason::QueueElsewhere`]). It changes with the table.
    pub fn has_every_queue(&self) -> bool {
        self.bypass.as_ref().is_some_and(|bypass| !bypass.queues.may_miss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_agent::{facts, spread_over};
    use sidestep_control_api::message::{Mode, QueueFacts};

    fn queues(spread: Option<Spread>) -> OurQueues {
        let mut facts = facts(1, 2);
        facts.queues = [0, 1].map(|queue| QueueFacts { queue, mode: Mode::Copy, napi_id: 0 }).into();
        facts.elsewhere = vec![2, 3];
        OurQueues::new(&facts, spread)
    }

    fn ends(port: u16) -> (SocketAddr, SocketAddr) {
        (([198, 18, 0, 2], 80).into(), ([198, 18, 0, 1], port).into())
    }

    /// The number of a thousand ports that are ours, and the number of their connections that are lost.
    fn count(queues: &OurQueues) -> (usize, usize) {
        let count = |is_it: &dyn Fn(SocketAddr, SocketAddr) -> bool| {
            (1..=1000).map(ends).filter(|(a, b)| is_it(*a, *b)).count()
        };
        (
            count(&|remote, local| queues.receives(Protocol::Tcp, remote, local)),
            count(&|remote, local| queues.misses(Protocol::Tcp, remote, local)),
        )
    }

    #[test]
    fn what_the_table_leads_to_our_queues_is_ours() {
        let mut queues = queues(Some(spread_over(&[0, 1])));
        assert!(!queues.may_miss() && count(&queues) == (1000, 0));
        queues.set_spread(Box::new(spread_over(&[0, 1, 2, 3])));
        let (ours, lost) = count(&queues);
        assert!(queues.may_miss() && ours + lost == 1000 && (300..700).contains(&ours), "{ours} {lost}");
        queues.set_spread(Box::new(spread_over(&[2])));
        assert!(queues.may_miss() && count(&queues) == (0, 1000));
        queues.set_spread(Box::new(spread_over(&[1])));
        assert!(!queues.may_miss() && count(&queues) == (1000, 0));
    }

    #[test]
    fn what_cannot_be_told_is_relied_on_by_nobody() {
        assert_eq!(count(&queues(Some(spread_over(&[])))), (0, 1000));
        let unread = queues(None);
        assert!(unread.may_miss());
        assert_eq!(count(&unread), (0, 0), "it has no connections");
    }
}
