//! What the keys change: order, filter, selection, pause, help; and what is remembered of each row for the sparklines.

use super::column::Column;
use super::rows::{Key, Row};
use crate::commands::terminal::Wish;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{HashMap, VecDeque};

/// Values of a sparkline: more than a terminal has columns.
const HISTORY_MAX: usize = 300;
/// Rows that are remembered. Further ones have no sparklines.
const REMEMBERED_MAX: usize = 4096;
/// The longest filter.
const FILTER_MAX: usize = 60;
/// Lines that Page Up and Page Down move by.
const PAGE: usize = 10;

/// Rates and round trips of a row, the last one at the end.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) rate: VecDeque<u64>,
    pub(super) rtt_ns: VecDeque<u64>,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct State {
    pub(super) rows: Vec<Row>,
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    pub(super) is_filtering: bool,
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
    selected: Option<Key>,
    histories: HashMap<Key, History>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            sort: Column::Rx,
            is_reversed: false,
            filter: String::new(),
            is_filtering: false,
            is_paused: false,
            has_help: false,
            selected: None,
            histories: HashMap::new(),
        }
    }
}

impl State {
    /// Takes the rows of a new sample.
    pub(super) fn take(&mut self, rows: Vec<Row>) {
        if self.is_paused {
            return;
        }
        let mut histories = std::mem::take(&mut self.histories);
        for row in rows.iter().take(REMEMBERED_MAX) {
            let mut history = histories.remove(&row.key).unwrap_or_default();
            push(&mut history.rate, (row.rx_per_s + row.tx_per_s) as u64);
            push(&mut history.rtt_ns, row.rtt_ns.unwrap_or(0));
            self.histories.insert(row.key, history);
        }
        self.rows = rows;
        self.sort();
    }

    fn sort(&mut self) {
        let (column, is_reversed) = (self.sort, self.is_reversed);
        self.rows.sort_by(|one, other| {
            let order = column.order(one, other);
            if is_reversed { order.reverse() } else { order }
        });
    }

    /// The rows that the filter leaves.
    pub(super) fn shown(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.has(&self.filter)).collect()
    }

    /// The place of the selected row among those that are shown. The first one, where it has gone.
    pub(super) fn place(&self, shown: &[&Row]) -> usize {
        let selected = self.selected;
        shown.iter().position(|row| Some(row.key) == selected).unwrap_or(0)
    }

    pub(super) fn history(&self, key: Key) -> Option<&History> {
        self.histories.get(&key)
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

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_filtering = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) if !character.is_control() && self.filter.len() < FILTER_MAX => {
                self.filter.push(character);
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
            KeyCode::Char('r') => self.reverse(),
            KeyCode::Char('s' | '>') | KeyCode::Right => self.sort_by_next(1),
            KeyCode::Char('S' | '<') | KeyCode::Left => self.sort_by_next(Column::ALL.len() - 1),
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

    fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
        self.sort();
    }

    fn sort_by_next(&mut self, step: usize) {
        let place = Column::ALL.iter().position(|column| *column == self.sort).unwrap_or(0);
        self.sort = Column::ALL[(place + step) % Column::ALL.len()];
        self.sort();
    }

    fn select(&mut self, next: impl Fn(usize, usize) -> usize) {
        let shown = self.shown();
        let last = shown.len().saturating_sub(1);
        self.selected = shown.get(next(self.place(&shown), last)).map(|row| row.key);
    }
}

fn push(values: &mut VecDeque<u64>, value: u64) {
    if values.len() == HISTORY_MAX {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::super::rows::row;
    use super::*;

    fn press(state: &mut State, keys: &str) -> Wish {
        let code = |key| match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            key => KeyCode::Char(key),
        };
        keys.chars()
            .map(|key| state.press(KeyEvent::new(code(key), KeyModifiers::NONE)))
            .last()
            .unwrap_or(Wish::Nothing)
    }

    fn descriptors(state: &State) -> Vec<String> {
        state.shown().iter().map(|row| row.subject.clone()).collect()
    }

    fn state() -> State {
        let mut state = State::default();
        state.take(vec![row(3, "redis", 1.0, None), row(4, "nginx", 9.0, Some(5)), row(5, "redis", 4.0, Some(9))]);
        state
    }

    #[test]
    fn keys_sort_reverse_filter_and_pause() {
        let mut state = state();
        assert_eq!(descriptors(&state), ["fd 4 tcp", "fd 5 tcp", "fd 3 tcp"], "by rate");
        press(&mut state, "ss");
        assert_eq!((state.sort, descriptors(&state)[0].as_str()), (Column::Rtt, "fd 5 tcp"));
        press(&mut state, "r");
        assert_eq!(descriptors(&state)[0], "fd 3 tcp");
        press(&mut state, "/redix\x08s\n");
        assert_eq!((descriptors(&state).len(), state.filter.as_str(), state.is_filtering), (2, "redis", false));
        press(&mut state, "/\x1b");
        assert_eq!(descriptors(&state).len(), 3);
        press(&mut state, "p");
        state.take(Vec::new());
        assert_eq!(descriptors(&state).len(), 3, "paused");
        press(&mut state, " ");
        state.take(Vec::new());
        assert!(descriptors(&state).is_empty() && state.histories.is_empty());
        assert_eq!(press(&mut state, "?q"), Wish::Nothing, "any key ends the help");
        assert_eq!(press(&mut state, "q"), Wish::Quit);
        let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
        assert_eq!((state.press(control('c')), state.press(control('z'))), (Wish::Quit, Wish::Suspend));
    }

    #[test]
    fn the_selection_follows_its_row() {
        let mut state = state();
        press(&mut state, "j");
        let key = row(5, "", 0.0, None).key;
        assert_eq!(state.selected, Some(key));
        state.take(vec![row(5, "redis", 99.0, Some(9)), row(4, "nginx", 9.0, Some(5))]);
        assert_eq!(state.place(&state.shown()), 0);
        assert_eq!(state.history(key).map(|history| history.rate.len()), Some(2));
        press(&mut state, "jjjj");
        assert_eq!(state.place(&state.shown()), 1);
        state.take(vec![row(7, "x", 1.0, None)]);
        assert_eq!(state.place(&state.shown()), 0, "it has gone");
    }
}
