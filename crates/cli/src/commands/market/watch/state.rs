//! What the keys change: order, filter, selection, orders of levels, pause, help; and the rates that are remembered.

use super::model::{Instrument, Snapshot};
use crate::commands::terminal::Wish;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// Values of the sparkline: more than a terminal has columns.
const HISTORY_MAX: usize = 300;
/// The longest filter: a symbol has eight letters.
const FILTER_MAX: usize = 16;
/// Lines that Page Up and Page Down move by.
const PAGE: usize = 10;

/// The order of the instruments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Rate,
    Messages,
    Executed,
    Symbol,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Rate, Self::Messages, Self::Executed, Self::Symbol];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rate => "msg/s",
            Self::Messages => "messages",
            Self::Executed => "executed",
            Self::Symbol => "symbol",
        }
    }

    fn order(self, one: &Instrument, other: &Instrument) -> Ordering {
        let order = match self {
            Self::Rate => other.messages_per_s.total_cmp(&one.messages_per_s),
            Self::Messages => other.messages.cmp(&one.messages),
            Self::Executed => other.executed_shares.cmp(&one.executed_shares),
            Self::Symbol => one.symbol.cmp(&other.symbol),
        };
        order.then(one.locate.cmp(&other.locate))
    }
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct State {
    pub(super) now: Snapshot,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    pub(super) is_filtering: bool,
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
    /// The orders of each level are shown.
    pub(super) has_orders: bool,
    /// Messages a second, the last one at the end.
    pub(super) rates: VecDeque<u64>,
    selected: Option<u16>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            now: Snapshot::default(),
            sort: Sort::Rate,
            is_reversed: false,
            filter: String::new(),
            is_filtering: false,
            is_paused: false,
            has_help: false,
            has_orders: false,
            rates: VecDeque::with_capacity(HISTORY_MAX),
            selected: None,
        }
    }
}

impl State {
    /// Takes the next moment of the feed.
    pub(super) fn take(&mut self, mut now: Snapshot) {
        if self.is_paused {
            return;
        }
        now.set_rates(&self.now);
        if self.now.at_ns != 0 {
            if self.rates.len() == HISTORY_MAX {
                self.rates.pop_front();
            }
            self.rates.push_back(now.messages_per_s as u64);
        }
        self.now = now;
        self.sort();
    }

    fn sort(&mut self) {
        let (sort, is_reversed) = (self.sort, self.is_reversed);
        self.now.instruments.sort_by(|one, other| {
            let order = sort.order(one, other);
            if is_reversed { order.reverse() } else { order }
        });
    }

    /// The instruments that the filter leaves.
    pub(super) fn shown(&self) -> Vec<&Instrument> {
        self.now.instruments.iter().filter(|one| one.symbol.contains(&self.filter)).collect()
    }

    /// The place of the selected instrument among those that are shown. The first one, where it has gone.
    pub(super) fn place(&self, shown: &[&Instrument]) -> usize {
        shown.iter().position(|one| Some(one.locate) == self.selected).unwrap_or(0)
    }

    /// The instrument whose book is shown.
    pub(super) fn chosen(&self) -> Option<u16> {
        let shown = self.shown();
        shown.get(self.place(&shown)).map(|one| one.locate)
    }

    /// Does what a key stands for.
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Wish::Quit,
                KeyCode::Char('z') => Wish::Suspend,
                _ => Wish::Nothing,
            };
        }
        if self.is_filtering {
            self.edit(key.code);
            return Wish::Nothing;
        }
        if self.has_help {
            self.has_help = false;
            return Wish::Nothing;
        }
        self.command(key.code)
    }

    /// Symbols are in capitals, and so is the filter.
    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_filtering = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if letter.is_ascii_graphic() && self.filter.len() < FILTER_MAX => {
                self.filter.push(letter.to_ascii_uppercase());
            }
            _ => {}
        }
    }

    fn command(&mut self, code: KeyCode) -> Wish {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('o') => self.has_orders = !self.has_orders,
            KeyCode::Char('r') => {
                self.is_reversed = !self.is_reversed;
                self.sort();
            }
            KeyCode::Char('s' | '>') | KeyCode::Right => self.sort_by_next(1),
            KeyCode::Char('S' | '<') | KeyCode::Left => self.sort_by_next(Sort::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.select(|place, last| (place + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') => self.select(|place, _| place.saturating_sub(1)),
            KeyCode::PageDown => self.select(|place, last| (place + PAGE).min(last)),
            KeyCode::PageUp => self.select(|place, _| place.saturating_sub(PAGE)),
            KeyCode::Home => self.select(|_, _| 0),
            KeyCode::End => self.select(|_, last| last),
            _ => {}
        }
        Wish::Nothing
    }

    fn sort_by_next(&mut self, step: usize) {
        let place = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = Sort::ALL[(place + step) % Sort::ALL.len()];
        self.sort();
    }

    fn select(&mut self, next: impl Fn(usize, usize) -> usize) {
        let shown = self.shown();
        let last = shown.len().saturating_sub(1);
        self.selected = shown.get(next(self.place(&shown), last)).map(|one| one.locate);
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::snapshot;
    use super::*;

    fn press(state: &mut State, keys: &str) -> Wish {
        let code = |key| match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            key => KeyCode::Char(key),
        };
        let pressed = keys.chars().map(|key| state.press(KeyEvent::new(code(key), KeyModifiers::NONE)));
        pressed.last().unwrap_or(Wish::Nothing)
    }

    fn symbols(state: &State) -> Vec<&str> {
        state.shown().iter().map(|one| one.symbol.as_str()).collect()
    }

    fn state() -> State {
        let mut state = State::default();
        state.take(snapshot(1));
        state.take(snapshot(2));
        state
    }

    #[test]
    fn keys_sort_filter_and_pause() {
        let mut state = state();
        assert_eq!(symbols(&state), ["MSFT", "AAPL", "CVLT"], "by messages a second");
        press(&mut state, "sss");
        assert_eq!((state.sort, symbols(&state)[0]), (Sort::Symbol, "AAPL"));
        press(&mut state, "r");
        assert_eq!(symbols(&state)[0], "MSFT");
        press(&mut state, "/cvx\x08l\n");
        assert_eq!((symbols(&state), state.filter.as_str()), (vec!["CVLT"], "CVL"));
        press(&mut state, "/\x1b");
        assert_eq!(symbols(&state).len(), 3);
        press(&mut state, "po");
        state.take(Snapshot::default());
        assert!(symbols(&state).len() == 3 && state.is_paused && state.has_orders);
        assert_eq!(press(&mut state, "?q"), Wish::Nothing, "any key ends the help");
        assert_eq!(press(&mut state, "q"), Wish::Quit);
    }

    #[test]
    fn the_selection_follows_its_instrument() {
        let mut state = state();
        assert_eq!(state.chosen(), Some(2));
        press(&mut state, "j");
        assert_eq!(state.chosen(), Some(1));
        press(&mut state, "sss");
        assert_eq!((state.chosen(), state.place(&state.shown())), (Some(1), 0));
        press(&mut state, "/zzz\n");
        assert_eq!(state.chosen(), None, "nothing is left to be chosen");
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let mut state = State::default();
        (1..=HISTORY_MAX as u64 + 50).for_each(|second| state.take(snapshot(second)));
        assert_eq!((state.rates.len(), state.rates.back()), (HISTORY_MAX, Some(&20_000)));
    }
}
