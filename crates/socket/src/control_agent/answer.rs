//! One question to control and its answer, between the owner and the thread beside it.
//!
//! An owner that has waited long enough goes on without the answer. What was asked for may be done all the same, later: so the
//! thread learns, in the moment that it answers, whether the owner still waits, and takes back what will not be used.

use crate::reason::Reason;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Open,
    /// It takes longer than anybody should wait.
    Delayed,
    Answered(Result<(), Reason>),
    /// Taken, with the answer, or not waited for any more.
    Over(Option<Result<(), Reason>>),
}

impl State {
    fn is_wanted(&self) -> bool {
        matches!(self, Self::Open | Self::Delayed)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner's end. Dropped, the answer is not wanted any more.
#[derive(Debug)]
pub(crate) struct Answer(Arc<Shared>);

/// A view of the answer that takes nothing away from its owner.
#[derive(Debug)]
pub(crate) struct AnswerView(Arc<Shared>);

/// The thread's end. Dropped, the answer is that control is silent.
#[derive(Debug)]
pub(crate) struct Question(Arc<Shared>);

/// Both ends of a question.
pub(crate) fn question() -> (Question, Answer) {
    let shared = Arc::new(Shared::default());
    (Question(Arc::clone(&shared)), Answer(shared))
}

impl AnswerView {
    /// The answer, if it comes in time.
    pub(crate) fn wait(&self, longest: Duration) -> Option<Result<(), Reason>> {
        let deadline = Instant::now() + longest;
        let mut state = self.0.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match *state {
                State::Answered(answer) | State::Over(Some(answer)) => return Some(answer),
                State::Over(None) => return Some(Err(Reason::ControlSilent)),
                State::Open | State::Delayed if left.is_zero() => return None,
                State::Open | State::Delayed => {}
            }
            state =
                self.0.told.wait_timeout(state, left).map_or_else(|poisoned| poisoned.into_inner().0, |woken| woken.0);
        }
    }
}

impl Answer {
    /// A view for somebody else who waits.
    pub(crate) fn view(&self) -> AnswerView {
        AnswerView(Arc::clone(&self.0))
    }

    /// The answer, if it is there; once.
    pub(crate) fn take(&self) -> Option<Result<(), Reason>> {
        take(&mut self.0.lock())
    }

    /// The answer, if it comes in time; none at once where it is known not to.
    pub(crate) fn wait(&self, longest: Duration) -> Option<Result<(), Reason>> {
        let deadline = Instant::now() + longest;
        let mut state = self.0.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(*state, State::Open) || left.is_zero() {
                return take(&mut state);
            }
            state =
                self.0.told.wait_timeout(state, left).map_or_else(|poisoned| poisoned.into_inner().0, |woken| woken.0);
        }
    }
}

fn take(state: &mut State) -> Option<Result<(), Reason>> {
    let State::Answered(answer) = *state else { return None };
    *state = State::Over(Some(answer));
    Some(answer)
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if !matches!(*state, State::Over(_)) {
            *state = State::Over(None);
        }
    }
}

impl Question {
    /// Returns whether the owner waits for the answer.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.lock().is_wanted()
    }

    /// Ends the owner's wait: the answer may come much later.
    pub(super) fn delay(&self) {
        let mut state = self.0.lock();
        if state.is_wanted() {
            *state = State::Delayed;
            self.0.told.notify_all();
        }
    }

    /// Answers; false when the owner does not wait any more.
    pub(crate) fn answer(self, answer: Result<(), Reason>) -> bool {
        let mut state = self.0.lock();
        let is_wanted = state.is_wanted();
        if is_wanted {
            *state = State::Answered(answer);
            self.0.told.notify_all();
        }
        is_wanted
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if state.is_wanted() {
            *state = State::Answered(Err(Reason::ControlSilent));
            self.0.told.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_had_once_and_only_by_who_waits() {
        let (question, answer) = question();
        assert_eq!((answer.take(), question.is_wanted()), (None, true));
        assert_eq!(answer.wait(Duration::ZERO), None);
        assert!(question.answer(Ok(())));
        assert_eq!((answer.wait(Duration::ZERO), answer.take()), (Some(Ok(())), None));
    }

    #[test]
    fn who_is_told_that_it_takes_long_may_have_the_answer_later() {
        let (question, answer) = question();
        std::thread::scope(|scope| {
            scope.spawn(|| question.delay());
            assert_eq!(answer.wait(Duration::from_secs(60)), None);
        });
        assert!(question.is_wanted() && question.answer(Ok(())));
        assert_eq!(answer.take(), Some(Ok(())));
    }

    #[test]
    fn who_answers_knows_that_nobody_waits() {
        let (question, answer) = question();
        drop(answer);
        assert!(!question.is_wanted() && !question.answer(Ok(())));
    }

    #[test]
    fn a_thread_that_died_has_answered() {
        let (question, answer) = question();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(question));
            assert_eq!(answer.wait(Duration::from_secs(60)), Some(Err(Reason::ControlSilent)));
        });
    }
}
