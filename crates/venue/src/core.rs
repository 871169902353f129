//! Matching and feed together: what orders do is published at once, and the answers to their owners are kept until they
//! are fetched.

use crate::feed::History;
use crate::load::LOAD_OWNER;
use crate::matching::{Answer, CancelReason, Enter, Handle, Matching, Refused, Replacement, Sink};
use crate::units::Symbol;
use std::collections::HashMap;

/// Publishes into the history, keeps the answers.
#[derive(Debug)]
pub struct Output {
    /// The messages of the feed.
    pub history: History,
    answers: Vec<(u64, Answer)>,
}

impl Sink for Output {
    fn publish(&mut self, message: &[u8]) {
        self.history.push(message);
    }

    fn answer(&mut self, owner: u64, answer: &Answer) {
        if owner != LOAD_OWNER {
            self.answers.push((owner, *answer));
        }
    }
}

/// The exchange without its doors.
#[derive(Debug)]
pub struct Core {
    /// The books.
    pub matching: Matching,
    /// What came of them.
    pub output: Output,
    locates: HashMap<Symbol, u16>,
}

impl Core {
    /// Of these books, with a history of so many messages.
    pub fn new(matching: Matching, history: usize) -> Self {
        let locates = (1..=u16::MAX).map_while(|locate| Some((matching.symbol(locate)?, locate))).collect();
        Self { matching, output: Output { history: History::new(history), answers: Vec::new() }, locates }
    }

    /// The locate code of a symbol.
    pub fn locate(&self, symbol: Symbol) -> Option<u16> {
        self.locates.get(&symbol).copied()
    }

    /// Adds an instrument, if there is none of this symbol, and publishes it. Its locate code; `None` if all are taken.
    pub fn list(&mut self, time_ns: u64, symbol: Symbol) -> Option<u16> {
        if let Some(locate) = self.locate(symbol) {
            return Some(locate);
        }
        let locate = self.matching.add(symbol)?;
        self.locates.insert(symbol, locate);
        self.matching.list(time_ns, locate, &mut self.output);
        Some(locate)
    }

    /// See [`Matching::enter`].
    ///
    /// # Errors
    ///
    /// The order is refused.
    pub fn enter(&mut self, time_ns: u64, order: &Enter) -> Result<Handle, Refused> {
        self.matching.enter(time_ns, order, &mut self.output)
    }

    /// See [`Matching::replace`].
    ///
    /// # Errors
    ///
    /// The replacement is refused.
    pub fn replace(&mut self, time_ns: u64, handle: Handle, new: &Replacement) -> Result<Handle, Refused> {
        self.matching.replace(time_ns, handle, new, &mut self.output)
    }

    /// See [`Matching::cancel`].
    ///
    /// # Errors
    ///
    /// The order is gone.
    pub fn cancel(&mut self, time_ns: u64, handle: Handle, left: u32, reason: CancelReason) -> Result<(), Refused> {
        self.matching.cancel(time_ns, handle, left, reason, &mut self.output)
    }

    /// Moves the answers for owners of one kind to the end of `answers`, in their order.
    pub fn take_answers_of(&mut self, is_theirs: impl Fn(u64) -> bool, answers: &mut Vec<(u64, Answer)>) {
        answers.extend(self.output.answers.extract_if(.., |(owner, _)| is_theirs(*owner)));
    }
}
