//! Steering entries of an engine: requests to control, and its answers.
//!
//! Control answers in well under a millisecond, but it may be stopped or busy. A call that sets up a socket waits for a short
//! time, so that its traffic is usually steered when the call returns. Housekeeping never waits: it takes answers that have
//! come. Until the answer is there both the stack and the kernel twin serve the socket, and each receive reads both: a datagram
//! comes by one of them, once.

use crate::control_agent::{Answer, ControlAgent};
use crate::reason::Reason;
use crate::udp::socket::Socket;
use sidestep_control_api::message::{Entry, Protocol};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

/// The time for which a call waits for control's answer: below the 50 ms of silence after which an engine's datagrams may be the kernel's.
const SETUP_WAIT: Duration = Duration::from_millis(40);

/// The time without further waits after one that timed out: sockets are set up one after the other.
const NO_WAIT: Duration = Duration::from_secs(1);

/// The most requests checked per housekeeping. Housekeeping runs some twenty times a millisecond in a loop that spins.
pub(crate) const CHECKS_PER_HOUSEKEEPING: usize = 32;

pub(crate) type Answered = (Entry, Result<(), Reason>);

/// The steering entries of an engine's datagram sockets, and those of streams that control has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// Steering entries that stand or were asked for, with the number of sockets that use each.
    pub(crate) users: BTreeMap<Entry, u32>,
    /// Requests that control has not answered yet.
    pub(crate) asked: BTreeMap<Entry, Answer>,
    /// The last request that was checked, unless the round is over.
    pub(crate) checked: Option<Entry>,
    /// The time before which no call waits.
    pub(crate) wait_from: Option<Instant>,
}

impl Entries {
    /// Records a request to control.
    pub(crate) fn expect(&mut self, entry: Entry, answer: Answer) {
        self.asked.insert(entry, answer);
    }

    /// Returns whether control has not answered yet.
    pub(crate) fn is_asked(&self, entry: Entry) -> bool {
        self.asked.contains_key(&entry)
    }

    /// Returns whether a request for a connection on this port is unanswered.
    pub(crate) fn are_asked_of_tcp(&self, port: u16) -> bool {
        self.asked.keys().any(|entry| entry.protocol() == Protocol::Tcp && entry.local().port() == port)
    }

    /// Cancels a request. If control still makes the entry, it is removed again.
    pub(crate) fn cancel(&mut self, entry: Entry) {
        self.asked.remove(&entry);
    }

    /// Drops one use of an entry; returns whether it was the last.
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

    /// Waits up to [`Self::setup_wait`] for the answers to `entries`.
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

    /// Waits up to [`Self::setup_wait`] until control has removed entries, so that their ports are free.
    pub(crate) fn wait_for_end(&mut self, answers: &[Answer]) {
        let deadline = Instant::now() + self.setup_wait();
        for answer in answers {
            let answered = answer.wait(deadline.saturating_duration_since(Instant::now()));
            self.note_wait(answered.is_some());
        }
    }

    /// Takes the answers that have come to the next `count` requests; the next call goes on behind them.
    pub(crate) fn answered(&mut self, count: usize) -> Vec<Answered> {
        let from = self.checked.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut all, mut last) = (Vec::new(), None);
        for (number, (entry, answer)) in self.asked.range((from, Bound::Unbounded)).take(count).enumerate() {
            last = Some(*entry).filter(|_| number + 1 == count);
            all.extend(answer.take().map(|answered| (*entry, answered)));
        }
        self.checked = last;
        for (entry, _) in &all {
            self.asked.remove(entry);
            self.wait_from = None;
        }
        all
    }

    /// Forgets all entries: the stack was lost.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Gives the traffic of a socket's own address back to the kernel; does not wait.
pub(crate) fn give_back(entries: &mut Entries, agent: Option<&ControlAgent>, socket: &mut Socket) -> Vec<Answer> {
    let mut released = std::mem::take(&mut socket.entries);
    released.retain(|entry| entries.release(*entry));
    // Without an agent control is gone, and the entries with it.
    released.into_iter().filter_map(|entry| Some(agent?.begin_to_unsteer(entry))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_agent::{Question, question};

    fn entry(port: u16) -> Entry {
        Entry::Listener { protocol: Protocol::Udp, local: ([198, 18, 0, 1], port).into(), vlan: None }
    }

    fn ask(entries: &mut Entries, port: u16) -> Question {
        let (question, answer) = question();
        entries.expect(entry(port), answer);
        entries.users.insert(entry(port), 1);
        question
    }

    #[test]
    fn every_answer_is_found_however_many_are_to_come() {
        let mut entries = Entries::default();
        let mut open: Vec<Question> = (0..100).map(|port| ask(&mut entries, port)).collect();
        assert!((0..8).all(|_| entries.answered(CHECKS_PER_HOUSEKEEPING).is_empty()));
        open.drain(60..).for_each(|question| assert!(question.answer(Ok(()))));
        let mut found: Vec<Answered> = (0..8).flat_map(|_| entries.answered(CHECKS_PER_HOUSEKEEPING)).collect();
        found.sort_unstable_by_key(|(entry, _)| *entry);
        assert_eq!(found, (60..100).map(|port| (entry(port), Ok(()))).collect::<Vec<_>>());
        assert!(entries.is_asked(entry(59)) && !entries.is_asked(entry(60)));
        assert_eq!(entries.users.len(), 100, "they stand");
    }

    #[test]
    fn who_has_waited_in_vain_waits_no_more_until_control_has_answered() {
        let mut entries = Entries::default();
        assert_eq!(entries.setup_wait(), SETUP_WAIT);
        let question = ask(&mut entries, 1);
        assert_eq!((entries.wait_for(&[entry(1)]), entries.setup_wait()), (vec![], Duration::ZERO));
        assert!(question.answer(Err(Reason::Taken)));
        assert_eq!(entries.answered(1), [(entry(1), Err(Reason::Taken))]);
        assert_eq!(entries.setup_wait(), SETUP_WAIT);
    }

    #[test]
    fn an_answer_that_nobody_needs_is_not_wanted() {
        let mut entries = Entries::default();
        let question = ask(&mut entries, 1);
        entries.users.insert(entry(1), 2);
        assert!(!entries.release(entry(1)) && entries.is_asked(entry(1)));
        assert!(entries.release(entry(1)) && !entries.is_asked(entry(1)));
        assert!(!question.answer(Ok(())), "control's thread takes it back");
    }
}
