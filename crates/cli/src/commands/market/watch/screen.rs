//! The screen: state, lines, instruments beside the book of the selected one, messages a second, a line of keys.

use super::model::{BookView, LevelView, Snapshot};
use super::state::State;
use super::text::{
    BOOK_TITLE, INSTRUMENT_COLUMNS, LINE_COLUMNS, gaps, head, instrument_cells, level_line, line_cells, path_cell,
    refused,
};
use crate::commands::figures::count;
use crate::commands::terminal::Colours;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table};

/// The fewest lines of a screen with a sparkline.
const LINES_FOR_SPARKLINE: u16 = 20;
/// The columns of the book.
const BOOK_WIDTH: u16 = 58;
/// The columns of instruments that a book beside them leaves at least.
const INSTRUMENTS_WIDTH_MIN: u16 = 32;

const HELP: [&str; 18] = [
    "q, Esc        quit",
    "j, k, Pg, End select an instrument",
    "s, S, arrows  sort by the next order",
    "r             reverse the order",
    "/             filter by symbol; Esc clears it",
    "o             orders of each level",
    "p, Space      pause what is shown; the feed goes on",
    "",
    "FIRST   messages that this line brought before any other",
    "DUP     messages that another line had brought before",
    "OOO     packets that came out of order",
    "LOST    messages that did not come by this line",
    "BAD     packets that are none of the feed",
    "DROP    packets that this program did not fetch in time",
    "SKEW    median and 99th percentile of the time behind",
    "        the first line",
    "AGE     time since the last packet",
    "EXEC    executed shares",
];

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, colours: Colours) {
    let area = frame.area();
    let sparkline = if area.height >= LINES_FOR_SPARKLINE { 4 } else { 0 };
    let lines = (state.now.lines.len() as u16 + 1).min(area.height / 3);
    let has_refused = u16::from(!state.now.refused.is_empty());
    let parts = Layout::vertical([
        Constraint::Length(2 + has_refused),
        Constraint::Length(lines),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(sparkline),
        Constraint::Length(1),
    ]);
    let [top, lines, _, middle, rates, keys] = parts.areas(area);
    draw_head(frame, top, &state.now, state.is_paused, colours);
    draw_lines(frame, lines, &state.now, colours);
    let has_book = middle.width >= BOOK_WIDTH + INSTRUMENTS_WIDTH_MIN;
    let book = if has_book { BOOK_WIDTH } else { 0 };
    let [list, book] = Layout::horizontal([Constraint::Min(1), Constraint::Length(book)]).spacing(1).areas(middle);
    draw_instruments(frame, list, state);
    if has_book && let Some(one) = &state.now.book {
        draw_book(frame, book, one, state.has_orders, colours);
    }
    if sparkline > 0 {
        draw_rates(frame, rates, state, colours);
    }
    frame.render_widget(key_line(state), keys);
    if state.has_help {
        draw_help(frame, area);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, now: &Snapshot, is_paused: bool, colours: Colours) {
    let colour = match now.state {
        "live" if now.incomplete_books == 0 => Color::Green,
        "stale" => Color::Red,
        _ => Color::Yellow,
    };
    let paused = if is_paused { "  PAUSED" } else { "" };
    let first = Line::from(head(now) + paused).style(colours.of(colour).add_modifier(Modifier::BOLD));
    let lines = vec![first, Line::from(gaps(&now.gaps)), Line::from(refused(now)).style(colours.of(Color::Red))];
    frame.render_widget(Paragraph::new(lines), area);
}

fn heading() -> Style {
    Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
}

fn cell<'a>(text: String, is_left: bool) -> Cell<'a> {
    Cell::new(Line::from(text).alignment(if is_left { Alignment::Left } else { Alignment::Right }))
}

fn draw_lines(frame: &mut Frame<'_>, area: Rect, now: &Snapshot, colours: Colours) {
    let titles = LINE_COLUMNS.iter().enumerate().map(|(place, (title, _))| cell((*title).to_owned(), place == 0));
    let titles = titles.chain([Cell::new("PATH")]);
    let rows = now.lines.iter().map(|line| {
        let cells = line_cells(line).into_iter().enumerate().map(|(place, text)| {
            let is_fault = ["LOST", "BAD", "DROP"].contains(&LINE_COLUMNS[place].0) && text != "0";
            cell(text, place == 0).style(if is_fault { colours.of(Color::Red) } else { Style::new() })
        });
        let colour = if line.path == "accelerated" { Color::Green } else { Color::Yellow };
        Row::new(cells.chain([Cell::new(path_cell(line)).style(colours.of(colour))]).collect::<Vec<_>>())
    });
    let widths = LINE_COLUMNS.iter().map(|(_, width)| Constraint::Length(*width)).chain([Constraint::Min(1)]);
    frame.render_widget(Table::new(rows, widths).header(Row::new(titles).style(heading())).column_spacing(1), area);
}

fn draw_instruments(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let shown = state.shown();
    if shown.is_empty() {
        let text = if state.filter.is_empty() { "no instrument yet" } else { "the filter leaves nothing" };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let columns = fitting(area.width);
    let place = state.place(&shown);
    let lines = usize::from(area.height.saturating_sub(1)).max(1);
    // The selected row stays in view; only what is seen is laid out.
    let first = place.saturating_sub(lines - 1);
    let rows = shown.iter().enumerate().skip(first).take(lines).map(|(number, one)| {
        let cells = instrument_cells(one).into_iter().take(columns).enumerate();
        let style = if number == place { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(cells.map(|(place, text)| cell(text, place == 0)).collect::<Vec<_>>()).style(style)
    });
    let titles = INSTRUMENT_COLUMNS.iter().take(columns).enumerate();
    let titles = titles.map(|(place, (title, _))| cell((*title).to_owned(), place == 0));
    let widths = INSTRUMENT_COLUMNS.iter().take(columns).map(|(_, width)| Constraint::Length(*width));
    frame.render_widget(Table::new(rows, widths).header(Row::new(titles).style(heading())).column_spacing(1), area);
}

/// The number of columns that a width has room for: narrow screens have the first ones.
fn fitting(width: u16) -> usize {
    let mut left = width;
    let fits = |column: &u16| {
        let has_room = left >= *column;
        left = left.saturating_sub(column + 1);
        has_room
    };
    INSTRUMENT_COLUMNS.iter().map(|(_, width)| *width).take_while(fits).count().max(1)
}

fn draw_book(frame: &mut Frame<'_>, area: Rect, book: &BookView, has_orders: bool, colours: Colours) {
    let title = Line::from(format!("{} (locate {})", book.symbol, book.locate))
        .style(Style::new().add_modifier(Modifier::BOLD));
    let mut lines = vec![title, Line::from(BOOK_TITLE).style(heading())];
    let room = usize::from(area.height).saturating_sub(lines.len());
    for place in 0..book.bids.len().max(book.offers.len()).min(room) {
        let (bid, offer) = (book.bids.get(place), book.offers.get(place));
        let style = if place == 0 { colours.of(Color::Cyan) } else { Style::new() };
        lines.push(Line::from(level_line(bid, offer)).style(style));
        if has_orders {
            lines.push(Line::from(queues(bid, offer)).style(Style::new().add_modifier(Modifier::DIM)));
        }
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// The orders of both levels, in the order of their priority.
fn queues(bid: Option<&LevelView>, offer: Option<&LevelView>) -> String {
    let of = |level: Option<&LevelView>| {
        let shares = level.iter().flat_map(|one| one.queue.iter()).map(ToString::to_string);
        shares.collect::<Vec<_>>().join(" ")
    };
    format!("{:>28.28} | {:<27.27}", of(bid), of(offer))
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, state: &State, colours: Colours) {
    let title = format!("messages a second: {}", count(state.now.messages_per_s));
    // The newest values, as many as there is room for.
    let skipped = state.rates.len().saturating_sub(usize::from(area.width));
    let seen: Vec<u64> = state.rates.iter().skip(skipped).copied().collect();
    let graph = Sparkline::default().block(Block::new().title(title)).data(&seen).style(colours.of(Color::Cyan));
    frame.render_widget(graph, area);
}

fn key_line(state: &State) -> Paragraph<'static> {
    let order = format!("sort {}{}", state.sort.name(), if state.is_reversed { " (reversed)" } else { "" });
    let text = match (state.is_filtering, state.filter.as_str()) {
        (true, filter) => format!("/{filter}_   Enter keeps it, Esc clears it"),
        (false, "") => format!("q quit  {order}  / filter  o orders  p pause  ? help"),
        (false, filter) => format!("q quit  {order}  / filter: {filter}  o orders  ? help"),
    };
    Paragraph::new(text).style(Style::new().add_modifier(Modifier::DIM))
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (60.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let place = Rect { x: area.x + x, y: area.y + y, width, height };
    let text: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" any key ends this help ")), place);
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{instrument, snapshot};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    fn drawn(state: &State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, Colours(false))).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn state() -> State {
        let mut state = State::default();
        (1..4).for_each(|second| state.take(snapshot(second)));
        state
    }

    #[test]
    fn a_wide_screen_has_lines_instruments_and_the_book() {
        let lines = drawn(&state(), 140, 40);
        assert!(lines[0].starts_with("LIVE  session 20261129AA  next 60001  20k msg/s"), "{lines:#?}");
        assert!(lines[1].starts_with("gaps 3: filled by another line 2"), "{lines:#?}");
        assert!(lines[2].starts_with("LINE") && lines[2].ends_with("PATH"), "{lines:#?}");
        assert!(lines[3].starts_with("A ") && lines[3].ends_with("accelerated"), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("MSFT") && line.contains("BID | OFFER")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.ends_with("99.9900 | 100.0100     200       2")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("messages a second: 20k")), "{lines:#?}");
    }

    #[test]
    fn orders_of_the_levels_are_shown_when_asked_for() {
        let mut state = state();
        state.press(KeyEvent::from(KeyCode::Char('o')));
        let lines = drawn(&state, 140, 40);
        assert!(lines.iter().any(|line| line.contains("299 1 | 199 1")), "{lines:#?}");
    }

    #[test]
    fn a_narrow_screen_leaves_the_book_out() {
        let lines = drawn(&state(), 60, 16);
        assert!(
            lines.iter().any(|line| line.starts_with("MSFT         70    300      99.9900     100.0100")),
            "{lines:#?}"
        );
        assert!(!lines.iter().any(|line| line.contains(" | ")), "{lines:#?}");
    }

    #[test]
    fn the_selection_stays_in_view() {
        let mut state = state();
        let many = (1..200).map(|locate| instrument(locate, &format!("S{locate}"), u64::from(locate))).collect();
        state.take(Snapshot { instruments: many, ..snapshot(4) });
        state.press(KeyEvent::from(KeyCode::End));
        let lines = drawn(&state, 80, 24);
        assert!(lines.iter().any(|line| line.starts_with("S1 ")), "{lines:#?}");
    }

    #[test]
    fn every_size_can_be_drawn_with_help_and_without() {
        let mut state = state();
        for has_help in [false, true] {
            state.has_help = has_help;
            for (width, height) in [(1, 1), (2, 3), (10, 4), (20, 12), (39, 11), (80, 24), (90, 5), (300, 90)] {
                drawn(&state, width, height);
            }
        }
        let help = drawn(&state, 80, 24);
        assert!(help.iter().any(|line| line.contains("packets that are none of the feed")), "{help:#?}");
        assert!(drawn(&State::default(), 80, 24).iter().any(|line| line.starts_with("no instrument yet")));
    }
}
