//! The examination as text: the verdicts, then a line for each check, grouped by verb.

use super::Style;
use crate::Examination;
use crate::check::{Check, Group, State, Verdict};
use sidestep_sys::printable::printable;

const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[31m";
const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";

/// Columns of a state, and of a check's name.
const STATE: usize = 9;
const NAME: usize = 18;
/// The narrowest page that is laid out.
const NARROWEST: usize = 50;
/// The longest reason that is shown, bytes.
const TEXT_BYTES: usize = 2000;

/// Returns the text; it holds no escape sequences but its own colours.
pub fn text(examination: &Examination, style: Style) -> String {
    let style = Style { width: style.width.max(NARROWEST), ..style };
    let mut page = String::new();
    for verdict in &examination.verdicts {
        verdict_lines(verdict, style, &mut page);
    }
    for group in Group::ALL {
        let checks: Vec<&Check> = examination.checks.iter().filter(|check| check.group == group).collect();
        if !checks.is_empty() {
            page.push_str(&format!("\n{}\n", paint(group.name(), BOLD, style)));
            checks.iter().for_each(|check| check_lines(check, style, &mut page));
        }
    }
    page
}

fn verdict_lines(verdict: &Verdict, style: Style, page: &mut String) {
    let lead = format!("{:<8} ", verdict.verb.name());
    row(&lead, verdict.state, &verdict.sentence, 0, style, page);
    next(verdict.next.as_deref(), lead.len() + STATE, page);
}

fn check_lines(check: &Check, style: Style, page: &mut String) {
    let reason = format!("{:<NAME$}{}", format!("{} ", printable(&check.id, TEXT_BYTES)), check.reason);
    row("  ", check.state, &reason, NAME, style, page);
    next(check.next.as_deref(), 2 + STATE + NAME, page);
}

/// A state and words, which are wrapped below themselves, `hang` characters further in.
fn row(lead: &str, state: State, words: &str, hang: usize, style: Style, page: &mut String) {
    let colour = match state {
        State::Ok => GREEN,
        State::Partly => YELLOW,
        State::Missing => RED,
    };
    let indent = lead.len() + STATE;
    let clean = printable(words, TEXT_BYTES);
    let (name, rest) = clean.split_at(clean.char_indices().nth(hang).map_or(clean.len(), |(at, _)| at));
    let mut lines = wrap(rest, style.width.saturating_sub(indent + hang)).into_iter();
    let word = format!("{}{}", paint(state.word(), colour, style), " ".repeat(STATE - state.word().len()));
    page.push_str(&format!("{lead}{word}{name}{}\n", lines.next().unwrap_or_default()));
    lines.for_each(|line| page.push_str(&format!("{}{line}\n", " ".repeat(indent + hang))));
}

/// A command is not broken: it is for copying.
fn next(command: Option<&str>, indent: usize, page: &mut String) {
    if let Some(command) = command {
        page.push_str(&format!("{}next: {}\n", " ".repeat(indent), printable(command, TEXT_BYTES)));
    }
}

fn paint(word: &str, colour: &str, style: Style) -> String {
    if style.colour { format!("{colour}{word}{RESET}") } else { word.to_owned() }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examination(reason: &str) -> Examination {
        let check = Check::new(Group::Tune, "check", State::Ok, reason).next("sudo sidestep tune check").essential();
        let checks = vec![check];
        let verdicts = Group::VERBS.iter().map(|verb| Verdict::of(*verb, &checks)).collect();
        Examination { checks, verdicts }
    }

    #[test]
    fn lines_fit_and_commands_are_whole() {
        let long = "a reason of many words that goes on and on and on until no line can hold it any more, and then on";
        for width in [50, 80, 200] {
            let page = text(&examination(long), Style { colour: false, width });
            let mut words = page.lines().filter(|line| !line.contains("next: "));
            assert!(words.all(|line| line.chars().count() <= width), "{page}");
            assert!(page.contains("next: sudo sidestep tune check\n"), "{page}");
        }
        assert!(!text(&examination("x"), Style { colour: false, width: 80 }).contains('\u{1b}'));
        assert!(text(&examination("x"), Style { colour: true, width: 80 }).contains("\u{1b}[32mok\u{1b}[0m"));
    }

    #[test]
    fn what_a_terminal_obeys_is_replaced() {
        let page = text(&examination("a\u{1b}[2Jb\nc"), Style { colour: false, width: 80 });
        assert!(page.contains("a?[2Jb?c"), "{page}");
    }
}
