//! The result as text for a terminal.

mod brief;
mod layout;

pub use layout::clean;

use crate::schema::{Document, Host};
use crate::tables::{
    causes, cycles, latency, open_loop, published, rates, ratios, sizes, stages, steps, streams, tick, unavailable,
};
use crate::view::{self, facts};
use layout::Page;

/// The style of the text.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Set if escape sequences for colour may be used.
    pub colour: bool,
    /// Characters in a line.
    pub width: usize,
    /// Set if all tables follow what was found.
    pub verbose: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, width: 100, verbose: false }
    }
}

/// Returns the text of `document`. It holds no escape sequences but its own colours, whatever the document holds.
pub fn render(document: &Document, style: Style) -> String {
    let mut page = Page::new(style);
    if document.interrupted {
        page.warning("PARTIAL: the run was interrupted; the rows hold the measurements until then.");
    }
    if style.verbose {
        brief::whole(document, &mut page);
        tables(document, &mut page);
        words(document, &mut page);
    } else {
        brief::found(document, &mut page);
        brief::rest(document, &mut page);
    }
    page.finish()
}

fn tables(document: &Document, page: &mut Page) {
    measured(document, page);
    tail(document, page);
    compared(document, page);
    others(document, page);
    tried(document, page);
    missing(document, page);
    machines(document, page);
}

fn measured(document: &Document, page: &mut Page) {
    for section in view::latency_sections(document) {
        page.title(&section.title);
        page.table(&latency::table(document, &section.rows));
        if let Some(ticks) = tick::table(&section.rows) {
            page.title(tick::TITLE);
            page.table(&ticks);
        }
        if let Some(cycles) = cycles::table(document, &section.rows) {
            page.title("The same in clock cycles");
            page.table(&cycles);
        }
    }
    if let Some(table) = streams::table(document, &view::streams(document)) {
        page.title(view::words::STREAMS);
        page.table(&table);
    }
    for scenario in ["sizes", "open-loop", "rates"] {
        let rows = view::sweep(document, scenario);
        if !rows.is_empty() {
            page.title(&view::words::scenario(scenario));
            page.table(&match scenario {
                "sizes" => sizes::table(document, &rows),
                "open-loop" => open_loop::table(&rows),
                _ => rates::table(&rows),
            });
        }
    }
}

fn tail(document: &Document, page: &mut Page) {
    if let Some(table) = stages::table(document) {
        page.title(stages::TITLE);
        page.table(&table);
    }
    if let Some(table) = causes::table(document, causes::FEW) {
        page.title(causes::TITLE);
        page.table(&table);
    }
}

fn compared(document: &Document, page: &mut Page) {
    if let Some(table) = ratios::table(document) {
        page.title("Ratios");
        page.table(&table);
    }
}

fn others(document: &Document, page: &mut Page) {
    for one in &document.published {
        if let Some(table) = published::table(one) {
            page.title(&published::title(one));
            page.table(&table);
        }
    }
}

fn tried(document: &Document, page: &mut Page) {
    if let Some(table) = steps::table(document) {
        page.title(view::words::STEPS);
        page.table(&table);
    }
}

fn missing(document: &Document, page: &mut Page) {
    if let Some(table) = unavailable::table(document, |_| true) {
        page.title("Not measured here");
        page.table(&table);
    }
}

fn machines(document: &Document, page: &mut Page) {
    page.title("Host");
    host(&document.host, page);
    if let Some(peer) = &document.peer {
        page.title("Peer");
        host(peer, page);
    }
}

fn host(host: &Host, page: &mut Page) {
    let virtualised = host.virtualised.as_ref().map(|name| format!(", virtual machine ({name})")).unwrap_or_default();
    page.line(&format!("{}: {}, {} CPUs{virtualised}, Linux {}", host.hostname, host.cpu, host.cpus, host.kernel));
    if !facts::measures(host) {
        return;
    }
    page.line(&facts::clock_line(host));
    page.line(&format!("during the run: {}", facts::noise_line(&host.noise.during)));
    if let Some(line) = facts::hiccup_line(host) {
        page.line(&line);
    }
}

fn words(document: &Document, page: &mut Page) {
    let notes: Vec<_> = document.notes.iter().cloned().chain(facts::row_notes(document)).collect();
    if !notes.is_empty() {
        page.title("Notes");
        notes.iter().for_each(|note| page.item(note));
    }
    if !document.command.is_empty() {
        page.title("Repeat it with");
        page.verbatim(&document.command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn plain(document: &Document, width: usize) -> String {
        render(document, Style { colour: false, width, verbose: true })
    }

    #[test]
    fn says_what_matters() {
        let text = plain(&sample::document(), 140);
        for part in [
            "kernel-spin",
            "p99.99 needs 1000000 samples (had 100000 to 400000)",
            "faster than kernel-pinned",
            "Noise floor: ",
            "half-RTT",
            "loss %",
            "n/a",
            "has no interrupt to pin",
            "The tail, and its causes",
            "virtual machine (firecracker)",
            "sidestep demo",
        ] {
            assert!(text.contains(part), "missing: {part}\n{text}");
        }
        assert!(!text.contains("one way") && !text.contains('\u{1b}'));
    }

    #[test]
    fn fits_the_width_that_it_is_given() {
        for width in [60, 80, 100, 140] {
            for line in plain(&sample::document(), width).lines().filter(|line| !line.contains("sidestep demo")) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        for width in [0, 1, 7, 20] {
            assert!(plain(&sample::document(), width).contains("kernel"));
        }
    }

    #[test]
    fn keeps_the_median_and_p99_on_the_narrowest_terminal() {
        let text = plain(&sample::document(), 60);
        assert!(text.contains("p50 µs") && text.contains("p99 µs") && !text.contains("stddev"));
    }

    #[test]
    fn colour_only_where_it_is_asked_for() {
        let document = sample::document();
        let coloured = render(&document, Style { colour: true, width: 100, verbose: true });
        assert!(coloured.contains("\u{1b}[1m"));
        let mut stripped = String::new();
        for (i, part) in coloured.split('\u{1b}').enumerate() {
            stripped.push_str(if i == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        assert_eq!(stripped, plain(&document, 100));
    }

    #[test]
    fn a_hostile_document_cannot_write_escape_sequences() {
        let text = plain(&sample::hostile(), 100);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }

    #[test]
    fn any_document_has_a_text() {
        for document in sample::odd_documents() {
            let brief = render(&document, Style { width: 80, ..Style::default() });
            assert!(!plain(&document, 80).is_empty() && !brief.is_empty());
        }
    }

    #[test]
    fn a_summary_is_short_and_names_what_it_leaves_out() {
        let text = render(&sample::document(), Style { width: 120, ..Style::default() });
        assert!(text.lines().count() <= 20, "{text}");
        for part in ["faster than kernel-pinned", "Noise floor", "! ", "--verbose shows"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("p99.99"), "{text}");
    }

    #[test]
    fn a_partial_run_says_so_first() {
        let document = Document { interrupted: true, ..sample::document() };
        assert!(plain(&document, 80).starts_with("PARTIAL"));
    }
}
