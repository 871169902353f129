//! Threads that sleep, and which of them does so on the engine's descriptors.

use super::waker::Waker;
use std::collections::VecDeque;

/// The sleeping threads of an engine, under its lock.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    /// The thread that sleeps on the engine's descriptors, for all.
    leader: Option<Waker>,
    others: VecDeque<Waker>,
    /// Threads of the program that have begun to lead, since the engine was opened.
    led: u64,
    /// The helper sleeps until it is woken, because a thread of the program leads.
    is_helper_parked: bool,
}

impl Sleepers {
    /// Adds a thread of the program, unless it is one already; returns whether it leads.
    pub(super) fn enter(&mut self, waker: &Waker, helper: &Waker) -> bool {
        match &self.leader {
            Some(leader) if leader.is(waker) => true,
            Some(leader) if !leader.is(helper) => {
                if !self.others.iter().any(|other| other.is(waker)) {
                    self.others.push_back(waker.clone());
                }
                false
            }
            _ => {
                self.leader = Some(waker.clone());
                self.led += 1;
                true
            }
        }
    }

    /// Removes a thread. Where it led, the one that has slept for longest leads, else the helper.
    pub(super) fn leave(&mut self, waker: &Waker, helper: &Waker) {
        if !self.leader.as_ref().is_some_and(|leader| leader.is(waker)) {
            self.others.retain(|other| !other.is(waker));
            return;
        }
        self.leader = self.others.pop_front();
        match &self.leader {
            Some(next) => {
                self.led += 1;
                next.promote();
            }
            None if std::mem::take(&mut self.is_helper_parked) => helper.wake(),
            None => {}
        }
    }

    /// Returns whether a thread of the program leads.
    pub(super) fn is_led_by_program(&self, helper: &Waker) -> bool {
        self.leader.as_ref().is_some_and(|leader| !leader.is(helper))
    }

    /// Has the helper lead, unless a thread of the program does.
    pub(super) fn lead_as_helper(&mut self, helper: &Waker) -> bool {
        if self.is_led_by_program(helper) {
            return false;
        }
        self.leader = Some(helper.clone());
        true
    }

    /// The number of threads of the program that have led.
    pub(super) fn led(&self) -> u64 {
        self.led
    }

    /// Has the helper woken when no thread of the program leads any more.
    pub(super) fn park_helper(&mut self) {
        self.is_helper_parked = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_and_the_one_that_has_slept_for_longest_takes_over() {
        let [one, two, three, helper] = [(); 4].map(|()| Waker::new().unwrap());
        let mut sleepers = Sleepers::default();
        assert!(sleepers.lead_as_helper(&helper));
        for waker in [&one, &two, &three] {
            assert!(waker.fall_asleep());
        }
        assert!(sleepers.enter(&one, &helper) && sleepers.enter(&one, &helper));
        assert!(!sleepers.enter(&two, &helper) && !sleepers.enter(&three, &helper) && !sleepers.enter(&two, &helper));
        assert!(!sleepers.lead_as_helper(&helper));
        sleepers.leave(&one, &helper);
        assert!(two.is_readable() && !three.is_readable(), "one is woken");
        assert!(!two.get_up() && sleepers.enter(&two, &helper), "to lead, not to end its wait");
        sleepers.leave(&three, &helper);
        sleepers.leave(&two, &helper);
        assert!(sleepers.lead_as_helper(&helper));
    }

    #[test]
    fn the_helper_is_woken_where_it_sleeps_for_good_and_nobody_else_leads() {
        let [one, helper] = [(); 2].map(|()| Waker::new().unwrap());
        let mut sleepers = Sleepers::default();
        assert!(sleepers.enter(&one, &helper));
        sleepers.leave(&one, &helper);
        assert!(!helper.take(), "it looks by itself");
        assert!(sleepers.enter(&one, &helper));
        sleepers.park_helper();
        sleepers.leave(&one, &helper);
        assert!(helper.take());
    }
}
