//! The screen: a line of state, the list, sparklines of the selected row, a line of keys.

use super::column::Column;
use super::rows::Row;
use super::state::{History, State};
use crate::commands::figures::{count, time};
use crate::commands::terminal::Colours;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Sparkline, Table};

/// The fewest lines of a screen with sparklines.
const LINES_FOR_SPARKLINES: u16 = 12;

const HELP: [&str; 12] = [
    "q, Esc        quit",
    "s, S, arrows  sort by the next column",
    "r             reverse the order",
    "/             filter; Esc clears it",
    "p, Space      pause",
    "j, k, Pg, End select",
    "",
    "RX/S, TX/S  segments, datagrams, frames",
    "RTT         smoothed round trip",
    "RETR        segments sent again",
    "POLLS/W     polls per wake-up",
    "sidestep ps shows reasons in full",
];

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, colours: Colours) {
    let area = frame.area();
    let sparklines = if area.height >= LINES_FOR_SPARKLINES { (area.height / 5).clamp(3, 8) } else { 0 };
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(sparklines),
        Constraint::Length(1),
    ]);
    let [head, list, graphs, keys] = parts.areas(area);
    let shown = state.shown();
    let place = state.place(&shown);
    frame.render_widget(head_line(state, &shown, head.width), head);
    draw_list(frame, list, state, &shown, place, colours);
    if sparklines > 0
        && let Some(row) = shown.get(place)
    {
        draw_graphs(frame, graphs, row, state.history(row.key), colours);
    }
    frame.render_widget(key_line(state), keys);
    if state.has_help {
        draw_help(frame, area);
    }
}

fn head_line(state: &State, shown: &[&Row], width: u16) -> Paragraph<'static> {
    let accelerated = shown.iter().filter(|row| row.is_socket() && row.is_accelerated).count();
    let sockets = shown.iter().filter(|row| row.is_socket()).count();
    let mut text = format!("sidestep top  {accelerated}/{sockets} sockets accelerated");
    if width < 60 {
        text = format!("{accelerated}/{sockets} accelerated");
    }
    text += &format!("  sort {}{}", state.sort.title(), if state.is_reversed { " (reversed)" } else { "" });
    if state.is_paused {
        text += "  PAUSED";
    }
    Paragraph::new(text).style(Style::new().add_modifier(Modifier::BOLD))
}

