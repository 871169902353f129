//! Rules of steering: control is asked for them, and its answers are taken when they come.
//!
//! Control answers in well under a millisecond, but it may be stopped, or be busy. A call that sets a socket up waits a little,
//! so that as a rule its traffic is steered when it returns; nothing that is done in the owner's turns waits at all. What is not
//! answered yet is settled in later turns. Until then the stack knows the socket already, and the kernel's socket is looked at in
//! each receive: by whichever path a datagram comes, it comes once.

use crate::control_agent::{Answer, ControlAgent};
use crate::reason::Reason;
use crate::udp::socket::Socket;
use sidestep_control_api::message::{Entry, Protocol};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

/// The time for which a call waits for control's answer: below the 50 ms of silence after which an engine's datagrams may be the kernel's.
const SETUP_WAIT: Duration = Duration::from_millis(40);

/// After a wait in vain no call waits for so long: sockets are set up one after the other.
const NO_WAIT: Duration = Duration::from_secs(1);

/// Answers looked for in one turn of housekeeping, some twenty turns a millisecond in a loop that spins.
pub(crate) const LOOKS_PER_TURN: usize = 32;

pub(crate) type Answered = (Entry, Result<(), Reason>);

/// The rules of an engine's datagram sockets, and those of streams that control has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Rules that stand or were asked for, with the number of sockets that use each.
    pub(crate) users: BTreeMap<Entry, u32>,
    /// Rules that control has not answered yet.
    pub(crate) asked: BTreeMap<Entry, Answer>,
    /// The last one that was looked at, if the round is not over.
    pub(crate) looked_at: Option<Entry>,
    /// No call waits before.
    pub(crate) wait_from: Option<Instant>,
}

impl Rules {
    /// Control was asked for a rule.
    pub(crate) fn expect(&mut self, entry: Entry, answer: Answer) {
        self.asked.insert(entry, answer);
    }

    /// Returns whether control has not answered yet.
    pub(crate) fn is_asked(&self, entry: Entry) -> bool {
        self.asked.contains_key(&entry)
    }

    /// Returns whether rules of connections upon a port are not answered yet.
    pub(crate) fn are_asked_of_tcp(&self, port: u16) -> bool {
        self.asked.keys().any(|entry| entry.protocol() == Protocol::Tcp && entry.local().port() == port)
    }

    /// Cancels a request. If control still installs the rule, it is removed again.
    pub(crate) fn cancel(&mut self, entry: Entry) {
        self.asked.remove(&entry);
    }

    /// A socket has no use for this rule any more; whether none has.
    pub(crate) fn release(&mut self, entry: Entry) -> bool {
        let Some(count) = self.users.get_mut(&entry) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.forget(entry);
        }
        is_last
    }

    pub(crate) fn forget(&mut self, entry: Entry) {
        self.users.remove(&entry);
        self.asked.remove(&entry);
    }

    /// The time for which the next call waits.
    pub(crate) fn setup_wait(&self) -> Duration {
        match self.wait_from {
            Some(at) if Instant::now() < at => Duration::ZERO,
            _ => SETUP_WAIT,
        }
    }

    pub(crate) fn note_wait(&mut self, is_answered: bool) {
        self.wait_from = (!is_answered).then(|| Instant::now() + NO_WAIT);
    }

    /// Waits a little for the answers to these.
    pub(crate) fn wait_for(&mut self, entries: &[Entry]) -> Vec<Answered> {
        let deadline = Instant::now() + self.setup_wait();
        let mut all = Vec::new();
        for entry in entries {
            let Some(answer) = self.asked.get(entry) else { continue };
            let answered = answer.wait(deadline.saturating_duration_since(Instant::now()));
            self.note_wait(answered.is_some());
            if let Some(answered) = answered {
                self.asked.remove(entry);
                all.push((*entry, answered));
            }
        }
        all
    }

    /// Waits a little until control has taken rules back, so that their ports are free.
    pub(crate) fn wait_for_end(&mut self, answers: &[Answer]) {
        let deadline = Instant::now() + self.setup_wait();
        for answer in answers {
            let answered = answer.wait(deadline.saturating_duration_since(Instant::now()));
            self.note_wait(answered.is_some());
        }
    }

    /// Answers that have come, found in so many looks: the next round of them goes on from there.
    pub(crate) fn answered(&mut self, looks: usize) -> Vec<Answered> {
        let from = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut all, mut last) = (Vec::new(), None);
        for (number, (entry, answer)) in self.asked.range((from, Bound::Unbounded)).take(looks).enumerate() {
            last = Some(*entry).filter(|_| number + 1 == looks);
            all.extend(answer.take().map(|answered| (*entry, answered)));
        }
        self.looked_at = last;
        for (entry, _) in &all {
            self.asked.remove(entry);
            self.wait_from = None;
        }
        all
    }

    /// The stack was lost.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Gives back what is sent to a socket's own address; waits for nothing.
pub(crate) fn give_back(rules: &mut Rules, agent: Option<&ControlAgent>, socket: &mut Socket) -> Vec<Answer> {
    let mut entries = std::mem::take(&mut socket.entries);
    entries.retain(|entry| rules.release(*entry));
    // What control has lost it no longer holds.
    entries.into_iter().filter_map(|entry| Some(agent?.begin_to_unsteer(entry))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_agent::{Question, question};

    fn entry(port: u16) -> Entry {
        Entry::Listener { protocol: Protocol::Udp, local: ([198, 18, 0, 1], port).into(), vlan: None }
    }

    fn ask(rules: &mut Rules, port: u16) -> Question {
        let (question, answer) = question();
        rules.expect(entry(port), answer);
        rules.users.insert(entry(port), 1);
        question
    }

    #[test]
    fn every_answer_is_found_however_many_are_to_come() {
        let mut rules = Rules::default();
        let mut open: Vec<Question> = (0..100).map(|port| ask(&mut rules, port)).collect();
        assert!((0..8).all(|_| rules.answered(LOOKS_PER_TURN).is_empty()));
        open.drain(60..).for_each(|question| assert!(question.answer(Ok(()))));
        let mut found: Vec<Answered> = (0..8).flat_map(|_| rules.answered(LOOKS_PER_TURN)).collect();
        found.sort_unstable_by_key(|(entry, _)| *entry);
        assert_eq!(found, (60..100).map(|port| (entry(port), Ok(()))).collect::<Vec<_>>());
        assert!(rules.is_asked(entry(59)) && !rules.is_asked(entry(60)));
        assert_eq!(rules.users.len(), 100, "they stand");
    }

    #[test]
    fn who_has_waited_in_vain_waits_no_more_until_control_has_answered() {
        let mut rules = Rules::default();
        assert_eq!(rules.setup_wait(), SETUP_WAIT);
        let question = ask(&mut rules, 1);
        assert_eq!((rules.wait_for(&[entry(1)]), rules.setup_wait()), (vec![], Duration::ZERO));
        assert!(question.answer(Err(Reason::Taken)));
        assert_eq!(rules.answered(1), [(entry(1), Err(Reason::Taken))]);
        assert_eq!(rules.setup_wait(), SETUP_WAIT);
    }

    #[test]
    fn an_answer_that_nobody_needs_is_not_wanted() {
        let mut rules = Rules::default();
        let question = ask(&mut rules, 1);
        rules.users.insert(entry(1), 2);
        assert!(!rules.release(entry(1)) && rules.is_asked(entry(1)));
        assert!(rules.release(entry(1)) && !rules.is_asked(entry(1)));
        assert!(!question.answer(Ok(())), "control's thread takes it back");
    }
}
