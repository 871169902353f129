//! `docs/checks.md` and the manual page, generated from the table.

use super::text::{reads, wish_words};
use crate::check::{Check, Group, Set};
use crate::{driver, profile, table};
use std::fmt::Write;

/// Returns the text of `docs/checks.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Checks of `sidestep tune`\n\n\
         Made from the table in `crates/tune/src/table` and the profiles in `profiles/tune`; a test compares them (`SIDESTEP_BLESS=1 \
         cargo test -p sidestep-tune --test document` writes this page anew). `sidestep tune explain ID` prints one of them.\n",
    );
    for group in Group::ALL {
        let _ = writeln!(text, "\n## {}\n", group.title());
        table::checks().filter(|check| check.group == group).for_each(|check| section(check, &mut text));
    }
    text.push_str("\n## Notes on drivers\n");
    for (_, driver) in driver::all() {
        let _ = writeln!(text, "\n{} (`{}`; {}):\n", driver.name, driver.drivers.join("`, `"), driver.source);
        driver.notes.iter().for_each(|note| _ = writeln!(text, "* {note}"));
    }
    text
}

fn section(check: &Check, text: &mut String) {
    let _ = writeln!(text, "### {}\n", check.id);
    let _ = writeln!(text, "{}. {} Effect: {}.\n", capital(check.title), check.why, check.effect.words());
    let _ = writeln!(text, "* read: {}", code(&reads(check)));
    let wishes = profile::names().map(|name| format!("{name}: {}", wish_words(name, check.id)));
    let _ = writeln!(text, "* wanted: {}", code(&wishes.join("; ")));
    let reboot = if check.set.needs_reboot() { " (reboot)" } else { "" };
    let _ = writeln!(text, "* changed {}{reboot}: `{}`", check.set.words(), check.how);
    if check.set != Set::Never {
        let _ = writeln!(text, "* revert: {}; risk {}: {}", check.set.revert(), check.risk.word(), check.harm);
    }
    if check.dangerous {
        let _ = writeln!(text, "* dangerous: only with `--allow {}`", check.id);
    }
    let _ = writeln!(text, "* no value: {}", check.absent);
    let _ = writeln!(text, "* source: {}\n", check.source);
}

/// Escapes characters that are markup in Markdown.
fn code(text: &str) -> String {
    text.replace('*', "\\*").replace('|', "\\|").replace('<', "&lt;").replace('>', "&gt;")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the page `sidestep-tune-checks(7)`.
pub fn manual() -> String {
    let mut text = format!(
        ".TH sidestep-tune-checks 7 \"\" \"sidestep {}\"\n.SH NAME\nsidestep-tune-checks \\- the checks of sidestep tune\n",
        env!("CARGO_PKG_VERSION")
    );
    for group in Group::ALL {
        let _ = writeln!(text, ".SH {}", roff(&group.title().to_uppercase()));
        for check in table::checks().filter(|check| check.group == group) {
            let _ = writeln!(
                text,
                ".TP\n.B {}\n{}",
                roff(check.id),
                roff(&format!("{}. {}", capital(check.title), check.why))
            );
            let _ = writeln!(text, "Effect: {}. Read: {}.", check.effect.words(), roff(&reads(check)));
            let _ = writeln!(text, "Changed {}: {}", check.set.words(), roff(check.how));
        }
    }
    text.push_str(".SH SEE ALSO\n.BR sidestep-tune (1)\n");
    text
}

/// Escapes backslashes, dashes, and dots at the start of a line for roff.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