fn key_line(state: &State) -> Paragraph<'static> {
    let text = match (state.is_filtering, state.filter.as_str()) {
        (true, filter) => format!("/{filter}_   Enter keeps it, Esc clears it"),
        (false, "") => "q quit  s sort  / filter  p pause  ? help".to_owned(),
        (false, filter) => format!("q quit  s sort  / filter: {filter}  ? help"),
    };
    Paragraph::new(text).style(Style::new().add_modifier(Modifier::DIM))
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, state: &State, shown: &[&Row], place: usize, colours: Colours) {
    let columns = Column::fitting(area.width);
    if shown.is_empty() {
        let text = match state.filter.as_str() {
            "" => "nothing is accelerated; sidestep ps shows the reasons",
            _ => "the filter leaves nothing",
        };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let lines = usize::from(area.height.saturating_sub(1)).max(1);
    // The selected row stays in view; only what is seen is laid out.
    let first = place.saturating_sub(lines - 1);
    let visible = shown.iter().enumerate().skip(first).take(lines);
    let rows = visible.map(|(index, row)| table_row(row, &columns, index == place, colours));
    let head = columns.iter().map(|column| cell(*column, title(*column, state)));
    let style = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    let widths = columns.iter().map(|column| match column {
        Column::Path => Constraint::Min(column.width()),
        _ => Constraint::Length(column.width()),
    });
    frame.render_widget(Table::new(rows, widths).header(TableRow::new(head).style(style)).column_spacing(1), area);
}

fn title(column: Column, state: &State) -> String {
    let mark = if column == state.sort { "*" } else { "" };
    format!("{mark}{}", column.title())
}

fn table_row<'a>(row: &Row, columns: &[Column], is_selected: bool, colours: Colours) -> TableRow<'a> {
    let cells = columns.iter().map(|column| {
        let cell = cell(*column, column.cell(row));
        match column {
            Column::Path if row.is_accelerated => cell.style(colours.of(Color::Green)),
            Column::Path => cell.style(colours.of(Color::Yellow)),
            Column::Drops | Column::Retransmits if column.cell(row) != "0" => cell.style(colours.of(Color::Red)),
            _ => cell,
        }
    });
    let style = if is_selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    TableRow::new(cells.collect::<Vec<_>>()).style(style)
}

fn cell<'a>(column: Column, text: String) -> Cell<'a> {
    let side = if column.is_number() { Alignment::Right } else { Alignment::Left };
    Cell::new(Line::from(text).alignment(side))
}

fn draw_graphs(frame: &mut Frame<'_>, area: Rect, row: &Row, history: Option<&History>, colours: Colours) {
    let Some(history) = history else { return };
    let [rate, rtt] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(area);
    let now = count(row.rx_per_s + row.tx_per_s);
    graph(frame, rate, format!("{}: {now}/s", row.subject), &history.rate, colours.of(Color::Cyan));
    let now = row.rtt_ns.map_or_else(|| "none".to_owned(), time);
    graph(frame, rtt, format!("RTT: {now}"), &history.rtt_ns, colours.of(Color::Magenta));
}

fn graph(frame: &mut Frame<'_>, area: Rect, title: String, values: &std::collections::VecDeque<u64>, style: Style) {
    // The newest values, as many as there is room for.
    let skipped = values.len().saturating_sub(usize::from(area.width));
    let seen: Vec<u64> = values.iter().skip(skipped).copied().collect();
    frame.render_widget(Sparkline::default().block(Block::new().title(title)).data(&seen).style(style), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (46.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let place = Rect { x: area.x + x, y: area.y + y, width, height };
    let text: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" any key ends this help ")), place);
}

#[cfg(test)]
mod tests {
    use super::super::rows::row;
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

    fn state(rows: u32) -> State {
        let mut state = State::default();
        for second in 0..3 {
            let rate = |number: u32| f64::from(number * 1000 + second);
            state.take((1..=rows).map(|number| row(number, "redis-server", rate(number), Some(12_300))).collect());
        }
        state
    }

    #[test]
    fn a_narrow_screen_has_the_columns_that_matter() {
        let lines = drawn(&state(2), 40, 12);
        assert_eq!(lines[0], "2/2 accelerated  sort RX/S");
        assert_eq!(lines[1], "SOCKET            *RX/S   TX/S      RTT");
        assert_eq!(lines[2], "fd 2 tcp           2002   2002   12.3us");
        assert!(lines.iter().any(|line| line.starts_with("fd 2 tcp: 4004/s")), "{lines:#?}");
        assert_eq!(lines[11], "q quit  s sort  / filter  p pause  ? hel");
    }

    #[test]
    fn a_wide_screen_has_all_of_them() {
        let lines = drawn(&state(3), 200, 50);
        assert!(Column::ALL.iter().all(|column| lines[1].contains(column.title())), "{}", lines[1]);
        assert!(lines[2].contains("198.18.0.2:40003") && lines[2].ends_with("accelerated"), "{}", lines[2]);
    }

    #[test]
    fn the_selection_stays_in_view() {
        let mut state = state(100);
        state.press(KeyEvent::from(KeyCode::End));
        let lines = drawn(&state, 80, 24);
        assert!(lines.iter().any(|line| line.contains("fd 1 tcp")), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("fd 100 tcp")));
    }

    #[test]
    fn every_size_can_be_drawn_with_help_and_without() {
        let mut state = state(5);
        for has_help in [false, true] {
            state.has_help = has_help;
            for (width, height) in [(1, 1), (2, 3), (10, 4), (20, 12), (39, 11), (80, 24), (300, 90)] {
                drawn(&state, width, height);
            }
        }
        let help = drawn(&state, 80, 24);
        assert!(help.iter().any(|line| line.contains("polls per wake-up")), "{help:#?}");
        let empty = drawn(&State::default(), 80, 24);
        assert!(empty[1].contains("sidestep ps"));
    }
}
